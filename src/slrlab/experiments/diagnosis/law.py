"""The law of measured scores: irrelevant ones become standard normals, relevant ones are fitted.

The theory of tilted tasks needs irrelevant key scores ``x ~ N(0, 1)``. A monotone map ``s = h(x)``
through the quantiles of the irrelevant scores gives that for scores ``s`` of any law. The relevant
scores then have a density ratio to ``N(0, 1)``, whose log is fitted by a natural cubic spline.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from slrlab import _checks
from slrlab._types import FloatArray
from slrlab.model.activations import OneMap, ScalarMap
from slrlab.model.lengths import LengthLaw
from slrlab.model.measured import MeasuredTask
from slrlab.numerics.splines import spline_tilt

if TYPE_CHECKING:
    from scipy.interpolate import PchipInterpolator

_KNOTS = 21  # knots of the map between scores and normals
_FURTHEST = 3.5  # standard deviations of its outermost knots, where there are data
_BEYOND = 10  # scores beyond the outermost knot, at least
_SPLINES = (2, 3, 4, 6)  # knots tried for the log ratio


@dataclass(frozen=True)
class ScoreLaw:
    """The map ``s = h(x)`` from standard normals to irrelevant scores, linear beyond its knots."""

    x: tuple[float, ...]
    scores: tuple[float, ...]

    @classmethod
    def of(cls, irrelevant: FloatArray) -> ScoreLaw:
        """Return the map through the quantiles of scores.

        Raises
        ------
        ValueError
            If too many scores are equal.
        """
        tail = min(0.25, _BEYOND / len(irrelevant))
        furthest = min(_FURTHEST, -float(special.ndtri(tail)))
        x = np.linspace(-furthest, furthest, _KNOTS)
        quantiles = np.quantile(irrelevant, special.ndtr(x))
        if not (np.diff(quantiles) > 0.0).all():
            _checks.fail("scores", "numbers of which few are equal", "many equal ones")
        return cls(tuple(x.tolist()), tuple(quantiles.tolist()))

    @property
    def std(self) -> float:
        """Standard deviation of the irrelevant scores, without their tails."""
        x, scores = np.array(self.x), np.array(self.scores)
        return float((scores @ x) / (x @ x))

    @cached_property
    def _inside(self) -> PchipInterpolator:
        from scipy.interpolate import PchipInterpolator

        return PchipInterpolator(self.x, self.scores)

    @cached_property
    def _slopes(self) -> tuple[float, float]:
        """Slopes of the two tails: over the outer quarter of the knots, to average noise."""
        x, scores, part = np.array(self.x), np.array(self.scores), _KNOTS // 4
        low = (scores[part] - scores[0]) / (x[part] - x[0])
        high = (scores[-1] - scores[-1 - part]) / (x[-1] - x[-1 - part])
        return float(low), float(high)

    def score(self, x: FloatArray, order: int = 0) -> FloatArray:
        """Return ``h(x)``, or one of its first two derivatives."""
        x = np.asarray(x, dtype=float)
        first, last = self.x[0], self.x[-1]
        low, high = self._slopes
        inside = self._inside(np.clip(x, first, last), nu=order)
        if order == 0:
            outer = low * np.minimum(x - first, 0.0) + high * np.maximum(x - last, 0.0)
            return np.asarray(inside + outer)
        edge = (low, high) if order == 1 else (0.0, 0.0)
        return np.asarray(np.where(x < first, edge[0], np.where(x > last, edge[1], inside)))

    def normal(self, scores: FloatArray) -> FloatArray:
        """Return ``h⁻¹(s)``."""
        scores = np.asarray(scores, dtype=float)
        low, high = self._slopes
        grid = np.linspace(self.x[0], self.x[-1], 4001)
        inside = np.interp(scores, self._inside(grid), grid)
        left = np.minimum(scores - self.scores[0], 0.0) / low
        return np.asarray(inside + left + np.maximum(scores - self.scores[-1], 0.0) / high)

    def seen_by(self, activation: OneMap) -> OneMap:
        """Return the activation as a map of ``std·x``: what it does to the scores themselves."""
        unit, phi = self.std, activation.phi
        bias = float(activation.bias or 0.0)

        def through(function: Callable[[FloatArray], FloatArray]) -> Callable[..., FloatArray]:
            return lambda u: function(self.score(u / unit) + bias)

        def first(u: FloatArray) -> FloatArray:
            slope = self.score(u / unit, 1) / unit
            return np.asarray(through(phi.first)(u) * slope)

        def second(u: FloatArray) -> FloatArray:
            slope, bend = self.score(u / unit, 1) / unit, self.score(u / unit, 2) / unit**2
            return np.asarray(through(phi.second)(u) * slope**2 + through(phi.first)(u) * bend)

        log = None if phi.log is None else through(phi.log)
        seen = ScalarMap(through(phi.value), first, second, log, self._bends(phi, bias))
        changes = {"exponential": "nowhere"} if hasattr(activation, "exponential") else {}
        return replace(activation, phi=seen, bias=0.0, **changes)

    def _bends(self, phi: ScalarMap, bias: float) -> tuple[float, ...]:
        points = self.normal(np.array(phi.bends) - bias) if phi.bends else np.empty(0)
        return tuple((self.std * points).tolist())


def fit_task(relevant: FloatArray, signal: float, length: LengthLaw) -> MeasuredTask:
    """Fit the log density ratio of relevant scores ``x``; BIC chooses the number of knots."""
    count = len(relevant)
    furthest = max(1.0, float(np.abs(relevant).max()))
    grid = np.linspace(-furthest - 9.0, furthest + 9.0, 4001)
    law = np.exp(-(grid**2) / 2.0) * (grid[1] - grid[0]) / math.sqrt(2.0 * math.pi)
    best, lowest = None, math.inf
    for size in _SPLINES:
        knots = np.quantile(relevant, np.linspace(0.05, 0.95, size))
        if not (np.diff(knots) > 1e-6).all():
            break
        slopes, _, gain = spline_tilt(relevant, knots, grid, law)
        criterion = (size - 1) * math.log(count) - 2.0 * count * gain
        if criterion < lowest:
            best, lowest = (tuple(knots.tolist()), tuple(slopes.tolist())), criterion
    if best is None:
        _checks.fail("scores", "relevant ones that are not all equal", float(relevant[0]))
    return MeasuredTask(signal, length, 0.0, *best)
