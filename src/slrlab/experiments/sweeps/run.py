"""Runs a sweep: its points are calls that the runner computes and commits one by one.

A committed point stays; running the sweep again computes what is missing. Independent of what
is computed.
"""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from slrlab import _checks
from slrlab._result import Result, Status
from slrlab._types import Report
from slrlab.experiments.running.executors import Outcome
from slrlab.experiments.running.runner import Call, Runner, open_executor
from slrlab.experiments.running.store import Row, Store, versions
from slrlab.experiments.sweeps.computations import COMPUTATIONS, task_of
from slrlab.experiments.sweeps.definition import Point, Sweep


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
        Those computed by this call; the store had the others, or another process computed them.
    failed
        Those computed by this call without a usable number. They are rows of the store too, except
        points whose worker died repeatedly or ran out of memory.
    failed_before
        Those that failed in an earlier call and were not tried again.
    seconds
        Wall time.
    problems
        A line for each failed point.
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
        SQLite file of results; created if it does not exist.
    workers
        Processes of this machine; None for its cores or ``SLRLAB_WORKERS``. 1 computes here.
    cluster
        Address of a Dask scheduler, such as ``tcp://127.0.0.1:8786``, instead of processes.
    retry_failed
        Compute points again whose status is ``failed``.
    report
        Called as ``report(done, total, label)`` as points finish.

    Returns
    -------
    SweepSummary
        How many points were computed, and how many failed.

    Raises
    ------
    ValueError
        If a setting of the sweep or the number of workers is wrong; nothing is computed then.
    StoreError
        If the store is damaged or cannot be written; what was committed stays.
    ClusterError
        If no cluster answers.

    Examples
    --------
    >>> import tempfile
    >>> from slrlab import Sweep, run_sweep
    >>> sweep = Sweep("population", grid={"signal": [1.0, 2.0]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first, again = (run_sweep(sweep, f"{folder}/a.sqlite", workers=1) for _ in range(2))
    >>> first.computed, again.computed, again.points
    (2, 0, 2)
    """
    start = time.perf_counter()
    if workers is not None:
        _checks.integer(workers, "workers")
        if cluster is not None:
            raise ValueError(f"workers must not be given with a cluster, got {workers}")
    points = {point.key: point for point in sweep.expand()}
    problems: list[str] = []
    computed = waiting = 0
    with Store(store) as base:
        if retry_failed:
            base.forget_failed(points)
        done = base.done(points)
        failed_before = sum(status == Status.FAILED for status in done.values())
        calls = [_call(point) for key, point in points.items() if key not in done]
        waiting = len(calls)

        def receive(ended: list[Outcome]) -> None:
            nonlocal computed, waiting
            waiting -= len(ended)
            for outcome in ended:
                computed += not outcome.elsewhere
                problem = _problem(outcome)
                if problem:
                    problems.append(f"{points[outcome.key]}: {problem}")
            if report is not None:
                label = f"sweep: {len(problems)} failed" if problems else "sweep"
                label = label if runner.slots else "sweep: no workers yet"
                report(len(points) - waiting, len(points), label)

        if calls:
            with Runner(open_executor(len(calls), workers, cluster), base) as runner:
                receive([])
                runner.run(calls, receive)
    return SweepSummary(
        status=Status.NOT_CONVERGED if problems or failed_before else Status.CONVERGED,
        points=len(points),
        computed=computed,
        failed=len(problems),
        failed_before=failed_before,
        seconds=time.perf_counter() - start,
        problems=tuple(problems),
        store=str(store),
    )


def _call(point: Point) -> Call:
    """Return the computation of a point, with the memory that it needs."""
    size = point.computation.memory(task_of(point.settings), point.settings)
    given = (point.compute, point.settings, point.seed)
    return Call(
        *(point.key, compute_point, given), size=min(size, sys.maxsize), row=partial(_row, point)
    )


def _row(point: Point, outcome: Outcome) -> Row:
    own = {"seconds": outcome.seconds} | outcome.value
    return Row(point.key, point.compute, point.settings, point.seed, **own)


def _problem(outcome: Outcome) -> str:
    """Return what is wrong with a point; an error is one of this machine, not of the point."""
    if outcome.error is not None:
        return str(outcome.error)
    if outcome.elsewhere or Status(outcome.value["status"]).usable:
        return ""
    return str(outcome.value["message"] or outcome.value["status"])


def compute_point(compute: str, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Compute one point; an error becomes a failed row with its message."""
    computation = COMPUTATIONS[compute]
    try:
        result = computation.run(settings, seed).to_dict()
    except MemoryError:
        raise  # it says nothing about the point
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        return {"status": str(Status.FAILED), "message": message, "versions": versions()}
    return {
        "value": _number(result.get(computation.value)),
        "error": _number(result.get(computation.error)),
        "status": result["status"],
        "message": "",
        "result": json.dumps(_timeless(result)),
        "versions": versions(),
    }


def _timeless(value: Any) -> Any:
    """Return a result without durations: the same point is the same row, wherever it ran."""
    if isinstance(value, dict):
        return {name: _timeless(item) for name, item in value.items() if name != "seconds"}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def _number(value: Any) -> float | None:
    """Return a number for the table: the last of a path; None if it is missing or not finite."""
    if isinstance(value, list):
        value = value[-1] if value else None
    if isinstance(value, str):  # inf and nan as JSON holds them
        value = float(value)
    return value if value is None or math.isfinite(value) else None
