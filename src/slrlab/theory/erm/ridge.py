r"""The best ridge of trained attention, and the whole map of ridges.

A grid of ridges needs hundreds of fixed points. Here the search runs over the variances
``(V_k, V_v)``: at fixed ``V`` four equations remain instead of six, the ridge that belongs to a
solution is read off as ``r_a = 1/V_a − V̂_a``, and the test risk is a smooth function that Newton's
method minimises in tens of fixed points. Where it would need a negative ridge, that ridge is 0 and
the other one is searched alone.

Two searches, from different starts and on independent samples, find two optima; they and the point
between them are compared on a third sample, and how much they differ is what the search may have
missed. Where the prox jumps too much for the theory to hold (weak ridges, few samples), the ridge
of the keys is raised until it holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from slrlab import _checks
from slrlab._plot import axes_of, draw_map, log_scale, mark_of, mark_statuses
from slrlab._result import Result, Status
from slrlab._types import FloatArray, Report
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task
from slrlab.numerics.minimise import newton_minimum
from slrlab.theory.erm.measure import Solution, no_solution
from slrlab.theory.erm.overlaps import ErmOverlaps
from slrlab.theory.erm.problem import Problem, Response
from slrlab.theory.erm.result import ErmTheory
from slrlab.theory.erm.solve import COARSE, Solver, checked
from slrlab.theory.erm.stability import MOST_GAP, jump_warning

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_SEARCH_SIZE, _FINAL_SIZE = 10, 11
_MANY_STEPS = 8  # of a solution, by which it shows that the response is out of date
_SMALLEST_LOG_V = -12.0  # a ridge of about 1e5: the vector is switched off
_SMALL_GAIN = 0.05  # of the tolerance: a search stops where it promises less
_OTHER_SAMPLE = 1 << 32  # added to the seed of the second search
_STRENGTHS = ((0.5, 2.0, 8.0, 0.1), (0.1, 2.0, 0.5, 8.0))  # first ridges of the two searches
_MARGIN, _RAISE, _MOST_RAISES = 0.9, 1.25, 30


@dataclass
class _Search:
    """The test risk as a function of the free variances, with warm starts between calls."""

    solver: Solver
    problem: Problem
    last: Solution
    least_gain: float
    response: Response | None = None
    solved: dict[tuple[float, ...], Solution] = field(default_factory=dict)

    def _fixed(self, log_v: FloatArray) -> Problem:
        """Return the problem with the free variances set."""
        values = iter(np.exp(log_v).tolist())
        return replace(
            self.problem,
            V_k=next(values) if self.problem.ridge_k is None else None,
            V_v=next(values) if self.problem.ridge_v is None else None,
        )

    def at(self, log_v: FloatArray) -> float:
        """Return the risk with the free variances set; infinite where nothing is found."""
        if np.min(log_v, initial=0.0) < _SMALLEST_LOG_V:
            return math.inf
        problem, start = self._fixed(log_v), self.last.overlaps
        solution = self.solver.solve(problem, start, _SEARCH_SIZE, response=self.response)
        self.solved[tuple(log_v)] = solution
        return problem.risk(solution.overlaps) if solution.settled else math.inf

    def around(self, centre: FloatArray) -> Callable[[FloatArray], float]:
        """Return the risk near a point that was solved: each prox goes on from its minimum there.

        Solutions start where the linear response at the centre predicts them.
        """
        self.last = last = self.solved[tuple(centre)]
        response = last.problem.response(last.channel, last.found.point, remembered=True)
        self.response = response

        def near(log_v: FloatArray) -> float:
            if np.min(log_v) < _SMALLEST_LOG_V:
                return math.inf
            solution = self.solver.near(self._fixed(log_v), last, response)
            return self.problem.risk(solution.overlaps) if solution.settled else math.inf

        return near

    def minimise(self) -> None:
        """Search from the last solution; afterwards the last solution is the one of least risk."""
        start = self.last.overlaps
        free = [
            math.log(V)
            for V, ridge in ((start.V_k, self.problem.ridge_k), (start.V_v, self.problem.ridge_v))
            if ridge is None
        ]
        self.response, self.solved = None, {}
        found = newton_minimum(
            self.at,
            np.array(free),
            around=self.around,
            difference=0.1,
            longest_step=1.2,
            tolerance=0.02,
            least_gain=self.least_gain,
            most=12,
        )
        self.last = self.solved[tuple(found.point)]

    @property
    def ridges(self) -> tuple[float, float]:
        """The ridges that belong to the last solution."""
        return self.last.problem.ridges(self.last.means, self.last.overlaps)

    def best(self) -> _Optimum:
        """Return the best non-negative ridges."""
        self.minimise()
        ridges = self.ridges
        while min(ridges) < 0.0:
            # a negative ridge is not allowed: pin the most negative one to 0, search the other
            free, worst = self.problem, int(np.argmin(ridges))
            free = replace(free, ridge_k=0.0) if worst == 0 else replace(free, ridge_v=0.0)
            self.problem = free
            if free.ridge_k is not None and free.ridge_v is not None:
                self.response = None
                self.at(np.empty(0))
                self.last = self.solved[()]
                ridges = (free.ridge_k, free.ridge_v)
                break
            self.minimise()
            ridges = self.ridges
        overlaps = self.last.overlaps
        edge = min(overlaps.V_k, overlaps.V_v) < math.exp(_SMALLEST_LOG_V + 0.5)
        return _Optimum(*ridges, overlaps, edge)


@dataclass(frozen=True)
class _Optimum:
    """Ridges of least risk, and the overlaps there; ``edge``: the risk falls on as one grows."""

    ridge_k: float
    ridge_v: float
    overlaps: ErmOverlaps
    edge: bool = False

    def between(self, other: _Optimum) -> _Optimum:
        """Return the ridges halfway to another optimum, on a logarithmic scale."""
        ridge_k, ridge_v = (
            math.sqrt(here * there)
            for here, there in ((self.ridge_k, other.ridge_k), (self.ridge_v, other.ridge_v))
        )
        return _Optimum(ridge_k, ridge_v, self.overlaps, self.edge and other.edge)


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
        With the optimal ridges in ``setting``. A ridge of exactly 0 means that the optimum
        lies at the boundary; status ``boundary`` that the risk still falls at the edge of the
        search: as a ridge grows, or as the ridge of the keys falls into the region where the
        theory cannot be trusted (``trace_gap`` above 0.03). The error of the test risk includes
        what the search may have missed.

    Examples
    --------
    >>> from slrlab import SpikedSLR, optimal_ridge
    >>> best = optimal_ridge(SpikedSLR(signal=2.0, length=3), "softmax", alpha=8.0)
    >>> print(f"{best.test_risk:.2f}", best.setting.ridge_k > 0.2, best.setting.ridge_v > 0.5)
    0.46 True True
    """
    chosen = checked(task, activation, alpha, tolerance)
    solver = Solver(task, chosen, seed, report)
    free = Problem(task, chosen, float(alpha))
    optima: list[_Optimum] = []
    for turn, own in enumerate((solver, Solver(task, chosen, seed + _OTHER_SAMPLE))):
        solver.report(turn, 4, f"best ridge: search {turn + 1} of 2")
        search = _first(own, free, start, optima, _STRENGTHS[turn], _SMALL_GAIN * tolerance)
        if search is not None:
            optima.append(search.best())
    if not optima:
        return no_solution(replace(free, ridge_k=math.nan, ridge_v=math.nan))
    solver.report(2, 4, "best ridge: comparison")
    best, missed = _best_of(solver, free, optima)
    trusted, uncertain = _trusted(solver, best, _SMALL_GAIN * tolerance)
    solver.report(3, 4, "best ridge: accuracy")
    starts = {"continued": trusted.overlaps, **solver.starts()}
    result = solver.best(trusted.problem, tolerance, starts)
    error = math.hypot(result.test_risk_error, missed, uncertain)
    result = replace(result, test_risk_error=error)
    if result.status is Status.SAMPLED and (uncertain or any(found.edge for found in optima)):
        result = replace(result, status=Status.BOUNDARY)
    return result.require() if strict else result


def _first(
    solver: Solver,
    problem: Problem,
    start: ErmTheory | None,
    found: list[_Optimum],
    strengths: tuple[float, ...],
    least_gain: float,
) -> _Search | None:
    """Return a search that begins at a solution: near ``start``, or at moderate ridges."""
    near = solver.starts(start)["informed" if start is None else "continued"]
    scale = max(near.m_v**2, 1e-3)
    ridges = [(strength, strength / scale) for strength in strengths]
    if start is not None:
        ridges.insert(0, (start.setting.ridge_k, start.setting.ridge_v))
        if found:  # one search from the neighbour is enough: the other checks the optimum itself
            ridges.insert(0, (found[0].ridge_k, found[0].ridge_v))
            near = found[0].overlaps
    for ridge_k, ridge_v in ridges:
        given = replace(problem, ridge_k=ridge_k, ridge_v=ridge_v)
        solution = solver.solve(given, near, _SEARCH_SIZE, global_prox=False)
        if solution.settled:
            return _Search(solver, problem, solution, least_gain)
    return None


def _best_of(solver: Solver, problem: Problem, optima: list[_Optimum]) -> tuple[Solution, float]:
    """Return the best of the optima and the point between them, on one larger sample.

    Also return what it may still miss. Each search misses the true optimum by ``δ``, at the cost
    ``½δHδ``; halfway between two independent ones half of that is left, and it is also what the
    halfway point gains on their mean. So the gain on the mean estimates what is missed.
    """
    candidates = [*optima, optima[0].between(optima[-1])]
    solutions: list[Solution] = []
    response = None
    for found in candidates:
        given = replace(problem, ridge_k=found.ridge_k, ridge_v=found.ridge_v)
        response = response or _response(solver, given, found.overlaps)
        solutions.append(solver.solve(given, found.overlaps, _FINAL_SIZE, response=response))
    risks = [
        solution.problem.risk(solution.overlaps) if solution.settled else math.inf
        for solution in solutions
    ]
    least = int(np.argmin(risks))
    finite = [risk for risk in risks[:-1] if math.isfinite(risk)]
    missed = float(np.mean(finite)) - risks[least] if finite else math.inf
    return solutions[least], missed


def _response(solver: Solver, problem: Problem, overlaps: ErmOverlaps) -> Response:
    """Return the linear response near a solution, from a small sample."""
    channel = problem.channel(solver.fields(COARSE), global_prox=True)
    return problem.response(channel, overlaps.to_vector())


def _trusted(solver: Solver, best: Solution, least_gain: float) -> tuple[Solution, float]:
    """Return the best solution at which the theory holds, and how uncertain its risk is.

    Where the ridge of the keys had to be raised, the ridge of the values is searched anew; the
    uncertainty is 0 where nothing was raised.
    """
    trusted, uncertain = _raised(solver, best)
    if not uncertain:
        return best, 0.0
    free = replace(trusted.problem, ridge_v=None)
    found = _Search(solver, free, trusted, least_gain).best()
    problem = replace(trusted.problem, ridge_v=found.ridge_v)
    response = _response(solver, problem, found.overlaps)
    moved = solver.solve(problem, found.overlaps, _FINAL_SIZE, response=response)
    if problem.risk(moved.overlaps) >= problem.risk(trusted.overlaps):
        return trusted, uncertain
    trusted, more = _raised(solver, moved)
    return trusted, max(uncertain, more)


def _raised(solver: Solver, now: Solution) -> tuple[Solution, float]:
    """Raise the ridge of the keys until the trace gap is small enough.

    The edge is known to one raise: also return what the last one changed in the risk.
    """
    uncertain, response = 0.0, None
    for _ in range(_MOST_RAISES):
        gap = jump_warning(now.means, now.problem.alpha, now.overlaps).trace_gap
        if gap <= _MARGIN * MOST_GAP:
            break
        factor = float(np.clip(gap / MOST_GAP, _RAISE, 2.0))  # shorter steps near the edge
        ridge_k = max(now.problem.ridge_k or 0.0, 1e-4) * factor
        problem = replace(now.problem, ridge_k=ridge_k)
        response = response or _response(solver, problem, now.overlaps)
        raised = solver.solve(problem, now.overlaps, _FINAL_SIZE, response=response)
        if raised.steps > _MANY_STEPS:
            response = None
        uncertain = abs(problem.risk(raised.overlaps) - problem.risk(now.overlaps))
        now = raised
    return now, uncertain


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
    return RidgeMap(status=Status.worst(point.status for point in points), points=tuple(points))
