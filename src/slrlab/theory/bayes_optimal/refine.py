"""The fixed point of a fine channel next to a point of a coarse curve, with its risk and error.

Newton's method with the Jacobian of the coarse map needs few fine evaluations. The same Jacobian
propagates the standard errors of a sampled channel to its fixed point and to the risk.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slrlab._result import Estimate
from slrlab._types import FloatArray
from slrlab.theory.bayes_optimal.curve import Channel, CurvePoint
from slrlab.theory.bayes_optimal.overlaps import BayesConjugates

_NUDGE = 1e-3  # step of the difference quotients, in log q̂


@dataclass(frozen=True)
class Branch:
    """A fixed point with its risk.

    Attributes
    ----------
    point
        The fixed point.
    risk, error
        Its risk, and the error of the risk: a difference of grids, or a standard error.
    settled
        Whether Newton's method converged.
    steps
        Evaluations of the fine channel.
    """

    point: CurvePoint
    risk: float
    error: float
    settled: bool
    steps: int


def refine(coarse: Channel, fine: Channel, start: CurvePoint, alpha: float) -> Branch:
    """Return the fixed point of the fine channel next to ``start``."""
    free = [name for name in ("k", "v") if 0.0 < getattr(start.hats, name) < math.inf]
    slopes = _slopes(lambda hats: _log_map(coarse, hats, free, alpha), start.hats, free)
    inverse = np.asarray(np.linalg.inv(np.eye(len(free)) - slopes.T), dtype=float)
    hats, settled, steps = _newton(fine, start.hats, free, alpha, inverse)
    point = CurvePoint(hats, fine.moments(hats.overlaps()), alpha)
    risk = _risk(fine, hats)
    error = _sampling_error(coarse, fine, point, free, inverse)
    if error is None:
        other, agreed, _ = _newton(coarse, start.hats, free, alpha, inverse, fine.accuracy)
        settled = settled and agreed
        error = abs(risk - _risk(coarse, other)) + 1e-14 * risk
    return Branch(point, risk, error, settled, steps + 1)


def _newton(
    channel: Channel,
    hats: BayesConjugates,
    free: list[str],
    alpha: float,
    inverse: FloatArray,
    accuracy: float | None = None,
) -> tuple[BayesConjugates, bool, int]:
    """Return the fixed point, whether the steps settled, and their number."""
    here, settled, steps = _logs(hats, free), not free, 0
    while not settled and steps < 12:
        move = inverse @ (_log_map(channel, hats, free, alpha) - here)
        steps += 1
        here = here + np.clip(move, -1.0, 1.0)
        hats = _moved(hats, free, here)
        settled = bool(np.abs(move).max() < (accuracy or channel.accuracy))
    return hats, settled, steps


def _logs(hats: BayesConjugates, free: list[str]) -> FloatArray:
    return np.array([math.log(getattr(hats, name)) for name in free])


def _moved(hats: BayesConjugates, free: list[str], logs: FloatArray) -> BayesConjugates:
    values = {"k": hats.k, "v": hats.v} | dict(zip(free, np.exp(logs).tolist(), strict=True))
    return BayesConjugates(**values)


def _slopes(
    function: Callable[[BayesConjugates], FloatArray | float],
    hats: BayesConjugates,
    free: list[str],
) -> FloatArray:
    """Return the derivatives in the free ``log q̂``, one row each."""
    here, base = _logs(hats, free), function(hats)
    steps = _NUDGE * np.eye(len(free))
    return np.array([(function(_moved(hats, free, here + e)) - base) / _NUDGE for e in steps])


def _log_map(channel: Channel, hats: BayesConjugates, free: list[str], alpha: float) -> FloatArray:
    """Return ``log(α·M)`` of the free keys and values."""
    q = hats.overlaps()
    moments, variance = channel.moments(q), q.variance_v + channel.task.noise**2
    key = math.log(alpha * moments.key) if moments.key > 0.0 else -math.inf
    value = math.log(alpha * moments.value / variance) if variance > 0.0 else math.inf
    return np.array([{"k": key, "v": value}[name] for name in free])


def _risk(channel: Channel, hats: BayesConjugates) -> float:
    """Return ``1 + Δ² − q_v·E Σp²`` without cancellation."""
    q = hats.overlaps()
    return channel.task.noise**2 + q.variance_v + q.q_v * channel.confusion(q)


def _sampling_error(
    coarse: Channel, fine: Channel, point: CurvePoint, free: list[str], inverse: FloatArray
) -> float | None:
    """Return the standard error of the risk: each scramble's own fixed point, to first order."""
    scrambles = fine.scramble_moments(point.overlaps)
    if scrambles is None:
        return None
    risks = point.overlaps.q_v * scrambles.confusion
    if free:
        gradient = _slopes(lambda hats: _risk(coarse, hats), point.hats, free)
        moments = {"k": scrambles.key, "v": scrambles.value}
        noise = np.stack([moments[name] / moments[name].mean() - 1.0 for name in free])
        risks = risks + gradient @ inverse @ noise
    return Estimate.of(risks).error
