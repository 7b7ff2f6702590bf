"""Moments in the limit of infinitely long keys, for activations whose risk falls as keys grow.

If ``φ(x) ~ x^p`` on the right and ``φ(x) ~ e^x`` on the left, scores multiplied by ever larger
factors leave ``max(x, 0)^p`` over its sum; if no score is positive, the largest one gets all
weight. If ``φ`` grows as an exponential on the right and as a power on the left, it is the other
way round: the largest positive score gets all weight, and only negative scores share it. A bounded
map of one score becomes a step at 0. Where the largest score gets a fixed weight
and all others none, the weights tend to those of the argmax: on a task whose location is the
argmax, this is the best that keys can do.
"""

from __future__ import annotations

import math

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.activations import Activation, Elementwise, Normalised, ScalarMap
from slrlab.model.arrangements import relevant_count
from slrlab.model.atlas.elementwise import relu_power
from slrlab.model.tasks import Task
from slrlab.theory.moments.largest import all_below, relevant_is_largest
from slrlab.theory.moments.ratio import bent_moments
from slrlab.theory.moments.types import AttentionMoments

_FAR = 1e100
_DISTANCES = np.array([1e45, 1e60, 1e75])  # far enough to read a power, its value still a double


@np.errstate(invalid="ignore")  # slopes between infinite values
def infinite_keys(task: Task, activation: Activation, resolution: float) -> AttentionMoments | None:
    """Return the moments of the limit ``m_k → ∞``; None where it is not known."""
    if task.hard:
        moments = argmax_limit(task, activation)
        if moments is not None:
            return moments
    step = _step(activation)
    if step is not None:
        return bent_moments(task, step, 1.0, 0.0, resolution)
    growths = _growths(activation)
    if growths is None or task.has_infinite_score:
        return None
    left, right = growths
    shared = relu_power(round(right)) if math.isfinite(right) else _left_power(left)
    moments = bent_moments(task, Normalised("", phi=shared), 1.0, 0.0, resolution)
    if moments is None:
        return None
    # where no score is positive, or where one is, the largest gets all weight
    alone, mass = relevant_is_largest(task, 0.0, resolution), all_below(task, 0.0)
    if math.isinf(right):
        alone, mass = relevant_is_largest(task, resolution=resolution) - alone, 1.0 - mass
    target = moments.target + alone / math.sqrt(relevant_count(task))
    energy = moments.energy + mass
    return AttentionMoments(target, 1.0 - target, max(0.0, energy - target**2))


def argmax_limit(task: Task, activation: Activation) -> AttentionMoments | None:
    """Return the limit where only the largest score keeps a weight, one for each of its signs.

    None if the weights of infinitely distant scores are not of this kind. A free bias grows with
    the keys, so that all scores have the sign that is better.
    """
    above, below = (_kept(activation, np.array(s)) for s in ([2.0, 1.5, 1.0], [-1.0, -1.5, -2.0]))
    if activation.bias is None:
        above = below = above or below
    if above is None or below is None:
        return None
    negative = all_below(task, 0.0)
    target = above * (1.0 - negative) + below * negative
    # for two values of the weight, B − A² is their variance
    variance = (above - below) ** 2 * negative * (1.0 - negative)
    return AttentionMoments(target, 1.0 - target, variance)


def _kept(activation: Activation, scores: FloatArray) -> float | None:
    """Return the weight of the first of three distant scores if the others get none."""
    fixed = activation.with_bias(activation.bias or 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        near, far = (fixed.weights(scale * scores) for scale in (1e4, 2e4))
    alone = np.isfinite(near).all() and (np.abs(near[1:]) < 1e-12).all()
    return float(near[0]) if alone and np.allclose(near, far, rtol=1e-9, atol=1e-12) else None


def _step(activation: Activation) -> Elementwise | None:
    """Return the limit of a bounded map of one score, in which the bias has no effect."""
    if not isinstance(activation, Elementwise) or activation.bias is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        low, high, *near = activation.phi.value(np.array([-_FAR, _FAR, -1e50, 1e50])).tolist()
    if not math.isfinite(low + high) or near != [low, high] or low == high:
        return None
    phi = ScalarMap(
        lambda x: np.where(x > 0.0, high, low), np.zeros_like, np.zeros_like, bends=(0.0,)
    )
    return Elementwise("", phi=phi)


def _left_power(power: float) -> ScalarMap:
    """Return ``|x|^power`` on the left; on the right infinity: other scores have no effect."""

    def log(x: FloatArray) -> FloatArray:
        return np.where(x < 0.0, power * np.log(np.maximum(-x, 1e-300)), np.inf)

    def value(x: FloatArray) -> FloatArray:
        return np.asarray(np.exp(log(x)))

    return ScalarMap(value, np.zeros_like, np.zeros_like, log, bends=(0.0,))


def _growths(activation: Activation) -> tuple[float, float] | None:
    """Return the powers of ``|x|`` as which ``φ`` grows on the left and on the right.

    An exponential ``e^x`` has −∞ on the left and ∞ on the right. None unless exactly one side is a
    power, on the right a whole one above 0.
    """
    if not isinstance(activation, Normalised) or activation.sink > 0.0 or activation.bias is None:
        return None
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        logs = [activation.phi.log_value(side * _DISTANCES) for side in (-1.0, 1.0)]
    left, right = (_power(values) for values in logs)
    if activation.exponential == "left":
        left = -math.inf
    if left == -math.inf and 1.0 <= right < math.inf and right == round(right):
        return left, right
    return (left, right) if 0.0 <= left < math.inf and right == math.inf else None


def _power(logs: FloatArray) -> float:
    """Return the power, from ``log φ`` at `_DISTANCES`; infinite for an exponential.

    It is a slope, so that a factor of ``φ`` does not count. nan where there is no power.
    """
    if math.isinf(logs[0]):
        return float(logs[0])
    near, far = (np.diff(logs) / np.diff(np.log(_DISTANCES))).tolist()
    if abs(far) > 1e3:
        return math.copysign(math.inf, far)
    return round(far, 6) + 0.0 if abs(far - near) < 1e-6 else math.nan
