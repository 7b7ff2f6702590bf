"""Search for the best keys of an activation: the overlap ``m_k`` and, if free, the bias.

A scan of a ladder of overlaps on coarse grids gives the starts, Newton's method the minimum. Where
a factor on all scores is without effect, the overlap is 1 or −1 and only the bias is searched. The
objective is ``log((B−A²)/A²)``, the log odds of the risk, accurate both near 0 and near 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeAlias

import numpy as np
from scipy import special

from slrlab._errors import ComputationError
from slrlab._result import Status
from slrlab._types import FloatArray
from slrlab.model.activations import LINEAR, Activation, Elementwise, Projection
from slrlab.model.families import CosineReweighted, LengthScaled, NormMax, StickBreaking, TopK
from slrlab.model.tasks import SelectionTask, Task
from slrlab.model.traits import degree
from slrlab.numerics.minimise import NewtonMinimum, newton_minimum
from slrlab.theory.moments import AttentionMoments, attention_moments
from slrlab.theory.moments.selected import selected_score_mean

_SCAN, _DESCENT, _POLISH = 0.5, 0.7, 1.05  # resolutions
_SAMPLED = 0.06  # resolution of a search by sampling: an error in m_k is an error squared in risk
_BIASES = (0.0, -1.0, -2.5, -5.0, 1.0)
# biases to try where the overlap has no effect
_MORE_BIASES = (*_BIASES, -0.5, -1.7, -3.5, 0.5, 2.5)
_HALFWAY = "halfway"  # the bias that puts the bend midway between relevant and other tokens
_LARGEST_SCALE, _LARGEST_BIAS = 64.0, 60.0
_STEEPEST = 1e6  # overlap beyond which only ties within 1/m_k still change
_FLAT = 16.0  # overlap beyond which minima are so flat that small differences are rounding
_SMALL = 0.2  # overlap below which a risk may still fall towards 0
_TINY = 1.0 / 64.0  # overlap at which the limit of vanishing keys is approached
_ROUNDING = 1e-12  # gain in log odds below which it is rounding
_BROKEN = 1e-3  # defect of the moments above which they are not used
_FAR_BELOW = 1.0  # log odds by which a minimum between two rungs of the ladder is not missed
_RUNGS = 24  # number of rungs of the ladder at small overlaps

MomentsOf: TypeAlias = Callable[..., AttentionMoments]
Objective: TypeAlias = Callable[[float, float | None, float], float]
Start: TypeAlias = tuple[float, float | None]


@dataclass(frozen=True)
class KeySearch:
    """The best overlap, the activation at its best bias, and how the search ended.

    ``remaining`` estimates how far the log odds of the risk would still fall beyond the edge of
    the search (0 for an optimum inside, infinite if unknown). ``edge_risk`` is the noiseless risk
    at that edge on a coarse grid (nan for an optimum inside).
    """

    m_k: float
    activation: Activation
    status: Status
    remaining: float = 0.0
    edge_risk: float = math.nan


def best_keys(
    task: Task,
    activation: Activation,
    moments_of: MomentsOf = attention_moments,
    *,
    limit: float = math.nan,
) -> KeySearch:
    """Return the keys of least risk for a task with a finite or hard-selection signal.

    ``moments_of`` computes the moments, for a head that is not always needed. ``limit`` is the
    noiseless risk of infinitely long keys, if known: they are the best ones where it is far below
    all that a scan sees, or below the risk at the end of the scan if that is its least.
    """
    sampled = _is_sampled(task, activation)

    @cache  # the scan, the edge and the descents share points
    def objective(m_k: float, bias: float | None, resolution: float) -> float:
        shaped = _shaped(activation, bias)
        resolution = _SAMPLED if sampled else resolution
        try:
            moments = moments_of(task, shaped, m_k, 0.0, resolution=resolution, check=False)
        except (ValueError, ComputationError):  # too many tokens or too fine a grid
            return math.inf
        valid = math.isfinite(moments.target) and moments.target != 0.0
        if not (valid and moments.unexplained >= 0.0 and moments.defect < _BROKEN):
            return math.inf
        if moments.unexplained == 0.0:
            return -math.inf
        return math.log(moments.unexplained) - 2.0 * math.log(abs(moments.target))

    exact = _exact_keys(task, activation) if moments_of is attention_moments else None
    if exact is not None:
        return KeySearch(exact, activation, Status.CONVERGED)
    starts, lossless = _scan(task, activation, objective)
    m_k, bias = starts[0]
    largest, widest = _largest(task), _widest(task)
    above = 0.0 if m_k >= largest else _FAR_BELOW
    if limit <= special.expit(objective(m_k, bias, _SCAN) - above):
        return KeySearch(math.inf, activation, Status.LIMIT)
    if lossless or (bias is None and degree(activation) is not None):
        return KeySearch(m_k, _shaped(activation, bias), Status.CONVERGED)

    def at_edge(m_k: float, bias: float | None) -> bool:
        """Return whether the risk still falls at the end of the ladder."""
        if m_k < largest:
            return False
        before, here = (objective(scale * m_k, bias, _DESCENT) for scale in (0.8, 1.0))
        return before > here + _ROUNDING

    if at_edge(m_k, bias):
        return _edge(activation, [(m_k / 4.0, bias), (m_k / 2.0, bias), (m_k, bias)], objective)
    descend = partial(_descend, task, objective, fixed=degree(activation) is not None)
    descents = [descend(start, _DESCENT, 1e-3) for start in starts]
    m_k, bias, minimum = min(descents, key=lambda triple: triple[2].value)
    if bias is not None and 0.0 < abs(m_k) < _SMALL and degree(activation) is None:
        edge = _vanishing(activation, bias / m_k, math.copysign(_TINY, m_k), objective)
        if math.isfinite(edge.remaining):
            return edge
    # a sampled risk has kinks, and steep keys have a flat minimum: neither can be polished
    if not sampled and m_k < _FLAT:
        projected = isinstance(_base(activation), Projection | NormMax)
        costly = projected and isinstance(task, SelectionTask)
        fine = (_DESCENT, 1e-5) if costly else (_POLISH, 1e-7)
        m_k, bias, minimum = descend((m_k, bias), *fine)
    shaped = _shaped(activation, bias)
    if sampled and math.isinf(objective(m_k / 1.5 or 0.125, bias, _SCAN)):
        return KeySearch(m_k, shaped, Status.BOUNDARY, remaining=math.inf)
    if at_edge(m_k, bias):
        return _edge(activation, [(m_k / 4.0, bias), (m_k / 2.0, bias), (m_k, bias)], objective)
    if bias is not None and abs(bias) >= 0.95 * widest:
        return _edge(activation, [(m_k, bias / 4.0), (m_k, bias / 2.0), (m_k, bias)], objective)
    return KeySearch(m_k, shaped, Status.CONVERGED if minimum.settled else Status.INACCURATE)


def _is_sampled(task: Task, activation: Activation) -> bool:
    """Return whether the moments of a typical point are sampled."""
    kinds = Projection | NormMax | TopK | CosineReweighted | StickBreaking
    if not isinstance(_base(activation), kinds):
        return False
    fixed = _shaped(activation, 0.0 if activation.bias is None else None)
    return attention_moments(task, fixed, 1.0, resolution=_SAMPLED).sampled_error > 0.0


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
    """Return the largest bias: a bend may be midway between tokens that are far apart."""
    return max(_LARGEST_BIAS, _largest(task) * (task.gaussian_shift or 0.0))


def _ladder(task: Task, width: float) -> list[float]:
    """Return the overlaps of the scan, in the order of their cost.

    ``width`` is that of the map: a narrow one may need scores as small.
    """
    shift, largest = task.gaussian_shift or 0.0, _largest(task)
    powers = 0.125 * 2.0 ** np.arange(1.0 + min(10.0, math.ceil(math.log2(8.0 * largest))))
    rungs = [*(min(float(rung), largest) for rung in powers)]
    if largest > rungs[-1]:
        count = math.ceil(math.log(largest / rungs[-1], 4.0))
        rungs += np.geomspace(rungs[-1], largest, count + 1)[1:].tolist()
    low: list[float] = []
    # a score of order 1, or as small as the map is narrow, at the relevant token
    least = min(0.125 * width, 1.0 / shift if 16.0 < shift < math.inf else 0.125)
    if least < 0.125:
        count = min(_RUNGS, math.ceil(math.log2(0.125 / least)))
        low = np.geomspace(least, 0.125, count + 1)[:-1].tolist()
    return [-2.0, -0.5, 0.0, *low, *rungs]


def _scan(task: Task, activation: Activation, objective: Objective) -> tuple[list[Start], bool]:
    """Return the starts of descents, best first; or one point without any loss, and True."""
    free, shift = activation.bias is None, task.gaussian_shift
    ladder, known = _ladder(task, activation.width), [*_BIASES]
    if degree(activation) is not None:
        ladder, known = [1.0, -1.0], [*_MORE_BIASES]
    biases: list[float | str | None] = [*known] if free else [None]
    if free and shift is not None and shift > 0.0:
        biases.append(_HALFWAY)
    seen: list[tuple[float, float, float | None]] = []
    if _prefers_large(task, activation):
        ladder = [m_k for m_k in ladder if m_k >= 0.0]
    for kind in biases:
        lowest, risen = math.inf, 0
        for m_k in ladder:
            bias = -0.5 * m_k * (shift or 0.0) if isinstance(kind, str) else kind
            value = objective(m_k, bias, _SCAN)
            seen.append((value, m_k, bias))
            if value == -math.inf:
                return [(m_k, bias)], True
            # the cost grows with m_k: stop when the risk has risen three times
            risen = risen + 1 if value > lowest and m_k > 0.5 else 0
            lowest = min(lowest, value)
            if risen == 3:
                break
    seen.sort(key=lambda row: row[0])
    return [(m_k, bias) for _, m_k, bias in seen[: 3 if free else 1]], False


def _prefers_large(task: Task, activation: Activation) -> bool:
    """Return whether larger scores are likelier to be relevant and get larger weights.

    Where tokens are exchangeable and their law is symmetric, reversing the keys then leaves ``B``
    and lowers ``A``, by the rearrangement inequality.
    """
    towards = isinstance(task, SelectionTask) and task.posterior_scale is not None
    return towards and isinstance(_base(activation), Projection | NormMax | TopK)


def _base(activation: Activation) -> Activation:
    return activation.base if isinstance(activation, LengthScaled) else activation


def _descend(
    task: Task,
    objective: Objective,
    start: Start,
    resolution: float,
    tolerance: float,
    *,
    fixed: bool = False,
) -> tuple[float, float | None, NewtonMinimum]:
    """Run Newton's method on ``asinh(m_k/unit)``, ``unit`` the size of ``m_k`` itself.

    A free bias is measured from halfway between relevant and other tokens, ``−m_k·shift/2``. It is
    searched alone if the overlap is ``fixed``.
    """
    m_k, bias = start
    largest, widest, shift = _largest(task), _widest(task), task.gaussian_shift or 0.0
    unit = abs(m_k) or 0.05
    free = bias is not None

    def evaluated(point: FloatArray) -> Start:
        scale = m_k if fixed else unit * math.sinh(point[0])
        return scale, float(point[-1]) - 0.5 * scale * shift if free else None

    def function(point: FloatArray) -> float:
        m_k, bias = evaluated(point) if fixed or abs(point[0]) < 20.0 else (math.inf, None)
        if abs(m_k) > 1.2 * largest or abs(bias or 0.0) > widest:
            return math.inf
        return objective(m_k, bias, resolution)

    middle = [] if bias is None else [bias + 0.5 * m_k * shift]
    overlap = [] if fixed else [math.asinh(m_k / unit)]
    minimum = newton_minimum(
        function,
        np.array([*overlap, *middle]),
        difference=1e-3 if m_k < _FLAT else 2e-2,
        tolerance=tolerance,
    )
    return *evaluated(minimum.point), minimum


def _vanishing(activation: Activation, ratio: float, m_k: float, objective: Objective) -> KeySearch:
    """Return the limit in which overlap and bias tend to 0 together, at their best ratio.

    There only the first power of the map counts. In overlap and bias the valley that leads to the
    limit is curved: Newton's method would need a hundred steps in it.
    """
    best = newton_minimum(
        lambda point: objective(m_k, m_k * float(point[0]), _POLISH), np.array([ratio])
    )
    bias = m_k * float(best.point[0])
    points: list[Start] = [(size * m_k, size * bias) for size in (1.0, 1 / 8, 1 / 64)]
    return _edge(activation, points, objective)


def _edge(activation: Activation, points: list[Start], objective: Objective) -> KeySearch:
    """Return the last of three points towards a limit, with the gain beyond it extrapolated.

    If the gains of successive steps shrink by a constant factor, the rest is a geometric sum; else
    it is unknown.
    """
    m_k, bias = points[-1]
    values = [objective(*point, _DESCENT) for point in points]
    before, gain = values[0] - values[1], values[1] - values[2]
    shrink = gain / before if before > 0.0 else math.inf
    remaining = gain * shrink / (1.0 - shrink) if 0.0 <= shrink < 0.75 else math.inf
    risk = float(special.expit(values[2]))
    return KeySearch(m_k, _shaped(activation, bias), Status.BOUNDARY, remaining, risk)
