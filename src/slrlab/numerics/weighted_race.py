r"""Expectation of ``w(χ)/Σw(χ)`` over scores with Gaussian noise, as a race between tokens.

``π_ε(ω) = E[w(χ_ε)/Σw(χ)]`` over ``χ ~ N(ω, V)``, for any non-decreasing ``w``. With ``t = e^u``
the Laplace trick reads ``π_ε = ∫du f(u, ω_ε) Π_{m≠ε} F(u, ω_m)``, ``F = E e^{−tw(χ)}`` and
``f = E[tw e^{−tw}]``. Both are tabulated: nodes in ``u``, splines in ``ω``. Where ``w`` is an
exponential they depend on one variable only: `slrlab.numerics.race` uses that.
"""

# notation: docs/notation.md, "Laplace variables"
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slrlab._types import FloatArray
from slrlab.numerics.race import TINY, AnyRace, Factors

if TYPE_CHECKING:
    from scipy.interpolate import PPoly

_EDGE = 7.5  # fields are clipped to ±_EDGE
_NOISE_EDGE = 8.6  # standard deviations kept of the noise
_STEP = 0.08  # step of the table in ω, in units of its smoothness: error below 1e-5
_NODE = 0.36  # step in log w of the average over the noise
_RULE = 0.5  # step of the rule in u, in widths of its factors
_LOST = 1e-10  # 1 − F at the lower end of the rule
_DEAD = 1e-14  # F at its upper end
_BLOCK = 1 << 18  # entries of a table (ω, u, noise), and of (sequence, token, u)


@dataclass(frozen=True)
class WeightedRace(AnyRace):
    """``F`` and ``f`` of one token as splines in ``ω``, one for each node ``u``.

    ``first`` and ``last`` are the nodes between which a race is decided whose largest field is at
    a knot of the splines.
    """

    stay: PPoly
    go: PPoly
    step: float
    first: FloatArray
    last: FloatArray

    @classmethod
    def build(
        cls, log_weight: Callable[[FloatArray], FloatArray], steepness: float, variance: float
    ) -> WeightedRace:
        """Return the race of weights ``w`` at a variance ``V > 0`` of the scores."""
        from scipy.interpolate import CubicSpline

        root = math.sqrt(variance)
        knots = np.arange(-_EDGE, _EDGE, _STEP * max(root, 1.0 / steepness))
        knots = np.append(knots, _EDGE)
        node = min(0.5, _NODE / (root * steepness))
        z = node * np.arange(-math.ceil(_NOISE_EDGE / node), math.ceil(_NOISE_EDGE / node) + 1.0)
        law = np.exp(-(z**2) / 2.0)
        law /= law.sum()
        log_w = log_weight(knots[:, None] + root * z)
        mean = log_w @ law
        slope = float(np.min(np.diff(mean) / np.diff(knots)))
        step = _RULE * math.hypot(1.0, slope * root)
        u = np.arange(-float(log_w.max()) + math.log(_LOST), -float(log_w.min()) + 4.0, step)
        stay, go = _tables(u, log_w, law)
        first = (1.0 - stay > _LOST).argmax(axis=1)
        last = u.size - (stay[:, ::-1] > _DEAD).argmax(axis=1)
        return cls(CubicSpline(knots, stay), CubicSpline(knots, go), step, first, last)

    @property
    def nodes(self) -> int:
        return int(self.stay.c.shape[2])

    def _factors(self, fields: FloatArray) -> Factors:
        """Return the factors at the nodes that contribute to the fields."""
        from scipy.interpolate import PPoly

        fields = np.clip(fields, -_EDGE, _EDGE)
        ends, knots = fields.max(axis=1), self.stay.x
        high = min(int(np.searchsorted(knots, ends.max())), knots.size - 1)
        low = max(int(np.searchsorted(knots, ends.min())) - 1, 0)
        part = slice(int(self.first[high]), int(self.last[low]))
        stay, go = (
            PPoly.construct_fast(np.ascontiguousarray(spline.c[:, :, part]), knots)
            for spline in (self.stay, self.go)
        )
        law = np.maximum(stay(fields), TINY)
        hazard = np.maximum(go(fields), 0.0) / law
        return law, hazard, lambda: np.asarray(stay(fields, 1) / law)


def _tables(u: FloatArray, log_w: FloatArray, law: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ``F`` and ``f`` at each row of ``log_w`` and each ``u``."""
    stay, go = np.empty((2, log_w.shape[0], u.size))
    rows = max(1, _BLOCK // (u.size * law.size))
    for at in range(0, log_w.shape[0], rows):
        block = slice(at, at + rows)
        race = np.exp(np.minimum(u[:, None] + log_w[block, None, :], 700.0))
        left = np.exp(-race)
        stay[block], go[block] = left @ law, (race * left) @ law
    return stay, go
