r"""The risk at the best values: a function of the keys and, if it is learned, of the bias.

The risk is quadratic in ``v``, so its minima over ``(k, v)`` are those over ``k`` alone at the best
``v``. A descent need not end: linear attention with keys along ``v*`` gains as they grow without
bound. Independent of how risks are computed.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slrlab._result import Status
from slrlab._types import FloatArray
from slrlab.model.order_parameters import FullOrderParameters
from slrlab.numerics.differences import central_differences
from slrlab.theory.landscape.risk import Landscape, overlaps_of
from slrlab.theory.landscape.slope import SIZE

FAR = 100.0  # |k|/√D beyond which keys are said to grow without bound
LONG = 30.0  # |k| at which the limit of long keys is tested
# step of the Hessian, and gradient below which a point is flat: smooth, and with jumps of a sample
_DIFFERENCE = {True: 1e-4, False: 3e-2}
_FLAT = {True: 1e-6, False: 3e-3}
# a descent stands still if it stays within this part of the Hessian's step for so many steps
_STILL, _PATIENCE = 1e-2, 16
_ROUNDING = 1e-12  # rounding error of a slope

RiskOf = Callable[[FloatArray], tuple[float, FloatArray]]  # risk and gradient at a point


@dataclass(frozen=True)
class Candidate:
    """The end of a descent in the keys."""

    k: FloatArray
    v: FloatArray
    bias: float
    risk: float
    gradient_norm: float
    status: Status

    @property
    def order(self) -> FullOrderParameters:
        """The overlaps of its vectors."""
        return overlaps_of(self.k, self.v)


@dataclass(frozen=True)
class ReducedRisk:
    """The risk at the best values; ``learn_bias`` says whether the bias is a variable."""

    landscape: Landscape
    learn_bias: bool

    def over(self, point: FloatArray, *axes: int) -> tuple[FloatArray, RiskOf]:
        """Return the risk as a function of some keys (and the bias), and its variables at a point.

        ``point`` is ``(k, bias)``; its other entries are fixed.
        """
        free = [*axes, SIZE] if self.learn_bias else [*axes]

        def risk(y: FloatArray) -> tuple[float, FloatArray]:
            here = point.copy()
            here[free] = y
            _, slope = self.landscape.at_best_values(here[:SIZE], float(here[SIZE]))
            return slope.risk, np.append(slope.k, slope.bias)[free]

        return point[free], risk

    def candidate(self, k: FloatArray, bias: float, status: Status | None = None) -> Candidate:
        """Return the candidate at given keys; without a status, converged where it is flat."""
        v, slope = self.landscape.at_best_values(k, bias)
        norm = math.hypot(*slope.k, slope.bias if self.learn_bias else 0.0)
        if status is None:
            flat = norm < _FLAT[self.landscape.smooth]
            status = Status.CONVERGED if flat else Status.NOT_CONVERGED
        return Candidate(k, v, bias, slope.risk, norm, status)

    def descend(self, k: FloatArray, bias: float) -> Candidate:
        """Minimise over the keys (and the bias).

        The risk does not depend on a rotation of the two free directions, so that ``k`` is kept on
        the first three.
        """
        point = np.array([k[0], k[1], np.hypot(k[2], k[3]), 0.0, bias])
        start, risk = self.over(point, 0, 1, 2)
        end = self.minimise(
            risk,
            start,
            outside=lambda y: bool(np.linalg.norm(y[:3]) > FAR),
            tolerance=_FLAT[self.landscape.smooth] / 100.0,
            radius=FAR,
        )
        keys = np.append(end[:3], 0.0)
        far = Status.BOUNDARY if np.linalg.norm(keys) > FAR else None
        return self.candidate(keys, float(end[3]) if self.learn_bias else bias, far)

    def minimise(
        self,
        risk: RiskOf,
        start: FloatArray,
        *,
        outside: Callable[[FloatArray], bool],
        tolerance: float,
        radius: float,
    ) -> FloatArray:
        """Return the end of a descent, which stops outside a region.

        A trust region stays in the basin of its start; a line search might leave it. Jumps of a
        sample can keep its gradient above the tolerance: then the descent ends where it stands.
        """
        from scipy.optimize import minimize

        short = _STILL * _DIFFERENCE[self.landscape.smooth]
        latest = deque([start], _PATIENCE)

        def callback(y: FloatArray) -> None:
            latest.append(y.copy())
            still = len(latest) == _PATIENCE and np.ptp(latest, axis=0).max() < short
            if still or outside(y):
                raise StopIteration

        end = minimize(  # type: ignore[call-overload]  # the stubs do not know every callback
            risk,
            start,
            jac=True,
            hess=lambda y: self.second_derivatives(risk, y),
            method="trust-exact",
            callback=callback,
            options={"gtol": tolerance, "initial_trust_radius": 0.2, "max_trust_radius": radius},
        )
        return np.asarray(end.x)

    def at_infinity(self, k: FloatArray, bias: float) -> Candidate | None:
        """Return the limit of the risk as mismatched keys grow without bound, if it falls to it.

        For long keys the risk is its limit plus ``c/m_kv²``, with ``c`` a function of ``m_kk``: it
        falls as they grow if the least ``c`` is above 0.
        """
        from scipy.optimize import minimize

        long = math.copysign(LONG, k[1])
        along = k[0] * min(1.0, LONG / max(abs(k[1]), 1e-9))
        start, risk = self.over(np.array([along, long, 0.0, 0.0, bias]), 0)

        def scaled(y: FloatArray) -> tuple[float, FloatArray]:
            # in units in which the part that depends on m_kk is of order one
            value, gradient = risk(y)
            return LONG**2 * value, LONG**2 * gradient

        end = minimize(scaled, start, jac=True, method="BFGS", options={"gtol": 1e-3}).x
        keys = np.array([end[0], long, 0.0, 0.0])
        bias = float(end[1]) if self.learn_bias else bias
        v, slope = self.landscape.at_best_values(keys, bias)
        falling = long * slope.k[1] < -_ROUNDING
        if abs(keys[0]) > LONG or not falling:
            return None
        limit = slope.risk + long * float(slope.k[1]) / 2.0
        return Candidate(keys, v, bias, limit, float(np.linalg.norm(slope.k)), Status.BOUNDARY)

    def second_derivatives(self, risk: RiskOf, y: FloatArray) -> FloatArray:
        """Return the Hessian of a function of risk and gradient."""
        return self._differences(lambda point: risk(point)[1], y)

    def hessian(self, k: FloatArray, v: FloatArray, bias: float) -> FloatArray:
        """Return the second derivatives of the risk in ``k``, ``v`` (and the bias)."""
        point = np.concatenate([k, v, [bias]])

        def gradient(y: FloatArray) -> FloatArray:
            here_bias = float(y[-1]) if self.learn_bias else bias
            slope = self.landscape(y[:SIZE], y[SIZE : 2 * SIZE], here_bias)
            return slope.gradient(self.learn_bias)[: y.size]

        return self._differences(gradient, point if self.learn_bias else point[:-1])

    def _differences(
        self, gradient: Callable[[FloatArray], FloatArray], point: FloatArray
    ) -> FloatArray:
        """Return the symmetric matrix of second derivatives, by central differences."""
        step = _DIFFERENCE[self.landscape.smooth] * (1.0 + float(np.linalg.norm(point)))
        rows = central_differences(gradient, point, step)
        return np.asarray((rows + rows.T) / 2.0)
