"""Moments of projection activations (sparsemax, entmax) by randomised quasi-Monte Carlo.

Their threshold couples all tokens, so no product of one-token factors is available; results carry
a standard error from independent replicates instead of a quadrature error.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from slrlab.model.activations import Projection
from slrlab.model.lengths import FloatArray
from slrlab.model.tasks import Task, TiltedTask
from slrlab.numerics.qmc import normal_replicates
from slrlab.theory.moments.nodes import tilted_nodes
from slrlab.theory.moments.types import AttentionMoments

_REPLICATES = 8
_ENTRIES = 1 << 17  # normals per replicate at resolution 1
_LONGEST = 4096


def projection_moments(
    task: Task, activation: Projection, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    """Return the moments with the standard error of ``A²/B``.

    Raises
    ------
    ValueError
        If a sequence is too long to be sampled.
    """
    if task.length.longest > _LONGEST:
        raise ValueError(
            f"length must be at most {_LONGEST} for {activation.name}, which is sampled, "
            f"got {task.length}"
        )
    sums = np.zeros((2, _REPLICATES))
    for length, weight in zip(task.length.lengths, task.length.probabilities, strict=True):
        entries = max(_ENTRIES * resolution * math.sqrt(weight), 64.0 * length)
        size = max(6, math.ceil(math.log2(entries / length)))
        keys, place, noise = _scores(task, length, size, R_k > 0.0)
        sigma = activation.weights(m_k * keys + math.sqrt(R_k) * noise)
        sums[0] += weight * (sigma * place).sum(axis=-1).mean(axis=-1)
        sums[1] += weight * (sigma**2).sum(axis=-1).mean(axis=-1)
    target, energy = (float(value) for value in sums.mean(axis=1))
    ratios = sums[0] ** 2 / sums[1]
    error = float(ratios.std(ddof=1)) / math.sqrt(_REPLICATES)
    spread = max(energy - target**2, 0.0)
    return AttentionMoments(target, 1.0 - target, spread, sampled_error=max(error, 1e-16))


@lru_cache(maxsize=8)
def _scores(
    task: Task, length: int, log2_size: int, noisy: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return key scores ``(replicate, sample, token)``, the law of the place, and extra normals.

    The same draw serves every ``m_k``: the sampled risk is then a smooth function of it.
    """
    dimension = length * (2 if noisy else 1)
    draws = np.stack(list(normal_replicates(dimension, log2_size, _REPLICATES)))
    keys, noise = draws[..., :length].copy(), draws[..., length:] if noisy else np.zeros(1)
    if isinstance(task, TiltedTask):
        keys[..., 0] = _relevant(task, keys[..., 0])
        place = np.zeros(length)
        place[0] = 1.0
        return keys, place, noise
    return keys, task.posterior(keys), noise


def _relevant(task: TiltedTask, normals: FloatArray) -> FloatArray:
    """Map standard normals to the relevant token's law through both distribution functions."""
    from scipy import special

    x, relevant, _ = tilted_nodes(task, 200.0, 1.0)
    below = np.cumsum(relevant) - 0.5 * relevant
    return np.interp(special.ndtr(normals), below / relevant.sum(), x)
