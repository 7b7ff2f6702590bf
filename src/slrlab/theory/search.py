"""The search for the best keys of an activation: one overlap ``m_k`` and, if free, a bias.

A ladder of overlaps on coarse grids finds the valley, Newton's method its bottom. What is
minimised is ``log((B−A²)/A²)``, the log odds of the risk, sharp both near 0 and near 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slrlab._result import Status
from slrlab.model.activations import Activation, Projection
from slrlab.model.lengths import FloatArray
from slrlab.model.tasks import Task
from slrlab.numerics.minimise import Minimum, newton_minimum
from slrlab.theory.moments import attention_moments

_SCAN, _DESCENT, _POLISH = 0.5, 0.7, 1.05  # resolutions
_BIASES = (0.0, -1.0, -2.5, -5.0, 1.0)
_LARGEST_SCALE, _LARGEST_BIAS = 64.0, 60.0

Objective = Callable[[float, float | None, float], float]


@dataclass(frozen=True)
class KeySearch:
    """The best overlap, the activation at its best bias, and how the search ended.

    ``remaining`` estimates how far the log odds of the risk would still fall beyond the edge of
    the search (0 for an optimum inside, infinite if unknown).
    """

    m_k: float
    activation: Activation
    status: Status
    remaining: float = 0.0


def best_keys(task: Task, activation: Activation) -> KeySearch:
    """Return the keys of least risk for a task with a finite or hard-selection signal."""

    def objective(m_k: float, bias: float | None, level: float) -> float:
        shaped = activation if bias is None else activation.with_bias(bias)
        found = attention_moments(task, shaped, m_k, resolution=level, check=False)
        if not (found.spread > 0.0 and found.target != 0.0):
            return math.inf
        return math.log(found.spread) - 2.0 * math.log(abs(found.target))

    largest = max(_LARGEST_SCALE, 2.0 * task.steepness if math.isfinite(task.signal) else 0.0)
    starts: list[tuple[float, float | None]]
    if activation.is_softmax and task.posterior_scale is not None:
        starts = [(task.posterior_scale, None)]  # Prop. 4.2: the posterior itself
    else:
        starts = _valleys(activation, largest, objective)
    if starts[0][0] >= largest and _still_falls(objective, starts[0]):
        return _edge(activation, starts[0], objective)
    descents = [_descend(objective, start, _DESCENT, 1e-3) for start in starts]
    m_k, bias, found = min(descents, key=lambda triple: triple[2].value)
    if not isinstance(activation, Projection):  # a sampled risk has kinks: nothing to polish
        m_k, bias, found = _descend(objective, (m_k, bias), _POLISH, 1e-7)
    shaped = activation if bias is None else activation.with_bias(bias)
    if m_k > largest or abs(bias or 0.0) >= 0.95 * _LARGEST_BIAS:
        return KeySearch(m_k, shaped, Status.BOUNDARY)
    return KeySearch(m_k, shaped, Status.CONVERGED if found.settled else Status.INACCURATE)


def _valleys(
    activation: Activation, largest: float, objective: Objective
) -> list[tuple[float, float | None]]:
    """Return the points worth a descent, best first."""
    free = activation.bias is None
    rungs = 0.125 * 2.0 ** np.arange(1 + math.ceil(math.log2(8.0 * largest)))
    seen: list[tuple[float, float, float | None]] = []
    for bias in _BIASES if free else (None,):
        lowest, risen = math.inf, 0
        for m_k in (-2.0, -0.5, 0.0, *(float(min(rung, largest)) for rung in rungs)):
            value = objective(m_k, bias, _SCAN)
            seen.append((value, m_k, bias))
            # costs grow with m_k: stop once the risk has turned upwards for good
            risen = risen + 1 if value > lowest and m_k > 0.5 else 0
            lowest = min(lowest, value)
            if risen == 3:
                break
    seen.sort(key=lambda row: row[0])
    return [(m_k, bias) for _, m_k, bias in seen[: 3 if free else 1]]


def _descend(
    objective: Objective, start: tuple[float, float | None], level: float, tolerance: float
) -> tuple[float, float | None, Minimum]:
    """Run Newton's method on ``(asinh(m_k/unit), bias)``, ``unit`` the size of ``m_k`` itself."""
    m_k, bias = start
    unit = max(abs(m_k), 0.05)
    free = bias is not None

    def function(point: FloatArray) -> float:
        if abs(point[0]) > 20.0 or (free and abs(point[1]) > _LARGEST_BIAS):
            return math.inf
        return objective(unit * math.sinh(point[0]), float(point[1]) if free else None, level)

    first = np.array([math.asinh(m_k / unit), bias] if free else [math.asinh(m_k / unit)])
    found = newton_minimum(function, first, tolerance=tolerance)
    return unit * math.sinh(found.point[0]), float(found.point[1]) if free else None, found


def _still_falls(objective: Objective, start: tuple[float, float | None]) -> bool:
    m_k, bias = start
    return objective(0.8 * m_k, bias, _DESCENT) > objective(m_k, bias, _DESCENT)


def _edge(
    activation: Activation, start: tuple[float, float | None], objective: Objective
) -> KeySearch:
    """Return the end of the ladder, with the gain beyond it extrapolated.

    If the gains of successive doublings shrink by a steady factor, the rest is a geometric sum.
    If they do not, nothing is known of what lies beyond.
    """
    m_k, bias = start
    values = [objective(m_k / factor, bias, _DESCENT) for factor in (4.0, 2.0, 1.0)]
    before, gain = values[0] - values[1], values[1] - values[2]
    shrink = gain / before if before > 0.0 else math.inf
    remaining = gain * shrink / (1.0 - shrink) if 0.0 <= shrink < 0.75 else math.inf
    shaped = activation if bias is None else activation.with_bias(bias)
    return KeySearch(m_k, shaped, Status.BOUNDARY, remaining=remaining)
