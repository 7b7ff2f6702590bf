"""Trained attention on a grid of ridges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slrlab import _checks
from slrlab._plot import axes_of, draw_map, log_scale, mark_of, mark_statuses
from slrlab._result import Result, Status
from slrlab._types import Axes, DataFrame, FloatArray, Report
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task
from slrlab.theory.erm.problem import Problem
from slrlab.theory.erm.result import ErmTheory
from slrlab.theory.erm.solve import Solver, checked


@dataclass(frozen=True)
class RidgeMap(Result):
    """Trained attention on a grid of ridges."""

    points: tuple[ErmTheory, ...]

    def to_frame(self) -> DataFrame:
        """Return one row for each pair of ridges."""
        import pandas as pd

        rows = [point.to_dict() for point in self.points]
        return pd.DataFrame(rows).drop(columns=["branches", "errors"])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the test risk over the plane of ridges; symbols mark statuses other than sampled."""
        axes, frame = axes_of(ax), self.to_frame()
        if min(frame["ridge_k"].nunique(), frame["ridge_v"].nunique()) == 1:
            return self._plot_line(axes, frame)
        grid = frame.pivot(index="ridge_v", columns="ridge_k", values="test_risk").astype(float)
        draw_map(axes, grid.columns, grid.index, grid.to_numpy(), "test risk")
        mark_statuses(axes, frame["ridge_k"], frame["ridge_v"], frame["status"])
        axes.set_xscale(**log_scale(grid.columns))
        axes.set_yscale(**log_scale(grid.index))
        axes.set(xlabel="ridge of the keys $r_k$", ylabel="ridge of the values $r_v$")
        if axes.get_legend_handles_labels()[1]:
            axes.legend()
        return axes

    def _plot_line(self, axes: Axes, frame: DataFrame) -> Axes:
        """Draw the test risk against the one ridge that varies."""
        name = "ridge_k" if frame["ridge_k"].nunique() > 1 else "ridge_v"
        line = frame.sort_values(name).astype({"test_risk": float, "test_risk_error": float})
        look = mark_of(self.points[0].setting.activation_name).line(capsize=2)
        axes.errorbar(line[name], line["test_risk"], yerr=line["test_risk_error"], **look)
        mark_statuses(axes, line[name], line["test_risk"], line["status"])
        axes.set_xscale(**log_scale(line[name]))
        axes.set(xlabel=f"${name[0]}_{name[-1]}$", ylabel="test risk")
        axes.legend()
        return axes


def ridge_map(
    task: Task,
    activation: Activation | str,
    *,
    alpha: float,
    ridge_k: Sequence[float] | FloatArray,
    ridge_v: Sequence[float] | FloatArray,
    tolerance: float = 3e-3,
    seed: int = 0,
    report: Report | None = None,
) -> RidgeMap:
    """Return trained attention for every pair of ridges, each continued from its neighbour.

    Parameters
    ----------
    task, activation
        The task, and the activation that is trained.
    alpha
        Samples per dimension.
    ridge_k, ridge_v
        Ridges of keys and of values; every pair is computed.
    tolerance
        Standard error asked of the test risk.
    seed
        Seed of the samples.
    report
        Called with the progress.

    Returns
    -------
    RidgeMap
        Trained attention at every pair.

    Examples
    --------
    >>> from slrlab import SpikedSLR, ridge_map
    >>> task = SpikedSLR(signal=2.0, length=2)
    >>> grid = ridge_map(task, "linear", alpha=4.0, ridge_k=[0.5, 1.0], ridge_v=[0.5])
    >>> len(grid.points), grid.status
    (2, <Status.SAMPLED: 'sampled'>)
    """
    chosen = checked(task, activation, alpha, tolerance)
    solver = Solver(task, chosen, seed)
    rows = [_checks.non_negative(float(r), "ridge_v") for r in ridge_v]
    columns = [_checks.non_negative(float(r), "ridge_k") for r in ridge_k]
    points: list[ErmTheory] = []
    neighbour: ErmTheory | None = None
    for turn, r_v in enumerate(sorted(rows, reverse=True)):
        # every other row runs backwards: the next point is always a neighbour of the last
        for r_k in sorted(columns, reverse=turn % 2 == 0):
            problem = Problem.of(task, chosen, float(alpha), ridge_k=r_k, ridge_v=r_v)
            point = solver.best(problem, tolerance, solver.starts(neighbour))
            neighbour = point if point.status.usable else neighbour
            points.append(point)
            if report is not None:
                report(len(points), len(rows) * len(columns), f"ridges of {chosen.name}")
    return RidgeMap(status=Status.worst(point.status for point in points), points=tuple(points))
