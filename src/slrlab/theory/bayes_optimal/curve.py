r"""The curve on which all fixed points of the state evolution lie.

A fixed point satisfies ``q̂_k = α M_k`` and ``q̂_v = α M_v``. Dividing removes ``α``: for each
``q_v`` the ratio ``q̂_k/q̂_v = M_k/M_v`` fixes ``q_k``, and ``α = q̂_v/M_v`` follows. Where ``α``
grows along the curve the fixed point is stable; its extrema are the spinodals. No iteration is
needed, which would slow down there. Independent of how a channel computes its moments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from slrlab.model.tasks import Task
from slrlab.theory.bayes_optimal.overlaps import (
    BayesConjugates,
    BayesOverlaps,
    ChannelMoments,
    ScrambleMoments,
)

_STRIDES = ((3.0, 0.4), (8.0, 1.0), (math.inf, 2.0))  # ends and steps of a walk in log q̂_v
FAR = 20.0  # log q̂_v at which the noiseless curve has settled on α = 1 + C√(1−q_v)
_KEYS = (-12.0, 12.0)  # log q̂_k of blind keys that are neither zero nor known


class Channel(Protocol):
    """Moments of the output channel of one task, as functions of the overlaps."""

    @property
    def task(self) -> Task: ...

    @property
    def sampled(self) -> bool:
        """Whether the moments are averages over a sample."""

    @property
    def blind(self) -> bool:
        """Whether ``q_k = 0`` is a fixed point of the keys: ``M_k = 0`` there."""

    @property
    def accuracy(self) -> float:
        """Error in ``log q̂`` to which fixed points are solved."""

    def moments(self, overlaps: BayesOverlaps) -> ChannelMoments: ...

    def confusion(self, overlaps: BayesOverlaps) -> float:
        """Return ``1 − E Σ p_ℓ²``, ``p`` the posterior of the location given ``ω_χ`` alone."""

    def scramble_moments(self, overlaps: BayesOverlaps) -> ScrambleMoments | None:
        """Return the moments of each scramble; None for a quadrature."""


@dataclass(frozen=True)
class CurvePoint:
    """A fixed point: its conjugates, the moments of the channel, and its ``alpha``."""

    hats: BayesConjugates
    moments: ChannelMoments
    alpha: float

    @property
    def x(self) -> float:
        """The coordinate ``log q̂_v`` along the curve."""
        return math.log(self.hats.v) if self.hats.v > 0.0 else -math.inf

    @property
    def overlaps(self) -> BayesOverlaps:
        """The overlaps ``q``."""
        return self.hats.overlaps()

    @property
    def perfect(self) -> bool:
        """Whether the values are known exactly."""
        return math.isinf(self.hats.v)

    @property
    def free_entropy(self) -> float:
        """``Φ = ½ Σ (q − log(1+q̂)) + α E log Z``; ``inf`` if a teacher is known exactly."""
        if self.perfect or math.isinf(self.hats.k):
            return math.inf
        # −½qq̂ + ½(q̂ − log(1+q̂)), and q̂ − qq̂ = q
        q, hats = self.overlaps, self.hats
        shape = q.q_k - math.log1p(hats.k) + q.q_v - math.log1p(hats.v)
        return 0.5 * shape + self.alpha * self.moments.log_z


@dataclass
class Curve:
    """The curve of fixed points of one channel; each solution starts at the key of the last one.

    A blind channel has two: one with ``q_k = 0`` (``without_keys``), one with the largest ``q_k``.
    """

    channel: Channel
    without_keys: bool = False
    steps: int = 0
    settled: bool = True
    last_key: float = 0.0
    points: dict[float, CurvePoint] = field(default_factory=dict)

    def at(self, x: float) -> CurvePoint:
        """Return the fixed point with ``log q̂_v = x``."""
        if x not in self.points:
            self.points[x] = self._solve(math.exp(x))
        return self.points[x]

    def perfect(self, alpha: float) -> CurvePoint:
        """Return the fixed point of ``q_v = 1``, which exists without noise for ``alpha > 1``."""
        return self._solve(math.inf, alpha)

    def _solve(self, value: float, alpha: float | None = None) -> CurvePoint:
        """Solve ``q̂_k = α·M_k`` at given ``q̂_v``, by secants in ``log q̂_k``."""
        if self.without_keys:
            return self._point(0.0, value, alpha)
        if self.channel.blind:
            return self._solve_blind(value, alpha)
        key, before = self.last_key, None
        for _ in range(60):
            point = self._point(math.exp(key), value, alpha)
            if point.moments.key == 0.0:  # the inputs contain no information on the keys
                return self._point(0.0, value, alpha)
            residual = math.log(point.alpha * point.moments.key) - key
            if abs(residual) < self.channel.accuracy:
                break
            slope = (residual - before[1]) / (key - before[0]) if before else -1.0
            before = (key, residual)
            # a plain step is the residual; a secant step is limited to a moderate multiple of it
            step = residual / -slope if slope < -0.2 else residual
            key += math.copysign(min(abs(step), 3.0), residual)
        else:
            self.settled = False
        self.last_key = key
        return point

    def _solve_blind(self, value: float, alpha: float | None) -> CurvePoint:
        """Solve for the largest ``q̂_k``, by bisection: near ``q̂_k = 0`` the secants are flat."""
        from scipy import optimize

        points: dict[float, CurvePoint] = {}

        def residual(key: float) -> float:
            point = points[key] = self._point(math.exp(key), value, alpha)
            return math.log(max(point.alpha * point.moments.key, 1e-300)) - key

        high = min(self.last_key + 1.0, _KEYS[1])
        while high < _KEYS[1] and residual(high) > 0.0:
            high = min(high + 3.0, _KEYS[1])
        low = high - 2.0
        while low > _KEYS[0] and residual(low) < 0.0:
            low, high = low - 2.0, low
        if low <= _KEYS[0]:
            self.last_key = 0.0
            return self._point(0.0, value, alpha)
        self.last_key = float(optimize.brentq(residual, low, high, xtol=self.channel.accuracy))
        if self.last_key not in points:
            residual(self.last_key)
        return points[self.last_key]

    def _point(self, key: float, value: float, alpha: float | None) -> CurvePoint:
        """Return the point at given conjugates; without ``alpha``, at the one of the values."""
        self.steps += 1
        hats = BayesConjugates(key, value)
        q = hats.overlaps()
        moments = self.channel.moments(q)
        if alpha is None:
            # q̂_v/M_v = q̂_v·s²/(s²M_v), and q̂_v(1−q_v) = q_v
            alpha = (q.q_v + value * self.channel.task.noise**2) / moments.value
        return CurvePoint(hats, moments, alpha)

    def walk(self, start: float, end: float) -> list[CurvePoint]:
        """Return points from ``start`` to ``end``, densest where spinodals may be."""
        points, x = [self.at(start)], start
        while x < end:
            stride = next(step for limit, step in _STRIDES if x < limit)
            x = min(end, x + stride)
            points.append(self.at(x))
        return points

    def extremum(self, low: float, high: float, sign: float) -> CurvePoint:
        """Return the point of largest ``sign·α`` between two coordinates.

        At an extremum an error of 1e-4 in the coordinate is one of 1e-8 in ``α``.
        """
        from scipy import optimize

        optimum = optimize.minimize_scalar(
            lambda x: -sign * math.log(self.at(float(x)).alpha),
            bounds=(low, high),
            method="bounded",
            options={"xatol": 1e-4},
        )
        return self.at(float(optimum.x))

    def crossing(self, alpha: float, low: float, high: float) -> CurvePoint:
        """Return the fixed point of this ``alpha`` on an interval where ``α`` grows."""
        from scipy import optimize

        for x, point in self.points.items():
            if low < x < high:
                low, high = (x, high) if point.alpha <= alpha else (low, x)

        def log_ratio(x: float) -> float:
            return math.log(self.at(x).alpha / alpha)

        if log_ratio(low) == 0.0:
            return self.at(low)
        return self.at(float(optimize.brentq(log_ratio, low, high, xtol=self.channel.accuracy)))


def stable_points(curve: Curve, alpha: float) -> list[CurvePoint]:
    """Return every stable fixed point at ``alpha``, from the least informed to the most.

    The first is where the iteration from ``q = 0`` ends, because the map is monotone; the last
    is where the iteration from ``q = 1`` ends. Blind keys start an infinitesimal step from zero.
    """
    if not curve.channel.blind:
        return _points_along(curve, alpha)
    flat = Curve(curve.channel, without_keys=True)
    at_zero = _points_along(flat, alpha)
    stable = [point for point in at_zero if not _keys_grow(flat, point)]
    stable += [point for point in _points_along(curve, alpha) if point.hats.k > 0.0]
    curve.steps += flat.steps
    return stable or at_zero


def _keys_grow(curve: Curve, point: CurvePoint) -> bool:
    """Return whether a small ``q̂_k`` grows under the iteration ``q̂_k -> α·M_k``."""
    small = math.exp(_KEYS[0])
    curve.steps += 1
    moments = curve.channel.moments(BayesConjugates(small, point.hats.v).overlaps())
    return point.alpha * moments.key > small


def _points_along(curve: Curve, alpha: float) -> list[CurvePoint]:
    """Return the fixed points of this ``alpha`` where ``α`` grows along the curve."""
    noise = curve.channel.task.noise
    end = furthest(alpha, noise)
    start = min(_first_value(curve, alpha), end)
    while curve.at(start).alpha > alpha:  # a sampled map is monotone up to its error only
        start -= _STRIDES[0][1]
    path = turning_points(curve, curve.walk(start, end), alpha)
    points = [
        curve.crossing(alpha, before.x, after.x)
        for before, after in pairwise(path)
        if before.alpha <= alpha < after.alpha
    ]
    if noise == 0.0 and (alpha > 1.0 or (alpha == 1.0 and not points)):
        points.append(curve.perfect(alpha))
    return points or path[-1:]  # the bound itself, where the location is known up to rounding


def furthest(alpha: float, noise: float) -> float:
    """Return ``log q̂_v`` beyond which no fixed point of this ``alpha`` lies.

    ``s²M_v <= 1`` gives ``α >= q_v + q̂_v·Δ²``, an equation of second degree for the bound.
    """
    if noise == 0.0 and alpha >= 1.0:
        return FAR
    b = 1.0 + noise**2 - alpha
    root = math.hypot(b, 2.0 * math.sqrt(alpha) * noise)
    # of the two forms of the positive root, the one without cancellation
    value = 2.0 * alpha / (b + root) if b > 0.0 else (root - b) / (2.0 * noise**2)
    return math.log(value) + 1e-9


def _first_value(curve: Curve, alpha: float) -> float:
    """Return ``log q̂_v`` after one step of the iteration from ``q = 0``: a lower bound."""
    curve.steps += 1
    moments = curve.channel.moments(BayesOverlaps.at(0.0, 0.0))
    return math.log(alpha * moments.value / curve.channel.task.trivial_risk) - 1e-3


def turning_points(
    curve: Curve, path: list[CurvePoint], alpha: float | None = None
) -> list[CurvePoint]:
    """Return the path with its turning points inserted, so that ``α`` is monotone in between.

    With ``alpha`` only the turning points close to it are located.
    """
    out = path[:1]
    for before, here, after in zip(path[:-2], path[1:-1], path[2:], strict=True):
        top = here.alpha >= max(before.alpha, after.alpha)
        bottom = here.alpha <= min(before.alpha, after.alpha)
        relevant = alpha is None or 0.9 < here.alpha / alpha < 1.1
        if (top or bottom) and relevant:
            turn = curve.extremum(before.x, after.x, 1.0 if top else -1.0)
            out += sorted((here, turn), key=lambda point: point.x)
        else:
            out.append(here)
    return [*out, *path[-1:]] if len(path) > 1 else out
