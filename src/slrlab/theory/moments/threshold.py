"""Moments of projections (sparsemax, entmax): integrals over the threshold, no sampling.

The scores are ``y = χ/power``; a token gets the weight ``h(y − τ)`` with ``h(u) = u₊^power``.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from slrlab._types import FloatArray
from slrlab.model.activations import Projection
from slrlab.model.tasks import SelectionTask, Task, TiltedTask
from slrlab.numerics.graded import panels
from slrlab.numerics.steep import several
from slrlab.numerics.threshold import (
    ThresholdRule,
    missing_below,
    threshold_rule,
)
from slrlab.theory.moments.nodes import edge, gauss_weights, key_nodes
from slrlab.theory.moments.selected import selection_grid
from slrlab.theory.moments.types import AttentionMoments

_STEP = 0.5  # of the threshold, in standard deviations of the largest of the scores
_COARSE = 0.7  # panels and steps at resolution 1, for ten digits
_MOST_ENTRIES = 4_000_000  # of the matrix of thresholds and scores above them
# beyond this slope of the log posterior or this length, sampling is cheaper on a selection task
_STEEPEST, _LONGEST = 10.0, 10_000


def threshold_moments(
    task: Task, activation: Projection, m_k: float, R_k: float, resolution: float
) -> AttentionMoments | None:
    """Return the moments of a projection; None where no rule of this module is good for them.

    A rule needs the density of the scores of all tokens, and a width of the scores that is not
    small against the weights.
    """
    power, resolution = activation.power, _COARSE * resolution
    m, width = m_k / power, math.hypot(m_k, math.sqrt(R_k)) / power
    if isinstance(task, TiltedTask) and (task.gaussian_shift is not None or R_k == 0.0):
        return _tilted(task, power, m, width, resolution)
    if isinstance(task, SelectionTask) and R_k == 0.0 and m > 0.0:
        return _selected(task, power, width, resolution)
    return None


def _rule(
    task: Task, power: float, width: float, ends: tuple[float, float], resolution: float
) -> tuple[FloatArray, float, ThresholdRule] | None:
    """Return thresholds, their step, and the rule above them; ``ends`` hold the scores."""
    # the largest token alone reaches a sum of 1 one unit below it
    low, high = ends[0] - 1.0, ends[1]
    narrow = 1.0 / math.sqrt(1.0 + 2.0 * math.log(task.length.longest))
    step = _COARSE * _STEP * width * narrow / resolution
    if not (high - low) ** 2 / (step * width) < _MOST_ENTRIES / 12:
        return None
    return np.arange(low, high, step), step, threshold_rule(power, width, high - low, resolution)


def _tilted(
    task: TiltedTask, power: float, m: float, width: float, resolution: float
) -> AttentionMoments | None:
    """Return the moments for independent tokens; ``m`` and ``width`` are those of ``y``."""
    first, last = sorted(m * end for end in task.relevant_interval)
    if task.gaussian_shift is not None:
        first, last = (m * task.gaussian_shift + side * 9.3 * width for side in (-1.0, 1.0))
    reach = edge(task) * width
    grid = _rule(task, power, width, (first, max(last, reach)), resolution)
    if grid is None:
        return None
    x, step, rule = grid
    y = x[:, None] + rule.u
    others = gauss_weights(y / width, 1.0 / width) * rule.weights
    if task.gaussian_shift is not None:
        mean = m * task.gaussian_shift
        relevant = gauss_weights((y - mean) / width, 1.0 / width) * rule.weights
    else:
        relevant = others * np.exp(np.minimum(task.log_ratio(y / m), 700.0))
    g0, g1, _ = task.length.generating(np.log1p(-rule.average(others, rule.missing)), 2)
    present = 1.0 - rule.average(relevant, rule.missing)
    target = step * rule.moment(rule.average(relevant, rule.first) * g0)
    shortfall = step * rule.moment(rule.average(others, rule.first) * present * g1)
    energy = step * rule.moment(
        rule.average(relevant, rule.second) * g0 + rule.average(others, rule.second) * present * g1
    )
    return _moments(target, shortfall, energy, abs(target + shortfall - 1.0))


def _moments(target: float, shortfall: float, energy: float, defect: float) -> AttentionMoments:
    # the weights sum to 1: B − A² = (B − 1) + 2(1−A) − (1−A)²
    unexplained = max(0.0, (energy - 1.0) + shortfall * (2.0 - shortfall))
    return AttentionMoments(target, shortfall, unexplained, defect)


def _selected(
    task: SelectionTask, power: float, width: float, resolution: float
) -> AttentionMoments | None:
    """Return the moments where the location is selected: all tokens are ``N(0, width²)``."""
    reach = edge(task) * width
    grid = _rule(task, power, width, (-reach, reach), resolution)
    cheap = task.hard or (task.steepness <= _STEEPEST and task.length.longest <= _LONGEST)
    if grid is None or not cheap:
        return None
    x, step, rule = grid
    y = x[:, None] + rule.u
    tokens = gauss_weights(y / width, 1.0 / width) * rule.weights
    multiple = several(np.log1p(-rule.average(tokens, rule.missing)), task.length.generating)
    total = step * rule.moment(rule.average(tokens, rule.first) * multiple)
    energy = step * rule.moment(rule.average(tokens, rule.second) * multiple)
    if task.hard:
        target = _largest_weight(task, power, width, resolution)
    else:
        target = step * _selected_first(task, width, (y, tokens), rule, resolution)
    return _moments(target, 1.0 - target, energy, abs(total - 1.0))


def _selected_first(
    task: SelectionTask,
    width: float,
    grid: tuple[FloatArray, FloatArray],
    rule: ThresholdRule,
    resolution: float,
) -> float:
    """Return ``E[σ_ε]`` over the step of the thresholds: a sum over the selection variable."""
    y, tokens = grid
    nodes, spacing = key_nodes(task, task.steepness, resolution)
    law = gauss_weights(nodes, spacing)
    u, weights = selection_grid(task, nodes, law, resolution, sharpness=math.inf)
    log_w = task.log_weight(y / width)
    lost = -np.expm1(-np.exp(np.minimum(u[:, None] + task.log_weight(nodes), 700.0))) @ law
    sums = np.zeros(rule.series.size, dtype=complex)
    for s, weight, missing in zip(u, weights, lost, strict=True):
        race = np.exp(np.minimum(s + log_w, 700.0))
        stay = tokens * np.exp(-race)
        log_z = np.log1p(-np.minimum(missing, 1.0 - 1e-16) - rule.average(stay, rule.missing))
        factors = rule.average(race * stay, rule.first) * several(log_z, task.length.generating)
        sums += weight * factors.sum(axis=0)
    return rule.moment(sums)


def _largest_weight(task: SelectionTask, power: float, width: float, resolution: float) -> float:
    """Return the mean of the largest weight: at an infinite signal it is that of the location.

    Given the largest score ``y``, all others lie below it: ``u < v`` where ``v = y − x``.
    """
    reach = edge(task) * width
    narrow = 1.0 / math.sqrt(1.0 + 2.0 * math.log(task.length.longest))
    top, weights = panels(np.arange(-reach, reach, width * narrow), resolution)
    density = gauss_weights(top / width, 1.0 / width) * weights
    beyond = special.ndtr(-top / width)[:, None]
    rule = threshold_rule(power, width, 2.0 * reach, resolution)
    share, share_weights = panels(np.linspace(0.0, 1.0, 7), resolution)
    sums = np.zeros(rule.series.size, dtype=complex)
    for i, v in enumerate(rule.u):
        below = top[:, None] - v * (1.0 - share)
        law = gauss_weights(below / width, v / width) * share_weights
        lost = beyond + rule.average(law, missing_below(v * share, power))
        multiple = several(np.log1p(-lost), task.length.generating)
        sums += rule.weights[i] * (density @ multiple) * rule.first[i]
    return rule.moment(sums)
