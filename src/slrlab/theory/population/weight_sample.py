"""Samples of attention weights beside the posterior: means over blocks, and bins of the weight.

The posterior probability of each token takes the place of the hidden location: it has the same mean
and less variance. Independent of what is done with the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from slrlab._result import Estimate, standard_error
from slrlab._types import FloatArray
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task

_BLOCKS = 32  # independent parts of a sample: their variance gives the errors
_MOST = 1 << 21  # tokens of a block


class _Sequences(NamedTuple):
    """Scores, weights and posterior of sequences of one length."""

    scores: FloatArray
    sigma: FloatArray
    p: FloatArray


@dataclass(frozen=True)
class WeightSample:
    """Means over independent blocks of sequences.

    Attributes
    ----------
    means
        For each name one number for each block: hit rates of weights and of scores, ``σᵀp``,
        ``‖σ‖²``, ``‖p‖²``, ``‖σ − p‖²``, ``Σσ`` and the entropy.
    tables
        For each block the rows tokens, ``Σσ`` and ``Σp`` over bins of the weight.
    sign
        −1 if the weights lean against the posterior: then the largest is that of ``−σ``.
    samples
        Sequences drawn.
    """

    means: dict[str, FloatArray]
    tables: FloatArray
    sign: float
    samples: int

    def estimate(self, *terms: tuple[float, str]) -> Estimate:
        """Return a linear combination of means."""
        return Estimate.of(sum(factor * self.means[name] for factor, name in terms))

    def bins(self) -> dict[str, FloatArray]:
        """Return the columns of the reliability diagram."""
        tokens, weight, p = self.tables.mean(axis=0)
        # to first order the error of r = a/b, a ratio of means, is that of a − r b, over b
        rest = self.tables[:, 2] - p / tokens * self.tables[:, 0]
        error = standard_error(rest) / tokens
        names = ("bin_weight", "bin_posterior", "bin_posterior_error", "bin_tokens")
        return dict(zip(names, (weight / tokens, p / tokens, error, tokens), strict=True))

    def miscalibration(self, scale: float) -> Estimate:
        """Return the sum over bins of ``tokens·(b·weight − p)²``, less what noise adds to it."""
        gaps, tokens = scale * self.tables[:, 1] - self.tables[:, 2], self.tables[:, 0]
        gap, count = gaps.mean(axis=0), tokens.mean(axis=0)
        noise = gaps.var(axis=0, ddof=1) / len(gaps)
        value = float(((gap**2 - noise) / count).sum())
        # to first order, what each block adds
        parts = (gap / count * (2.0 * gaps - gap / count * tokens)).sum(axis=1)
        return Estimate(max(0.0, value), Estimate.of(parts).error)


@np.errstate(over="ignore", invalid="ignore")
def sample_weights(
    task: Task,
    activation: Activation,
    keys: tuple[float, float],
    *,
    samples: int,
    bins: int,
    seed: int,
) -> WeightSample:
    """Draw sequences and return what their weights are, at ``keys = (m_k, R_k)``."""
    blocks = max(_BLOCKS, math.ceil(samples * task.length.mean / _MOST))
    size = math.ceil(samples / blocks)
    cuts, sign = np.zeros(0), 1.0
    rows: list[FloatArray] = []
    tables: list[FloatArray] = []
    for stream in np.random.SeedSequence(seed).spawn(blocks):
        parts = list(_draw(task, activation, keys, size, np.random.default_rng(stream)))
        weight = np.concatenate([part.sigma.ravel() for part in parts])
        p = np.concatenate([part.p.ravel() for part in parts])
        if not rows:
            cuts, sign = _cuts(weight, p, bins), -1.0 if weight @ p < 0.0 else 1.0
        group = np.searchsorted(cuts, weight, side="right")
        columns = (np.ones_like(p), weight, p)
        sums = [np.bincount(group, column, cuts.size + 1) for column in columns]
        tables.append(np.array(sums) / size)
        rows.append(np.sum([_sums(part, sign) for part in parts], axis=0) / size)
    names = ("hit", "score_hit", "target", "energy", "certainty", "distance", "total", "entropy")
    table = np.array(tables)
    kept = table[:, 0].sum(axis=0) > 0.0
    means = dict(zip(names, np.array(rows).T, strict=True))
    return WeightSample(means, table[:, :, kept], sign, size * blocks)


def _draw(
    task: Task,
    activation: Activation,
    keys: tuple[float, float],
    size: int,
    rng: np.random.Generator,
) -> Iterator[_Sequences]:
    """Yield sequences, those of one length together."""
    m_k, R_k = keys
    lengths, counts = np.unique(task.length.sample(rng, size), return_counts=True)
    for length, count in zip(lengths.tolist(), counts.tolist(), strict=True):
        own, _ = task.sample_scores(rng, count, length)
        scores = m_k * own
        if R_k > 0.0:
            scores += math.sqrt(R_k) * rng.standard_normal(own.shape)
        yield _Sequences(scores, activation.weights(scores), task.posterior(own))


def _sums(part: _Sequences, sign: float) -> FloatArray:
    """Return sums over sequences of one length."""
    sigma, p = part.sigma, part.p
    size = np.abs(sigma)
    whole = size.sum(axis=1, keepdims=True)
    equal = np.full_like(size, 1.0 / sigma.shape[1])  # where all weights are 0
    share = np.divide(size, whole, out=equal, where=whole > 0.0)
    return np.array(
        [
            _hits(sign * sigma, p),
            _hits(sign * part.scores, p),
            (sigma * p).sum(),
            (sigma**2).sum(),
            (p**2).sum(),
            ((sigma - p) ** 2).sum(),
            sigma.sum(),
            special.entr(share).sum(),
        ]
    )


def _hits(values: FloatArray, p: FloatArray) -> float:
    """Return the expected number of relevant tokens at the largest value; equal ones share it."""
    top = values == values.max(axis=1, keepdims=True)
    return float(((p * top).sum(axis=1) / top.sum(axis=1)).sum())


def _cuts(weight: FloatArray, p: FloatArray, bins: int) -> FloatArray:
    """Return the weights between bins of equal shares of relevant plus other tokens.

    A weight that many tokens have, such as 0, is a bin of its own.
    """
    values, group = np.unique(weight, return_inverse=True)
    share = p / p.sum() + (1.0 - p) / max(p.size - p.sum(), 1.0)
    mass = np.bincount(group, share)
    heavy = mass > mass.sum() / bins
    reached = np.cumsum(np.where(heavy, 0.0, mass))
    at = np.searchsorted(reached, reached[-1] * np.arange(1, bins) / bins)
    alone = values[heavy]
    return np.unique(np.concatenate([values[at], alone, np.nextafter(alone, np.inf)]))
