r"""The best ridges of trained attention.

The search runs over the variances ``(V_k, V_v)``: at fixed ``V`` four equations remain instead of
six, the ridge of a solution is ``r_a = 1/V_a − V̂_a``, and the test risk is a smooth function that
Newton's method minimises in tens of fixed points, where a grid of ridges needs hundreds. Where the
minimum has a negative ridge, that ridge is 0 and the other one is searched alone.

Two searches, from different starts and on independent samples, give two optima. They and the point
between them are compared on a third sample; their differences estimate what the search may have
missed. Where the prox jumps too much for the theory to hold (weak ridges, few samples), the ridge
of the keys is raised until it holds; a search that runs deep into that region ends there, and needs
no second one. At a kink of the activation the prox jumps at every ridge: there is nothing to raise,
and the optimum has the status that the theory gives it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from slrlab._errors import ComputationError
from slrlab._result import Status
from slrlab._types import FloatArray, Report
from slrlab.model.activation_code import activation_code
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task
from slrlab.numerics.minimise import newton_minimum
from slrlab.theory.erm.measure import Solution, no_solution
from slrlab.theory.erm.overlaps import ORDER, ErmOverlaps
from slrlab.theory.erm.problem import Problem, Response
from slrlab.theory.erm.raised import gap_of, raised, response_near
from slrlab.theory.erm.result import ErmTheory
from slrlab.theory.erm.solve import Solver, checked
from slrlab.theory.erm.stability import MOST_GAP

_SEARCH_SIZE, _FINAL_SIZE = 10, 11  # log2 of the size of a block
_ROUGH = 2e-2  # tolerance from which samples of half that size are enough
_SMALLEST_LOG_V = -12.0  # a ridge of about 1e5: the vector is zero
_LEAST_GAIN = 0.05  # fraction of the tolerance: the search stops at a smaller gain
_OTHER_SAMPLE = 1 << 32  # added to the seed of the second search
_STRENGTHS = ((0.5, 2.0, 8.0, 0.1), (0.1, 2.0, 0.5, 8.0))  # first ridges of the two searches
_RIDGES = ("ridge_k", "ridge_v")
_DEEP = 2.0  # ratio of the trace gap to its bound at which a search ends


@dataclass(frozen=True)
class _Optimum:
    """Ridges of least risk, and the overlaps there.

    ``edge``: the risk still falls as one grows. ``deep``: the theory does not hold there, and the
    search ended before its minimum.
    """

    ridge_k: float
    ridge_v: float
    overlaps: ErmOverlaps
    edge: bool = False
    deep: bool = False

    def between(self, other: _Optimum) -> _Optimum:
        """Return the ridges halfway to another optimum, on a logarithmic scale."""
        ridge_k = math.sqrt(self.ridge_k * other.ridge_k)
        ridge_v = math.sqrt(self.ridge_v * other.ridge_v)
        return _Optimum(ridge_k, ridge_v, self.overlaps, self.edge and other.edge)


@dataclass
class _Search:
    """The test risk as a function of the free variances, with warm starts between calls."""

    solver: Solver
    problem: Problem
    last: Solution
    least_gain: float
    size: int
    kinked: bool = False
    response: Response | None = None
    gap: float = math.inf
    deep: bool = False
    solved: dict[tuple[float, ...], Solution] = field(default_factory=dict)

    def _fixed(self, log_v: FloatArray) -> Problem:
        """Return the problem with the free variances set."""
        values = iter(np.exp(log_v).tolist())
        return replace(
            self.problem,
            V_k=next(values) if self.problem.ridge_k is None else self.problem.V_k,
            V_v=next(values) if self.problem.ridge_v is None else None,
        )

    def at(self, log_v: FloatArray) -> float:
        """Return the risk with the free variances set; infinite where there is no solution."""
        if np.min(log_v, initial=0.0) < _SMALLEST_LOG_V:
            return math.inf
        problem, start = self._fixed(log_v), self.last.overlaps
        solution = self.solver.solve(problem, start, self.size, response=self.response)
        self.solved[tuple(log_v)] = solution
        return solution.risk

    def around(self, centre: FloatArray) -> Callable[[FloatArray], float]:
        """Return the risk around a point that was solved, by linear response and cheap searches.

        Solutions start where the response predicts them, each prox from its minimum at the centre.
        Where the theory holds less and less, there are none: the search ends.
        """
        self.last = last = self.solved[tuple(centre)]
        before, self.gap = self.gap, gap_of(last)
        deep = self.gap >= max(before, _DEEP * MOST_GAP)
        self.deep = deep and self.problem.V_k is None and not self.kinked
        if self.deep:
            return lambda log_v: math.inf
        response = last.problem.response(last.channel, last.fixed_point.point, remembered=True)
        self.response = response

        def risk(log_v: FloatArray) -> float:
            if np.min(log_v) < _SMALLEST_LOG_V:
                return math.inf
            return self.solver.solve_near(self._fixed(log_v), last, response).risk

        return risk

    def minimise(self) -> None:
        """Search from the last solution; afterwards the last solution is the one of least risk."""
        start, problem = self.last.overlaps, self.problem
        pairs = ((start.V_k, problem.ridge_k), (start.V_v, problem.ridge_v))
        self.response, self.solved, self.gap = None, {}, math.inf
        minimum = newton_minimum(
            self.at,
            np.array([math.log(V) for V, ridge in pairs if ridge is None]),
            around=self.around,
            difference=0.1,
            longest_step=1.2,
            tolerance=0.02,
            least_gain=self.least_gain,
            max_steps=12,
        )
        if tuple(minimum.point) not in self.solved:  # it starts beyond the smallest variance
            raise ComputationError("the search for the best ridge starts where nothing is learned")
        self.last = self.solved[tuple(minimum.point)]

    @property
    def ridges(self) -> tuple[float, float]:
        """The ridges of the last solution."""
        return self.last.problem.ridges(self.last.means, self.last.overlaps)

    def best(self) -> _Optimum:
        """Return the best non-negative ridges."""
        self.minimise()
        while min(self.ridges) < 0.0 and not self.deep:
            # the most negative ridge becomes 0, the other one is searched again
            ridge_k, ridge_v = self.ridges
            free = self.problem
            free = replace(free, ridge_k=0.0) if ridge_k <= ridge_v else replace(free, ridge_v=0.0)
            self.problem = free
            if None not in (free.ridge_k, free.ridge_v):
                self.response = None
                self.at(np.empty(0))
                self.last = self.solved[()]
                break
            self.minimise()
        overlaps = self.last.overlaps
        edge = min(overlaps.V_k, overlaps.V_v) < math.exp(_SMALLEST_LOG_V + 0.5)
        ridge_k, ridge_v = (max(ridge, 0.0) for ridge in self.ridges)
        return _Optimum(ridge_k, ridge_v, overlaps, edge, self.deep)


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
        A neighbouring optimum, from which the search starts.

    Returns
    -------
    ErmTheory
        With the optimal ridges in ``setting``. A ridge of exactly 0 means that the optimum
        lies at the boundary, or for keys that their length has no effect. Status ``boundary``
        means that the risk still falls at the edge of the search: as a ridge grows, or as the ridge
        of the keys falls into the region where the theory does not hold (``trace_gap`` above 0.03).
        An activation with kinks (ReLU, sparsemax) has no such edge, as its prox jumps at every
        ridge: its optimum may be ``unstable``, between ``test_risk_low`` and ``test_risk_high``.
        The error of the test risk includes what the search may have missed.

    Examples
    --------
    >>> from slrlab import SpikedSLR, optimal_ridge
    >>> best = optimal_ridge(SpikedSLR(signal=2.0, length=3), "softmax", alpha=8.0)
    >>> print(f"{best.test_risk:.2f}", best.setting.ridge_k > 0.2, best.setting.ridge_v > 0.5)
    0.46 True True
    """
    chosen = checked(task, activation, alpha, tolerance)
    solver = Solver(task, chosen, seed, report)
    free = Problem.of(task, chosen, float(alpha))
    kinked = activation_code(chosen).rounded
    optima: list[_Optimum] = []
    least_gain = _LEAST_GAIN * tolerance
    size, final = (n - (tolerance >= _ROUGH) for n in (_SEARCH_SIZE, _FINAL_SIZE))
    for turn, own in enumerate((solver, Solver(task, chosen, seed + _OTHER_SAMPLE))):
        solver.report(turn, 4, f"best ridge: search {turn + 1} of 2")
        first = _first_solution(own, free, start, optima, _STRENGTHS[turn], size)
        if first is not None:
            optima.append(_Search(own, free, first, least_gain, size, kinked).best())
        if optima and optima[0].deep:
            break
    if not optima:
        return no_solution(free)
    solver.report(2, 4, "best ridge: comparison")
    best, missed, apart = _best_of(solver, free, optima, final)
    trusted, below = best, None  # at kinks no ridge makes the theory hold
    if not kinked:
        trusted, below = _trusted(solver, best, least_gain, size, final)
    uncertain = 0.0
    if below is not None:  # the position of the edge is known to within one raise
        uncertain = abs(trusted.problem.risk(trusted.overlaps) - below.problem.risk(below.overlaps))
        apart = _apart(trusted, below)
    solver.report(3, 4, "best ridge: accuracy")
    starts = {"continued": trusted.overlaps, **solver.starts()}
    result = solver.best(trusted.problem, tolerance, starts)
    error = math.hypot(result.test_risk_error, missed, uncertain)
    errors = {name: math.hypot(result.errors.get(name, 0.0), apart[name]) for name in apart}
    result = replace(result, test_risk_error=error, errors=errors)
    at_edge = below is not None or any(optimum.edge for optimum in optima)
    if result.status is Status.SAMPLED and at_edge:
        result = replace(result, status=Status.BOUNDARY)
    return result.require() if strict else result


def _first_solution(
    solver: Solver,
    problem: Problem,
    start: ErmTheory | None,
    optima: list[_Optimum],
    strengths: tuple[float, ...],
    size: int,
) -> Solution | None:
    """Return a solution at which a search can start: near ``start``, or at moderate ridges."""
    overlaps = solver.starts(start)["informed" if start is None else "continued"]
    scale = max(overlaps.m_v**2, 1e-3)
    ridges = [(strength, strength / scale) for strength in strengths]
    if start is not None:
        ridges.insert(0, (start.setting.ridge_k, start.setting.ridge_v))
        if optima:  # the first search came from the neighbour: the second one checks its optimum
            ridges.insert(0, (optima[0].ridge_k, optima[0].ridge_v))
            overlaps = optima[0].overlaps
    for ridge_k, ridge_v in ridges:
        given = replace(problem, ridge_k=ridge_k, ridge_v=ridge_v)
        if problem.ridge_k is not None:  # keys of any length are as good
            given = replace(given, ridge_k=problem.ridge_k)
        solution = solver.solve(given, overlaps, size, global_prox=False)
        if solution.settled:
            return solution
    return None


def _best_of(
    solver: Solver, problem: Problem, optima: list[_Optimum], size: int
) -> tuple[Solution, float, dict[str, float]]:
    """Return the best of the optima and the point between them, on one larger sample.

    Also return what it may still miss. Each search misses the true optimum by ``δ``, at the cost
    ``½δHδ``. Halfway between two independent optima half of that is left, and the risk there is
    below their mean by as much: this difference estimates what is missed. The risk is flat around
    the optimum, so ``δ`` itself is larger: the third value is its estimate for each quantity.
    """
    solutions: list[Solution] = []
    response = None
    between = [optima[0].between(optima[1])] if len(optima) > 1 else []
    for optimum in (*optima, *between):
        given = replace(problem, ridge_k=optimum.ridge_k, ridge_v=optimum.ridge_v)
        response = response or response_near(solver, given, optimum.overlaps)
        solutions.append(solver.solve(given, optimum.overlaps, size, response=response))
    risks = [solution.risk for solution in solutions]
    least = int(np.argmin(risks))
    finite = [risk for risk in risks[: len(optima)] if math.isfinite(risk)]
    missed = float(np.mean(finite)) - risks[least] if finite else math.inf
    return solutions[least], missed, _apart(solutions[0], solutions[len(optima) - 1])


def _apart(one: Solution, other: Solution) -> dict[str, float]:
    """Return an error for each quantity, given two solutions with that error: they differ by √2."""
    first, second = _quantities(one), _quantities(other)
    apart = {name: abs(first[name] - second[name]) / math.sqrt(2.0) for name in first}
    shares = [apart[name] / max(first[name], second[name]) for name in _RIDGES if first[name] > 0.0]
    # one difference can be small by chance: the ridges share the mean square of both
    share = math.sqrt(sum(part**2 for part in shares) / len(shares)) if shares else 0.0
    return apart | {name: max(apart[name], share * first[name]) for name in _RIDGES}


def _quantities(solution: Solution) -> dict[str, float]:
    """Return what has an error at an optimum."""
    problem, overlaps, means = solution.problem, solution.overlaps, solution.means
    own = {"train_mse": means.mean("LOSS"), "objective": problem.objective(means, overlaps)}
    own |= dict(zip(_RIDGES, problem.ridges(means, overlaps), strict=True))
    return own | {name: getattr(overlaps, name) for name in ORDER}


def _trusted(
    solver: Solver, best: Solution, least_gain: float, size: int, final: int
) -> tuple[Solution, Solution | None]:
    """Return the best solution at which the theory holds, and one below that at which it does not.

    If the ridge of the keys had to be raised, the ridge of the values is searched again; else the
    second one is None.
    """
    if best.problem.V_k is not None:  # a ridge of the keys has no effect
        return best, None
    trusted, below = raised(solver, best, final)
    if below is None or not trusted.settled:
        return trusted, below
    free = replace(trusted.problem, ridge_v=None)
    optimum = _Search(solver, free, trusted, least_gain, size).best()
    problem = replace(trusted.problem, ridge_v=optimum.ridge_v)
    response = response_near(solver, problem, optimum.overlaps)
    moved = solver.solve(problem, optimum.overlaps, final, response=response)
    if moved.risk >= trusted.risk:
        return trusted, below
    again, more = raised(solver, moved, final)
    return (again, more) if more is not None else (moved, below)
