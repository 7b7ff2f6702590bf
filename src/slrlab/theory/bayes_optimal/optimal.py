r"""The least risk possible with ``N = αD`` samples, and the least that an algorithm reaches.

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
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.theory.bayes_optimal.channels import channel_class
from slrlab.theory.bayes_optimal.curve import Curve, CurvePoint, stable_points
from slrlab.theory.bayes_optimal.overlaps import BayesConjugates, ChannelMoments
from slrlab.theory.bayes_optimal.refine import Branch, refine


@dataclass(frozen=True)
class BayesOptimal(Result):
    """The least risk with ``alpha`` samples per dimension, and the risk that AMP reaches.

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
        Error of the risks, the larger of the two: a difference of grids for tilted tasks, a
        standard error for selection tasks (status ``sampled``).
    setting
        Task and ``alpha``.
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
    setting: Setting
    steps: int

    _sharing_error: ClassVar[tuple[str, ...]] = ("risk_it", "risk_amp")

    def __str__(self) -> str:
        kind = "hard" if self.hard else "easy"
        return (
            f"{self.setting}: risk {self.risk_it:.8g} possible, {self.risk_amp:.8g} by AMP "
            f"({kind}), {self.status}"
        )


def bayes_optimal(
    task: Task, *, alpha: float, tolerance: float = 1e-7, strict: bool = False
) -> BayesOptimal:
    r"""Return the Bayes-optimal risk at ``alpha = N/D`` and the risk that AMP reaches.

    The fixed points of ``q̂_a = α E|g_a|²``, ``q_a = q̂_a/(1+q̂_a)`` are all found; the risk is
    ``1 + Δ² − q_v E Σ p_ℓ(ω_χ)²``. Tilted tasks are computed by quadrature for any length law,
    selection tasks by randomised quasi-Monte Carlo for lengths up to 64. Where the relevant score
    has mean zero, ``q_k = 0`` is a fixed point; AMP is taken to start an infinitesimal step away.

    Parameters
    ----------
    task
        Any `TiltedTask` or `SelectionTask`.
    alpha
        Samples per dimension, ``> 0``.
    tolerance
        Relative accuracy of the risks; a sampled result has a standard error instead.
    strict
        Raise `slrlab.ComputationError` if the accuracy is not reached.

    Returns
    -------
    BayesOptimal
        Both risks, with an error, and the overlaps that belong to them.

    Raises
    ------
    TypeError
        If the task belongs to neither family.
    ValueError
        If ``alpha`` is not a finite number ``> 0``, the task is inconsistent, or a length is too
        long for a selection task.

    Examples
    --------
    >>> from slrlab import SpikedSLR, bayes_optimal
    >>> result = bayes_optimal(SpikedSLR(signal=2.0, length=3), alpha=1.1)
    >>> print(f"{result.risk_it:.6f} {result.risk_amp:.6f} {result.hard}")
    0.427498 0.631409 True
    """
    alpha = _checks.positive(alpha, "alpha")
    tolerance = _checks.positive(tolerance, "tolerance")
    channels = channel_class(task)
    key = channels.known_key(task)
    if key is not None:
        branch = _known_location(task, key, alpha)
        return _result(task, alpha, branch, branch, Status.LIMIT, 0)
    coarse, fine = channels.for_fixed_points(task)
    curve = Curve(coarse)
    branches = [refine(coarse, fine, start, alpha) for start in stable_points(curve, alpha)]
    amp, best = branches[0], max(branches, key=lambda branch: branch.point.free_entropy)
    steps = curve.steps + sum(branch.steps for branch in branches)
    status = _status(channels.sampled, amp, best, tolerance)
    result = _result(task, alpha, amp, best, status, steps)
    return result.require() if strict else result


def _status(sampled: bool, amp: Branch, best: Branch, tolerance: float) -> Status:
    if not (math.isfinite(amp.risk) and math.isfinite(best.risk)):
        return Status.FAILED
    if not (amp.settled and best.settled):
        return Status.INACCURATE
    if sampled:
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
        setting=Setting(task, alpha=alpha),
        steps=steps,
    )


def _known_location(task: Task, key: float, alpha: float) -> Branch:
    """Return the fixed point of linear regression, ``q_v = α/(α + 1 − q_v + Δ²)``."""
    # V = 1 − q_v solves V² + (Δ²+α−1)V − Δ² = 0; the form without cancellation
    b = task.noise**2 + alpha - 1.0
    root = math.hypot(b, 2.0 * task.noise)
    variance = 2.0 * task.noise**2 / (b + root) if b > 0.0 else (root - b) / 2.0
    hats = BayesConjugates(alpha * key, math.inf if variance == 0.0 else 1.0 / variance - 1.0)
    log_z, risk = math.inf, task.noise**2 + variance
    if risk > 0.0:
        log_z = (key * hats.overlaps().q_k - 1.0 - math.log(2.0 * math.pi * risk)) / 2.0
    point = CurvePoint(hats, ChannelMoments(key, 1.0, log_z), alpha)
    return Branch(point, risk, error=0.0, settled=True, steps=0)
