r"""Follows a minimum with keys in the plane of ``k*`` and ``v*`` along the signal, to its end.

A minimum is a point of a smooth curve of stationary points over the logarithm of the signal. The
curve is followed by its arc length, with the tangent as predictor and Newton's method as
corrector, so that it can be followed up to a fold, where it turns back as a curve of saddles. The
end of a minimum is a root along the curve: it does not depend on the steps. This module must not
know how risks are computed.
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
from slrlab.theory.landscape.minima import FAR, Candidate, differences
from slrlab.theory.landscape.risk import Landscape

STEP = 0.6  # longest step along a curve
_SHORTEST = 1e-5
_TURN = 0.97  # cosine of the largest turn of the tangent in one step
_SWEEPS = 8  # of the corrector
_CLOSE = 1e-8  # last correction of a point that counts as solved
_DIFFERENCE = 1e-4  # step of derivatives in the logarithm of the signal
_SIZES = (1.0, 2.0, 4.0)  # of m_kv where a search starts
_RARE = (0.5, 1.0)  # bias there, in units of the largest of the scores of so many tokens


class End(StrEnum):
    """Why a minimum is not followed further."""

    RANGE = "range"
    """It goes on; the signal asked for is reached."""
    FOLD = "fold"
    """It meets a saddle in the plane of ``k*`` and ``v*``; both disappear."""
    PLANE = "plane"
    """It becomes a saddle: the risk falls as the keys leave the plane of ``k*`` and ``v*``."""
    KIND = "kind"
    """It goes on as a minimum of another kind."""
    INFINITY = "infinity"
    """Its keys grow without bound; or the risk no longer falls as they do."""
    LOST = "lost"
    """The steps became too short."""


@dataclass(frozen=True)
class Plane:
    """One landscape over keys with ``m_kv > 0`` in the plane, at the best values.

    Coordinates are ``m_kk/m_kv``, ``log m_kv`` and, if the bias is free (``fixed`` is None),
    ``bias/m_kv``: keys of all sizes are then equally well resolved. Keys with ``m_kv`` beyond
    ``longest`` are said to grow without bound.
    """

    landscape: Landscape
    fixed: float | None
    longest: float = FAR

    def point(self, k: FloatArray, bias: float) -> FloatArray:
        """Return the coordinates of keys; those of the mirror image if ``m_kv < 0``."""
        size = abs(float(k[1]))
        return np.array([k[0] / size, math.log(size), bias / size])[: self.size]

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return 3 if self.fixed is None else 2

    def keys(self, x: FloatArray) -> tuple[FloatArray, float]:
        """Return keys and bias of a point."""
        size = math.exp(min(float(x[1]), 2.0 * math.log(FAR)))
        bias = size * float(x[2]) if self.fixed is None else self.fixed
        return np.array([size * x[0], size, 0.0, 0.0]), bias

    def risk(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return the risk and its gradient."""
        k, bias = self.keys(x)
        _, slope = self.landscape.at_best_values(k, bias)
        along = float(k @ slope.k) + (bias * slope.bias if self.fixed is None else 0.0)
        gradient = np.array([k[1] * slope.k[0], along, k[1] * slope.bias])
        return slope.risk, gradient[: self.size]

    def gradient(self, x: FloatArray) -> FloatArray:
        """Return the gradient of the risk."""
        return self.risk(x)[1]

    def hessian(self, x: FloatArray) -> FloatArray:
        """Return the second derivatives of the risk."""
        return differences(self.gradient, x, self.landscape.smooth)

    def margins(self, x: FloatArray, second: FloatArray) -> dict[End, float]:
        """Return numbers that are all positive at a mismatched minimum, each with its end."""
        k, bias = self.keys(x)
        v, _ = self.landscape.at_best_values(k, bias)
        away = _DIFFERENCE * k[1] * np.eye(k.size)[2]
        _, slope = self.landscape.at_best_values(k + away, bias)
        return {
            End.FOLD: float(np.linalg.eigvalsh(second)[0]),
            End.PLANE: float(k[1] * slope.k[2]) / _DIFFERENCE,
            End.KIND: min(1.0 - float(x[0]) ** 2, float(v[0])),
            End.INFINITY: math.log(self.longest) - float(x[1]),
        }

    def candidate(self, x: FloatArray, status: Status = Status.CONVERGED) -> Candidate:
        """Return the candidate at a point."""
        k, bias = self.keys(x)
        v, slope = self.landscape.at_best_values(k, bias)
        norm = math.hypot(*slope.k, slope.bias if self.fixed is None else 0.0)
        return Candidate(k, v, bias, slope.risk, norm, status)

    def settle(self, x: FloatArray) -> FloatArray | None:
        """Return the stationary point next to a guess, if Newton's method finds it at once."""
        start = x
        for _ in range(_SWEEPS):
            step = np.linalg.lstsq(self.hessian(x), self.gradient(x), rcond=None)[0]
            x = x - step
            if not np.linalg.norm(x - start) < 0.5:
                return None
            if np.linalg.norm(step) < _CLOSE:
                return x
        return None

    def descend(self, x: FloatArray) -> Candidate | None:
        """Return the mismatched minimum below a point, if there is one.

        Its status is ``boundary`` if the keys grow without bound on the way.
        """
        from scipy.optimize import minimize

        def leave(y: FloatArray) -> None:
            if abs(y[0]) > 1.5 or not -4.0 < y[1] < math.log(self.longest):
                raise StopIteration

        found = minimize(  # type: ignore[call-overload]  # the stubs do not know every callback
            self.risk,
            x,
            jac=True,
            hess=self.hessian,
            method="trust-exact",
            callback=leave,
            options={"gtol": 1e-7, "initial_trust_radius": 0.2, "max_trust_radius": 1.0},
        )
        if found.x[1] > math.log(self.longest):
            return self.candidate(found.x, Status.BOUNDARY) if abs(found.x[0]) < 1.0 else None
        end = self.settle(found.x)
        if end is None or min(self.margins(end, self.hessian(end)).values()) <= 0.0:
            return None
        return self.candidate(end)

    def search(self, length: float, bias: float) -> list[Candidate]:
        """Return the distinct mismatched minima found from several starts, the lowest first.

        One at infinity, if any, comes last.
        A free bias starts at the one given, and where few of a number of tokens pass it.
        """
        shares = [bias / _SIZES[1]]
        if self.fixed is None:
            shares += [-share * math.sqrt(2.0 * math.log(max(length, 2.0))) for share in _RARE]
        found: list[Candidate] = []
        for share in shares:
            for size in _SIZES:
                candidate = self.descend(np.array([0.0, math.log(size), share])[: self.size])
                if candidate is not None and not any(
                    self.same(candidate, other) for other in found
                ):
                    found.append(candidate)
                if candidate is not None and candidate.status is Status.BOUNDARY:
                    break  # so do longer keys
        return sorted(
            found, key=lambda candidate: (candidate.status is Status.BOUNDARY, candidate.risk)
        )

    def same(self, a: Candidate, b: Candidate) -> bool:
        """Return whether two candidates are one minimum."""
        if a.status is Status.BOUNDARY or b.status is Status.BOUNDARY:
            return a.status is b.status
        gap = self.point(a.k, a.bias) - self.point(b.k, b.bias)
        return float(np.abs(gap).max()) < 1e-3


@dataclass(frozen=True)
class Step:
    """A point of a curve (the logarithm of the signal last), its derivatives and its tangent."""

    y: FloatArray
    jacobian: FloatArray
    tangent: FloatArray


@dataclass(frozen=True)
class Curve:
    """Stationary points over the signal; ``plane_at`` gives the plane at its logarithm."""

    plane_at: Callable[[float], Plane]

    def gradient(self, y: FloatArray) -> FloatArray:
        """Return the gradient at one signal."""
        return self.plane_at(float(y[-1])).gradient(y[:-1])

    def step(self, y: FloatArray, direction: FloatArray) -> Step:
        """Return derivatives and tangent at a point of the curve."""
        here = self.plane_at(float(y[-1])).hessian(y[:-1])
        (slope,) = central_differences(self.gradient, y, _DIFFERENCE, [-1])
        jacobian = np.column_stack([here, slope])
        tangent = np.linalg.svd(jacobian)[2][-1]
        return Step(y, jacobian, math.copysign(1.0, float(tangent @ direction)) * tangent)

    def correct(self, last: Step, length: float) -> tuple[FloatArray, int] | None:
        """Return the point that far along the tangent, and the number of corrections."""
        guess = y = last.y + length * last.tangent
        matrix = np.vstack([last.jacobian, last.tangent])
        change: FloatArray = np.zeros(y.size)
        size = math.inf
        for sweep in range(1, _SWEEPS + 1):
            rest = np.append(self.gradient(y), last.tangent @ (y - guess))
            # Broyden's update: new derivatives would cost more than a few more sweeps
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
        """Return the point within one step at which a measure is zero, and the way there."""
        from scipy.optimize import brentq

        def at(part: float) -> Step:
            found = self.correct(last, part)
            return last if found is None else self.step(found[0], last.tangent)

        way = brentq(lambda part: measure(at(part)), 0.0, length, xtol=1e-7, rtol=1e-10)
        return at(way), way


def trace(
    plane_at: Callable[[float], Plane], start: FloatArray, bound: float, *, step: float = STEP
) -> tuple[list[FloatArray], End]:
    """Follow a minimum to a signal, or to its end before.

    Parameters
    ----------
    plane_at
        Gives the plane at the logarithm of a signal.
    start
        A minimum: coordinates in its plane, then the logarithm of its signal.
    bound
        Logarithm of the signal to reach.
    step
        Longest step along the curve; it becomes shorter where the curve bends.

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
        found = curve.correct(here, step)
        then = None if found is None else curve.step(found[0], here.tangent)
        if found is None or then is None or then.tangent @ here.tangent < _TURN:
            step /= 2.0
            continue
        last, way, lost = then, step, min(curve.margins(then).values()) <= 0.0
        if lost:
            last, way = curve.locate(here, step, lambda s: min(curve.margins(s).values()))
        if ahead * float(last.y[-1] - bound) > -_CLOSE:
            at = _between(plane_at(bound), here.y, last.y, bound)
            if at is None:
                last, _ = curve.locate(here, way, lambda s: ahead * float(s.y[-1] - bound))
                at = np.append(last.y[:-1], bound)
            return [*points, at], End.RANGE
        points.append(last.y)
        if lost:
            margins = curve.margins(last)
            return points, min(margins, key=lambda end: margins[end])
        here = then
        step = min(1.5 * step, longest) if found[1] <= _SWEEPS // 2 + 1 else step
    return points, End.LOST


def _between(plane: Plane, a: FloatArray, b: FloatArray, bound: float) -> FloatArray | None:
    """Return the point at a signal between two points of a curve, if it is close to their chord."""
    guess = a + (bound - a[-1]) / (b[-1] - a[-1]) * (b - a)
    found = plane.settle(guess[:-1])
    reach = 0.1 * float(np.linalg.norm(b - a)) + 1e-6
    if found is None or np.linalg.norm(found - guess[:-1]) > reach:
        return None
    return np.append(found, bound)
