"""The capacity test over pairs and seeds, beside the published single runs.

Training is in `slrlab.retrieval.capacity`; this module spreads it over processes and the store,
and compares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from slrlab import _checks
from slrlab._plot import axes_of
from slrlab._result import Estimate, Result, Status, plain
from slrlab._types import Axes, DataFrame, Report
from slrlab.experiments.running.parallel import parallel_map
from slrlab.retrieval.capacity import capacity_floor, train_capacity
from slrlab.retrieval.feature_maps import FeatureMap

KEY_SIZE = 64
Point = tuple[str, int, int, int]
"""Feature map, pairs, seed and largest number of steps."""
_KEPT = (
    *("feature_map", "pairs", "key_size", "dimension", "seed", "ended", "steps", "loss"),
    *("best_loss", "mean_loss", "mean_loss_error", "floor", "drift", "seconds"),
)


@dataclass(frozen=True)
class CapacityPoint:
    """All seeds of one feature map at one number of pairs.

    Attributes
    ----------
    loss, loss_error
        Mean of the last evaluations over seeds, and its standard error.
    mean_loss, mean_loss_error
        Mean over seeds of the loss after training in which each query counts the same.
    floor
        Least ``mean_loss`` of any feature map of this dimension.
    solved, steps
        Number of seeds that reached the tolerance, and the mean number of steps.
    published, published_steps
        Last loss and steps of the published run; nan if there is none.
    status
        The worst status of the seeds.
    """

    feature_map: str
    pairs: int
    seeds: int
    loss: float
    loss_error: float
    mean_loss: float
    mean_loss_error: float
    floor: float
    solved: int
    steps: float
    published: float
    published_steps: float
    status: str


@dataclass(frozen=True)
class CapacityTest(Result):
    """Trainings of the capacity test.

    Attributes
    ----------
    points
        One for each feature map and number of pairs.
    runs
        A table of all trainings.
    """

    points: tuple[CapacityPoint, ...]
    runs: DataFrame

    def to_dict(self) -> dict[str, Any]:
        """Return the points and all trainings as JSON-ready values."""
        rows = [plain(vars(point)) for point in self.points]
        runs = plain(self.runs.to_dict("records"))
        return {"status": str(self.status), "rows": rows, "runs": runs}

    def to_frame(self) -> DataFrame:
        """Return one row for each training."""
        return self.runs

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return columns and rows for people."""
        columns = ["feature map", "pairs", "loss", "published", "every query", "floor", "solved"]
        return columns, [
            [
                one.feature_map,
                str(one.pairs),
                str(Estimate(one.loss, one.loss_error)),
                f"{one.published:.3g}" if math.isfinite(one.published) else "",
                f"{one.mean_loss:.3g}",
                f"{one.floor:.3g}",
                f"{one.solved} of {one.seeds} ({one.steps:.0f} steps)",
            ]
            for one in self.points
        ]

    def __str__(self) -> str:
        return f"associative capacity, keys of size {KEY_SIZE}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the loss against the number of pairs, with the floor of each feature map."""
        axes = axes_of(ax)
        for name in dict.fromkeys(one.feature_map for one in self.points):
            own = [one for one in self.points if one.feature_map == name]
            pairs = [one.pairs for one in own]
            (line,) = axes.plot(pairs, [one.mean_loss for one in own], "o", label=name)
            axes.plot(pairs, [one.floor for one in own], "--", color=line.get_color())
        axes.set(xlabel="pairs $N$", ylabel="loss after training (dashed: floor)")
        axes.legend()
        return axes


def capacity_test(
    feature_map: Sequence[str] = ("softmax", "elu+1"),
    pairs: Sequence[int] = (20, 100),
    *,
    seeds: int = 1,
    seed: int = 1,
    max_steps: int = 8000,
    workers: int | None = 1,
    report: Report | None = None,
) -> CapacityTest:
    r"""Train one attention layer to store ``N`` key-value pairs, for feature maps and seeds.

    This is setting 1 of Schlag et al. (2021), with keys of size 64: see `train_capacity`.

    Parameters
    ----------
    feature_map, pairs
        One or more names of feature maps, and numbers ``N``.
    seeds, seed
        Trainings at each point, and the first of their seeds.
    max_steps
        Largest number of steps of a training.
    workers, report
        As for `slrlab.compare`.

    Returns
    -------
    CapacityTest
        A point for each feature map and number of pairs.

    Raises
    ------
    ValueError
        If a name is unknown or a number is out of range, before any work.

    Examples
    --------
    >>> from slrlab import capacity_test
    >>> result = capacity_test(["softmax"], [20])
    >>> result.points[0].solved, result.points[0].published_steps
    (1, 200.0)
    """
    names = [FeatureMap.of(name).name for name in dict.fromkeys(feature_map)]
    counts = sorted({_checks.integer(count, "pairs", low=2, high=10_000) for count in pairs})
    if not names or not counts:
        _checks.fail("feature_map and pairs", "one or more of each", "an empty list")
    seeds, seed = _checks.integer(seeds, "seeds"), _checks.integer(seed, "seed", low=0)
    _checks.integer(max_steps, "max_steps", low=100)
    items = [
        (name, count, seed + number, max_steps)
        for count in reversed(counts)  # costly ones first
        for name in names
        for number in range(seeds)
    ]
    return capacity_of(items, workers=workers, report=report)


def capacity_of(
    items: Sequence[Point], *, workers: int | None = 1, report: Report | None = None
) -> CapacityTest:
    """Train at given points, any number of seeds each."""
    import pandas as pd

    rows = parallel_map(capacity_row, items, label="capacity", report=report, workers=workers)
    runs = pd.DataFrame(rows).sort_values(["feature_map", "pairs", "seed"], ignore_index=True)
    return CapacityTest(
        status=Status.worst(map(Status, runs["status"])), points=summaries(runs), runs=runs
    )


def capacity_row(point: Point) -> dict[str, Any]:
    """Return the row of one training."""
    name, pairs, seed, max_steps = point
    run = train_capacity(name, pairs, key_size=KEY_SIZE, seed=seed, max_steps=max_steps)
    row = {name: getattr(run, name) for name in _KEPT}
    return row | {"max_steps": max_steps, "status": str(run.status)}


@cache
def published_runs() -> dict[tuple[str, int], tuple[float, int]]:
    """Return last loss and steps of the published runs, one seed each, by map and pairs."""
    from slrlab.experiments.stored import table

    rows = table("capacity")[["feature_map", "pairs", "loss", "steps"]].itertuples(index=False)
    return {(name, pairs): (loss, steps) for name, pairs, loss, steps in rows}


def summaries(runs: DataFrame) -> tuple[CapacityPoint, ...]:
    """Return the mean over seeds for each feature map and number of pairs of a table of runs."""
    points = []
    for key, rows in runs.groupby(["feature_map", "pairs"], sort=True):
        name, pairs = cast("tuple[str, int]", key)
        loss, mean = Estimate.of(rows["loss"]), Estimate.of(rows["mean_loss"])
        published, steps = published_runs().get((name, pairs), (math.nan, math.nan))
        points.append(
            CapacityPoint(
                feature_map=name,
                pairs=int(pairs),
                seeds=len(rows),
                loss=loss.value,
                loss_error=loss.error,
                mean_loss=mean.value,
                mean_loss_error=mean.error,
                floor=capacity_floor(int(pairs), FeatureMap.of(name).dimension(KEY_SIZE)),
                solved=int((rows["ended"] == "solved").sum()),
                steps=float(rows["steps"].mean()),
                published=float(published),
                published_steps=float(steps),
                status=str(Status.worst(map(Status, rows["status"]))),
            )
        )
    return tuple(points)
