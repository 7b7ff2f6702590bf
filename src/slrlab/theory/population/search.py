"""The search for the best keys of an activation: one overlap ``m_k`` and, if free, a bias.

A ladder of overlaps on coarse grids finds the valley, Newton's method its bottom. What is
minimised is ``log((B−A²)/A²)``, the log odds of the risk, sharp both near 0 and near 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from slrlab._result import Status
from slrlab._types import FloatArray
from slrlab.model.activations import LINEAR, Activation, Elementwise, Projection
from slrlab.model.tasks import SelectionTask, Task
from slrlab.numerics.minimise import Minimum, newton_minimum
from slrlab.theory.moments import attention_moments
from slrlab.theory.moments.selected import selected_score_mean

_SCAN, _DESCENT, _POLISH = 0.5, 0.7, 1.05  # resolutions
_SAMPLED = 0.06  # resolution of a search by sampling: an error in m_k is an error squared in risk
_BIASES = (0.0, -1.0, -2.5, -5.0, 1.0)
_HALFWAY = "halfway"  # a bias that puts the bend midway between relevant and other tokens
_LARGEST_SCALE, _LARGEST_BIAS = 64.0, 60.0
_STEEPEST = 1e6  # keys beyond which only ties within 1/m_k still change anything
_FLAT = 16.0  # overlap beyond which valleys are so flat that small differences are rounding
_RUNGS = 24  # of the ladder at small overlaps

Objective: TypeAlias = Callable[[float, float | None, float], float]
Start: TypeAlias = tuple[float, float | None]


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
    sampled = isinstance(activation, Projection)

    def objective(m_k: float, bias: float | None, level: float) -> float:
        shaped = _shaped(activation, bias)
        level = _SAMPLED if sampled else level
        try:
            found = attention_moments(task, shaped, m_k, resolution=level, check=False)
        except ValueError:  # more tokens get weight than can be sampled
            return math.inf
        if not (found.unexplained >= 0.0 and found.target != 0.0):
            return math.inf
        if found.unexplained == 0.0:
            return -math.inf
        return math.log(found.unexplained) - 2.0 * math.log(abs(found.target))

    exact = _exact_keys(task, activation)
    if exact is not None:
        return KeySearch(exact, activation, Status.CONVERGED)
    starts, lossless = _valleys(task, activation, objective)
    if lossless:
        return KeySearch(starts[0][0], _shaped(activation, starts[0][1]), Status.CONVERGED)
    largest, widest = _largest(task), _widest(task)
    if starts[0][0] >= largest and _still_falls(objective, starts[0]):
        return _edge(activation, starts[0], objective)
    descents = [_descend(task, objective, start, _DESCENT, 1e-3) for start in starts]
    m_k, bias, found = min(descents, key=lambda triple: triple[2].value)
    # a sampled risk has kinks, and steep keys make a flat valley: nothing to polish
    if not sampled and m_k < _FLAT:
        m_k, bias, found = _descend(task, objective, (m_k, bias), _POLISH, 1e-7)
    shaped = _shaped(activation, bias)
    if sampled and math.isinf(objective(m_k / 1.5 or 0.125, bias, _SCAN)):
        return KeySearch(m_k, shaped, Status.BOUNDARY, remaining=math.inf)
    if m_k >= largest or abs(bias or 0.0) >= 0.95 * widest:
        return KeySearch(m_k, shaped, Status.BOUNDARY)
    return KeySearch(m_k, shaped, Status.CONVERGED if found.settled else Status.INACCURATE)


def _shaped(activation: Activation, bias: float | None) -> Activation:
    return activation if bias is None else activation.with_bias(bias)


def _exact_keys(task: Task, activation: Activation) -> float | None:
    """Return the best overlap where it is known: softmax (Prop. 4.2) and ``constant + χ``."""
    if activation.is_softmax and task.posterior_scale is not None:
        return task.posterior_scale
    if not (isinstance(activation, Elementwise) and activation.phi is LINEAR.phi):
        return None
    constant = 1.0 + float(activation.bias or 0.0)
    shift, mean = task.gaussian_shift, task.length.mean
    if activation.bias is None or constant == 0.0:
        return None
    if shift is not None:
        return constant * shift * (1.0 - 1.0 / mean)
    return constant * selected_score_mean(task) if isinstance(task, SelectionTask) else None


def _largest(task: Task) -> float:
    """Return the end of the ladder of overlaps."""
    steep = 2.0 * task.steepness if math.isfinite(task.signal) else 0.0
    # independent tokens: a relevant score far above the others needs no steep map
    most = _STEEPEST if isinstance(task, SelectionTask) else 2.0 * _LARGEST_SCALE
    return max(_LARGEST_SCALE, min(steep, most))


def _widest(task: Task) -> float:
    """Return the end of the biases: a bend may sit midway between tokens that are far apart."""
    return max(_LARGEST_BIAS, _largest(task) * (task.gaussian_shift or 0.0))


def _ladder(task: Task) -> list[float]:
    """Return the overlaps to look at, in the order of their cost."""
    shift, largest = task.gaussian_shift or 0.0, _largest(task)
    powers = 0.125 * 2.0 ** np.arange(1.0 + min(10.0, math.ceil(math.log2(8.0 * largest))))
    rungs = [*(min(float(rung), largest) for rung in powers)]
    if largest > rungs[-1]:
        count = math.ceil(math.log(largest / rungs[-1], 4.0))
        rungs += np.geomspace(rungs[-1], largest, count + 1)[1:].tolist()
    low: list[float] = []
    if 16.0 < shift < math.inf:  # a score of order 1 at the relevant token
        count = min(_RUNGS, math.ceil(math.log2(shift / 8.0)))
        low = np.geomspace(1.0 / shift, 0.125, count + 1)[:-1].tolist()
    return [-2.0, -0.5, 0.0, *low, *rungs]


def _valleys(task: Task, activation: Activation, objective: Objective) -> tuple[list[Start], bool]:
    """Return the points worth a descent, best first; or one point without any loss."""
    free, shift = activation.bias is None, task.gaussian_shift
    biases: list[float | str | None] = [*_BIASES] if free else [None]
    if free and shift is not None and shift > 0.0:
        biases.append(_HALFWAY)
    seen: list[tuple[float, float, float | None]] = []
    for kind in biases:
        lowest, risen = math.inf, 0
        for m_k in _ladder(task):
            bias = -0.5 * m_k * (shift or 0.0) if isinstance(kind, str) else kind
            value = objective(m_k, bias, _SCAN)
            seen.append((value, m_k, bias))
            if value == -math.inf:
                return [(m_k, bias)], True
            # costs grow with m_k: stop once the risk has turned upwards for good
            risen = risen + 1 if value > lowest and m_k > 0.5 else 0
            lowest = min(lowest, value)
            if risen == 3:
                break
    seen.sort(key=lambda row: row[0])
    return [(m_k, bias) for _, m_k, bias in seen[: 3 if free else 1]], False


def _descend(
    task: Task, objective: Objective, start: Start, level: float, tolerance: float
) -> tuple[float, float | None, Minimum]:
    """Run Newton's method on ``asinh(m_k/unit)``, ``unit`` the size of ``m_k`` itself.

    A free bias is measured from halfway between relevant and other tokens, ``−m_k·shift/2``.
    """
    m_k, bias = start
    largest, widest, shift = _largest(task), _widest(task), task.gaussian_shift or 0.0
    unit = abs(m_k) or 0.05
    free = bias is not None

    def evaluated(point: FloatArray) -> Start:
        scale = unit * math.sinh(point[0])
        return scale, float(point[1]) - 0.5 * scale * shift if free else None

    def function(point: FloatArray) -> float:
        found = evaluated(point) if abs(point[0]) < 20.0 else (math.inf, None)
        if abs(found[0]) > 1.2 * largest or abs(found[1] or 0.0) > widest:
            return math.inf
        return objective(*found, level)

    middle = [] if bias is None else [bias + 0.5 * m_k * shift]
    found = newton_minimum(
        function,
        np.array([math.asinh(m_k / unit), *middle]),
        difference=1e-3 if m_k < _FLAT else 2e-2,
        tolerance=tolerance,
    )
    return *evaluated(found.point), found


def _still_falls(objective: Objective, start: Start) -> bool:
    m_k, bias = start
    return objective(0.8 * m_k, bias, _DESCENT) > objective(m_k, bias, _DESCENT)


def _edge(activation: Activation, start: Start, objective: Objective) -> KeySearch:
    """Return the end of the ladder, with the gain beyond it extrapolated.

    If the gains of successive doublings shrink by a steady factor, the rest is a geometric sum.
    If they do not, nothing is known of what lies beyond.
    """
    m_k, bias = start
    values = [objective(m_k / factor, bias, _DESCENT) for factor in (4.0, 2.0, 1.0)]
    before, gain = values[0] - values[1], values[1] - values[2]
    shrink = gain / before if before > 0.0 else math.inf
    remaining = gain * shrink / (1.0 - shrink) if 0.0 <= shrink < 0.75 else math.inf
    return KeySearch(m_k, _shaped(activation, bias), Status.BOUNDARY, remaining=remaining)
