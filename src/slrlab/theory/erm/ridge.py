r"""The best ridge of trained attention, and the whole map of ridges.

A grid of ridges needs hundreds of fixed points. Here the search runs over the variances
``(V_k, V_v)``: at fixed ``V`` four equations remain instead of six, the ridge that belongs to a
solution is read off as ``r_a = 1/V_a − V̂_a``, and the test risk is a smooth function with one
minimum that Newton's method finds in tens of fixed points. Where it would need a negative ridge,
that ridge is 0 and the other one is searched alone. Where the prox jumps too much for the theory to
hold (weak ridges, few samples), a toll keeps the search on the side that can be trusted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from slrlab import _checks
from slrlab._plot import axes_of, draw_map, log_scale, mark_of, mark_statuses
from slrlab._result import Result, Status
from slrlab.model.activations import Activation
from slrlab.model.lengths import FloatArray
from slrlab.model.tasks import Task
from slrlab.numerics.minimise import newton_minimum
from slrlab.theory.erm.equations import ChannelMeans
from slrlab.theory.erm.measure import Solution, no_solution
from slrlab.theory.erm.problem import Problem
from slrlab.theory.erm.result import ErmTheory
from slrlab.theory.erm.solve import Report, Solver, checked
from slrlab.theory.erm.stability import jump_warning

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_SEARCH_SIZE = 10
_MANY_JUMPS = 1e-3  # share of samples
_FREE_GAP, _STEEP = 0.05, 10.0  # where the toll on the trace gap begins, and its curvature
_SMALLEST_LOG_V = -12.0  # a ridge of about 1e5: the vector is switched off


@dataclass
class _Search:
    """The test risk as a function of the free variances, with warm starts between calls."""

    solver: Solver
    problem: Problem
    last: Solution
    global_prox: bool = False
    solved: int = 0

    def at(self, log_v: FloatArray) -> float:
        """Return the risk with the free variances set; infinite where nothing is found."""
        values = iter(np.exp(np.asarray(log_v, dtype=float)).tolist())
        problem = replace(
            self.problem,
            V_k=next(values) if self.problem.ridge_k is None else None,
            V_v=next(values) if self.problem.ridge_v is None else None,
        )
        if np.min(log_v, initial=0.0) < _SMALLEST_LOG_V:
            return math.inf
        self.solved += 1
        solution = self.solver.solve(
            problem, self.last.overlaps, _SEARCH_SIZE, global_prox=self.global_prox
        )
        if not solution.settled:
            return math.inf
        self.last = solution
        return problem.risk(solution.overlaps) + _STEEP * self._excess_gap() ** 2

    def _excess_gap(self) -> float:
        """Return by how much the trace gap exceeds what is free of toll."""
        if not self.global_prox:
            return 0.0
        means, overlaps = self.means(global_prox=True), self.last.overlaps
        gap = jump_warning(means, self.problem.alpha, overlaps).trace_gap
        return max(0.0, gap - _FREE_GAP)

    @property
    def at_edge(self) -> bool:
        """Whether the minimum leans on the edge of the search or of what can be trusted."""
        smallest = min(self.last.overlaps.V_k, self.last.overlaps.V_v)
        return smallest < math.exp(_SMALLEST_LOG_V + 0.5) or self._excess_gap() > 0.0

    def minimise(self) -> None:
        """Search from the last solution; afterwards the last solution is the one of least risk."""
        start = self.last.overlaps
        free = [
            math.log(V)
            for V, ridge in ((start.V_k, self.problem.ridge_k), (start.V_v, self.problem.ridge_v))
            if ridge is None
        ]
        found = newton_minimum(
            self.at,
            np.array(free),
            difference=0.1,
            longest_step=0.8,
            tolerance=0.02,
            most=12,
        )
        self.at(found.point)

    def means(self, global_prox: bool) -> ChannelMeans:
        """Return the averages at the last solution."""
        channel = self.last.problem.channel(self.last.fields, global_prox=global_prox)
        return channel.means(self.last.overlaps)

    @property
    def ridges(self) -> tuple[float, float]:
        """The ridges that belong to the last solution."""
        return self.last.problem.ridges(self.means(self.global_prox), self.last.overlaps)


def optimal_ridge(
    task: Task,
    activation: Activation | str,
    *,
    alpha: float,
    tolerance: float = 1e-3,
    start: ErmTheory | None = None,
    seed: int = 0,
    strict: bool = False,
    report: Report | None = None,
) -> ErmTheory:
    r"""Return trained attention at the ridges ``(r_k, r_v)`` of least test risk.

    Parameters
    ----------
    task, activation, alpha, tolerance, seed, strict, report
        As for `erm_theory`.
    start
        A neighbouring optimum to begin from.

    Returns
    -------
    ErmTheory
        With ``ridge_k``, ``ridge_v`` the optimum. A ridge of exactly 0 means that the optimum
        lies at the boundary; status ``boundary`` that the risk still falls at the edge of the
        search: as a ridge grows, or into the region where the theory cannot be trusted.

    Examples
    --------
    >>> from slrlab import SpikedSLR, optimal_ridge
    >>> best = optimal_ridge(SpikedSLR(signal=2.0, length=3), "softmax", alpha=8.0)
    >>> print(f"{best.test_risk:.2f}", best.ridge_k > 0.2, best.ridge_v > 0.5)
    0.46 True True
    """
    chosen = checked(task, activation, alpha, tolerance)
    solver = Solver(task, chosen, seed, report)
    search = _first(solver, Problem(task, chosen, float(alpha)), start)
    if search is None:
        return no_solution(Problem(task, chosen, float(alpha), math.nan, math.nan))
    solver.report(1, 4, "best ridge: search")
    ridge_k, ridge_v = _search(search)
    solver.report(3, 4, f"best ridge: {search.solved} fixed points")
    problem = Problem(task, chosen, float(alpha), ridge_k=ridge_k, ridge_v=ridge_v)
    starts = {"continued": search.last.overlaps, **solver.starts()}
    result = solver.best(problem, tolerance, starts)
    if search.at_edge and result.status is Status.SAMPLED:
        result = replace(result, status=Status.BOUNDARY)
    return result.require() if strict else result


def _first(solver: Solver, problem: Problem, start: ErmTheory | None) -> _Search | None:
    """Return a search that stands on a solution at moderate ridges."""
    informed = solver.starts(start)["informed" if start is None else "continued"]
    scale = max(informed.m_v**2, 1e-3)
    for strength in (0.5, 2.0, 8.0, 0.1):
        given = replace(problem, ridge_k=strength, ridge_v=strength / scale)
        if start is not None:
            given = replace(problem, ridge_k=start.ridge_k, ridge_v=start.ridge_v)
        solution = solver.solve(given, informed, _SEARCH_SIZE, global_prox=False)
        if solution.settled:
            return _Search(solver, problem, solution)
        start = None
    return None


def _search(search: _Search) -> tuple[float, float]:
    """Return the best non-negative ridges."""
    search.minimise()
    if search.means(global_prox=True).mean("JUMPED") > _MANY_JUMPS:
        search.global_prox = True  # the cheap prox misses too many lower minima
        search.minimise()
    ridges = search.ridges
    while min(ridges) < 0.0:
        # a negative ridge is not allowed: pin the most negative one to 0, search the other
        free, worst = search.problem, int(np.argmin(ridges))
        free = replace(free, ridge_k=0.0) if worst == 0 else replace(free, ridge_v=0.0)
        search.problem = free
        if free.ridge_k is not None and free.ridge_v is not None:
            search.at(np.empty(0))
            break
        search.minimise()
        ridges = search.ridges
    return max(search.ridges[0], 0.0), max(search.ridges[1], 0.0)


@dataclass(frozen=True)
class RidgeMap(Result):
    """Trained attention on a grid of ridges."""

    points: tuple[ErmTheory, ...]

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each pair of ridges."""
        import pandas as pd

        rows = [point.to_dict() for point in self.points]
        return pd.DataFrame(rows).drop(columns=["branches", "errors"])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the test risk over the plane of ridges; signs mark statuses other than sampled."""
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

    def _plot_line(self, axes: Axes, frame: pd.DataFrame) -> Axes:
        """Draw the test risk against the one ridge that varies."""
        name = "ridge_k" if frame["ridge_k"].nunique() > 1 else "ridge_v"
        line = frame.sort_values(name).astype({"test_risk": float, "test_risk_error": float})
        look = mark_of(self.points[0].activation).line(capsize=2)
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

    Examples
    --------
    >>> from slrlab import SpikedSLR, ridge_map
    >>> task = SpikedSLR(signal=2.0, length=2)
    >>> found = ridge_map(task, "linear", alpha=4.0, ridge_k=[0.5, 1.0], ridge_v=[0.5])
    >>> len(found.points), found.status
    (2, <Status.SAMPLED: 'sampled'>)
    """
    chosen = checked(task, activation, alpha, tolerance)
    solver = Solver(task, chosen, seed)
    rows = [_checks.non_negative(float(r), "ridge_v") for r in ridge_v]
    columns = [_checks.non_negative(float(r), "ridge_k") for r in ridge_k]
    points: list[ErmTheory] = []
    tell = report or (lambda done, total, label: None)
    near: ErmTheory | None = None
    for turn, r_v in enumerate(sorted(rows, reverse=True)):
        # there and back again: the next point is always a neighbour of the last
        for r_k in sorted(columns, reverse=turn % 2 == 0):
            problem = Problem(task, chosen, float(alpha), ridge_k=r_k, ridge_v=r_v)
            point = solver.best(problem, tolerance, solver.starts(near))
            near = point if point.status.usable else near
            points.append(point)
            tell(len(points), len(rows) * len(columns), f"ridges of {chosen.name}")
    worst = max((point.status for point in points), key=list(Status).index)
    return RidgeMap(worst, tuple(points))
