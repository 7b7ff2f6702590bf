r"""Rules for weights ``h(y_ℓ − τ)`` whose threshold ``τ`` fixes a sum, ``h(u) = u₊^p``.

The threshold lies below ``x`` exactly if ``Σ h(y_ℓ − x)`` is below that sum. The probability of
this is an inverse Laplace transform of a product of one-token factors, so every moment of the
weights is an integral over ``x`` and a sum over a few complex ``t``. The cost does not depend on
the number of tokens. The module knows no tasks.

Weights that are cut at 1 have a kink there, which would spoil the inverse transform. But
``e^{−t min(h, 1)}`` is ``e^{−th}`` plus ``e^{−t}`` times a function without a kink: in powers of
``w = e^{−t}``, each of which shifts the sum by 1, all factors are smooth.
"""

# notation: docs/notation.md, "Laplace variables"
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from slrlab._types import FloatArray
from slrlab.numerics.graded import panels

ComplexArray = npt.NDArray[np.complex128]
Generating: TypeAlias = Callable[[Any, int], tuple[Any, ...]]
"""``(log z, order) -> (G, G', …)`` of ``G(z) = E z^(L−1)``."""

_DECAY = 25.0  # 2·Re t
_TERMS, _AVERAGED = 20, 16  # terms of the alternating series, and more that are averaged
_HIGHEST = 40.0 / (0.5 * _DECAY)  # h beyond which e^{−th} is below rounding
_PHASE = 0.12  # panels in h: a phase of about 9 at the largest t
_RECIPROCAL = 0.14  # step of the rule for a reciprocal


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
    cut
        What a cut at 1 adds to ``e^{−th}``, ``first`` and ``second``, divided by ``e^{−t}``.
    series, density
        Weights of the columns in the inverse transform, with and without a division by ``t``:
        of the probability that the sum is below its value, and of its density there.
    """

    u: FloatArray
    weights: FloatArray
    missing: ComplexArray
    first: ComplexArray
    second: ComplexArray
    cut: tuple[ComplexArray, ...]
    series: ComplexArray
    density: ComplexArray

    def average(self, law: FloatArray, function: ComplexArray) -> ComplexArray:
        """Return the averages of a function of ``(u, t)`` under laws on the nodes (last axis)."""
        # as a real product: half the cost of a complex one
        return np.asarray((law @ function.view(float)).view(complex))

    def moment(self, factors: ComplexArray) -> float:
        """Return the inverse transform of factors summed over ``x``; ``t`` is the last axis."""
        return float((factors.reshape(-1, self.series.size).sum(axis=0) @ self.series).real)


@lru_cache(maxsize=16)
def threshold_rule(
    power: float, width: float, reach: float, resolution: float, total: int = 1, cut: bool = False
) -> ThresholdRule:
    """Return the rule for ``h(u) = u₊^power``, ``0 < u < reach`` and a sum of ``total``.

    ``width`` is the length on which the density of the tokens varies; ``cut`` says whether ``h`` is
    cut at 1.
    """
    plain = np.arange(0.0, total * _HIGHEST, total * _PHASE)
    shifts = (0.0, 1.0) if cut else (0.0,)
    heights = np.concatenate([shift + plain for shift in shifts]) ** (1.0 / power)
    window = min((total * _HIGHEST + shifts[-1]) ** (1.0 / power), reach)
    # a power that is not a whole number has a kink at 0: panels shrink towards it
    kink = heights[1] * 0.5 ** np.arange(1.0, 40.0) if power % 1.0 else np.empty(0)
    near = np.linspace(0.0, window, 1 + math.ceil(window / width))
    far = np.linspace(window, reach, 1 + math.ceil((reach - window) / width))
    edges = np.unique(np.concatenate([heights[heights < window], kink, near, far]))
    u, weights = panels(edges, resolution)
    return _rule(u, weights, power, total, cut)


def missing_below(u: FloatArray, power: float, total: int = 1) -> ComplexArray:
    """Return ``1 − e^{−th(u)}``; ``t`` is the last axis."""
    height = np.minimum(u**power, 2.0 * total * _HIGHEST)
    return np.asarray(-np.expm1(-height[..., None] * (inversion()[0] / total)))


def _rule(u: FloatArray, weights: FloatArray, power: float, total: int, cut: bool) -> ThresholdRule:
    base, c = inversion()
    height, slope = u**power, power * u ** (power - 1.0)
    missing = missing_below(u, power, total)

    def slopes(above: FloatArray) -> tuple[ComplexArray, ComplexArray]:
        # not 1 − missing: its rounding would be multiplied by the slope, which is large far out
        decay = np.exp(-np.minimum(above, 2.0 * total * _HIGHEST)[:, None] * (base / total))
        first = np.asarray(slope[:, None] * decay, dtype=complex)
        return first, np.asarray(2.0 * height[:, None] * first, dtype=complex)

    changes: tuple[ComplexArray, ...] = ()
    if cut:
        beyond, above = (u > 1.0)[:, None], np.maximum(height - 1.0, 0.0)
        gone = missing_below(above ** (1.0 / power), power, total)
        changes = (gone * beyond, *(-function * beyond for function in slopes(above)))
    return ThresholdRule(
        u, weights, missing, *slopes(height), cut=changes, series=c / base, density=c / total
    )


def reciprocal_rule(largest: float, resolution: float) -> tuple[FloatArray, FloatArray]:
    """Return ``s`` and weights ``c`` with ``1/S ≈ Σ c e^{−sS}`` for ``1 <= S <= largest``.

    The doubly exponential rule for ``∫₀^∞ e^{−sS} ds``; about nine digits at resolution 0.7.
    """
    step = _RECIPROCAL / resolution * min(1.0, math.log(30.0) / math.log(max(largest, 2.0)))
    v = np.arange(-3.6, 3.8, step)
    s = np.exp(v - np.exp(-v))
    return s, step * s * (1.0 + np.exp(-v))


@dataclass(frozen=True)
class Averages:
    """One-token averages under laws on the nodes, as coefficients of powers of ``w`` up to ``n``.

    ``missing`` replaces that of the rule; ``gone`` is the mass that counts as missing everywhere.
    """

    rule: ThresholdRule
    law: FloatArray
    n: int
    missing: ComplexArray | None = None
    gone: FloatArray | float = 0.0

    @property
    def _lost(self) -> ComplexArray:
        missing = self.rule.missing if self.missing is None else self.missing
        return np.asarray(self.gone + self.rule.average(self.law, missing))

    @property
    def zero(self) -> list[ComplexArray]:
        """``E e^{−th}``, cut at 1."""
        return [1.0 - self._lost, *self._cut(0)]

    @property
    def first(self) -> list[ComplexArray]:
        """``E h' e^{−th}``, cut at 1."""
        return [self.rule.average(self.law, self.rule.first), *self._cut(1)]

    @property
    def second(self) -> list[ComplexArray]:
        """``E 2hh' e^{−th}``, cut at 1."""
        return [self.rule.average(self.law, self.rule.second), *self._cut(2)]

    def _cut(self, index: int) -> list[ComplexArray]:
        return [self.rule.average(self.law, self.rule.cut[index])] if self.n > 0 else []

    def powers(self, generating: Generating) -> tuple[list[ComplexArray], list[ComplexArray]]:
        """Return the coefficients of ``G`` and ``G'`` at the zeroth average."""
        g = list(generating(np.log1p(-self._lost), self.n + 1))
        return self._series(g[:-1]), self._series(g[1:])

    def multiples(self, generating: Generating) -> list[ComplexArray]:
        """Return the coefficients of ``Σ P(L) L z^(L−1) = (zG)'`` at the zeroth average."""
        log_z = np.log1p(-self._lost)
        g, z = generating(log_z, self.n + 1), np.exp(log_z)
        return self._series([z * g[m + 1] + (m + 1) * g[m] for m in range(self.n + 1)])

    def _series(self, derivatives: list[ComplexArray]) -> list[ComplexArray]:
        if self.n == 0:
            return derivatives
        (more,) = self._cut(0)
        return [more**m / math.factorial(m) * value for m, value in enumerate(derivatives)]


def coefficient(n: int, *factors: Sequence[ComplexArray]) -> ComplexArray:
    """Return the coefficient of ``wⁿ`` of a product of polynomials in ``w``."""
    product = list(factors[0])
    for factor in factors[1:]:
        longer: list[ComplexArray] = []
        for m in range(min(n + 1, len(product) + len(factor) - 1)):
            pairs = range(max(0, m - len(factor) + 1), min(m + 1, len(product)))
            longer.append(np.sum([product[i] * factor[m - i] for i in pairs], axis=0))
        product = longer
    return product[n]


def projected(x: FloatArray, power: float, budget: int) -> FloatArray:
    """Return weights ``h(x_ℓ − τ)``, ``h(u) = u^power`` cut at 0 and 1, whose sum is ``budget``.

    All are 1 if there are no more of them than that.
    """
    if x.shape[-1] <= budget:
        return np.ones_like(x)
    # as many weights as the budget reach 1 at most one below the last of them; measured from
    # there, the threshold keeps its digits
    x = x - np.partition(x, -budget, axis=-1)[..., -budget, None]
    sigma = np.clip(x - _threshold(x, power, budget), 0.0, 1.0) ** power
    return np.asarray(sigma if budget > 1 else sigma / sigma.sum(axis=-1, keepdims=True))


def _threshold(x: FloatArray, power: float, budget: int) -> FloatArray:
    """Solve ``Σ h(x−τ) = budget`` for ``τ`` in ``[−1, 0]`` by Newton's method, or bisection.

    From the left, a convex sum (power 1 or more, no token cut at 1) has no step too long.
    """
    shape = (*x.shape[:-1], 1)
    tau, low, high = np.full(shape, -1.0), np.full(shape, -1.0), np.zeros(shape)
    for _ in range(100):
        height = x - tau
        root = _root(height, power, budget)
        slope = power * root.sum(axis=-1, keepdims=True)
        cut = 0 if budget == 1 else np.count_nonzero(height > 1.0, axis=-1, keepdims=True)
        above = (root * height).sum(axis=-1, keepdims=True) + cut - budget
        low, high = np.where(above >= 0.0, tau, low), np.where(above >= 0.0, high, tau)
        step = np.divide(above, slope, out=np.zeros_like(tau), where=slope > 0.0)
        outside = (tau + step < low) | (tau + step >= high)
        step = np.where(outside & (np.abs(step) > 1e-14), 0.5 * (low + high) - tau, step)
        tau = tau + step
        if np.abs(step).max(initial=0.0) <= 1e-14:
            break
    return tau


def _root(height: FloatArray, power: float, budget: int) -> FloatArray:
    """Return ``height^(power−1)`` where the weight moves with the threshold, else 0."""
    moving = height > 0.0 if budget == 1 else (height > 0.0) & (height <= 1.0)
    if power == 1.0:
        return np.asarray(moving, dtype=float)
    return np.asarray(moving * np.where(moving, height, 1.0) ** (power - 1.0))
