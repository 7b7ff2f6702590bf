"""Runs a sweep: leases points, computes them, commits each one as it ends.

Whatever happens, a committed point stays; running again computes what is missing. This module
must not know what the points are about.
"""

from __future__ import annotations

import math
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from slrlab import _checks
from slrlab._errors import StoreError, TooLargeError
from slrlab._machine import allowed_memory, in_gib
from slrlab._result import Result, Status
from slrlab._types import Report
from slrlab.experiments.executors import Cluster, Executor, Finished, InProcess, Processes
from slrlab.experiments.parallel import default_workers
from slrlab.experiments.sweeps.computations import task_of
from slrlab.experiments.sweeps.definition import Point, Sweep
from slrlab.experiments.sweeps.store import Heartbeat, Row, Store, now

_AHEAD = 2  # calls kept ready for each slot
_WAIT = 0.5  # seconds between looks at what others compute


@dataclass(frozen=True)
class SweepSummary(Result):
    """What a sweep did.

    Attributes
    ----------
    status
        ``converged``, or ``not converged`` if a point failed, now or before.
    points
        Number of points of the sweep.
    computed
        Those computed by this call; the others were there or came from another process.
    failed
        Those computed by this call of which no usable number came out. They are rows of the store
        too, but for points whose worker died again and again or ran out of memory.
    failed_before
        Those that failed in an earlier call and were not tried again.
    seconds
        Wall time.
    problems
        What is wrong with the failed ones: a line each.
    store
        The file.
    """

    points: int
    computed: int
    failed: int
    failed_before: int
    seconds: float
    problems: tuple[str, ...]
    store: str


def run_sweep(
    sweep: Sweep,
    store: Path | str = "results/store.sqlite",
    *,
    workers: int | None = None,
    cluster: str | None = None,
    retry_failed: bool = False,
    report: Report | None = None,
) -> SweepSummary:
    """Compute the points of a sweep that the store does not hold yet.

    Parameters
    ----------
    sweep
        Settings times what to compute.
    store
        SQLite file of results; made if it is not there.
    workers
        Processes of this machine; None for its cores or ``SLRLAB_WORKERS``. 1 computes here.
    cluster
        Address of a Dask scheduler, such as ``tcp://127.0.0.1:8786``, instead of processes.
    retry_failed
        Compute points again whose status is ``failed``.
    report
        Called as ``report(done, total, label)`` as points finish.

    Raises
    ------
    ValueError
        If a setting of the sweep or the number of workers is wrong; nothing is computed then.
    StoreError
        If the store is damaged or cannot be written; what was committed stays.
    ClusterError
        If no cluster answers.
    """
    start = time.perf_counter()
    if workers is not None:
        _checks.integer(workers, "workers")
        if cluster is not None:
            raise ValueError(f"workers must be left out with a cluster, got {workers}")
    points = {point.key: point for point in sweep.expand()}
    with Store(store) as base, Heartbeat(base):
        retry_before = now() if retry_failed else ""
        done = base.done(points, retry_before=retry_before)
        missing = [key for key in points if key not in done]
        before = base.failed(done)
        run = _Run(points, base, retry_before, report)
        if missing:
            count = workers if workers is not None else default_workers()
            executor: Executor
            if cluster is not None:
                executor = Cluster(cluster)
            elif min(count, len(missing)) > 1:
                executor = Processes(min(count, len(missing)))
            else:
                executor = InProcess()
            try:
                run.follow(missing, executor)
            finally:
                executor.close()
    return SweepSummary(
        status=Status.NOT_CONVERGED if run.failed or before else Status.CONVERGED,
        points=len(points),
        computed=run.computed,
        failed=run.failed,
        failed_before=len(before),
        seconds=time.perf_counter() - start,
        problems=tuple(run.problems),
        store=str(store),
    )


class _Run:
    """The state of one call of `run_sweep`."""

    def __init__(
        self, points: dict[str, Point], store: Store, retry_before: str, report: Report | None
    ) -> None:
        self.points = points
        self.store = store
        self.retry_before = retry_before
        self.report = report
        self.computed = 0
        self.failed = 0
        self.problems: list[str] = []
        self._room = 0
        self._in_vain = 0  # points looked at since one could be taken
        self._idle = False  # a cluster without workers
        self._broken: StoreError | None = None
        self._running: set[str] = set()

    def follow(self, missing: Sequence[str], executor: Executor) -> None:
        """Compute what is missing and wait for what others compute.

        When the store cannot be written any more, what runs is finished and kept first.
        """
        waiting = list(missing)
        sizes = self._sizes(missing)
        self.store.keep_spare()
        while self._running or (waiting and self._broken is None):
            waiting = self._start(waiting, sizes, executor)
            self._tell(len(waiting))
            if waiting and not self._running and self._in_vain >= len(waiting):
                time.sleep(_WAIT)  # all that is left is under way elsewhere, or has no room
                self._in_vain = 0
            for ended in executor.finished(timeout=1.0):
                self._commit(ended)
                self._tell(len(waiting))
        if self._broken is not None:
            raise self._broken

    def _start(self, waiting: list[str], sizes: Mapping[str, int], executor: Executor) -> list[str]:
        """Start what there is room for; return what still waits."""
        free = _AHEAD * executor.slots - len(self._running)
        self._idle = isinstance(executor, Cluster) and executor.workers == 0
        if free <= 0 or self._broken is not None:
            return waiting
        shared = sizes if executor.own_memory is None else {}
        chosen = self._fitting(waiting, free, shared)
        try:
            taken = self.store.claim(
                chosen, free, sizes=shared, room=self._room, retry_before=self.retry_before
            )
        except StoreError as error:
            self._broken = error
            self.store.use_spare()
            return waiting
        for key in taken:
            self._running.add(key)
            self._submit(key, sizes.get(key, 0), executor)
        gone = set(taken)
        if len(taken) < len(chosen):  # others have finished the rest, or are computing it
            gone |= self.store.done(waiting, retry_before=self.retry_before)
        busy = [key for key in chosen if key not in gone]
        tried = busy if chosen else waiting  # nothing chosen: there is no room for any of them
        self._in_vain = 0 if taken else self._in_vain + len(tried)
        return [key for key in waiting if key not in gone and key not in busy] + busy

    def _submit(self, key: str, size: int, executor: Executor) -> None:
        point, own = self.points[key], executor.own_memory
        if own is not None and size > own:
            words = f"needs {in_gib(size)}, a worker of the cluster has {in_gib(own)}"
            self._commit(Finished(key, error=TooLargeError(words)))
            return
        executor.submit(key, compute_point, point.compute, point.settings, point.seed)

    def _sizes(self, keys: Sequence[str]) -> dict[str, int]:
        """Return the bytes that points need, of those that need any."""
        found = {}
        for key in keys:
            point = self.points[key]
            size = point.computation.memory(task_of(point.settings), point.settings)
            if size:
                found[key] = min(size, sys.maxsize)
        return found

    def _fitting(self, waiting: Sequence[str], free: int, sizes: Mapping[str, int]) -> list[str]:
        """Return the next points that fit into memory beside those under way on this machine."""
        if not sizes:
            return list(waiting[:free])
        used = self.store.held()
        if used == 0 or not self._room:
            # without sweeps in it what is free is exact; with them it is less than there is
            self._room = allowed_memory()
        chosen: list[str] = []
        for key in waiting:
            size = sizes.get(key, 0)
            if size and used and used + size > self._room:
                continue  # it waits until it is alone, or fits
            chosen.append(key)
            used += size
            if len(chosen) >= free:
                break
        return chosen

    def _commit(self, ended: Finished) -> None:
        key = str(ended.tag)
        point = self.points[key]
        self._running.discard(key)
        self.computed += 1
        if ended.error is not None:  # the machine failed, not the computation: no row, try later
            self.failed += 1
            self.problems.append(f"{point}: {ended.error}")
            self._keep(self.store.release, [key])
            return
        self._keep(
            self.store.put, Row(key, point.compute, point.settings, point.seed, **ended.value)
        )
        if not Status(ended.value["status"]).usable:
            self.failed += 1
            self.problems.append(f"{point}: {ended.value['message'] or ended.value['status']}")

    def _keep(self, write: Callable[[Any], None], what: Any) -> None:
        """Write to the store; when it is full, into the space held back for that."""
        try:
            write(what)
        except StoreError as error:
            self._broken = error
            if not self.store.use_spare():
                raise
            write(what)

    def _tell(self, waiting: int) -> None:
        if self.report is None:
            return
        total = len(self.points)
        label = f"sweep: {self.failed} failed" if self.failed else "sweep"
        if self._idle:
            label = "sweep: no workers yet"
        self.report(total - waiting - len(self._running), total, label)


def compute_point(compute: str, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Compute one point; an error becomes a failed row with its message."""
    point = Point(compute, settings, seed)
    start = time.perf_counter()
    try:
        result = point.computation.run(settings, seed).to_dict()
    except MemoryError:
        raise  # a matter of this machine and this moment
    except Exception as error:
        return failure(error, time.perf_counter() - start)
    shown = point.computation
    return {
        "value": _number(result.get(shown.value)),
        "error": _number(result.get(shown.error)),
        "status": result["status"],
        "message": "",
        "result": _timeless(result),
        "seconds": time.perf_counter() - start,
        "versions": versions(),
    }


def _timeless(value: Any) -> Any:
    """Return a result without durations: the same point is the same row, wherever it ran."""
    if isinstance(value, dict):
        return {name: _timeless(item) for name, item in value.items() if name != "seconds"}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def _number(value: Any) -> float | None:
    """Return a number for the table: the last of a path; None where there is none."""
    if isinstance(value, list):
        value = value[-1] if value else None
    if isinstance(value, str):  # inf and nan as JSON holds them
        value = float(value)
    return value if value is None or math.isfinite(value) else None


def failure(error: BaseException, seconds: float) -> dict[str, Any]:
    """Return the row of a point of which no number came out."""
    return {
        "value": None,
        "error": None,
        "status": str(Status.FAILED),
        "message": f"{type(error).__name__}: {error}",
        "result": {},
        "seconds": seconds,
        "versions": versions(),
    }


@cache
def versions() -> dict[str, str]:
    """Return what a number was computed with."""
    packages = {name: version(name) for name in ("slrlab", "numpy", "scipy", "numba")}
    return packages | {"python": platform.python_version()}
