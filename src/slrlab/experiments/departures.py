r"""Away from the paper's task, one parameter at a time: where softmax stops being optimal.

Each direction is a task with one more parameter that is spiked-SLR at one value of it. Along it
the risks of softmax and of the best activation of the atlas are compared with the Bayes risk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slrlab import _checks
from slrlab._plot import BAYES, axes_of, mark_of
from slrlab._result import Result, Status, plain
from slrlab._types import Axes, DataFrame, Report
from slrlab.experiments.atlas.activations import Kind
from slrlab.model.activations import ACTIVATIONS, make_activation
from slrlab.model.lengths import LengthLaw, LengthLike
from slrlab.model.neighbours import HardNegativeSLR, NeedlesSLR, VarianceSLR
from slrlab.model.tasks import Task
from slrlab.theory.population.bayes_risk import bayes_risk
from slrlab.theory.population.hit_rate import hit_rate
from slrlab.theory.population.minimal import PopulationRisk, minimal_risk

BEST = "best of the atlas"


@dataclass(frozen=True)
class Direction:
    """A family of tasks: the parameter, its value on spiked-SLR, and values for a figure."""

    task: Callable[..., Task]
    origin: float
    values: Callable[[LengthLaw], Sequence[float]]


DIRECTIONS: Mapping[str, Direction] = {
    "similarity": Direction(HardNegativeSLR, 0.0, lambda law: np.linspace(0.0, 1.0, 11).tolist()),
    "needles": Direction(NeedlesSLR, 1.0, lambda law: range(1, min(law.lengths) + 1)),
    "variance": Direction(VarianceSLR, 1.0, lambda law: np.geomspace(0.04, 25.0, 13).tolist()),
}
"""Directions by the name of their parameter."""


def best_activation(
    task: Task, activations: Sequence[Kind] | str | None = None, *, report: Report | None = None
) -> PopulationRisk:
    """Return the least risk of any activation of the atlas, with infinite data.

    Parameters
    ----------
    task
        The task.
    activations
        Names, expressions or activations, or names in one text with commas; None for all that are
        registered.
    report
        Called as ``report(done, total, label)`` while it runs.

    Returns
    -------
    PopulationRisk
        The least risk, and the activation and keys that have it.

    Examples
    --------
    >>> from slrlab import NeedlesSLR, best_activation
    >>> task = NeedlesSLR(signal=9.0, length=10, needles=3)
    >>> best = best_activation(task, ["softmax", "sigmoid", "linear"])
    >>> print(best.setting.activation_name, f"{best.risk:.4f}")
    sigmoid 0.1472
    """
    given = activations.split(",") if isinstance(activations, str) else activations
    kinds = [make_activation(kind) for kind in (ACTIVATIONS if given is None else given)]
    if not kinds:
        _checks.fail("activations", "names or activations", "an empty list")
    minima = []
    for done, kind in enumerate(kinds):
        if report is not None:
            report(done, len(kinds), "activations")
        minima.append(minimal_risk(task, kind))
    usable = [result for result in minima if result.status.usable] or minima
    return min(usable, key=lambda result: result.risk)


@dataclass(frozen=True)
class DeparturePoint:
    """Risks at one value of the parameter, with infinite data.

    Attributes
    ----------
    value
        The parameter.
    bayes_risk, bayes_error
        Bayes risk and its error.
    softmax_risk, softmax_error, softmax_m_k
        Least risk of softmax, its error and its key overlap.
    best, best_risk, best_error
        The activation of least risk, this risk and its error.
    hit_rate
        Probability that the largest score is that of a relevant token, for keys along ``k*``.
    """

    value: float
    bayes_risk: float
    bayes_error: float
    softmax_risk: float
    softmax_error: float
    softmax_m_k: float
    best: str
    best_risk: float
    best_error: float
    hit_rate: float

    @property
    def softmax_excess(self) -> float:
        """Risk of softmax above the Bayes risk."""
        return self.softmax_risk - self.bayes_risk


@dataclass(frozen=True)
class Departure(Result):
    """Risks along a direction away from spiked-SLR.

    Attributes
    ----------
    direction
        Name of the parameter that varies.
    points
        One for each value.
    activations
        A table with a row for each value and activation.
    """

    direction: str
    points: tuple[DeparturePoint, ...]
    activations: DataFrame

    def to_dict(self) -> dict[str, Any]:
        """Return the points as JSON-ready values."""
        rows = self.to_frame().to_dict("records")
        return {"status": str(self.status), "direction": self.direction, "rows": plain(rows)}

    def to_frame(self) -> DataFrame:
        """Return one row for each value."""
        import pandas as pd

        rows = [vars(point) | {"softmax_excess": point.softmax_excess} for point in self.points]
        return pd.DataFrame(rows).rename(columns={"value": self.direction})

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return columns and rows for people."""
        columns = [self.direction, "Bayes", "softmax", "excess", BEST, "which", "hit rate"]
        rows = [
            [
                f"{one.value:.4g}",
                f"{one.bayes_risk:.6f}",
                f"{one.softmax_risk:.6f}",
                f"{max(one.softmax_excess, 0.0):.2e}",
                f"{one.best_risk:.6f}",
                one.best,
                f"{one.hit_rate:.4f}",
            ]
            for one in self.points
        ]
        return columns, rows

    def __str__(self) -> str:
        return f"risks against {self.direction}, {self.status}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the three risks against the parameter."""
        axes, frame = axes_of(ax), self.to_frame()
        values = frame[self.direction]
        axes.plot(values, frame["bayes_risk"], **BAYES.line())
        axes.plot(values, frame["softmax_risk"], **mark_of("softmax").line())
        axes.plot(values, frame["best_risk"], color="#E69F00", marker="*", label=BEST)
        axes.set(xlabel=self.direction, ylabel="minimal risk")
        if self.direction == "variance":
            axes.set_xscale("log")
        axes.legend()
        return axes


def departure(
    direction: str,
    values: Sequence[float] | None = None,
    *,
    signal: float = 9.0,
    length: LengthLike = 10,
    noise: float = 0.0,
    activations: Sequence[Kind] | None = None,
    workers: int | None = 1,
    report: Report | None = None,
) -> Departure:
    r"""Return Bayes risk, softmax and the best of the atlas along one direction.

    Parameters
    ----------
    direction
        ``"similarity"`` (one hard negative), ``"needles"`` (several relevant tokens) or
        ``"variance"`` (of the relevant score).
    values
        Values of this parameter; None for a range that includes spiked-SLR.
    signal, length, noise
        The rest of the task.
    activations
        Among which the best is taken; None for all that are registered. Softmax is always there.
    workers, report
        As for `slrlab.compare`.

    Returns
    -------
    Departure
        A point for each value: three risks, the best activation and the hit rate.

    Examples
    --------
    >>> from slrlab import departure
    >>> result = departure("needles", [1, 2], activations=["softmax", "sigmoid"])
    >>> [(point.best, round(point.softmax_excess, 3)) for point in result.points]
    [('softmax', 0.0), ('sigmoid', 0.148)]
    """
    from slrlab.experiments.atlas.panel import atlas  # loads pandas

    chosen = DIRECTIONS[_checks.choice(direction, "direction", DIRECTIONS)]
    law = LengthLaw.of(length)
    points = list(chosen.values(law) if values is None else values)
    if not points:
        _checks.fail("values", "one or more numbers", "an empty list")
    panel = [_task(chosen, direction, value, signal, law, noise) for value in points]
    kinds = list(ACTIVATIONS if activations is None else activations)
    kinds = kinds if "softmax" in kinds else ["softmax", *kinds]
    frame = atlas(kinds, panel=panel, workers=workers, report=report)
    rows, statuses = frame.to_dict("records"), []
    results = []
    for index, (value, task) in enumerate(zip(points, panel, strict=True)):
        own = rows[index * len(kinds) : (index + 1) * len(kinds)]
        least, best = bayes_risk(task), min(own, key=lambda row: row["risk"])
        softmax = next(row for row in own if row["activation"] == "softmax")
        statuses += [least.status, *(Status(row["status"]) for row in (softmax, best))]
        results.append(
            DeparturePoint(
                value=float(value),
                bayes_risk=least.risk,
                bayes_error=least.error,
                softmax_risk=softmax["risk"],
                softmax_error=softmax["error"],
                softmax_m_k=softmax["m_k"],
                best=best["activation"],
                best_risk=best["risk"],
                best_error=best["error"],
                hit_rate=hit_rate(task),
            )
        )
    return Departure(
        status=Status.worst(statuses),
        direction=direction,
        points=tuple(results),
        activations=frame,
    )


def _task(
    chosen: Direction, direction: str, value: float, signal: float, law: LengthLaw, noise: float
) -> Task:
    """Return the task at a value; an error of the value names ``values``."""
    try:
        return chosen.task(signal, law, noise, **{direction: value})
    except (TypeError, ValueError) as error:
        name, must, rest = str(error).partition(" must ")
        raise type(error)(f"{'values' if name == direction else name}{must}{rest}") from None
