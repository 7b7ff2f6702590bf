"""Where independent computations run: in this process, in several, or on a Dask cluster.

An executor takes tagged calls and hands back what has finished. The death of a worker process
costs what it was computing, which is started again; a call that kills its worker every time comes
back as an error. This module must not know what is computed.
"""

from __future__ import annotations

import math
import os
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
from slrlab.simulation.machine import cores

_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
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

    def close(self) -> None:
        self._calls.clear()


@contextmanager
def _single_threaded_children() -> Iterator[None]:
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


def _follow_parent(parent: int) -> None:
    """Let a worker end with the process that started it, even one that was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Processes:
    """Runs calls in processes of this machine, each with one thread.

    When a worker dies, all calls that may have been running are suspected of it. They run again one
    at a time, the rest is held back until it is known who kills the workers.
    """

    own_memory = None

    def __init__(self, workers: int) -> None:
        self.slots = workers
        self._pool = self._start()
        self._running: dict[Future[Any], Hashable] = {}
        self._calls: dict[Hashable, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
        self._suspects: deque[Hashable] = deque()
        self._held: deque[Hashable] = deque()
        self._deaths: dict[Hashable, int] = {}

    def _start(self) -> ProcessPoolExecutor:
        context = get_context("spawn")
        given = (os.getpid(),)
        return ProcessPoolExecutor(
            self.slots, mp_context=context, initializer=_follow_parent, initargs=given
        )

    def submit(self, tag: Hashable, function: Callable[..., Any], *given: Any) -> None:
        self._calls[tag] = (function, given)
        if self._suspects or self._held:
            self._held.append(tag)
        else:
            self._go(tag)

    def _go(self, tag: Hashable) -> None:
        function, given = self._calls[tag]
        with _single_threaded_children():  # workers start when calls arrive
            try:
                self._running[self._pool.submit(function, *given)] = tag
            except BrokenProcessPool:
                if self._running:  # what has ended with the pool is sorted out first
                    self._held.appendleft(tag)
                    return
                self._renew()
                self._running[self._pool.submit(function, *given)] = tag

    def finished(self, timeout: float) -> list[Finished]:
        if not self._running and self._suspects:
            self._go(self._suspects[0])
        elif not self._running:
            held, self._held = self._held, deque()
            for tag in held:
                self._go(tag)
        ended, _ = wait(self._running, timeout, FIRST_COMPLETED)
        if any(isinstance(future.exception(), BrokenProcessPool) for future in ended):
            return self._mourn()
        return [self._finish(future) for future in ended]

    def _finish(self, future: Future[Any]) -> Finished:
        tag = self._running.pop(future)
        self._forget(tag)
        error = future.exception()
        return Finished(tag, None if error else future.result(), error)

    def _mourn(self) -> list[Finished]:
        """Start anew after the death of a worker; what has a result keeps it."""
        wait(self._running, 5.0)  # the pool breaks all its futures
        whole = [
            future
            for future in self._running
            if future.done() and not isinstance(future.exception(), BrokenProcessPool)
        ]
        found = [self._finish(future) for future in whole]
        victims = list(self._running.values())
        self._running.clear()
        self._renew()
        if len(victims) == 1:
            (tag,) = victims
            self._deaths[tag] = self._deaths.get(tag, 0) + 1
            if self._deaths[tag] >= _DEATHS:
                self._forget(tag)
                error = ClusterError("its worker process died again and again")
                return [*found, Finished(tag, error=error)]
        # calls start in the order of submission: later ones were still in the queue
        near = victims[: self.slots + 1]
        self._suspects = deque([*near, *(tag for tag in self._suspects if tag not in near)])
        self._held.extendleft(reversed(victims[self.slots + 1 :]))
        return found

    def abandon(self) -> None:
        """Forget all calls and go on with new workers."""
        self._running.clear()
        self._calls.clear()
        self._suspects.clear()
        self._held.clear()
        self._deaths.clear()
        self._renew()

    def _renew(self) -> None:
        self.close()
        self._pool = self._start()

    def _forget(self, tag: Hashable) -> None:
        self._calls.pop(tag, None)
        self._deaths.pop(tag, None)
        if tag in self._suspects:
            self._suspects.remove(tag)

    def close(self) -> None:
        workers = list((getattr(self._pool, "_processes", None) or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()


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
        self._look()

    def _look(self) -> None:
        """Ask now and then which workers there are."""
        if time.monotonic() - self._seen < _LOOK:
            return
        with self._connected():
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        limits = [int(worker["memory_limit"]) for worker in workers if worker["memory_limit"]]
        self._workers, self._limit = len(workers), min(limits, default=sys.maxsize)
        self._seen = time.monotonic()

    @property
    def slots(self) -> int:
        self._look()
        return max(1, self._workers)

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

        try:
            yield
        except (CancelledError, OSError) as error:
            raise ClusterError(f"lost the cluster at {self._address}") from error

    def close(self) -> None:
        with suppress(Exception):  # the scheduler may be gone
            self._client.cancel(list(self._running))
            self._client.close()
