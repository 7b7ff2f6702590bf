"""Where independent computations run: in this process, in several, or on a Dask cluster.

An executor takes tagged calls and hands back what has finished. The death of a worker process
costs what it was computing, which is started again; a call that kills its worker every time comes
back as an error. This module must not know what is computed.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Protocol

from slrlab._errors import ClusterError

_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
_DEATHS = 2  # of a worker with nothing else to do, after which a call is given up


@dataclass(frozen=True)
class Finished:
    """A call that ended: with a value, or with the error that it raised."""

    tag: Hashable
    value: Any = None
    error: BaseException | None = None


class Executor(Protocol):
    """What all executors offer; ``slots`` is the number of calls that run at a time."""

    slots: int

    def submit(self, tag: Hashable, function: Callable[..., Any], *given: Any) -> None:
        """Start a call, now or when there is room."""

    def finished(self, timeout: float) -> list[Finished]:
        """Return what has ended; wait for it, but not longer than ``timeout`` seconds."""

    def close(self) -> None:
        """End at once: what runs is abandoned."""


class InProcess:
    """Runs each call here, when its result is asked for."""

    slots = 1

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
    """Runs calls in processes of this machine, each with one thread."""

    def __init__(self, workers: int) -> None:
        self.slots = workers
        self._pool = self._start()
        self._running: dict[Future[Any], Hashable] = {}
        self._calls: dict[Hashable, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
        self._suspects: deque[Hashable] = deque()
        self._deaths: dict[Hashable, int] = {}

    def _start(self) -> ProcessPoolExecutor:
        context = get_context("spawn")
        given = (os.getpid(),)
        return ProcessPoolExecutor(
            self.slots, mp_context=context, initializer=_follow_parent, initargs=given
        )

    def submit(self, tag: Hashable, function: Callable[..., Any], *given: Any) -> None:
        self._calls[tag] = (function, given)
        if self._suspects:  # one at a time, until it is known who kills the workers
            self._suspects.append(tag)
        else:
            self._go(tag)

    def _go(self, tag: Hashable) -> None:
        function, given = self._calls[tag]
        with _single_threaded_children():  # workers start when calls arrive
            try:
                self._running[self._pool.submit(function, *given)] = tag
            except BrokenProcessPool:
                self._pool = self._start()
                self._running[self._pool.submit(function, *given)] = tag

    def finished(self, timeout: float) -> list[Finished]:
        if self._suspects and not self._running:
            self._go(self._suspects[0])
        ended, _ = wait(self._running, timeout, FIRST_COMPLETED)
        found: list[Finished] = []
        victims: list[Hashable] = []
        for future in ended:
            tag = self._running.pop(future)
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                victims.append(tag)
                continue
            self._forget(tag)
            found.append(Finished(tag, None if error else future.result(), error))
        if victims:
            found += self._mourn(victims)
        return found

    def _mourn(self, victims: list[Hashable]) -> list[Finished]:
        """Start anew after the death of a worker; all that ran is suspected of it."""
        wait(self._running, 5.0)
        victims += list(self._running.values())
        self._running.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._start()
        if len(victims) == 1:
            (tag,) = victims
            self._deaths[tag] = self._deaths.get(tag, 0) + 1
            if self._deaths[tag] >= _DEATHS:
                self._forget(tag)
                return [Finished(tag, error=ClusterError("its worker process died"))]
        self._suspects = deque([*victims, *(tag for tag in self._suspects if tag not in victims)])
        return []

    def _forget(self, tag: Hashable) -> None:
        self._calls.pop(tag, None)
        if tag in self._suspects:
            self._suspects.remove(tag)

    def close(self) -> None:
        workers = list((getattr(self._pool, "_processes", None) or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()


class Cluster:
    """Runs calls on an existing Dask cluster; its workers need nothing but this package.

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
        threads = self._client.nthreads().values()
        self.slots = max(1, sum(threads))
        self._running: dict[Any, Hashable] = {}

    def submit(self, tag: Hashable, function: Callable[..., Any], *given: Any) -> None:
        # Dask runs the calls of a lost worker again by itself, a few times
        self._running[self._client.submit(function, *given, pure=False)] = tag

    def finished(self, timeout: float) -> list[Finished]:
        from distributed import wait as wait_for

        if not self._running:
            return []
        try:
            wait_for(list(self._running), timeout=timeout, return_when="FIRST_COMPLETED")
        except TimeoutError:
            return []
        found = []
        for future in [future for future in self._running if future.done()]:
            tag = self._running.pop(future)
            error = future.exception() if future.status != "finished" else None
            found.append(Finished(tag, None if error else future.result(), error))
            future.release()
        return found

    def close(self) -> None:
        self._client.cancel(list(self._running))
        self._client.close()
