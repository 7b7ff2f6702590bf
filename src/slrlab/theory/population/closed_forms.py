r"""Closed forms of the population theory, with which the quadrature is checked.

All hold for ``y = z*_ε + Δξ`` and, except that of erf attention, for a predictor on M with the best
``v``; ``L̄ = E[L]``.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from slrlab.model.marion import MarionSLR
from slrlab.model.order_parameters import FullOrderParameters
from slrlab.model.tasks import MaxSLR, SpikedSLR, Task
from slrlab.theory.moments.selected import selected_score_mean


def linear_risk(task: Task) -> float:
    r"""Return the least risk of linear attention ``1 + χ``.

    Spiked-SLR: ``Δ² + (L̄−1)/(L̄ + ν(L̄−1)/L̄)``, at ``m_k = √ν(L̄−1)/L̄``, hence ``~ L̄/ν``.
    Max-SLR: ``Δ² + 1 − (1+μ̄²)/L̄``, ``μ̄ = E[χ*_ε]``, at ``m_k = μ̄``.

    Examples
    --------
    >>> from slrlab import SpikedSLR
    >>> linear_risk(SpikedSLR(signal=2.0, length=2))
    0.3333333333333333
    """
    mean, m_k = task.length.mean, linear_keys(task)
    if isinstance(task, MaxSLR):
        return task.noise**2 + 1.0 - (1.0 + m_k**2) / mean
    if math.isinf(task.signal):
        return task.noise**2
    return task.noise**2 + (mean - 1.0) / (mean + task.signal * (mean - 1.0) / mean)


def linear_keys(task: Task) -> float:
    """Return the ``m_k`` of the least risk of linear attention: see `linear_risk`."""
    if isinstance(task, MaxSLR):
        return selected_score_mean(task)
    if isinstance(task, SpikedSLR):
        return math.sqrt(task.signal) * (task.length.mean - 1.0) / task.length.mean
    raise TypeError(f"task must be SpikedSLR or MaxSLR, got {type(task).__name__}")


def softmax_tail(signal: float, length: int) -> float:
    r"""Return ``(L−1)(√π/2) ν^{−1/2} e^{−ν/4}``, the Bayes risk of spiked-SLR as ``ν → ∞``.

    >>> round(softmax_tail(100.0, 2) / 1.2021262594e-12, 3)
    1.024
    """
    return (length - 1) * math.sqrt(math.pi) / 2.0 * math.exp(-signal / 4.0) / math.sqrt(signal)


def needles_softmax_risk(signal: float, length: int, needles: int) -> float:
    r"""Return the least noiseless risk of softmax with ``J >= 2`` needles as ``ν → ∞``.

    Short keys weigh the needles evenly, long keys shut out the other tokens. To leading order the
    risk is ``(J−1)/J·m² + (L−J)/J·e^{−2m√ν}``; its minimum ``(J−1)/(4Jν)·W(W+2)``, with Lambert's
    ``W = W(2ν(L−J)/(J−1))``, falls as ``(log ν)²/ν``, a power of the signal.

    >>> round(needles_softmax_risk(1e6, 10, 2) / 2.7820837817e-05, 4)
    1.0
    """
    w = float(special.lambertw(2.0 * signal * (length - needles) / (needles - 1)).real)
    return (needles - 1) / (4.0 * needles * signal) * w * (w + 2.0)


def best_elementwise_risk(task: SpikedSLR) -> float:
    r"""Return the least risk of *any* elementwise activation on spiked-SLR at a fixed length.

    The optimum is ``σ(χ) = sigmoid(√ν χ − ν/2 − log(L−1))``, with risk
    ``1 − E_g sigmoid(√ν g + ν/2 − log(L−1))``, written here as a sum of positive terms.

    Raises
    ------
    ValueError
        If the length is random.
    """
    if len(task.length.lengths) != 1:
        raise ValueError(f"length must be a single number here, got {task.length}")
    length = task.length.longest
    if length == 1:
        return task.noise**2
    root = math.sqrt(task.signal)
    step = 0.3 / max(1.0, root)
    g = np.arange(-9.5 - root, 9.5, step)
    miss = special.expit(-(root * g + task.signal / 2.0 - math.log(length - 1.0)))
    density = np.exp(-(g**2) / 2.0) / math.sqrt(2.0 * math.pi)
    return task.noise**2 + float(step * (density @ miss))


def erf_risk(task: MarionSLR, order: FullOrderParameters) -> float:
    r"""Return the risk of ``Σ erf(χ_ℓ) z_ℓ`` on the task of Marion et al. (2024), on M or off it.

    By Stein's lemma it takes ``E erf``, ``ζ(t, s) = E erf²(t + s x)`` and derivatives of both in
    ``t``; ``ζ(t, s) = 1 − 8 T(√2 t/√(1 + 2s²), 1/√(1 + 4s²))`` with Owen's function ``T``. At unit
    ``v`` and keys ``λk`` with a unit ``k`` it is the formula of the paper.

    Examples
    --------
    >>> from slrlab import FullOrderParameters, MarionSLR
    >>> aligned = FullOrderParameters(0.1, 0.0, 0.0, 1.0, 0.01, 0.0, 1.0)
    >>> round(erf_risk(MarionSLR(signal=200.0, length=10), aligned), 6)
    0.113498
    """
    variance = task.relevant_std**2
    key_mean, value_mean = task.shift * order.m_kk, task.shift * order.m_vk
    std = task.relevant_std * math.sqrt(order.q_kk)
    first, slope, curve = _erf_means(key_mean, std)
    square, square_slope, square_curve = _erf_squares(key_mean, std)
    cross = variance * order.q_kv
    label = order.m_vv * first + order.m_kv * (slope * value_mean + cross * curve)
    relevant = (value_mean**2 + variance * order.q_vv) * square
    relevant += 2.0 * value_mean * cross * square_slope + cross**2 * square_curve
    mean = value_mean * first + cross * slope
    idle, _, idle_curve = _erf_squares(0.0, math.sqrt(order.q_kk))
    idle_mean = order.q_kv * _erf_means(0.0, math.sqrt(order.q_kk))[1]
    _, others, pairs = (float(g[0]) for g in task.length.generating(np.zeros(1)))
    risk = task.trivial_risk - 2.0 * variance * label + relevant
    risk += others * (order.q_vv * idle + order.q_kv**2 * idle_curve)
    return risk + pairs * idle_mean**2 + 2.0 * others * idle_mean * mean


def _bell(x: float) -> float:
    """Return the derivative of erf."""
    return 2.0 / math.sqrt(math.pi) * math.exp(-(x**2))


def _erf_means(mean: float, std: float) -> tuple[float, float, float]:
    """Return ``E erf``, ``E erf'`` and ``E erf''`` of a Gaussian variable."""
    width = math.sqrt(1.0 + 2.0 * std**2)
    x = mean / width
    return math.erf(x), _bell(x) / width, -2.0 * x * _bell(x) / width**2


def _erf_squares(mean: float, std: float) -> tuple[float, float, float]:
    """Return ``ζ(mean, std)`` and its first two derivatives in the mean."""
    width, ratio = math.sqrt(1.0 + 2.0 * std**2), math.sqrt(1.0 + 4.0 * std**2)
    x = mean / width
    value = 1.0 - 8.0 * float(special.owens_t(math.sqrt(2.0) * x, 1.0 / ratio))
    slope = 2.0 / width * math.erf(x / ratio) * _bell(x)
    curve = 2.0 / width**2 * _bell(x) * (_bell(x / ratio) / ratio - 2.0 * x * math.erf(x / ratio))
    return value, slope, curve
