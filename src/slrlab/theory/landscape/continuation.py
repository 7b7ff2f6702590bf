r"""Continuation of a minimum with keys in the plane of ``k*`` and ``v*`` along the signal.

A minimum is a point of a smooth curve of stationary points over the logarithm of the signal. The
curve is parametrised by its arc length, with the tangent as predictor and Newton's method as
corrector, so that it continues up to a fold, where it turns back as a curve of saddles. The end of
a minimum is a root along the curve: it does not depend on the steps. Independent of how risks are
computed.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from slrlab._result import Status
from slrlab._types import FloatArray
from slrlab.numerics.differences import central_differences
from slrlab.theory.landscape.reduced import FAR, Candidate, ReducedRisk

STEP = 0.6  # longest step along a curve
_SHORTEST = 1e-5
_TURN = 0.97  # cosine of the largest turn of the tangent in one step
_SWEEPS = 8  # largest number of corrections
_CLOSE = 1e-8  # length of the last correction of a solved point
_DIFFERENCE = 1e-4  # step of derivatives in the logarithm of the signal
_SIZES = (1.0, 2.0, 4.0)  # m_kv at the starts of a search
_RATIO, _LOG_SIZE, _BIAS = range(3)  # the coordinates of a point of the plane
_RARE = (0.5, 1.0)  # negative bias there, in units of the largest score of all tokens


class End(StrEnum):
    """Why the continuation of a minimum ends."""

    RANGE = "range"
    """The minimum continues beyond the range of signals."""
    FOLD = "fold"
    """It meets a saddle in the plane of ``k*`` and ``v*``; both disappear."""
    PLANE = "plane"
    """It becomes a saddle: the risk falls as the keys leave the plane of ``k*`` and ``v*``."""
    KIND = "kind"
    """It continues as a minimum of another kind."""
    INFINITY = "infinity"
    """Its keys grow without bound; or the risk no longer falls as they do."""
    LOST = "lost"
    """The steps became too short."""


@dataclass(frozen=True)
class Plane:
    """The reduced risk over keys with ``m_kv > 0`` in the plane of ``k*`` and ``v*``.

    Coordinates are ``m_kk/m_kv``, ``log m_kv`` and, if the bias is learned, ``bias/m_kv``: keys of
    all sizes are then equally well resolved. A bias that is not learned is ``bias``. Keys with
    ``m_kv`` beyond ``longest`` are said to grow without bound.
    """

    reduced: ReducedRisk
    bias: float
    longest: float = FAR

    def point(self, k: FloatArray, bias: float) -> FloatArray:
        """Return the coordinates of keys; those of the mirror image if ``m_kv < 0``."""
        size = abs(float(k[1]))
        return self._cut(k[0] / size, math.log(size), bias / size)

    def _cut(self, *entries: float) -> FloatArray:
        """Return the entries of the coordinates, without the bias if it is not learned."""
        return np.array(entries[: 3 if self.reduced.learn_bias else 2])

    def keys(self, x: FloatArray) -> tuple[FloatArray, float]:
        """Return keys and bias of a point."""
        size = math.exp(min(float(x[_LOG_SIZE]), 2.0 * math.log(FAR)))
        bias = size * float(x[_BIAS]) if self.reduced.learn_bias else self.bias
        return np.array([size * x[_RATIO], size, 0.0, 0.0]), bias

    def risk(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return the risk and its gradient."""
        k, bias = self.keys(x)
        _, slope = self.reduced.landscape.at_best_values(k, bias)
        along = float(k @ slope.k) + (bias * slope.bias if self.reduced.learn_bias else 0.0)
        return slope.risk, self._cut(k[1] * slope.k[0], along, k[1] * slope.bias)

    def hessian(self, x: FloatArray) -> FloatArray:
        """Return the second derivatives of the risk."""
        return self.reduced.second_derivatives(self.risk, x)

    def margins(self, x: FloatArray, hessian: FloatArray) -> dict[End, float]:
        """Return numbers that are all positive at a mismatched minimum, each with its end."""
        k, bias = self.keys(x)
        v, _ = self.reduced.landscape.at_best_values(k, bias)
        away = _DIFFERENCE * k[1] * np.eye(k.size)[2]
        _, slope = self.reduced.landscape.at_best_values(k + away, bias)
        return {
            End.FOLD: float(np.linalg.eigvalsh(hessian)[0]),
            End.PLANE: float(k[1] * slope.k[2]) / _DIFFERENCE,
            End.KIND: min(1.0 - float(x[_RATIO]) ** 2, float(v[0])),
            End.INFINITY: math.log(self.longest) - float(x[_LOG_SIZE]),
        }

    def candidate(self, x: FloatArray, status: Status = Status.CONVERGED) -> Candidate:
        """Return the candidate at a point."""
        return self.reduced.candidate(*self.keys(x), status)

    def settle(self, x: FloatArray) -> FloatArray | None:
        """Return the stationary point next to a guess, if Newton's method converges to one."""
        start = x
        for _ in range(_SWEEPS):
            step = np.linalg.lstsq(self.hessian(x), self.risk(x)[1], rcond=None)[0]
            x = x - step
            if not np.linalg.norm(x - start) < 0.5:
                return None
            if np.linalg.norm(step) < _CLOSE:
                return x
        return None

    def descend(self, x: FloatArray) -> Candidate | None:
        """Return the mismatched minimum below a point, if there is one.

        Its status is ``boundary`` if the keys grow without bound.
        """
        longest = math.log(self.longest)

        def outside(y: FloatArray) -> bool:
            return abs(y[0]) > 1.5 or not -4.0 < y[1] < longest

        end = self.reduced.minimise(self.risk, x, outside=outside, tolerance=1e-7, radius=1.0)
        if end[1] > longest:
            return self.candidate(end, Status.BOUNDARY) if abs(end[0]) < 1.0 else None
        minimum = self.settle(end)
        if minimum is None or min(self.margins(minimum, self.hessian(minimum)).values()) <= 0.0:
            return None
        return self.candidate(minimum)

    def search(self, length: float, bias: float) -> list[Candidate]:
        """Return the distinct mismatched minima below several starts, the lowest first.

        A minimum at infinity, if any, is the last. A learned bias starts at ``bias``, and at values
        that few of ``length`` scores exceed.
        """
        ratios = [bias / _SIZES[1]]
        if self.reduced.learn_bias:
            ratios += [-ratio * math.sqrt(2.0 * math.log(max(length, 2.0))) for ratio in _RARE]
        minima: list[Candidate] = []
        for ratio in ratios:
            for size in _SIZES:
                candidate = self.descend(self._cut(0.0, math.log(size), ratio))
                if candidate is None:
                    continue
                if not any(self.same(candidate, other) for other in minima):
                    minima.append(candidate)
                if candidate.status is Status.BOUNDARY:
                    break  # longer keys also grow
        return sorted(minima, key=lambda minimum: (minimum.status is Status.BOUNDARY, minimum.risk))

    def same(self, a: Candidate, b: Candidate) -> bool:
        """Return whether two candidates are one minimum."""
        if a.status is Status.BOUNDARY or b.status is Status.BOUNDARY:
            return a.status is b.status
        return np.allclose(self.point(a.k, a.bias), self.point(b.k, b.bias), rtol=0.0, atol=1e-3)


@dataclass(frozen=True)
class Step:
    """A point of a curve (its last entry is the logarithm of the signal) and its tangent.

    ``jacobian`` are the derivatives of the gradient in all entries.
    """

    y: FloatArray
    jacobian: FloatArray
    tangent: FloatArray


@dataclass(frozen=True)
class Curve:
    """Stationary points over the signal; ``plane_at`` gives the plane at its logarithm."""

    plane_at: Callable[[float], Plane]

    def gradient(self, y: FloatArray) -> FloatArray:
        """Return the gradient at a point."""
        return self.plane_at(float(y[-1])).risk(y[:-1])[1]

    def step(self, y: FloatArray, direction: FloatArray) -> Step:
        """Return derivatives and tangent at a point of the curve."""
        here = self.plane_at(float(y[-1])).hessian(y[:-1])
        (slope,) = central_differences(self.gradient, y, _DIFFERENCE, [-1])
        jacobian = np.column_stack([here, slope])
        tangent = np.linalg.svd(jacobian)[2][-1]
        return Step(y, jacobian, math.copysign(1.0, float(tangent @ direction)) * tangent)

    def correct(self, last: Step, length: float) -> tuple[FloatArray, int] | None:
        """Return the point at a distance along the tangent, and the number of corrections."""
        guess = y = last.y + length * last.tangent
        matrix = np.vstack([last.jacobian, last.tangent])
        change: FloatArray = np.zeros(y.size)
        size = math.inf
        for sweep in range(1, _SWEEPS + 1):
            rest = np.append(self.gradient(y), last.tangent @ (y - guess))
            # Broyden's update: new derivatives cost more than a few more corrections
            matrix = matrix - np.outer(rest, change) / size**2
            change = np.asarray(np.linalg.solve(matrix, rest), dtype=float)
            y = y - change
            size = float(np.linalg.norm(change))
            if not (size < 0.5 * abs(length) + _CLOSE):
                return None
            if size < _CLOSE:
                return y, sweep
        return None

    def margins(self, here: Step) -> dict[End, float]:
        """Return the margins of a point."""
        plane = self.plane_at(float(here.y[-1]))
        return plane.margins(here.y[:-1], here.jacobian[:, :-1])

    def locate(
        self, last: Step, length: float, measure: Callable[[Step], float]
    ) -> tuple[Step, float]:
        """Return the point within one step at which a measure is zero, and its distance."""
        from scipy.optimize import brentq

        def at(distance: float) -> Step:
            corrected = self.correct(last, distance)
            return last if corrected is None else self.step(corrected[0], last.tangent)

        root = brentq(lambda distance: measure(at(distance)), 0.0, length, xtol=1e-7, rtol=1e-10)
        return at(root), root


def trace(
    plane_at: Callable[[float], Plane], start: FloatArray, bound: float, *, step: float = STEP
) -> tuple[list[FloatArray], End]:
    """Continue a minimum to a signal, or to its end before.

    Parameters
    ----------
    plane_at
        Gives the plane at the logarithm of a signal.
    start
        A minimum: coordinates in its plane, then the logarithm of its signal.
    bound
        Logarithm of the signal to reach.
    step
        Longest step along the curve; steps are shorter where the curve bends.

    Returns
    -------
    points, end
        Points from the start to the end, and the kind of end.
    """
    curve = Curve(plane_at)
    if abs(bound - float(start[-1])) < _CLOSE:
        return [start], End.RANGE
    ahead = math.copysign(1.0, bound - float(start[-1]))
    here = curve.step(start, ahead * np.eye(start.size)[-1])
    points, longest, step = [start], step, step / 2.0
    if min(curve.margins(here).values()) <= 0.0:
        return points, End.LOST
    while step > _SHORTEST:
        corrected = curve.correct(here, step)
        after = None if corrected is None else curve.step(corrected[0], here.tangent)
        if corrected is None or after is None or after.tangent @ here.tangent < _TURN:
            step /= 2.0
            continue
        last, distance, ends = after, step, min(curve.margins(after).values()) <= 0.0
        if ends:
            last, distance = curve.locate(here, step, lambda s: min(curve.margins(s).values()))
        if ahead * float(last.y[-1] - bound) > -_CLOSE:
            at = _between(plane_at(bound), here.y, last.y, bound)
            if at is None:
                last, _ = curve.locate(here, distance, lambda s: ahead * float(s.y[-1] - bound))
                at = np.append(last.y[:-1], bound)
            return [*points, at], End.RANGE
        points.append(last.y)
        if ends:
            margins = curve.margins(last)
            return points, min(margins, key=lambda end: margins[end])
        here = after
        step = min(1.5 * step, longest) if corrected[1] <= _SWEEPS // 2 + 1 else step
    return points, End.LOST


def _between(plane: Plane, a: FloatArray, b: FloatArray, bound: float) -> FloatArray | None:
    """Return the point at a signal between two points of a curve, if it is close to their chord."""
    guess = a + (bound - a[-1]) / (b[-1] - a[-1]) * (b - a)
    point = plane.settle(guess[:-1])
    reach = 0.1 * float(np.linalg.norm(b - a)) + 1e-6
    if point is None or np.linalg.norm(point - guess[:-1]) > reach:
        return None
    return np.append(point, bound)
