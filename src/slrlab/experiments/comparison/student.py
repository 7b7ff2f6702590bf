r"""Student's t: how far apart two numbers are if their errors come from few samples.

An error from ``n`` seeds has ``n − 1`` degrees of freedom, and a difference in such errors is no
z-score: with four seeds a tenth of all differences exceeds 2.4 of them, not 1.6. Errors of several
sources are combined after Welch and Satterthwaite. Independent of what is compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from slrlab._result import Estimate, plain

LEVEL = 0.95
"""Coverage of the intervals that are printed and drawn."""


def combined(weights: Sequence[float], parts: Sequence[Estimate]) -> Estimate:
    r"""Return ``Σ w_i x_i`` of independent estimates.

    The variance is ``s² = Σ w_i² s_i²`` with ``s⁴/Σ(w_i² s_i²)²/f_i`` degrees of freedom
    (Welch–Satterthwaite): no fewer than the least ``f_i``, no more than their sum.

    >>> combined((1.0, -1.0), (Estimate(2.0, 0.1, 3.0), Estimate(1.9, 0.1, 7.0)))
    Estimate(value=0.10000000000000009, error=0.14142135623730953, freedom=8.4)
    """
    pairs = [(w, x) for w, x in zip(weights, parts, strict=True) if w != 0.0]
    value = sum(w * x.value for w, x in pairs)
    variances = [(w * x.error) ** 2 for w, x in pairs]
    total = sum(variances)
    if not total > 0.0:  # exact numbers, or nan
        return Estimate(value, total, math.inf if total == 0.0 else 0.0)
    # as shares of the total: squares of tiny variances would underflow
    rest = sum((v / total) ** 2 / x.freedom for v, (_, x) in zip(variances, pairs, strict=True))
    return Estimate(value, math.sqrt(total), 1.0 / rest if rest > 0.0 else math.inf)


def difference(first: Estimate, second: Estimate) -> Estimate:
    """Return the first minus the second, with the error of both."""
    return combined((1.0, -1.0), (first, second))


def p_value(gap: Estimate) -> float:
    """Return the probability that chance alone makes a number that is 0 at least this large.

    >>> round(p_value(Estimate(4.5, 1.0, 3.0)), 3), round(p_value(Estimate(4.5, 1.0)), 7)
    (0.02, 6.8e-06)
    """
    if gap.error == 0.0:
        return 1.0 if gap.value == 0.0 else 0.0
    return float(2.0 * special.stdtr(gap.freedom, -abs(gap.value) / gap.error))


def normal_score(gap: Estimate) -> float:
    """Return the standard normal deviate with the same p-value: what a z-score should be.

    >>> round(normal_score(Estimate(4.5, 1.0, 3.0)), 2)
    2.32
    """
    return math.copysign(-float(special.ndtri(p_value(gap) / 2.0)), gap.value)


def gap_columns(gap: Estimate) -> dict[str, float]:
    """Return a difference and its test by their names in tables."""
    numbers = {"gap": gap.value, "gap_error": gap.error, "freedom": gap.freedom}
    return numbers | {"p_value": p_value(gap), "z": normal_score(gap)}


def interval(gap: Estimate) -> tuple[float, float]:
    """Return the interval that contains the true number with probability `LEVEL`.

    >>> low, high = interval(Estimate(0.0, 1.0, 3.0))
    >>> round(low, 2), round(high, 2)
    (-3.18, 3.18)
    """
    half = half_width(gap)
    return gap.value - half, gap.value + half


def half_width(gap: Estimate) -> float:
    """Return half the length of the interval; infinite if the error is unknown."""
    if not math.isfinite(gap.error):
        return math.inf
    return gap.error * float(special.stdtrit(gap.freedom, 0.5 + LEVEL / 2.0))


def family_p(values: Iterable[float]) -> float:
    """Return the p-value of the smallest of several, after Bonferroni: it holds for any dependence.

    >>> family_p([0.01, 0.5, 0.7])
    0.03
    """
    known = list(values)
    if not known or any(math.isnan(value) for value in known):
        return math.nan
    return min(1.0, len(known) * min(known))


@dataclass(frozen=True)
class Limit:
    r"""The fit ``a + b/D`` to means at several dimensions.

    Attributes
    ----------
    value
        ``a``, for ``D → ∞``.
    drift
        ``b``.
    chi_square, chi_freedom
        Squared distances of the means from the nearest ``a + b/D``, in their errors, and the number
        of dimensions minus 2: whether the means are on such a line at all.
    """

    value: Estimate
    drift: Estimate
    chi_square: float = 0.0
    chi_freedom: int = 0

    @property
    def columns(self) -> dict[str, float]:
        """The numbers of the fit and the test of ``a`` by their names in tables."""
        fitted = {"drift": self.drift.value, "drift_error": self.drift.error}
        fitted |= {"chi_square": self.chi_square, "chi_freedom": self.chi_freedom}
        return gap_columns(self.value) | fitted

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers of the fit and their tests as JSON-ready values."""
        more = {"gap_interval": interval(self.value), "drift_p_value": p_value(self.drift)}
        return dict(plain(self.columns | more))


def limit(means: Sequence[Estimate], dims: Sequence[int]) -> Limit:
    r"""Fit ``a + b/D`` by least squares to the means at two or more dimensions.

    The weights are ``D·n`` for a mean of ``n`` seeds, because what concentrates has a variance of
    order ``1/D``. They do not depend on the data, so ``a`` and ``b`` are fixed combinations of the
    means and their errors follow from the variance over seeds, whatever it is. The
    chi-square is the least that any line has; it takes the errors as known, so with few seeds it
    is larger than its law by a factor of about ``f/(f − 2)``, ``f`` degrees of freedom.

    >>> fit = limit([Estimate(1.2, 0.01, 15), Estimate(1.1, 0.01, 15)], [100, 200])
    >>> round(fit.value.value, 3), round(fit.drift.value, 3)
    (1.0, 20.0)
    """
    inverse = 1.0 / np.asarray(dims, dtype=float)
    design = np.stack([np.ones_like(inverse), inverse], axis=1)
    weights = np.array([mean.freedom + 1.0 for mean in means]) / inverse
    rows = np.linalg.solve(design.T @ (weights[:, None] * design), design.T * weights)
    value, drift = (combined(row.tolist(), means) for row in rows)
    errors = np.array([mean.error for mean in means])
    if len(means) == 2 or not (errors > 0.0).all():  # a line through two points; exact, or nan
        return Limit(value, drift)
    scaled = np.array([mean.value for mean in means]) / errors
    nearest = np.linalg.lstsq(design / errors[:, None], scaled, rcond=None)[0]
    rest = scaled - design / errors[:, None] @ nearest
    return Limit(value, drift, float(rest @ rest), len(means) - 2)
