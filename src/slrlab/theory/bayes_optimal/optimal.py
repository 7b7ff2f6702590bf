r"""The least risk that ``N = αD`` samples allow, and the least that an algorithm reaches.

With a Gaussian prior on the teachers the overlaps of the posterior mean obey ``q̂_a = α M_a(q)``,
``q_a = q̂_a/(1 + q̂_a)``. Among the stable fixed points the one of largest free entropy is
information-theoretically optimal (``it``); approximate message passing ends at the first one
above ``q = 0`` (``amp``). Where they differ, the problem is hard.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from slrlab import _checks
from slrlab._result import Result, Status
from slrlab.model.lengths import LengthLaw
from slrlab.model.tasks import MaxSLR, SpikedSLR, Task
from slrlab.theory.bayes_optimal.curve import Curve, stable_points
from slrlab.theory.bayes_optimal.overlaps import HattedOverlaps
from slrlab.theory.bayes_optimal.refine import Branch, channels, refine


@dataclass(frozen=True)
class BayesOptimal(Result):
    """What is possible, and what is feasible, with ``alpha`` samples per dimension.

    Attributes
    ----------
    risk_it, risk_amp
        Risk of the best predictor, and of the best one an efficient algorithm is known to reach.
    q_k, q_v
        Overlaps that the algorithm reaches.
    q_k_it, q_v_it
        Overlaps of the information-theoretic optimum.
    free_entropy, free_entropy_amp
        Free entropy of the two, ``inf`` where ``q_v = 1``.
    hard
        Whether the two differ.
    error
        Error of the risks, the larger of the two: a difference of grids for spiked-SLR, a
        standard error for max-SLR (status ``sampled``).
    steps
        Evaluations of the channel.
    """

    risk_it: float
    risk_amp: float
    q_k: float
    q_v: float
    q_k_it: float
    q_v_it: float
    free_entropy: float
    free_entropy_amp: float
    hard: bool
    error: float
    alpha: float
    task: str
    signal: float
    length: LengthLaw
    noise: float
    steps: int

    _sharing_error: ClassVar[tuple[str, ...]] = ("risk_it", "risk_amp")

    def __str__(self) -> str:
        kind = "hard" if self.hard else "easy"
        return (
            f"{self.task} (signal {self.signal:g}, length {self.length}), alpha {self.alpha:g}: "
            f"risk {self.risk_it:.8g} possible, {self.risk_amp:.8g} by AMP ({kind}), {self.status}"
        )


def bayes_optimal(
    task: Task, *, alpha: float, tolerance: float = 1e-7, strict: bool = False
) -> BayesOptimal:
    r"""Return the Bayes-optimal risk at ``alpha = N/D`` and the risk that AMP reaches.

    The fixed points of ``q̂_a = α E|g_a|²``, ``q_a = q̂_a/(1+q̂_a)`` are all found; the risk is
    ``1 + Δ² − q_v E Σ p_ℓ(ω_χ)²``. Spiked-SLR is computed by quadrature for any length law, max-SLR
    by randomised quasi-Monte Carlo for lengths up to 64.

    Parameters
    ----------
    task
        A `SpikedSLR` or a `MaxSLR`.
    alpha
        Samples per dimension, ``> 0``.
    tolerance
        Relative accuracy asked of the risks; a sampled result says its standard error instead.
    strict
        Raise `slrlab.ComputationError` if the accuracy is not reached.

    Raises
    ------
    TypeError
        If the task is of another kind.
    ValueError
        If ``alpha`` is not a finite number ``> 0``, or a length is too long for max-SLR.

    Examples
    --------
    >>> from slrlab import SpikedSLR, bayes_optimal
    >>> result = bayes_optimal(SpikedSLR(signal=2.0, length=3), alpha=1.1)
    >>> print(f"{result.risk_it:.6f} {result.risk_amp:.6f} {result.hard}")
    0.427498 0.631409 True
    """
    samples = _checks.positive(alpha, "alpha")
    accuracy = _checks.positive(tolerance, "tolerance")
    if place_is_known(task):
        return _known_place(task, samples)
    coarse, fine = channels(task)
    curve = Curve(coarse)
    found = [refine(coarse, fine, start, samples) for start in stable_points(curve, samples)]
    amp, best = found[0], max(found, key=lambda branch: branch.point.free_entropy)
    steps = curve.steps + sum(branch.steps for branch in found)
    result = _result(task, samples, amp, best, _status(task, amp, best, accuracy), steps)
    return result.require() if strict else result


def place_is_known(task: Task) -> bool:
    """Return whether the task is plain linear regression: one token, or one that stands out.

    Raises
    ------
    TypeError
        If the task is neither spiked-SLR nor max-SLR.
    """
    if not isinstance(task, SpikedSLR | MaxSLR):
        raise TypeError(
            "task must be a SpikedSLR or a MaxSLR, "
            f"got {type(task).__name__ if isinstance(task, Task) else repr(task)}"
        )
    return task.length.longest == 1 or (isinstance(task, SpikedSLR) and math.isinf(task.signal))


def _status(task: Task, amp: Branch, best: Branch, tolerance: float) -> Status:
    if not (math.isfinite(amp.risk) and math.isfinite(best.risk)):
        return Status.FAILED
    if not (amp.settled and best.settled):
        return Status.INACCURATE
    if isinstance(task, MaxSLR):
        return Status.SAMPLED
    close = all(branch.error <= tolerance * branch.risk for branch in (amp, best))
    return Status.CONVERGED if close else Status.INACCURATE


def _result(
    task: Task, alpha: float, amp: Branch, best: Branch, status: Status, steps: int
) -> BayesOptimal:
    here, there = amp.point.overlaps, best.point.overlaps
    return BayesOptimal(
        status=status,
        risk_it=best.risk,
        risk_amp=amp.risk,
        q_k=here.q_k,
        q_v=here.q_v,
        q_k_it=there.q_k,
        q_v_it=there.q_v,
        free_entropy=best.point.free_entropy,
        free_entropy_amp=amp.point.free_entropy,
        hard=best is not amp,
        error=max(amp.error, best.error),
        alpha=alpha,
        task=task.name,
        signal=task.signal,
        length=task.length,
        noise=task.noise,
        steps=steps,
    )


def _known_place(task: Task, alpha: float) -> BayesOptimal:
    """Return the exact result of linear regression, ``q_v = α/(α + 1 − q_v + Δ²)``."""
    key = task.signal if isinstance(task, SpikedSLR) else 0.0
    # V = 1 − q_v solves V² + (Δ²+α−1)V − Δ² = 0; the form without cancellation
    b = task.noise**2 + alpha - 1.0
    root = math.hypot(b, 2.0 * task.noise)
    gap = 2.0 * task.noise**2 / (b + root) if b > 0.0 else (root - b) / 2.0
    hats = HattedOverlaps(alpha * key, math.inf if gap == 0.0 else 1.0 / gap - 1.0)
    q = hats.overlaps()
    entropy = math.inf
    if gap > 0.0 and math.isfinite(key):
        log_z = (key * q.q_k - 1.0 - math.log(2.0 * math.pi * (gap + task.noise**2))) / 2.0
        shape = q.q_k - math.log1p(hats.k) + 1.0 - gap + math.log(gap)
        entropy = 0.5 * shape + alpha * log_z
    return BayesOptimal(
        status=Status.LIMIT,
        risk_it=task.noise**2 + gap,
        risk_amp=task.noise**2 + gap,
        q_k=q.q_k,
        q_v=1.0 - gap,
        q_k_it=q.q_k,
        q_v_it=1.0 - gap,
        free_entropy=entropy,
        free_entropy_amp=entropy,
        hard=False,
        error=0.0,
        alpha=alpha,
        task=task.name,
        signal=task.signal,
        length=task.length,
        noise=task.noise,
        steps=0,
    )
