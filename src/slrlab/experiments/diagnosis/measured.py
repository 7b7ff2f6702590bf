"""What the weights of a head do on measured scores: no theory enters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from slrlab._types import FloatArray
from slrlab.experiments.diagnosis.scores import HeadScores
from slrlab.model.activations import Activation, Normalised, Projection
from slrlab.numerics.minimise import NewtonMinimum, newton_minimum

_SURE = 0.01  # p-value below which the offsets of sequences count as different
_SINKS = np.arange(-8.0, 4.0)  # log of the sink, from the mean log of the sum of the weights
_SLOPES = np.arange(-3.0, 4.0)  # log of the slope of the scores, in units of their std
_GAIN = 1e-6  # least decrease of the risk for which a sink is reported


@dataclass(frozen=True)
class Weighed:
    """Mean weight ``A`` on the relevant token, ``B = E Σσ²``, and hits, of measured scores."""

    A: float
    B: float
    hits: float

    @property
    def risk(self) -> float:
        """``1 − A²/B``: the risk on labels that are read with these weights."""
        return 1.0 - self.A**2 / self.B if self.B > 0.0 else 1.0


def weigh(head: HeadScores, activation: Activation) -> Weighed:
    """Apply an activation to the scores; equal largest scores share a hit."""
    rows = np.arange(head.count)
    if isinstance(activation, Normalised | Projection):  # tokens that are absent have no weight
        sigma = activation.weights(head.scores)
    else:
        sigma = np.zeros_like(head.scores)
        for length in np.unique(head.lengths).tolist():
            of = head.lengths == length
            sigma[of, :length] = activation.weights(head.scores[of, :length])
    largest = head.scores == head.scores.max(axis=1, keepdims=True)
    hits = largest[rows, head.locations] / largest.sum(axis=1)
    A, B = sigma[rows, head.locations].mean(), (sigma**2).sum(axis=1).mean()
    return Weighed(float(A), float(B), float(hits.mean()))


def offsets(head: HeadScores) -> tuple[HeadScores, float]:
    """Remove the offset of each sequence if there is one; return also its share of the variance.

    Softmax does not depend on a number that is added to all scores of a sequence. A one-way
    analysis of variance of the irrelevant scores tests whether there is one. If so, each score is
    taken from the mean of the other irrelevant scores of its sequence, and irrelevant scores are
    scaled to keep their variance.
    """
    mask = head.irrelevant
    counts = mask.sum(axis=1)
    if counts.min() < 2:
        return head, 0.0
    values = np.where(mask, head.scores, 0.0)
    means = values.sum(axis=1) / counts
    inside = float(np.where(mask, (head.scores - means[:, None]) ** 2, 0.0).sum())
    total, sequences = int(counts.sum()), head.count
    grand = float(values.sum()) / total
    between = float((counts * (means - grand) ** 2).sum()) / (sequences - 1)
    within = inside / (total - sequences)
    if not within > 0.0:
        return head, 0.0
    if special.fdtrc(sequences - 1, total - sequences, between / within) > _SURE:
        return head, 0.0
    size = total / sequences
    offset = max(0.0, (between - within) / size)
    others = (values.sum(axis=1)[:, None] - values) / (counts[:, None] - mask)
    scale = np.where(mask, np.sqrt((counts - 1.0) / counts)[:, None], 1.0)
    centred = np.where(head.present, (head.scores - others) * scale, -np.inf)
    return HeadScores(centred, head.lengths, head.locations), offset / (offset + within)


@dataclass(frozen=True)
class Tuned:
    """Softmax of the scores at its best temperature, and with the best sink at its own."""

    temperature: float
    risk: float
    sink_temperature: float
    log_sink: float
    sink_risk: float

    @property
    def helps(self) -> bool:
        """Whether a sink lowers the risk."""
        return math.isfinite(self.log_sink)


def tune(head: HeadScores, near: Tuned | None = None) -> Tuned:
    """Return the temperature of least risk, without a sink and with the best one.

    ``near`` is the result of almost the same scores, at which the search starts.
    """
    rows = np.arange(head.count)

    def log_sums(slope: float) -> FloatArray:
        return np.asarray(special.logsumexp(math.exp(slope) * head.scores, axis=1))

    def log_risk(point: FloatArray) -> float:
        slope, log_sum = float(point[0]), log_sums(float(point[0]))
        if len(point) > 1:
            log_sum = np.logaddexp(log_sum, float(point[1]))
        sigma = np.exp(math.exp(slope) * head.scores - log_sum[:, None])
        A, B = sigma[rows, head.locations].mean(), (sigma**2).sum(axis=1).mean()
        return float(np.log1p(-min(A**2 / B, 1.0 - 1e-16)))

    def descend(start: FloatArray) -> NewtonMinimum:
        return newton_minimum(log_risk, start, difference=1e-2, tolerance=1e-3)

    if near is None:
        unit = -math.log(float(np.std(head.scores[head.irrelevant])))
        slopes = [np.array([unit + step]) for step in _SLOPES.tolist()]
        plain = descend(min(slopes, key=log_risk))
        level = float(log_sums(float(plain.point[0])).mean())
        sinks = [np.array([float(plain.point[0]), level + step]) for step in _SINKS.tolist()]
        start = min(sinks, key=log_risk)
        helps = math.exp(plain.value) - math.exp(log_risk(start)) > _GAIN
    else:
        plain = descend(np.array([-math.log(near.temperature)]))
        start, helps = np.array([-math.log(near.sink_temperature), near.log_sink]), near.helps
    sunk = descend(start) if helps else plain
    return Tuned(
        temperature=math.exp(-float(plain.point[0])),
        risk=math.exp(plain.value),
        sink_temperature=math.exp(-float(sunk.point[0])),
        log_sink=float(sunk.point[1]) if helps else -math.inf,
        sink_risk=math.exp(sunk.value),
    )
