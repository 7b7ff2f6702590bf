"""Worker processes that several threads share, so that no core waits while there is work.

Each thread takes a `Share`, an executor like any other. Calls of a lower rank start first; the next
rank fills the gaps, for instance while the last call of a rank is under way. This module must not
know what is computed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from slrlab._errors import ClusterError
from slrlab._machine import allowed_memory
from slrlab.experiments.executors import Finished, Processes

_SOON, _LATER = 0.05, 0.5  # seconds between looks, with and without an idle worker


@dataclass(eq=False)
class _Call:
    """A call, and who waits for it."""

    rank: int
    size: float
    function: Callable[..., Any]
    given: tuple[Any, ...]
    running: bool = False
    waiting: list[tuple[Share, Hashable]] = field(default_factory=list)

    def tell(self, value: Any = None, error: BaseException | None = None) -> None:
        for share, tag in self.waiting:
            share.inbox.put(Finished(tag, value, error))


class SharedPool:
    """Processes behind a thread that starts calls in the order of their ranks.

    A call that is asked for again while it waits or runs is computed once: functions must give
    the same value for the same argument. A call of a known size starts when it fits into the
    memory beside what runs, or when nothing runs.
    """

    def __init__(self, workers: int) -> None:
        self.slots = workers
        self._processes = Processes(workers)
        self._room = float(allowed_memory())
        self._lock = threading.Lock()
        self._calls: dict[Hashable, _Call] = {}  # that wait or run, in the order they came
        self._news, self._end = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def share(self, rank: int, size: float) -> Share:
        """Return an executor whose calls have a rank and take up to ``size`` bytes each."""
        return Share(self, rank, size)

    def add(self, share: Share, tag: Hashable, call: _Call) -> None:
        """Queue a call, or join the same one that waits or runs."""
        key = (call.function, repr(call.given))
        with self._lock:
            if self._error is not None:
                raise self._error
            known = self._calls.setdefault(key, call)
            known.rank = min(known.rank, call.rank)
            known.waiting.append((share, tag))
        self._news.set()

    def drop(self, share: Share) -> list[Hashable]:
        """Forget the calls of a share that have not started; return their tags."""
        dropped = []
        with self._lock:
            for key, call in list(self._calls.items()):
                if not call.running:
                    dropped += [tag for owner, tag in call.waiting if owner is share]
                    call.waiting = [pair for pair in call.waiting if pair[0] is not share]
                    if not call.waiting:
                        del self._calls[key]
        return dropped

    def close(self) -> None:
        """End at once: what runs is abandoned, and who waits for it gets an error."""
        self._end.set()
        self._news.set()
        self._thread.join()

    def _serve(self) -> None:
        error: BaseException = ClusterError("the worker processes have ended")
        try:
            while not self._end.is_set():
                self._news.clear()
                running = self._start()
                if not running:
                    self._news.wait()
                    continue
                for ended in self._processes.finished(_SOON if running < self.slots else _LATER):
                    with self._lock:
                        call = self._calls.pop(ended.tag)
                    call.tell(ended.value, ended.error)
        except BaseException as found:
            error = found
        with self._lock:
            self._error = error
            for call in self._calls.values():
                call.tell(error=error)
        self._processes.close()

    def _start(self) -> int:
        """Give the idle workers what comes next and fits; return how many calls run."""
        with self._lock:
            running = [call for call in self._calls.values() if call.running]
            waiting = [(key, call) for key, call in self._calls.items() if not call.running]
            for key, call in sorted(waiting, key=lambda pair: pair[1].rank):
                if len(running) == self.slots:
                    break
                used = sum(other.size for other in running)
                if running and call.size and used + call.size > self._room:
                    continue
                call.running = True
                running.append(call)
                self._processes.submit(key, call.function, *call.given)
            return len(running)


class Share:
    """What one caller sees of a pool."""

    own_memory = None

    def __init__(self, pool: SharedPool, rank: int, size: float) -> None:
        self._pool, self._rank, self._size = pool, rank, size
        self.inbox: SimpleQueue[Finished] = SimpleQueue()

    @property
    def slots(self) -> int:
        return self._pool.slots

    def submit(self, tag: Hashable, function: Callable[..., Any], *given: Any) -> None:
        self._pool.add(self, tag, _Call(self._rank, self._size, function, given))

    def finished(self, timeout: float) -> list[Finished]:
        found = []
        with suppress(Empty):
            found.append(self.inbox.get(timeout=timeout))
            while True:
                found.append(self.inbox.get_nowait())
        return found

    def drop(self) -> list[Hashable]:
        """Forget the calls that have not started; return their tags."""
        return self._pool.drop(self)

    def close(self) -> None:
        self.drop()
