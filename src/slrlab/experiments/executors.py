"""Where independent computations run: in this process, in several, or on a Dask cluster.

An executor takes tagged calls and hands back what has finished. The death of a worker process
costs what it was computing, which is started again; a call that kills its worker every time comes
back as an error. This module must not know what is computed.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Protocol

from slrlab._errors import ClusterError
from slrlab._machine import cores

_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
_SHARE = 0.8  # of a worker's memory for its call; Dask ends a worker that takes all
_LOOK = 2.0  # seconds between looks at who works on a cluster
_DEATHS = 2  # of a worker with nothing else to do, after which a call is given up


@dataclass(frozen=True)
class Finished:
    """A call that ended: with a value, or with the error that it raised."""

    tag: Hashable
    value: Any = None
    error: BaseException | None = None


class Executor(Protocol):
    """What all executors offer.

    ``slots`` is the number of calls that run at a time, ``own_memory`` the bytes that each of them
    has for itself; None where they share the memory of this machine.
    """

    @property
    def slots(self) -> int: ...

    @property
    def own_memory(self) -> int | None: ...

    def submit(self, tag: Hashable, function: Callable[..., Any], *given: Any) -> None:
        """Start a call, now or when there is room."""

    def finished(self, timeout: float) -> list[Finished]:
        """Return what has ended; wait for it, but not longer than ``timeout`` seconds."""

    def close(self) -> None:
        """End at once: what runs is abandoned."""


class InProcess:
    """Runs each call here, when its result is asked for."""

    slots = 1
    own_memory = None

    def __init__(self) -> None:
        self._calls: deque[tuple[Hashable, Callable[..., Any], tuple[Any, ...]]] = deque()

    def submit(self, tag: Hashable, function: Callable[..., Any], *given: Any) -> None:
        self._calls.append((tag, function, given))

    def finished(self, timeout: float) -> list[Finished]:
        if not self._calls:
            return []
        tag, function, given = self._calls.popleft()
        try:
            return [Finished(tag, function(*given))]
        except Exception as error:
            return [Finished(tag, error=error)]

    def drop(self) -> list[Hashable]:
        """Forget the calls that have not started; return their tags."""
        dropped = [tag for tag, *_ in self._calls]
        self._calls.clear()
        return dropped

    def close(self) -> None:
        self._calls.clear()


@contextmanager
def single_threaded_children() -> Iterator[None]:
    """Let each worker process use one thread of linear algebra: cores are shared by processes."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Hold interrupts back in this thread, and for good in the processes that it starts.

    A worker that is still importing would end in a traceback; the one who started it answers.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def follow_parent(parent: int) -> None:
    """Let a worker end with the process that started it, even one that was killed.

    An interrupt from the terminal is the business of that process alone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Processes:
    """Runs calls in processes of this machine, each with one thread.

    Every process has one call at a time, so that its death costs that call and no other. The call
    is started again; one that kills its worker twice comes back as an error.
    """

    own_memory = None

    def __init__(self, workers: int) -> None:
        self.slots = workers
        self._pools = [_start_pool() for _ in range(workers)]
        self._running: dict[Future[Any], tuple[Hashable, int]] = {}
        self._calls: dict[Hashable, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
        self._queue: deque[Hashable] = deque()
        self._deaths: dict[Hashable, int] = {}
        self._in_vain = 0

    def submit(self, tag: Hashable, function: Callable[..., Any], *given: Any) -> None:
        self._calls[tag] = (function, given)
        self._queue.append(tag)
        self._fill()

    def _fill(self) -> None:
        """Give calls to idle workers."""
        busy = {slot for _, slot in self._running.values()}
        idle = (slot for slot in range(self.slots) if slot not in busy)
        for slot in idle:
            if not self._queue:
                break
            tag = self._queue.popleft()
            function, given = self._calls[tag]
            try:
                future = self._pools[slot].submit(function, *given)
            except BrokenProcessPool:  # it died with nothing to do
                self._renew(slot)
                future = self._pools[slot].submit(function, *given)
            self._running[future] = tag, slot

    def finished(self, timeout: float) -> list[Finished]:
        ended, _ = wait(self._running, timeout, FIRST_COMPLETED)
        found = []
        for future in ended:
            tag, slot = self._running.pop(future)
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                self._renew(slot)
                if not self._mourn(tag):
                    continue
                error = ClusterError("its worker process died again and again")
            else:
                self._in_vain = -1  # workers do work
            self._calls.pop(tag)
            self._deaths.pop(tag, None)
            found.append(Finished(tag, None if error else future.result(), error))
        self._fill()
        return found

    def _mourn(self, tag: Hashable) -> bool:
        """Put the call of a dead worker back in front; return whether it is given up instead."""
        self._deaths[tag] = self._deaths.get(tag, 0) + 1
        if self._in_vain >= 0:
            self._in_vain += 1
            if self._in_vain > 2 * _DEATHS * self.slots:
                raise ClusterError(
                    "worker processes die before they compute anything; is there enough memory, "
                    "and does the script have its if __name__ == '__main__'?"
                )
        if self._deaths[tag] < _DEATHS:
            self._queue.appendleft(tag)
            return False
        return True

    def drop(self) -> list[Hashable]:
        """Forget the calls that have not started; return their tags."""
        dropped = list(self._queue)
        self._queue.clear()
        for tag in dropped:
            self._calls.pop(tag)
        return dropped

    def _renew(self, slot: int) -> None:
        _end_pool(self._pools[slot])
        self._pools[slot] = _start_pool()

    def close(self) -> None:
        for pool in self._pools:
            _end_pool(pool)


def _start_pool() -> ProcessPoolExecutor:
    context = get_context("spawn")
    pool = ProcessPoolExecutor(
        1, mp_context=context, initializer=follow_parent, initargs=(os.getpid(),)
    )
    with single_threaded_children(), interrupts_blocked():
        pool.submit(os.getpid)  # starts the worker: what it inherits must not last
    return pool


def _end_pool(pool: ProcessPoolExecutor) -> None:
    """End a pool at once; its threads are waited for, else they complain when Python ends."""
    for worker in list((getattr(pool, "_processes", None) or {}).values()):
        worker.terminate()
    pool.shutdown(wait=True, cancel_futures=True)


_turn = threading.Lock()


def _alone(function: Callable[..., Any], *given: Any) -> Any:
    """Run a call in a Dask worker: one at a time, with the threads that the worker has."""
    from distributed import get_worker

    with _turn:
        threads = get_worker().state.nthreads
        if "numba" in sys.modules:
            import numba

            numba.set_num_threads(min(threads, cores()))
        else:
            os.environ["NUMBA_NUM_THREADS"] = str(threads)
        return function(*given)


class Cluster:
    """Runs calls on an existing Dask cluster; its workers need nothing but this package.

    A worker runs one call at a time, with as many threads as it has. Workers may come and go.

    Raises
    ------
    ClusterError
        If the extra is not installed or nobody answers at the address.
    """

    def __init__(self, address: str, timeout: float = 10.0) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise ClusterError(
                "a cluster needs the extra cluster: pip install 'slrlab[cluster]'"
            ) from None
        try:
            self._client = Client(address, timeout=timeout)
        except (OSError, ValueError, TimeoutError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ClusterError(f"no cluster answers at {address} ({reason})") from None
        self._address = address
        self._running: dict[Any, Hashable] = {}
        self._seen = -math.inf
        self.workers, self._limit = 0, sys.maxsize
        try:
            self._look()
        except ClusterError:
            self.close()
            raise

    def _look(self) -> None:
        """Ask now and then which workers there are."""
        if time.monotonic() - self._seen < _LOOK:
            return
        with self._connected():
            found = self._client.scheduler_info(n_workers=-1).get("workers", {})
        limits = [int(worker["memory_limit"] or sys.maxsize) for worker in found.values()]
        self.workers = len(found)
        self._limit = int(_SHARE * min(limits, default=sys.maxsize)) if found else self._limit
        self._seen = time.monotonic()

    @property
    def slots(self) -> int:
        self._look()
        return max(1, self.workers)

    @property
    def own_memory(self) -> int:
        self._look()
        return self._limit

    def submit(self, tag: Hashable, function: Callable[..., Any], *given: Any) -> None:
        # Dask runs the calls of a lost worker again by itself, a few times
        with self._connected():
            self._running[self._client.submit(_alone, function, *given, pure=False)] = tag

    def finished(self, timeout: float) -> list[Finished]:
        from distributed import wait as wait_for

        if not self._running:
            return []
        with self._connected():
            try:
                wait_for(list(self._running), timeout=timeout, return_when="FIRST_COMPLETED")
            except TimeoutError:
                return []
            found = []
            for future in [future for future in self._running if future.done()]:
                error = future.exception() if future.status == "error" else None
                value = None if error else future.result()
                found.append(Finished(self._running.pop(future), value, error))
                future.release()
            return found

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Turn the loss of the scheduler into one clear line."""
        from concurrent.futures import CancelledError

        lost = ClusterError(f"lost the cluster at {self._address}")
        if self._client.status != "running":
            raise lost
        try:
            yield
        except (CancelledError, OSError) as error:
            raise lost from error

    def close(self) -> None:
        with suppress(Exception):  # the scheduler may be gone
            self._client.cancel(list(self._running))
            self._client.close()
