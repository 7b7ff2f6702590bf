r"""Rules for weights ``h(y_ℓ − τ)`` whose threshold ``τ`` makes them sum to 1, ``h(u) = u₊^p``.

The threshold lies below ``x`` exactly if ``Σ h(y_ℓ − x) < 1``. The probability that a sum of
independent terms stays below 1 is an inverse Laplace transform of a product of one-token factors,
so every moment of the weights is an integral over ``x`` and a sum over a few complex ``t``. The
cost does not depend on the number of tokens. The module knows no tasks.
"""

# notation: docs/notation.md, "Laplace variables"
from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from slrlab._types import FloatArray
from slrlab.numerics.graded import panels

ComplexArray = npt.NDArray[np.complex128]

_DECAY = 25.0  # 2·Re t
_TERMS, _AVERAGED = 20, 16  # terms of the alternating series, and more that are averaged
_HIGHEST = 40.0 / (0.5 * _DECAY)  # h beyond which e^{−th} is below rounding
_PHASE = 0.12  # panels in h: a phase of about 9 at the largest t


def inversion() -> tuple[ComplexArray, ComplexArray]:
    r"""Return ``t`` and weights ``c`` with ``f(1) ≈ Re Σ c·F(t)``, ``F(t) = ∫₀^∞ e^{−tT} f(T) dT``.

    The Fourier series of Abate and Whitt (1995) with Euler summation. Its error is a few 1e-11
    for ``|f| <= 1``, if ``f`` has no kink but at 0.
    """
    k = np.arange(_TERMS + _AVERAGED + 1)
    tails = np.cumsum([math.comb(_AVERAGED, j) for j in range(_AVERAGED, 0, -1)])[::-1]
    share = np.concatenate([np.ones(_TERMS + 1), tails / 2.0**_AVERAGED])
    share[0] = 0.5
    t = np.asarray((_DECAY + 2j * math.pi * k) / 2.0, dtype=complex)
    return t, np.asarray(math.exp(_DECAY / 2.0) * share * (-1.0) ** k, dtype=complex)


@dataclass(frozen=True)
class ThresholdRule:
    r"""One-token functions of ``u = y − x`` and ``t``, on nodes that resolve them.

    Attributes
    ----------
    u, weights
        Nodes ``u > 0`` and their weights.
    missing
        ``1 − e^{−th(u)}``, a row for each node, a column for each ``t``.
    first, second
        ``h' e^{−th}`` and ``2hh' e^{−th}``: their integrals over ``x`` give ``σ`` and ``σ²``.
    series
        Weights of the columns in the inverse transform at 1, divided by ``t``.
    """

    u: FloatArray
    weights: FloatArray
    missing: ComplexArray
    first: ComplexArray
    second: ComplexArray
    series: ComplexArray

    def average(self, law: FloatArray, function: ComplexArray) -> ComplexArray:
        """Return the averages of a function of ``(u, t)`` under laws on the nodes (last axis)."""
        # as a real product: half the cost of a complex one
        return np.asarray((law @ function.view(float)).view(complex))

    def moment(self, factors: ComplexArray) -> float:
        """Return the inverse transform of factors summed over ``x``; ``t`` is the last axis."""
        return float((factors.reshape(-1, self.series.size).sum(axis=0) @ self.series).real)


@lru_cache(maxsize=16)
def threshold_rule(power: float, width: float, reach: float, resolution: float) -> ThresholdRule:
    """Return the rule for ``h(u) = u₊^power`` and ``0 < u < reach``.

    ``width`` is the length on which the density of the tokens varies.
    """
    window = min(_HIGHEST ** (1.0 / power), reach)
    heights = np.arange(0.0, _HIGHEST, _PHASE) ** (1.0 / power)
    # a power that is not a whole number has a kink at 0: panels shrink towards it
    kink = heights[1] * 0.5 ** np.arange(1.0, 40.0) if power % 1.0 else np.empty(0)
    near = np.linspace(0.0, window, 1 + math.ceil(window / width))
    far = np.linspace(window, reach, 1 + math.ceil((reach - window) / width))
    edges = np.unique(np.concatenate([heights[heights < window], kink, near, far]))
    u, weights = panels(edges, resolution)
    return _rule(u, weights, power)


def missing_below(u: FloatArray, power: float) -> ComplexArray:
    """Return ``1 − e^{−th(u)}``; ``t`` is the last axis."""
    t, _ = inversion()
    height = np.minimum(u**power, 2.0 * _HIGHEST)
    return np.asarray(-np.expm1(-height[..., None] * t))


def _rule(u: FloatArray, weights: FloatArray, power: float) -> ThresholdRule:
    t, c = inversion()
    height, slope = u**power, power * u ** (power - 1.0)
    missing = missing_below(u, power)
    # not 1 − missing: its rounding would be multiplied by the slope, which is large far out
    decay = np.exp(-np.minimum(height, 2.0 * _HIGHEST)[:, None] * t)
    first = np.asarray(slope[:, None] * decay, dtype=complex)
    second = np.asarray(2.0 * height[:, None] * first, dtype=complex)
    return ThresholdRule(u, weights, missing, first, second, series=c / t)
