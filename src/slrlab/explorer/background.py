"""Calls of the library in worker processes, for all users of a server.

Each user wants some calls. A thread hands them to the workers, one user after the other, and keeps
what they return. What a user no longer wants is not started. Independent of what is computed or
drawn.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from slrlab.experiments.requirements.rows import Row
from slrlab.experiments.running.executors import Executor, Outcome, Processes, default_workers
from slrlab.explorer.view import Call

_KEPT = 50_000  # rows in memory, of up to one kilobyte each
_PATIENCE = 10.0  # seconds without a request after which a user has left
_WAIT = 0.1  # seconds between checks of the workers
_TRIES = 2  # attempts at a call whose worker dies


@dataclass(frozen=True)
class Progress:
    """What is known of the calls that a user wants."""

    rows: list[Row]
    errors: list[str]
    done: int
    total: int

    @property
    def complete(self) -> bool:
        """Whether all calls have ended."""
        return self.done == self.total


@dataclass
class _User:
    calls: list[Call] = field(default_factory=list)
    seen: float = 0.0


class Work:
    """The calls of all users, and the workers that run them.

    Parameters
    ----------
    start
        Returns an executor; called when the first call is to run.
    """

    def __init__(self, start: Callable[[], Executor] | None = None) -> None:
        self._start = start or (lambda: Processes(default_workers()))
        self._results: OrderedDict[Call, list[Row] | Exception] = OrderedDict()
        self._size = 0
        self._users: dict[str, _User] = {}
        self._running: dict[str, Call] = {}
        self._tries: dict[Call, int] = {}
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def progress(self, user: str, calls: Sequence[Call]) -> Progress:
        """Return what is known of some calls; the rest is computed from now on.

        It replaces what the same user wanted before. Quick calls are run at once.
        """
        rows: list[Row] = []
        errors: list[str] = []
        missing = []
        for call in calls:
            result = self._known(call)
            if result is None:
                missing.append(call)
            elif isinstance(result, Exception):
                errors.append(_message(result))
            else:
                rows += result
        with self._lock:
            if missing:
                self._users[user] = _User(missing, time.monotonic())
            else:
                self._users.pop(user, None)
        if missing:
            self._run()
            self._wanted.set()
        total = len(calls)
        return Progress(rows, list(dict.fromkeys(errors)), total - len(missing), total)

    def _known(self, call: Call) -> list[Row] | Exception | None:
        """Return the result of a call if there is one, or if it can be computed at once."""
        if call.quick:
            return call.run()
        with self._lock:
            if call in self._results:
                self._results.move_to_end(call)
            return self._results.get(call)

    def close(self) -> None:
        """End the workers; what runs is abandoned."""
        self._closed = True
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._serve, daemon=True)
                self._thread.start()
                atexit.register(self.close)

    def _serve(self) -> None:
        executor = self._start()
        try:
            while not self._closed:
                self._submit(executor)
                if self._running:
                    self._keep(executor.finished(_WAIT))
                else:
                    self._wanted.wait(1.0)
                    self._wanted.clear()
        finally:
            executor.close()

    def _submit(self, executor: Executor) -> None:
        """Start calls in free slots, those of the users in turn."""
        while len(self._running) < executor.slots:
            call = self._next()
            if call is None:
                return
            key = f"{id(call)} {time.monotonic_ns()}"
            self._running[key] = call
            executor.submit(key, call.function, *call.given)

    def _next(self) -> Call | None:
        """Return the next call of the user who waits longest for one; None if there is none."""
        under_way = set(self._running.values())
        now = time.monotonic()
        with self._lock:
            for name, user in list(self._users.items()):
                if now - user.seen > _PATIENCE:
                    del self._users[name]
                    continue
                for call in user.calls:
                    if call not in under_way and call not in self._results:
                        self._users[name] = self._users.pop(name)  # to the end of the queue
                        return call
        return None

    def _keep(self, ended: list[Outcome]) -> None:
        for outcome in ended:
            call = self._running.pop(outcome.key)
            if outcome.lost:
                self._tries[call] = self._tries.get(call, 0) + 1
                if self._tries[call] < _TRIES:
                    continue  # it is still wanted: it will be started again
                result: list[Row] | Exception = RuntimeError("the worker process ended")
            else:
                error = outcome.error
                result = error if isinstance(error, Exception) else outcome.value
            with self._lock:
                self._results[call] = result
                self._size += _size(result)
                while self._size > _KEPT and len(self._results) > 1:
                    self._size -= _size(self._results.popitem(last=False)[1])


@lru_cache(maxsize=1)
def shared_work() -> Work:
    """Return the workers of this process, the same for all users.

    They are kept in this module, because a server runs its own file again at every page change.
    """
    return Work()


def _size(result: list[Row] | Exception) -> int:
    return len(result) if isinstance(result, list) else 1


def _message(error: Exception) -> str:
    """Return an error in one line."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
