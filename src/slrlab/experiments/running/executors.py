"""Where calls run: in this process or in worker processes.

An executor takes calls, up to its number of slots, and returns how each of them ended. Order,
memory, retries and results on disk are the work of `slrlab.experiments.running.runner`.
Independent of what is computed.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from slrlab._machine import cores

_ALONE = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "SLRLAB_WORKERS",
)


@dataclass(frozen=True)
class Outcome:
    """How a call ended: with a value, with an error, or with the death of its worker (`lost`).

    ``elsewhere`` marks a call that another process has finished.
    """

    key: str
    value: Any = None
    error: BaseException | None = None
    seconds: float = 0.0
    lost: bool = False
    elsewhere: bool = False


class Executor(Protocol):
    """What all executors offer.

    ``slots`` is the number of calls that may be under way at a time; ``own_memory`` is the number
    of bytes that each call has for itself, or None if calls share the memory of this machine.
    """

    @property
    def slots(self) -> int: ...

    @property
    def own_memory(self) -> int | None: ...

    def submit(self, key: str, function: Callable[..., Any], *given: Any) -> None:
        """Start a call; there must be a free slot."""

    def finished(self, timeout: float) -> list[Outcome]:
        """Return the calls that have ended; wait up to ``timeout`` seconds for the first."""

    def close(self) -> None:
        """End at once: what runs is abandoned."""


def default_workers() -> int:
    """Return how many processes to use: the cores, or the environment variable SLRLAB_WORKERS.

    Raises
    ------
    ValueError
        If the environment variable is set to anything but a whole number >= 1.
    """
    given = os.environ.get("SLRLAB_WORKERS")
    if given is None:
        return cores()
    if not given.isdecimal() or int(given) < 1:
        raise ValueError(f"SLRLAB_WORKERS must be a whole number >= 1, got {given!r}")
    return int(given)


def attempt(function: Callable[..., Any], given: tuple[Any, ...]) -> tuple[Any, Any, float]:
    """Run a call; return its value, its error and its duration."""
    start = time.perf_counter()
    try:
        value, error = function(*given), None
    except Exception as raised:
        value, error = None, raised
    return value, error, time.perf_counter() - start


class InProcess:
    """Runs each call in this process, when `finished` is called."""

    slots = 1
    own_memory = None

    def __init__(self) -> None:
        self._calls: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = []

    def submit(self, key: str, function: Callable[..., Any], *given: Any) -> None:
        self._calls.append((key, function, given))

    def finished(self, timeout: float) -> list[Outcome]:
        key, function, given = self._calls.pop(0)
        return [Outcome(key, *attempt(function, given))]

    def close(self) -> None:
        self._calls.clear()


@contextmanager
def single_threaded_children() -> Iterator[None]:
    """Let each process that is started use one thread and no processes of its own."""
    before = {name: os.environ.get(name) for name in _ALONE}
    os.environ.update(dict.fromkeys(_ALONE, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block interrupts in this thread, and permanently in the processes that it starts.

    An interrupt from the terminal reaches the workers too; one that is still importing would end
    with a traceback.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its first start, within a process's start, would unblock
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """End this process when its parent ends, even if the parent was killed."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _serve(pipe: Connection) -> None:
    """Run the calls that come through a pipe, one at a time, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            function, given = pipe.recv()
            value, error, seconds = attempt(function, given)
            if error is not None:
                error.add_note("".join(traceback.format_exception(error)))
            pipe.send((value, error, seconds))
        except (EOFError, OSError):
            return
        except Exception as error:  # what this process cannot import, or cannot send back
            pipe.send((None, TypeError(f"cannot pass on a call or its result: {error}"), 0.0))


class _Worker:
    """A process that runs one call at a time, and the pipe to it."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with single_threaded_children(), _interrupts_blocked():
            self._process.start()
        theirs.close()

    def alive(self) -> bool:
        return self._process.is_alive()

    def close(self) -> None:
        self.pipe.close()
        self._process.terminate()
        self._process.join()


class Processes:
    """Runs calls in processes of this machine, each with one thread.

    Every process has one call at a time and a pipe of its own, so that its death costs that call
    and no other.
    """

    own_memory = None

    def __init__(self, workers: int) -> None:
        self.slots = workers
        self._workers = [_Worker() for _ in range(workers)]
        self._running: dict[Any, tuple[int, str]] = {}
        self._unsent: list[Outcome] = []

    def submit(self, key: str, function: Callable[..., Any], *given: Any) -> None:
        busy = {slot for slot, _ in self._running.values()}
        slot = next(slot for slot in range(self.slots) if slot not in busy)
        if not self._workers[slot].alive():  # it died without a call
            self._renew(slot)
        pipe = self._workers[slot].pipe
        self._running[pipe] = slot, key
        try:
            pipe.send((function, given))
        except OSError:
            pass  # the worker exited; `finished` detects it by EOF
        except Exception as error:  # a call that cannot be sent to a process
            del self._running[pipe]
            self._unsent.append(Outcome(key, error=error))

    def finished(self, timeout: float) -> list[Outcome]:
        ended, self._unsent = self._unsent, []
        for pipe in wait(list(self._running), 0.0 if ended else timeout):
            slot, key = self._running.pop(pipe)
            try:
                ended.append(Outcome(key, *self._workers[slot].pipe.recv()))
            except (EOFError, OSError):
                self._renew(slot)
                ended.append(Outcome(key, lost=True))
            except Exception as error:  # a value that cannot be read in this process
                ended.append(Outcome(key, error=error))
        return ended

    def _renew(self, slot: int) -> None:
        self._workers[slot].close()
        self._workers[slot] = _Worker()

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
