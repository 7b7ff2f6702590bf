"""Runs calls on an executor and keeps what they return in a store: one loop for all calls.

Calls start in the order of their ranks, when a slot is free and their memory fits beside what is
under way. A call whose worker died is started once more. Each result is committed when it arrives;
if another process computes a call on the same store, the runner waits for it. Several threads may
use one runner. Independent of what is computed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from slrlab._errors import ClusterError, StoreError, TooLargeError
from slrlab._machine import allowed_memory, in_gib
from slrlab.experiments.running.cluster import Cluster
from slrlab.experiments.running.executors import (
    Executor,
    InProcess,
    Outcome,
    Processes,
    default_workers,
)
from slrlab.experiments.running.store import Row, Store

_DEATHS = 2  # worker deaths after which a call fails
_SOON, _LATER = 0.05, 0.5  # seconds to wait for outcomes, with and without a free slot


def open_executor(calls: int, workers: int | None, cluster: str | None = None) -> Executor:
    """Return a cluster if an address is given, else processes, or this process if one is enough."""
    if cluster is not None:
        return Cluster(cluster)
    workers = min(workers or default_workers(), calls)
    return Processes(workers) if workers > 1 else InProcess()


@dataclass(eq=False)
class Call:
    """A call of a function; ``key`` identifies it.

    ``size`` is the memory that it needs in bytes, 0 for almost none. ``row`` turns its outcome
    into what the store keeps; None keeps nothing.
    """

    key: str
    function: Callable[..., Any]
    given: tuple[Any, ...]
    size: int = 0
    rank: int = 0
    row: Callable[[Outcome], Row] | None = None
    deaths: int = 0
    inboxes: list[SimpleQueue[Outcome]] = field(default_factory=list)

    def tell(self, outcome: Outcome) -> None:
        """Send the outcome to every thread that waits for it."""
        for inbox in self.inboxes:
            inbox.put(outcome)


class Runner:
    """An executor and a store, and the calls that wait or run.

    A call that is given twice while it waits or runs is computed once.
    """

    def __init__(self, executor: Executor, store: Store) -> None:
        self.store = store
        self._executor = executor
        self._waiting: dict[str, Call] = {}  # in the order of ranks
        self._running: dict[str, Call] = {}
        self._lock = threading.Lock()  # for the calls
        self._turn = threading.Lock()  # for the executor
        self._room = 0.0
        self._deaths: int | None = 0  # of workers; None once a call has ended
        self._full: StoreError | None = None
        self._error: BaseException | None = None
        store.keep_spare()

    @property
    def slots(self) -> int:
        """The number of calls that run at a time; 0 for a cluster without workers."""
        return self._executor.slots

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        """End at once: what runs is abandoned, and threads that wait for it get an error."""
        self._error = self._error or ClusterError("the worker processes have ended")
        with self._turn:
            self._executor.close()
        self.store.use_spare()

    def run(
        self,
        calls: Sequence[Call],
        receive: Callable[[list[Outcome]], None],
        *,
        until_error: bool = False,
    ) -> None:
        """Run calls; ``receive`` is called again and again in this thread with what has ended.

        With ``until_error`` no call is started after an error; those under way are finished.

        Raises
        ------
        StoreError
            If the store cannot be written. What runs is finished and kept first, in space that is
            reserved for that.
        ClusterError
            If the executor is lost.
        """
        inbox: SimpleQueue[Outcome] = SimpleQueue()
        waiting = {call.key for call in calls}
        self._add(calls, inbox)
        try:
            while waiting:
                ended = self._next(inbox)
                waiting.difference_update(outcome.key for outcome in ended)
                if until_error and any(outcome.error is not None for outcome in ended):
                    waiting -= self._drop(inbox)
                receive(ended)
        finally:
            self._drop(inbox)

    def _add(self, calls: Sequence[Call], inbox: SimpleQueue[Outcome]) -> None:
        with self._lock:
            for call in calls:
                known = self._running.get(call.key) or self._waiting.setdefault(call.key, call)
                known.rank = min(known.rank, call.rank)
                known.inboxes.append(inbox)
            self._waiting = dict(sorted(self._waiting.items(), key=lambda item: item[1].rank))

    def _drop(self, inbox: SimpleQueue[Outcome]) -> set[str]:
        """Forget the calls behind an inbox that have not started; return their keys."""
        with self._lock:
            dropped = {key for key, call in self._waiting.items() if inbox in call.inboxes}
            for key in dropped:
                self._waiting[key].inboxes.remove(inbox)
                if not self._waiting[key].inboxes:
                    del self._waiting[key]
        return dropped

    def _next(self, inbox: SimpleQueue[Outcome]) -> list[Outcome]:
        """Return what has arrived; one thread at a time runs the executor for all."""
        if inbox.empty() and self._turn.acquire(timeout=_SOON):
            try:
                if inbox.empty():
                    self._step()
            finally:
                self._turn.release()
        ended = []
        while not inbox.empty():
            ended.append(inbox.get())
        if not ended and self._error is not None:
            raise self._error
        return ended

    def _step(self) -> None:
        """Start what there is room for; wait for outcomes for a moment."""
        if self._error is not None:
            return
        try:
            with self._lock:
                started = self._start()
                running = len(self._running)
            if running:
                ended = self._executor.finished(_SOON if running < self.slots else _LATER)
                with self._lock:
                    for outcome in ended:
                        self._end(outcome)
            elif self._full is not None:
                raise self._full
            elif not started:
                time.sleep(_LATER)  # pending calls run elsewhere or lack memory
        except BaseException as error:
            self._error = error

    def _start(self) -> bool:
        """Give free slots the next calls that fit; return whether anything has changed."""
        free = self.slots - len(self._running)
        if free <= 0 or self._full is not None or not self._waiting:
            return False
        own = self._executor.own_memory
        calls = ((key, 0 if own is not None else call.size) for key, call in self._waiting.items())
        try:
            taken, finished = self.store.claim(calls, free, room=self._free_memory)
        except StoreError as error:
            self._full = error
            self.store.use_spare()
            return False
        for key in finished:
            self._waiting.pop(key).tell(Outcome(key, elsewhere=True))
        for key in taken:
            call = self._running[key] = self._waiting.pop(key)
            if own is not None and call.size > own:
                words = f"needs {in_gib(call.size)}, a worker of the cluster has {in_gib(own)}"
                self._end(Outcome(key, error=TooLargeError(words)))
            else:
                self._executor.submit(key, call.function, *call.given)
        return bool(taken or finished)

    def _free_memory(self, held: int) -> float:
        """Return the memory for calls, of which ``held`` is already reserved."""
        if held == 0 or not self._room:
            # without calls under way what is free is exact; with them it is less than there is
            self._room = allowed_memory()
        return self._room

    def _end(self, outcome: Outcome) -> None:
        """Keep the outcome of a call and report it; start a lost call again."""
        call = self._running.pop(outcome.key)
        if outcome.lost:
            if not self._record_death(call):
                self._write(self.store.release, call.key)
                self._waiting = {call.key: call} | self._waiting
                return
            error = ClusterError("its worker process died again and again")
            outcome = Outcome(call.key, error=error)
        else:
            self._deaths = None
        row: Row | None = None
        if outcome.error is None and call.row is not None:
            try:
                row = call.row(outcome)
            except TypeError as refused:  # a value that cannot be kept
                outcome = Outcome(call.key, error=refused)
        if row is not None:
            self._write(self.store.put, row)
        else:
            self._write(self.store.release, call.key)
        call.tell(outcome)

    def _record_death(self, call: Call) -> bool:
        """Count the death of a worker; return whether its call is given up."""
        call.deaths += 1
        if self._deaths is not None:
            self._deaths += 1
            if self._deaths > 2 * _DEATHS * self.slots:
                raise ClusterError(
                    "worker processes die before they compute anything; is there enough memory, "
                    "and does the script have its if __name__ == '__main__'?"
                )
        return call.deaths >= _DEATHS

    def _write(self, write: Callable[[Any], None], what: Any) -> None:
        """Write to the store; when the disk is full, into the reserved space."""
        try:
            write(what)
        except StoreError as error:
            self._full = error
            if not self.store.use_spare():
                raise
            write(what)
