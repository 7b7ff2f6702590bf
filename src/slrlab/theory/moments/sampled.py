"""Moments by randomised quasi-Monte Carlo, where no quadrature is known: most of all projections.

The threshold of a projection (sparsemax, entmax) couples all tokens, so no product of one-token
factors is available; results carry a standard error from independent replicates instead of a
quadrature error. Of long sequences only the largest scores are drawn, from their exact law: the
others get no weight.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import special

from slrlab._result import Estimate
from slrlab._types import FloatArray
from slrlab.model.activations import Activation, Projection
from slrlab.model.arrangements import ArrangementTask
from slrlab.model.families import TopK
from slrlab.model.tasks import Task, TiltedTask
from slrlab.numerics.qmc import normal_replicates
from slrlab.theory.moments.types import AttentionMoments

_REPLICATES = 8
_ENTRIES = 1 << 17  # normals per replicate at resolution 1
_FEWEST = 4  # logarithm of the fewest sequences per replicate
_LONGEST = 4096  # tokens drawn of a sequence
_TOP = 512  # tokens drawn of a longer one


def sampled_moments(
    task: Task, activation: Activation, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    """Return the moments with the standard error of ``A²/B``.

    Raises
    ------
    ValueError
        If more tokens of a long sequence get weight than are drawn.
    """
    if m_k == 0.0 and R_k == 0.0 and not isinstance(task, ArrangementTask):
        return _equal_scores(task, activation)
    sums, fewest, certain = np.zeros((2, _REPLICATES)), math.inf, False
    for length, weight in task.length.pairs():
        drawn = _drawn(length)
        entries = _ENTRIES * resolution * math.sqrt(weight)
        size = max(_FEWEST, math.ceil(math.log2(entries / drawn)))
        scores, location, ordered = _token_scores(task, (length, size), m_k, R_k)
        sigma = activation.weights(scores)
        # a larger sample may give more tokens weight: a coarse search leaves a margin
        last = drawn - 1 if resolution >= 1.0 else drawn // 2
        if drawn < length and not (ordered and (sigma[..., last] == 0.0).all()):
            raise ValueError(
                f"length must be at most {_LONGEST} for {activation.name} at m_k {m_k:.4g} and "
                f"R_k {R_k:.4g}, where more tokens get weight than can be drawn, got {task.length}"
            )
        sums[0] += weight * (sigma * location).sum(axis=-1).mean(axis=-1)
        sums[1] += weight * (sigma**2).sum(axis=-1).mean(axis=-1)
        fewest = min(fewest, _REPLICATES * 2.0**size)
        certain = certain or bool((sigma == 1.0).any())
    target, energy = (float(value) for value in sums.mean(axis=1))
    error = Estimate.of(sums[0] ** 2 / sums[1]).error
    unexplained = max(energy - target**2, 0.0)
    if certain and min(unexplained, target) < 30.0 / fewest:
        error += 3.0 / fewest  # the sample has few or none of the rare events that matter
    return AttentionMoments(target, 1.0 - target, unexplained, sampled_error=max(error, 1e-16))


def _equal_scores(task: Task, activation: Activation) -> AttentionMoments:
    """Return the moments at keys of length 0: the tokens that are kept share the sum equally."""
    target, energy = 0.0, 0.0
    for length, probability in task.length.pairs():
        kept = min(activation.k, length) if isinstance(activation, TopK) else length
        total = min(activation.budget, length) if isinstance(activation, Projection) else 1
        target += probability * total / length
        energy += probability * total**2 / kept
    return AttentionMoments(target, 1.0 - target, max(0.0, energy - target**2))


def _drawn(length: int) -> int:
    return length if length <= _LONGEST else _TOP


def _token_scores(
    task: Task, size: tuple[int, int], m_k: float, R_k: float
) -> tuple[FloatArray, FloatArray, bool]:
    """Return scores, the law of the location, and whether the last score drawn is the smallest."""
    if task.gaussian_shift is not None:  # scores are Gaussian: one normal for each token
        keys, location, _ = _scores(task, *size, False)
        scores = math.hypot(m_k, math.sqrt(R_k)) * keys
        scores[..., 0] += m_k * task.gaussian_shift
        return scores, location, True
    keys, location, noise = _scores(task, *size, R_k > 0.0)
    return m_k * keys + math.sqrt(R_k) * noise, location, m_k > 0.0 and R_k == 0.0


@lru_cache(maxsize=8)
def _scores(
    task: Task, length: int, log2_size: int, noisy: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return key scores ``(replicate, sample, token)``, the law of the location, and extra normals.

    The same draw serves every ``m_k``: the sampled risk is then a smooth function of it. The last
    token of a long sequence is its smallest score that is drawn.
    """
    drawn = _drawn(length)
    dimension = drawn * (2 if noisy else 1)
    draws = np.stack(list(normal_replicates(dimension, log2_size, _REPLICATES)))
    keys, noise = draws[..., :drawn].copy(), draws[..., drawn:] if noisy else np.zeros(1)
    if isinstance(task, ArrangementTask) and drawn == length:
        shifts = task.shifts
        keys[..., : shifts.size] += shifts
        np.random.default_rng(length).permuted(keys, axis=-1, out=keys)  # weights may see the order
        return keys, task.posterior(keys), noise
    tilted = isinstance(task, TiltedTask)
    if drawn < length:
        first = 1 if tilted else 0
        keys[..., first:] = _largest(keys[..., first:], length - first)
    if isinstance(task, TiltedTask):
        if task.gaussian_shift is None:  # else the shift comes with the keys
            keys[..., 0] = task.relevant_scores(special.ndtr(keys[..., 0]))
        location = np.zeros(drawn)
        location[0] = 1.0
        return keys, location, noise
    location = task.posterior(keys)
    if drawn < length and not math.isinf(task.signal):
        location *= _share(task, keys, length - drawn)
    return keys, location, noise


def _largest(normals: FloatArray, count: int) -> FloatArray:
    """Return the largest of ``count`` normals in descending order, from independent normals.

    ``−log`` of the order statistics of uniforms are sums of exponentials (Rényi).
    """
    exponential = -special.log_ndtr(normals)
    spacing = exponential / (count - np.arange(normals.shape[-1], dtype=float))
    return np.asarray(-special.ndtri(-np.expm1(-np.cumsum(spacing, axis=-1))))


def _share(task: Task, keys: FloatArray, rest: int) -> FloatArray:
    """Return the chance that the location is among the scores drawn, the others at their mean."""
    x = np.linspace(-9.3, 0.0, 400)
    scores = keys[..., -1:] + x  # a token below the smallest score drawn
    law = np.exp(-(scores**2) / 2.0)
    law /= law.sum(axis=-1, keepdims=True)
    top = task.log_posterior(keys[..., :1])
    inside = np.exp(task.log_posterior(keys) - top).sum(axis=-1, keepdims=True)
    outside = rest * (law * np.exp(task.log_posterior(scores) - top)).sum(axis=-1, keepdims=True)
    return np.asarray(inside / (inside + outside))
