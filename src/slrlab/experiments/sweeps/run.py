"""Runs a sweep: leases points, computes them, commits each one as it ends.

Whatever happens, a committed point stays; running again computes what is missing. This module
must not know what the points are about.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from slrlab._result import Report as Report
from slrlab._result import Result, Status
from slrlab.experiments.executors import Cluster, Executor, Finished, InProcess, Processes
from slrlab.experiments.parallel import default_workers
from slrlab.experiments.sweeps.computations import task_of
from slrlab.experiments.sweeps.definition import Point, Sweep
from slrlab.experiments.sweeps.store import Heartbeat, Row, Store
from slrlab.simulation.machine import allowed_memory

_AHEAD = 2  # calls kept ready for each slot
_WAIT = 0.5  # seconds between looks at what others compute


@dataclass(frozen=True)
class SweepSummary(Result):
    """What a sweep did.

    Attributes
    ----------
    status
        ``converged``, or ``not converged`` if a point failed.
    points
        Number of points of the sweep.
    computed
        Those computed by this call; the others were there or came from another process.
    failed
        Those computed by this call of which no usable number came out. They are rows of the store
        too, but for points whose worker died again and again or ran out of memory.
    seconds
        Wall time.
    store
        The file.
    """

    points: int
    computed: int
    failed: int
    seconds: float
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
        Compute points again that failed before.
    report
        Called as ``report(done, total, label)`` as points finish.

    Raises
    ------
    ValueError
        If a setting of the sweep is wrong; nothing is computed then.
    StoreError
        If the store is damaged or cannot be written; what was committed stays.
    ClusterError
        If no cluster answers.
    """
    start = time.perf_counter()
    points = {point.key: point for point in sweep.expand()}
    with Store(store) as base, Heartbeat(base):
        done = base.done(points, failed=not retry_failed)
        missing = [key for key in points if key not in done]
        run = _Run(points, base, retry_failed, report)
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
        status=Status.NOT_CONVERGED if run.failed else Status.CONVERGED,
        points=len(points),
        computed=run.computed,
        failed=run.failed,
        seconds=time.perf_counter() - start,
        store=str(store),
    )


class _Run:
    """The state of one call of `run_sweep`."""

    def __init__(
        self, points: dict[str, Point], store: Store, retry_failed: bool, report: Report | None
    ) -> None:
        self.points = points
        self.store = store
        self.keeps_failed = not retry_failed
        self.report = report
        self.computed = 0
        self.failed = 0
        self._memory: dict[str, int] = {}
        self._running: set[str] = set()

    def follow(self, missing: Sequence[str], executor: Executor) -> None:
        """Compute what is missing and wait for what others compute."""
        waiting = list(missing)
        room = allowed_memory()
        while waiting or self._running:
            free = _AHEAD * executor.slots - len(self._running)
            chosen = self._fitting(waiting, free, room)
            taken = self.store.claim(chosen, free, failed=self.keeps_failed) if chosen else []
            for key in taken:
                self._running.add(key)
                point = self.points[key]
                executor.submit(key, compute_point, point.compute, point.settings, point.seed)
            gone = set(taken)
            if len(taken) < len(chosen):  # others have finished the rest, or are computing it
                gone |= self.store.done(waiting, failed=self.keeps_failed)
            busy = [key for key in chosen if key not in gone]
            waiting = [key for key in waiting if key not in gone and key not in busy] + busy
            self._tell(len(waiting))
            if not self._running:
                time.sleep(_WAIT)
            for ended in executor.finished(timeout=1.0):
                self._commit(ended)
                self._tell(len(waiting))

    def _fitting(self, waiting: Sequence[str], free: int, room: int) -> list[str]:
        """Return the next points that fit into memory beside those running."""
        if free <= 0:
            return []
        used = sum(self._bytes(key) for key in self._running)
        chosen: list[str] = []
        for key in waiting:
            size = self._bytes(key)
            if used + size > room and (self._running or chosen):
                continue  # it waits until it is alone, or fits
            chosen.append(key)
            used += size
            if len(chosen) >= free:
                break
        return chosen

    def _bytes(self, key: str) -> int:
        if key not in self._memory:
            point = self.points[key]
            self._memory[key] = point.computation.memory(task_of(point.settings), point.settings)
        return self._memory[key]

    def _commit(self, ended: Finished) -> None:
        key = str(ended.tag)
        point = self.points[key]
        self._running.discard(key)
        self.computed += 1
        if ended.error is not None:  # the machine failed, not the computation: no row, try later
            self.failed += 1
            self.store.release([key])
            return
        self.store.put(Row(key, point.compute, point.settings, point.seed, **ended.value))
        self.failed += not Status(ended.value["status"]).usable

    def _tell(self, waiting: int) -> None:
        if self.report is None:
            return
        total = len(self.points)
        label = f"{self.failed} failed" if self.failed else "sweep"
        self.report(total - waiting - len(self._running), total, label)


def compute_point(compute: str, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Compute one point; an error becomes a failed row with its message."""
    point = Point(compute, settings, seed)
    start = time.perf_counter()
    try:
        result = point.computation.run(task_of(settings), settings, seed).to_dict()
    except MemoryError:
        raise  # a matter of this machine and this moment
    except Exception as error:
        return failure(error, time.perf_counter() - start)
    value, error_ = (_number(result.get(name)) for name in _fields(point))
    return {
        "value": value,
        "error": error_,
        "status": result["status"],
        "message": "",
        "result": result,
        "seconds": time.perf_counter() - start,
        "versions": versions(),
    }


def _fields(point: Point) -> tuple[str, str]:
    return point.computation.value, point.computation.error


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
