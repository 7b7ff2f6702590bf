"""A fixed sample of key scores with the posterior of each sequence, and moments of weights on it.

Scrambled Sobol points in independent blocks: one sample serves every activation and every overlap,
and the differences of the blocks give standard errors. Independent of what is optimised.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from slrlab import _checks
from slrlab._types import FloatArray
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task
from slrlab.numerics.qmc import normal_replicates
from slrlab.theory.moments.types import scaled

BLOCKS = 16
_LONGEST = 1024  # tokens of a sequence
_MOST_ENTRIES = 1 << 24  # scores of a sample


@dataclass(frozen=True)
class WeightMoments:
    """Means over sequences for each length (rows) and block (columns), for weights ``σ``.

    ``norm`` is the mean of ``‖p‖²``, ``target`` of ``⟨σ, p⟩``, ``energy`` of ``‖σ‖²``, ``fitted``
    of ``⟨σ, p⟩²/‖σ‖²``; ``total`` and ``total_square`` are those of ``Σσ`` and its square. Weights
    whose squares would over- or underflow are in units of the largest: no property depends on it.
    """

    probabilities: FloatArray
    norm: FloatArray
    target: FloatArray
    energy: FloatArray
    fitted: FloatArray
    total: FloatArray
    total_square: FloatArray

    def _average(self, values: FloatArray) -> FloatArray:
        return np.asarray(self.probabilities @ values)

    @property
    def shape(self) -> FloatArray:
        """``E‖p − βσ‖²`` with the best factor ``β`` of each sequence, in each block."""
        return self._average(self.norm - self.fitted)

    @property
    def size(self) -> FloatArray:
        """``E (β − b_L)²‖σ‖²`` with the best factor of each length, in each block."""
        factor = _ratio(self.target.mean(1), self.energy.mean(1))[:, None]
        return self._average(self.fitted - factor * (2.0 * self.target - factor * self.energy))

    @property
    def length(self) -> FloatArray:
        """``E (b_L − b)²‖σ‖²`` with the best factor of all, in each block."""
        target, energy = self.target.mean(1), self.energy.mean(1)
        own = _ratio(target, energy)[:, None]
        gap = own - _ratio(self._average(target), self._average(energy))
        # the second term has mean 0: it is the error of the factor of each length
        return self._average(gap**2 * self.energy + 2.0 * gap * (self.target - own * self.energy))

    @property
    def excess(self) -> float:
        """``E‖p − bσ‖²`` with the best factor of all: the sum of shape, size and length."""
        target, energy = self._average(self.target.mean(1)), self._average(self.energy.mean(1))
        fitted = float(_ratio(target, energy) * target)
        return float(self._average(self.norm.mean(1))) - fitted

    @property
    def sum_variation(self) -> float:
        """Variance of ``Σσ`` over its squared mean."""
        mean = float(self._average(self.total.mean(1)))
        square = float(self._average(self.total_square.mean(1)))
        return max(square / mean**2 - 1.0, 0.0) if mean else math.inf


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Return a quotient; 0/0 is 0."""
    zero = np.zeros_like(np.asarray(above, dtype=float))
    return np.asarray(np.divide(above, below, out=zero, where=np.asarray(below) > 0.0))


@dataclass(frozen=True)
class KeySample:
    """Sequences of each length: its probability, key scores ``(blocks, size, L)``, posteriors."""

    groups: tuple[tuple[float, FloatArray, FloatArray], ...]

    def moments(self, activation: Activation, m_k: float) -> WeightMoments:
        """Return the moments of the weights at keys ``m_k k*``."""
        with np.errstate(over="ignore", invalid="ignore"):
            weights = [activation.weights(m_k * keys) for _, keys, _ in self.groups]
            _, unit = scaled(np.array([np.abs(sigma).max() for sigma in weights]))
            rows = [
                _means(sigma / unit, p)
                for sigma, (_, _, p) in zip(weights, self.groups, strict=True)
            ]
        columns = np.stack(rows, axis=1)
        columns[~np.isfinite(columns)] = np.nan  # weights that overflow have no moments
        probabilities = np.array([probability for probability, *_ in self.groups])
        return WeightMoments(probabilities, *columns)

    def single_lengths(self) -> Iterator[tuple[float, KeySample]]:
        """Yield each length with its probability, as a sample of its own."""
        for probability, keys, p in self.groups:
            yield probability, KeySample(((1.0, keys, p),))


def _means(sigma: FloatArray, p: FloatArray) -> FloatArray:
    inner, energy = (sigma * p).sum(-1), (sigma**2).sum(-1)
    total = sigma.sum(-1)
    columns = ((p**2).sum(-1), inner, energy, _ratio(inner**2, energy), total, total**2)
    return np.stack([column.mean(-1) for column in columns])


@lru_cache(maxsize=4)
def draw_keys(task: Task, log2_size: int, seed: int) -> KeySample:
    """Draw `BLOCKS` blocks of about ``2**log2_size`` sequences each.

    The tokens are in random order: weights may depend on it.

    Raises
    ------
    ValueError
        If a sequence is too long for a sample, or its relevant score is not finite.
    """
    if task.has_infinite_score:
        _checks.fail("signal", f"finite to sample task {task.name}", task.signal)
    longest = task.length.longest
    # short sequences are cheap, and what is lost on them is lost rarely: they get as many scores
    shares = [
        (n, p, log2 + math.floor(math.log2(longest / n)))
        for n, p, log2 in task.length.shares(log2_size)
    ]
    entries = sum(BLOCKS * n << log2 for n, _, log2 in shares)
    if longest > _LONGEST or entries > _MOST_ENTRIES:
        accepted = f"at most {_LONGEST} and take few values for a sample"
        _checks.fail("length", accepted, str(task.length))
    return KeySample(tuple(_draw_group(task, n, p, log2, seed) for n, p, log2 in shares))


def _draw_group(
    task: Task, length: int, probability: float, log2_size: int, seed: int
) -> tuple[float, FloatArray, FloatArray]:
    keys = np.empty((BLOCKS, 1 << log2_size, length))
    rng = np.random.default_rng((seed, length))
    normals = normal_replicates(length + 1, log2_size, BLOCKS, (seed, length))
    for block, drawn in zip(keys, normals, strict=True):
        # a task may give the relevant token first and the others in order
        rng.permuted(task.scores_from_uniforms(special.ndtr(drawn)), axis=1, out=block)
    return probability, keys, task.posterior(keys)
