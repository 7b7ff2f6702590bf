r"""Fixed points of the state evolution of trained attention, with honest error bars.

A small sample finds every fixed point from several starts; the one of lowest training objective is
the prediction. It is then solved on larger samples until the standard error of the test risk is
what was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import cast

import numpy as np

from slrlab import _checks
from slrlab._result import Status
from slrlab._types import FloatArray, Report
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task
from slrlab.numerics.fixed_point import FixedPoint, fixed_point
from slrlab.theory.erm.equations import STIFFNESSES, Channel, Stiffness
from slrlab.theory.erm.fields import BLOCKS, FieldSample, draw_fields
from slrlab.theory.erm.measure import Solution, branch_of, measure, no_solution
from slrlab.theory.erm.overlaps import Coordinate, ErmOverlaps
from slrlab.theory.erm.problem import Problem, Response
from slrlab.theory.erm.result import ErmBranch, ErmTheory
from slrlab.theory.erm.stability import MOST_GAP
from slrlab.theory.population import minimal

COARSE, FINE, FINEST = 9, 11, 17  # log2 of the size of a block
_TOLERANCE, _JUMPY = 1e-6, 2e-5
_FEW_JUMPS = 3e-4  # share of samples with several minima below which the map is smooth
_SAME = 1e-3  # distance of two solutions that differ by the residual alone
_MOST_SEARCHES = 8  # of all samples, in one solution
_ROUGH = 5e-3  # accuracy for which a small sample may do
_LONGEST = 5000  # the Sobol sequence has 21201 dimensions
_ALIGNED = [Coordinate.M_K, Coordinate.M_V]  # what tells fixed points apart
_MOST_TOKENS = 2**24  # in one sample: 400 MB


def erm_theory(
    task: Task,
    activation: Activation | str,
    *,
    alpha: float,
    ridge_k: float,
    ridge_v: float,
    tolerance: float = 3e-4,
    stiffness: Stiffness = "stein",
    start: ErmTheory | None = None,
    seed: int = 0,
    strict: bool = False,
    report: Report | None = None,
) -> ErmTheory:
    r"""Return the exact asymptotics of attention trained on ``N = αD`` sequences.

    Solves the replica-symmetric state evolution of

    ``min_{k,v} ½Σ(y − σ(Xk/√D)ᵀXv/√D)² + ½ r_k|k|² + ½ r_v|v|²``

    on the manifold M, where ``k`` overlaps with ``k*`` alone and ``v`` with ``v*`` alone. A free
    bias (erf) is learned along with the vectors. The averages are randomised quasi-Monte Carlo:
    every number has an error bar, and the sample grows until the test risk is as accurate as asked.

    Parameters
    ----------
    task, activation
        What is learned, and by which attention.
    alpha
        Training sequences per dimension, ``N/D > 0``.
    ridge_k, ridge_v
        Ridge penalties ``>= 0`` of keys and values.
    tolerance
        Standard error asked of the test risk; order parameters get three times as much,
        relative to their size where that is above 1.
    stiffness
        The form of ``V̂`` in the equations. ``stein`` counts the jumps of the prox and follows
        training from random starts; ``trace`` does not and lies below training from the teachers.
        They differ only where the prox jumps; the result gives both risks as an interval.
    start
        A neighbouring solution to continue from, tried beside the usual starts.
    seed
        Seed of the sample.
    strict
        Raise `slrlab.ComputationError` where the result is not to be trusted.
    report
        Called as ``report(done, total, label)`` while the computation runs.

    Raises
    ------
    ValueError
        If a number is out of range, or the signal of a tilted task is infinite.

    Examples
    --------
    >>> from slrlab import SpikedSLR, erm_theory
    >>> task = SpikedSLR(signal=2.0, length=3)
    >>> found = erm_theory(task, "softmax", alpha=8.0, ridge_k=0.4, ridge_v=0.8)
    >>> print(f"{found.test_risk:.2f}", found.stable, found.status)
    0.46 True sampled
    """
    chosen = checked(task, activation, alpha, tolerance)
    problem = Problem(
        task,
        chosen,
        float(alpha),
        ridge_k=_checks.non_negative(ridge_k, "ridge_k"),
        ridge_v=_checks.non_negative(ridge_v, "ridge_v"),
        stiffness=cast("Stiffness", _checks.choice(stiffness, "stiffness", STIFFNESSES)),
    )
    solver = Solver(task, chosen, seed, report)
    result = solver.best(problem, tolerance, solver.starts(start), allowance=3.0)
    return result.require() if strict else result


def checked(task: Task, activation: Activation | str, alpha: float, tolerance: float) -> Activation:
    """Validate what every function of trained attention takes and return the activation."""
    chosen = minimal.checked(task, activation, tolerance)
    _checks.positive(alpha, "alpha")
    if math.isinf(task.signal) and task.gaussian_shift is not None:
        raise ValueError("signal must be finite for this task at finite alpha, got inf")
    if task.length.longest > _LONGEST:
        raise ValueError(f"length must be at most {_LONGEST} at finite alpha, got {task.length}")
    return chosen.without_idle_bias()


class Solver:
    """Solves `Problem`s of one task and activation, sharing the samples between them."""

    def __init__(
        self, task: Task, activation: Activation, seed: int, report: Report | None = None
    ) -> None:
        self.task = task
        self.activation = activation
        self.seed = _checks.integer(seed, "seed", low=0)
        self.report = report or (lambda done, total, label: None)
        self._samples: dict[int, FieldSample] = {}

    def fields(self, log2_size: int) -> FieldSample:
        """Return the sample with blocks of about ``2**log2_size`` sequences."""
        if log2_size not in self._samples:
            self._samples[log2_size] = draw_fields(self.task, log2_size, self.seed)
        return self._samples[log2_size]

    @cached_property
    def _ideal(self) -> minimal.PopulationRisk:
        """The population optimum, near which an informed start begins."""
        finite = self.task if math.isfinite(self.task.signal) else replace(self.task, signal=20.0)
        return minimal.minimal_risk(finite, self.activation, tolerance=1e-6)

    def starts(self, neighbour: ErmTheory | None = None) -> dict[str, ErmOverlaps]:
        """Return where to begin: near the population optimum, knowing nothing, keys reversed."""
        ideal = self._ideal
        m_k = float(np.clip(ideal.m_k, -2.5, 2.5)) or 1.0
        m_v = float(np.clip(ideal.m_v, -2.5, 2.5)) or 1.0
        # a given bias belongs to the activation, only a learned one to the overlaps
        learned = self.activation.bias is None
        bias = float(np.clip(ideal.bias, -3.0, 3.0)) if learned else 0.0
        informed = ErmOverlaps(
            m_k=m_k,
            q_k=1.2 * m_k**2,
            V_k=0.5,
            m_v=m_v,
            q_v=1.2 * m_v**2,
            V_v=0.5 * m_v**2,
            bias=bias,
        )
        found = {
            "informed": informed,
            "uninformed": replace(informed, m_k=0.01, q_k=0.1, m_v=0.3 * m_v),
            "mismatched": replace(informed, m_k=-m_k),
        }
        if neighbour is not None:
            near = ErmOverlaps(
                m_k=neighbour.m_k,
                q_k=neighbour.q_k,
                V_k=neighbour.V_k,
                m_v=neighbour.m_v,
                q_v=neighbour.q_v,
                V_v=neighbour.V_v,
                bias=neighbour.bias if learned else 0.0,
            )
            found = {"continued": near, **found}
        return found

    def solve(
        self,
        problem: Problem,
        start: ErmOverlaps,
        log2_size: int,
        *,
        global_prox: bool = True,
        response: Response | None = None,
    ) -> Solution:
        """Return the fixed point reached from a start.

        The prox is first followed from the field alone, which is several times cheaper and knows
        no jumps; the global search then goes on from there, and if that fails once more from the
        solution without the share of the jumps. With the ``response`` of a neighbour, or of a
        smaller sample, the iteration begins where that predicts the solution and becomes a Newton
        method with a fixed Jacobian: then the global search comes first.
        """
        x = _predicted(problem, start, response)
        paths = [[(problem, False), (problem, True)]] if global_prox else [[(problem, False)]]
        if global_prox:
            paths.append([(replace(problem, stiffness="trace"), True), (problem, True)])
            if response is not None:
                paths.insert(0, [(problem, True)])
        steps = 0
        for path in paths:
            solution = self._follow(problem, x, log2_size, path, response)
            x, steps = solution.found.point, steps + solution.steps
            if solution.settled:
                break
        return replace(solution, steps=steps)

    def near(self, problem: Problem, solution: Solution, response: Response) -> Solution:
        """Return the fixed point of a neighbouring problem, by the minima remembered here."""
        x, channel = _predicted(problem, solution.overlaps, response), solution.channel
        tolerance = _JUMPY if channel.several_minima > _FEW_JUMPS else _TOLERANCE
        found = _iterate(problem.step(channel, remembered=True), x, response, tolerance)
        return Solution(problem, ErmOverlaps.from_vector(found.point), found, channel, found.steps)

    def _follow(
        self,
        problem: Problem,
        x: FloatArray,
        log2_size: int,
        path: Sequence[tuple[Problem, bool]],
        response: Response | None = None,
    ) -> Solution:
        """Return where iterations of several maps, one after another, end."""
        fields, steps = self.fields(log2_size), 0
        tolerance = _JUMPY if (problem, True) in path else _TOLERANCE
        for stage, global_prox in path:
            channel = problem.channel(fields, global_prox=global_prox)
            if global_prox:
                found = _settle(stage, channel, x, response)
            else:
                found = _iterate(stage.step(channel), x, response, tolerance)
            steps += found.steps
            x = found.point
            if found.diverged:
                break
        return Solution(problem, ErmOverlaps.from_vector(x), found, channel, steps)

    def distinct(
        self, problem: Problem, starts: dict[str, ErmOverlaps]
    ) -> list[tuple[str, Solution]]:
        """Return the distinct fixed points on a small sample, lowest objective first."""
        kept: list[tuple[float, str, Solution]] = []
        met: list[FloatArray] = []  # fixed points of the cheap prox
        for done, (name, start) in enumerate(starts.items()):
            self.report(done, len(starts) + 2, f"fixed points: {name} start")
            first = self._follow(problem, start.to_vector(), COARSE, [(problem, False)])
            if any(np.abs(first.found.point - point).max() < _SAME for point in met):
                continue  # the global search would repeat itself
            if first.found.converged:
                met.append(first.found.point)
            solution = self.solve(problem, first.overlaps, COARSE)
            solution = replace(solution, steps=solution.steps + first.steps)
            if not solution.usable:
                continue
            near = (
                np.abs(solution.found.point - old.found.point)[_ALIGNED].max() < 0.02
                for _, _, old in kept
            )
            if any(near):
                continue
            objective = problem.objective(solution.means, solution.overlaps)
            kept.append((objective if solution.settled else math.inf, name, solution))
        return [(name, solution) for _, name, solution in sorted(kept, key=lambda item: item[0])]

    def best(
        self,
        problem: Problem,
        tolerance: float,
        starts: dict[str, ErmOverlaps],
        allowance: float = math.inf,
    ) -> ErmTheory:
        """Return the fixed point of lowest objective, to the accuracy asked for.

        The order parameters may have ``allowance`` times the error of the test risk.
        """
        found = self.distinct(problem, starts)
        if not found:
            return no_solution(problem)
        branches = tuple(branch_of(name, solution) for name, solution in found)
        name, coarse = found[0]
        if not coarse.settled:
            return measure(coarse, name, branches, tolerance)  # refining would not cure it
        return self.refine(coarse, name, branches, tolerance, allowance)

    def refine(
        self,
        solution: Solution,
        name: str,
        branches: tuple[ErmBranch, ...],
        tolerance: float,
        allowance: float,
    ) -> ErmTheory:
        """Solve on growing samples until the test risk is as accurate as asked."""
        problem = solution.problem
        largest = min(FINEST, int(math.log2(_MOST_TOKENS / BLOCKS / self.task.length.mean)))
        size, steps, response = COARSE, solution.steps, None
        if tolerance < _ROUGH:
            size = min(FINE, largest)
            solution = self.solve(problem, solution.overlaps, size)
            steps += solution.steps
        while True:
            self.report(size - COARSE, FINEST - COARSE + 1, f"sample of {BLOCKS * 2**size}")
            if response is None:
                response = problem.response(solution.channel, solution.found.point)
            result = measure(solution, name, branches, tolerance, response)
            missing = _missing(result, tolerance, allowance)
            if result.status in (Status.UNSTABLE, Status.NOT_CONVERGED):
                largest = min(largest, FINE)  # what is not trusted needs no more digits
            # near the threshold a small sample may call stable what is not, or the reverse
            doubtful = size < FINE and 0.5 * MOST_GAP < result.trace_gap < 2.0 * MOST_GAP
            accurate = missing <= 1.0 and not doubtful
            if accurate or size >= largest or not solution.usable:
                return replace(self._bracket(solution, result, size, response), steps=steps)
            # the error of scrambled Sobol points falls a little faster than 1/√size
            growth = math.ceil(1.2 * math.log2(missing)) if 0.0 < missing < math.inf else 2
            size = min(largest, size + max(FINE - size if doubtful else 1, growth))
            solution = self.solve(problem, solution.overlaps, size, response=response)
            steps += solution.steps

    def _bracket(
        self, solution: Solution, result: ErmTheory, log2_size: int, response: Response
    ) -> ErmTheory:
        """Return the result with the interval solved for, where jumps matter to the first order."""
        if result.trace_gap <= MOST_GAP or not solution.usable:
            return result
        problem = solution.problem
        other = replace(problem, stiffness="trace" if problem.stiffness == "stein" else "stein")
        found = self.solve(other, solution.overlaps, log2_size, response=response)
        risk = other.risk(found.overlaps) if found.settled else math.nan
        low, high = np.sort([result.test_risk, risk]).tolist()
        return replace(result, test_risk_low=low, test_risk_high=high)


def _predicted(problem: Problem, start: ErmOverlaps, response: Response | None) -> FloatArray:
    """Return the coordinates of a start, moved to the given variances along the response."""
    x = start.to_vector()
    for row, V in ((Coordinate.LOG_V_K, problem.V_k), (Coordinate.LOG_V_V, problem.V_v)):
        if V is not None:
            if response is not None:
                x = x + (math.log(V) - x[row]) * response.matrix[:, row]
            x[row] = math.log(V)
    return x


def _iterate(
    function: Callable[[FloatArray], FloatArray],
    x: FloatArray,
    response: Response | None,
    tolerance: float,
) -> FixedPoint:
    """Return the fixed point; Newton's method with the given response first, if there is one.

    Where the prox jumps so does the map of a finite sample, and the residual has a floor: the
    iteration stops there, and `measure` compares the floor with the sampling error.
    """
    steps = 0
    if response is not None:
        found = fixed_point(
            lambda point: point + response.matrix @ (function(point) - point),
            x,
            tolerance=tolerance,
            damping=0.0,
            patience=5,
        )
        if found.converged or (found.stalled and found.residual < 50.0 * tolerance):
            return found
        steps = found.steps
    found = fixed_point(
        function, x, tolerance=tolerance, damping=0.3, patience=15, longest_step=2.0
    )
    return replace(found, steps=found.steps + steps)


def _settle(
    problem: Problem, channel: Channel, x: FloatArray, response: Response | None
) -> FixedPoint:
    """Return the fixed point of the global prox.

    One search of all samples serves the iteration until it settles, then all are searched again.
    Where jumps keep the residual from falling further it stops, as `_iterate` does.
    """
    every, remembered = problem.step(channel), problem.step(channel, remembered=True)
    steps, waited, best, least = 0, 0, x, math.inf
    for _ in range(_MOST_SEARCHES):
        gap = every(x) - x
        residual = float(np.abs(gap if response is None else response.matrix @ gap).max())
        steps += 1
        waited = 0 if residual < 0.5 * least else waited + 1
        if residual < least:
            best, least = x, residual
        if least <= _JUMPY:
            return FixedPoint(best, least, steps, converged=True, diverged=False, damping=0.0)
        if waited == 2 or not math.isfinite(residual):
            break
        found = _iterate(remembered, x, response, _JUMPY)
        x, steps = found.point, steps + found.steps
        if found.diverged:
            break
    if least < 50.0 * _JUMPY:
        ends = {"converged": False, "diverged": False, "stalled": True}
        return FixedPoint(best, least, steps, damping=0.0, **ends)
    found = _iterate(every, best, response, _JUMPY)
    return replace(found, steps=steps + found.steps)


def _missing(result: ErmTheory, tolerance: float, allowance: float) -> float:
    """Return the largest error in units of what is allowed."""
    ratios = [result.test_risk_error / tolerance]
    for name in ("m_k", "m_v", "q_k", "q_v", "V_k", "V_v"):
        scale = max(1.0, abs(getattr(result, name)))
        ratios.append(result.errors[name] / (allowance * tolerance * scale))
    return max(ratios)
