r"""Fixed points of the state evolution of trained attention, with standard errors.

All fixed points are found on a small sample, from several starts; the one of lowest training
objective is the prediction. It is then solved on larger samples until the standard error of the
test risk is below the tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import cast

import numpy as np

from slrlab import _checks
from slrlab._result import Status
from slrlab._types import FloatArray, Report
from slrlab.model.activation_code import activation_code
from slrlab.model.activations import Activation
from slrlab.model.arrangements import check_family, relevant_count
from slrlab.model.tasks import Task
from slrlab.theory.erm.equations import STIFFNESSES, Channel, Stiffness
from slrlab.theory.erm.fields import BLOCKS, draw_fields
from slrlab.theory.erm.iteration import JUMPY, SMOOTH, iterate, iterate_globally, predicted
from slrlab.theory.erm.measure import Solution, branch_of, measure, no_solution
from slrlab.theory.erm.overlaps import ORDER, Coordinate, ErmOverlaps
from slrlab.theory.erm.problem import Problem, Response
from slrlab.theory.erm.result import ErmBranch, ErmTheory
from slrlab.theory.erm.stability import MOST_GAP
from slrlab.theory.population import minimal

COARSE, FINE, FINEST = 9, 11, 17  # log2 of the size of a block
_SHORTEST = 0.03  # overlap of the keys of an informed start, at least
_FEW_JUMPS = 3e-4  # fraction of samples with several minima below which the map is smooth
_SAME = 1e-3  # distance of two solutions that differ by the residual alone
_ROUGH = 5e-3  # tolerance from which a small sample may be enough
_LONGEST = 5000  # the Sobol sequence has 21201 dimensions
_ALIGNED = [Coordinate.M_K, Coordinate.M_V]  # coordinates in which two branches differ
_MOST_TOKENS = 2**24  # largest number of tokens in one sample: 400 MB


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
    every number has a standard error, and the sample grows until the test risk is accurate.

    Parameters
    ----------
    task, activation
        Task, and activation of the attention that learns it.
    alpha
        Training sequences per dimension, ``N/D > 0``.
    ridge_k, ridge_v
        Ridge penalties ``>= 0`` of keys and values. Where a factor on all scores leaves the weights
        (normalised ReLU, cosine), a ridge would shrink the keys without end and change nothing
        else: ``ridge_k`` must be 0, and keys and bias are those of one length.
    tolerance
        Largest standard error of the test risk; three times as much for order parameters,
        relative to their size where that is above 1.
    stiffness
        The form of ``V̂`` in the equations. ``stein`` counts the jumps of the prox and follows
        training from random starts; ``trace`` does not and lies below training from the teachers.
        They differ only where the prox jumps; the result gives both risks as an interval.
    start
        A neighbouring solution, used as one more start.
    seed
        Seed of the sample.
    strict
        Raise `slrlab.ComputationError` instead of returning a failed status.
    report
        Called as ``report(done, total, label)`` while the computation runs.

    Returns
    -------
    ErmTheory
        Risks, order parameters and their errors, stability, and all fixed points found.

    Raises
    ------
    ValueError
        If a number is out of range, a tilted task has infinite signal, or keys admit no ridge.

    Examples
    --------
    >>> from slrlab import SpikedSLR, erm_theory
    >>> task = SpikedSLR(signal=2.0, length=3)
    >>> theory = erm_theory(task, "softmax", alpha=8.0, ridge_k=0.4, ridge_v=0.8)
    >>> print(f"{theory.test_risk:.2f}", theory.stable, theory.status)
    0.46 True sampled
    """
    chosen = checked(task, activation, alpha, tolerance)
    problem = Problem.of(
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
    """Check the arguments that all functions of trained attention share; return the activation."""
    chosen = minimal.checked(task, activation, tolerance)
    check_family(task)
    _checks.positive(alpha, "alpha")
    if math.isinf(task.signal) and task.gaussian_shift is not None:
        raise ValueError("signal must be finite for this task at finite alpha, got inf")
    if relevant_count(task) > 1:
        _checks.fail("task", "one with a single relevant token at finite alpha", task.name)
    if task.length.longest > _LONGEST:
        raise ValueError(f"length must be at most {_LONGEST} at finite alpha, got {task.length}")
    activation_code(chosen)  # raises an error if it cannot be trained
    return chosen.without_idle_bias()


class Solver:
    """Solves `Problem`s of one task and activation, all on the same samples."""

    def __init__(
        self, task: Task, activation: Activation, seed: int, report: Report | None = None
    ) -> None:
        self.task, self.activation = task, activation
        seed = _checks.integer(seed, "seed", low=0)
        self.report = report or (lambda done, total, label: None)
        # the sample with blocks of about 2**log2_size sequences
        self.fields = cache(lambda log2_size: draw_fields(task, log2_size, seed))

    @cached_property
    def _informed(self) -> ErmOverlaps:
        """A start near the population optimum."""
        finite = self.task if math.isfinite(self.task.signal) else replace(self.task, signal=20.0)
        population = minimal.minimal_risk(finite, self.activation, tolerance=1e-6)
        m_k = float(np.clip(population.m_k, -2.5, 2.5)) or 1.0
        m_v = float(np.clip(population.m_v, -2.5, 2.5)) or 1.0
        # keys that vanish at the optimum are a limit: a search starts before it, on the same ray
        size = max(1.0, _SHORTEST / abs(m_k))
        m_k, bias = size * m_k, size * population.bias
        return ErmOverlaps(
            m_k=m_k,
            q_k=1.2 * m_k**2,
            V_k=0.5,
            m_v=m_v,
            q_v=1.2 * m_v**2,
            V_v=0.5 * m_v**2,
            bias=self._learned(float(np.clip(bias, -3.0, 3.0))),
        )

    def _learned(self, bias: float) -> float:
        """Return the bias of the overlaps: a bias that is given belongs to the activation."""
        return bias if self.activation.bias is None else 0.0

    def starts(self, neighbour: ErmTheory | None = None) -> dict[str, ErmOverlaps]:
        """Return the starts by name: near a neighbour, informed, uninformed, keys reversed."""
        informed, starts = self._informed, {}
        if neighbour is not None:
            order = {key: getattr(neighbour, key) for key in ORDER}
            starts["continued"] = ErmOverlaps(**order, bias=self._learned(neighbour.bias))
        return starts | {
            "informed": informed,
            "uninformed": replace(informed, m_k=0.01, q_k=0.1, m_v=0.3 * informed.m_v),
            "mismatched": replace(informed, m_k=-informed.m_k),
        }

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

        The prox is first searched from the field alone, which is several times cheaper and has no
        jumps. The global search continues from there; if it fails, it starts once more from the
        solution of the trace form. With the ``response`` of a neighbour, or of a smaller sample,
        the iteration starts at the solution it predicts and is a Newton method with a fixed
        Jacobian; then the global search comes first.
        """
        x = predicted(problem, start, response)
        local, everywhere = (problem, False), (problem, True)
        paths = [[local]]
        if global_prox:
            trace = (replace(problem, stiffness="trace"), True)
            paths = [[local, everywhere], [trace, everywhere]]
            if response is not None:
                paths.insert(0, [everywhere])
        steps = 0
        for path in paths:
            solution = self._follow(problem, x, log2_size, path, response)
            x, steps = solution.fixed_point.point, steps + solution.steps
            if solution.settled:
                break
        return replace(solution, steps=steps)

    def solve_near(self, problem: Problem, solution: Solution, response: Response) -> Solution:
        """Return the fixed point of a neighbouring problem, with the minima remembered here."""
        x, channel = predicted(problem, solution.overlaps, response), solution.channel
        tolerance = JUMPY if channel.several_minima > _FEW_JUMPS else SMOOTH
        end = iterate(problem.step(channel, remembered=True), x, response, tolerance)
        return Solution(problem, end, channel, end.steps)

    def _follow(
        self,
        problem: Problem,
        x: FloatArray,
        log2_size: int,
        path: Sequence[tuple[Problem, bool]],
        response: Response | None = None,
    ) -> Solution:
        """Iterate several maps, each with or without the global prox, one after another."""
        fields, steps = self.fields(log2_size), 0
        tolerance = JUMPY if (problem, True) in path else SMOOTH
        for stage, global_prox in path:
            channel = Channel.of(fields, self.activation, self.task.noise, global_prox)
            if global_prox:
                end = iterate_globally(stage, channel, x, response)
            else:
                end = iterate(stage.step(channel), x, response, tolerance)
            steps += end.steps
            x = end.point
            if end.diverged:
                break
        return Solution(problem, end, channel, steps)

    def distinct(
        self, problem: Problem, starts: dict[str, ErmOverlaps]
    ) -> list[tuple[str, Solution]]:
        """Return the distinct fixed points on a small sample, lowest objective first."""
        kept: list[tuple[float, str, Solution]] = []
        local: list[FloatArray] = []  # fixed points of the prox without a global search
        for done, (name, start) in enumerate(starts.items()):
            self.report(done, len(starts) + 2, f"fixed points: {name} start")
            first = self._follow(problem, start.to_vector(), COARSE, [(problem, False)])
            point = first.fixed_point.point
            if any(np.abs(point - known).max() < _SAME for known in local):
                continue  # the global search would repeat itself
            if first.fixed_point.converged:
                local.append(point)
            solution = self.solve(problem, first.overlaps, COARSE)
            solution = replace(solution, steps=solution.steps + first.steps)
            if not solution.usable:
                continue
            moves = (solution.fixed_point.point - known.fixed_point.point for *_, known in kept)
            if any(np.abs(move)[_ALIGNED].max() < 0.02 for move in moves):
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
        """Return the fixed point of lowest objective, with an error below the tolerance.

        The order parameters may have ``allowance`` times the error of the test risk.
        """
        solutions = self.distinct(problem, starts)
        if not solutions:
            return no_solution(problem)
        branches = tuple(branch_of(name, solution) for name, solution in solutions)
        name, coarse = solutions[0]
        if not coarse.settled:  # a larger sample would not settle either
            return measure(coarse, name, branches, tolerance)
        return self._refine(coarse, name, branches, tolerance, allowance)

    def _refine(
        self,
        solution: Solution,
        name: str,
        branches: tuple[ErmBranch, ...],
        tolerance: float,
        allowance: float,
    ) -> ErmTheory:
        """Solve on growing samples until the test risk is accurate enough."""
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
                response = problem.response(solution.channel, solution.fixed_point.point)
            result = measure(solution, name, branches, tolerance, response)
            missing = _missing(result, tolerance, allowance)
            if result.status in (Status.UNSTABLE, Status.NOT_CONVERGED):
                largest = min(largest, FINE)  # such a number needs no more digits
            # near the threshold a small sample may get the stability wrong
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
        """Solve for the other end of the interval where linear response is not enough."""
        if result.trace_gap <= MOST_GAP or not solution.usable:
            return result
        form = solution.problem.other_form
        other = self.solve(form, solution.overlaps, log2_size, response=response)
        risk = other.risk if other.settled else math.nan
        low, high = np.sort([result.test_risk, risk]).tolist()
        return replace(result, test_risk_low=low, test_risk_high=high)


def _missing(result: ErmTheory, tolerance: float, allowance: float) -> float:
    """Return the largest error over the error that is allowed."""
    scales = {key: allowance * max(1.0, abs(float(getattr(result, key)))) for key in ORDER}
    errors = (result.errors[key] / scale for key, scale in scales.items())
    return max([result.test_risk_error, *errors]) / tolerance
