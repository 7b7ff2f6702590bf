"""A minimiser for smooth functions of one or two variables known to full precision.

Newton's method on central differences. The functions are analytic and cost about a millisecond, so
a few Newton steps are faster than line searches and than importing `scipy.optimize`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slrlab._types import FloatArray


@dataclass(frozen=True)
class NewtonMinimum:
    """A local minimum, and whether the search for it converged."""

    point: FloatArray
    value: float
    iterations: int
    settled: bool


def newton_minimum(
    function: Callable[[FloatArray], float],
    start: FloatArray,
    *,
    around: Callable[[FloatArray], Callable[[FloatArray], float]] | None = None,
    difference: float = 1e-3,
    longest_step: float = 1.0,
    tolerance: float = 1e-7,
    least_gain: float = 0.0,
    max_steps: int = 100,
) -> NewtonMinimum:
    """Return the local minimum reached from ``start``.

    Parameters
    ----------
    function
        Smooth function of a vector whose coordinates all vary on a scale of order 1.
    start
        First point.
    around
        Function of a point at which ``function`` was evaluated; it returns a cheaper form of
        ``function`` for differences around that point.
    difference
        Step of the central differences; it bounds the error of the point by about its square.
    longest_step
        Largest length of a step; steps are halved until the function falls.
    tolerance
        Stop when a step is shorter than this.
    least_gain
        Stop when the quadratic model predicts a smaller decrease than this.
    max_steps
        Largest number of steps.
    """
    point = np.array(start, dtype=float)
    value = function(point)
    if not np.isfinite(value):
        return NewtonMinimum(point, value, 0, settled=False)
    halfway = np.inf
    for iteration in range(1, max_steps + 1):
        halfway = value if iteration == max_steps // 2 else halfway
        local = function if around is None else around(point)
        slope, curvature = _differences(local, point, value, difference)
        if not (np.isfinite(slope).all() and np.isfinite(curvature).all()):
            return NewtonMinimum(point, value, iteration, settled=False)
        # |eigenvalues| make a saddle a descent direction; the lower bound is for flat valleys
        eigenvalues, vectors = np.linalg.eigh(curvature)
        bent = np.maximum(np.abs(eigenvalues), 1e-8)
        step = -vectors @ ((vectors.T @ slope) / bent)
        length = float(np.linalg.norm(step))
        plain = eigenvalues[0] > 0.0 and length <= longest_step
        step *= min(1.0, longest_step / max(length, 1e-300))
        if -(slope @ step) / 2.0 < least_gain:
            return NewtonMinimum(point, value, iteration, settled=True)
        whole, predicted = step, value + slope @ step + step @ curvature @ step / 2.0
        while np.linalg.norm(step) >= tolerance:
            trial = function(point + step)
            if trial < value - 2e-13 * max(1.0, abs(value)):  # less is rounding, not descent
                point, value = point + step, trial
                break
            step = step / 2.0
        else:
            return NewtonMinimum(point, value, iteration, settled=True)
        # convergence is quadratic: after a full step this short the next is below tolerance
        if step is whole and np.linalg.norm(step) < np.sqrt(tolerance):
            return NewtonMinimum(point, value, iteration, settled=True)
        # a cubic term that moves the value by δ moves the slope by 3δ/|step|
        slope_left = 3.0 * (value - predicted) / length
        if plain and step is whole and slope_left**2 / (2.0 * bent[0]) < least_gain:
            return NewtonMinimum(point, value, iteration, settled=True)
    # in a flat valley steps go on without gain: the value has converged, though the point has not
    return NewtonMinimum(point, value, max_steps, settled=bool(halfway - value < 1e-10))


def _differences(
    function: Callable[[FloatArray], float], point: FloatArray, value: float, step: float
) -> tuple[FloatArray, FloatArray]:
    """Return gradient and Hessian by central differences (mixed terms: forward)."""
    units = step * np.eye(point.size)
    ahead = np.array([function(point + e) for e in units])
    behind = np.array([function(point - e) for e in units])
    with np.errstate(invalid="ignore"):  # a function may be infinite at the edge of its domain
        slope = (ahead - behind) / (2.0 * step)
        curvature = np.diag((ahead + behind - 2.0 * value) / step**2)
        for i in range(point.size):
            for j in range(i):
                corner = function(point + units[i] + units[j])
                mixed = (corner - ahead[i] - ahead[j] + value) / step**2
                curvature[i, j] = curvature[j, i] = mixed
    return slope, curvature
