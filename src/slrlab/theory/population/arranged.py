r"""The Bayes risk of tasks with several kinds of tokens, by quadrature or by a sample.

The posterior mean of the label is ``Σ p_ℓ z_ℓ`` with ``p_ℓ = E[c_ℓ | χ*]``, ``c`` the coefficients
of the label, and the Bayes risk ``1 − E Σ p_ℓ² = 1 − E Σ c_ℓ p_ℓ``. A common shift of the scores
does not change ``p``: for few tokens a trapezoid rule in ``L − 1`` dimensions is exact to rounding.
For more, the scores are randomised quasi-Monte Carlo points, and softmax is the control: its risk
``E‖c − bσ‖²`` is a quadrature, and the Bayes risk lies ``E‖p − bσ‖²`` below it, the sampled part.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from slrlab import _checks
from slrlab._result import Estimate
from slrlab._types import FloatArray
from slrlab.model.activations import SOFTMAX
from slrlab.model.arrangements import ArrangementTask
from slrlab.model.lengths import LengthLaw
from slrlab.numerics.qmc import normal_replicates
from slrlab.theory.moments import attention_moments
from slrlab.theory.moments.nodes import EDGE, NODE_STEP, gauss_weights
from slrlab.theory.population.search import best_keys

_MOST_NODES = 1_500_000  # largest number of nodes of a quadrature
_RESOLUTIONS = (1.0, 1.35)
_LONGEST = 4096  # tokens of a sampled sequence
_BLOCKS, _ENTRIES = 16, 1 << 17  # independent parts of a sample, and the scores of each


class ArrangedRisk(NamedTuple):
    """Noiseless Bayes risk, the relative difference of its two forms, error, whether sampled."""

    risk: float
    gap: float
    error: float
    sampled: bool


@lru_cache(maxsize=64)
def arranged_risk(task: ArrangementTask) -> ArrangedRisk:
    """Return the noiseless Bayes risk, averaged over the length.

    Raises
    ------
    ValueError
        If a sequence is too long for a sample.
    """
    if task.length.longest > _LONGEST:
        accepted = f"at most {_LONGEST} for the Bayes risk of the task {task.name}"
        _checks.fail("length", accepted, str(task.length))
    parts = [(p, _one_length(task, n)) for n, p in task.length.pairs()]
    risk = math.fsum(p * part.risk for p, part in parts)
    gap = math.fsum(p * part.gap * part.risk for p, part in parts) / risk if risk else 0.0
    sampled = any(part.sampled for _, part in parts)
    errors = [p * part.error for p, part in parts]
    return ArrangedRisk(risk, gap, math.hypot(*errors) if sampled else math.fsum(errors), sampled)


def _one_length(task: ArrangementTask, length: int) -> ArrangedRisk:
    if task.kinds[0].count == length:  # every token is relevant
        return ArrangedRisk(0.0, 0.0, 0.0, False)
    nodes = 2.0 * EDGE * _RESOLUTIONS[-1] * task.steepness / NODE_STEP
    if nodes ** (length - 1) < _MOST_NODES:
        (coarse, _), (squares, location) = (quadrature(task, length, one) for one in _RESOLUTIONS)
        gap = abs(squares - location) / squares if squares else 0.0
        error = abs(squares - coarse) + abs(squares - location) + 1e-15
        return ArrangedRisk(squares, gap, error, False)
    return _sampled(task, length)


def quadrature(task: ArrangementTask, length: int, resolution: float = 1.0) -> tuple[float, float]:
    """Return ``1 − E Σ p²`` and ``1 − E Σ c p``, the placed tokens being the first ones."""
    # orthonormal vectors that sum to zero: the projection of the scores on them determines p
    basis = np.linalg.qr(np.eye(length) - 1.0 / length)[0][:, : length - 1]
    step = NODE_STEP / (resolution * task.steepness)
    axis = np.arange(-EDGE, EDGE + step, step)
    law = gauss_weights(axis, step)
    shape = (axis.size,) * (length - 2)
    grid = np.indices(shape).reshape(length - 2, math.prod(shape))
    others, weights = axis[grid].T, law[grid].prod(axis=0)
    forms = np.zeros(2)
    for x, weight in zip(axis, law, strict=True):  # a slice of the first dimension at a time
        scores = np.column_stack([np.full(len(others), x), others]) @ basis.T
        scores[:, : task.shifts.size] += task.shifts
        forms += weight * (weights @ _forms(task, task.posterior(scores)))
    squares, location = (1.0 - forms).tolist()
    return squares, location


def _sampled(task: ArrangementTask, length: int) -> ArrangedRisk:
    """Return the risk of softmax less what it loses; the error is a standard error."""
    fixed = replace(task, length=LengthLaw.of(length))
    m_k = best_keys(fixed, SOFTMAX).m_k
    coarse, moments = (
        attention_moments(fixed, SOFTMAX, m_k, resolution=one) for one in _RESOLUTIONS
    )
    log2_size = max(6, math.floor(math.log2(_ENTRIES / length)))
    blocks = []
    for scores in normal_replicates(length, log2_size, _BLOCKS, (0, length)):
        scores[:, : task.shifts.size] += task.shifts
        p = task.posterior(scores)
        away = p - moments.best_value_scale * SOFTMAX.weights(m_k * scores)
        blocks.append([*_forms(task, p).mean(axis=0), (away**2).sum(axis=1).mean()])
    squares, location, lost = (Estimate.of(column) for column in np.transpose(blocks))
    risk, error = moments.best_risk - lost.value, lost.error + 1e-15
    error += abs(moments.best_risk - coarse.best_risk)
    if squares.error < error:  # softmax is too far from the best predictor to be a control variate
        risk, error = 1.0 - squares.value, squares.error
    return ArrangedRisk(risk, abs(squares.value - location.value) / risk, error, True)


def _forms(task: ArrangementTask, p: FloatArray) -> FloatArray:
    """Return ``Σ p²`` and ``Σ c p`` of each sequence as columns; the relevant tokens come first."""
    count = task.kinds[0].count
    return np.stack([(p**2).sum(axis=1), p[:, :count].sum(axis=1) / math.sqrt(count)], axis=1)
