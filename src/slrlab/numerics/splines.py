"""Natural cubic splines, and maximum likelihood of a density that is an exponential of one."""

from __future__ import annotations

import math

import numpy as np

from slrlab._types import FloatArray

_STEPS = 100
_RIDGE = 1e-9  # relative: keeps Newton's matrix regular
_ROUNDING = 1e-14  # relative rounding error of a log-likelihood


def natural_basis(x: FloatArray, knots: FloatArray) -> FloatArray:
    """Return the functions other than 1 of the natural cubic spline, along a new last axis.

    The first is ``x``. A spline on ``K`` knots has ``K − 1`` of them and is linear outside.
    """
    x = np.asarray(x, dtype=float)
    columns = [x]
    *first, before, last = knots.tolist()
    inside = np.minimum(x, last)
    for knot in first:
        wide, narrow = last - knot, last - before
        cubes = np.maximum(inside - knot, 0.0) ** 3 / wide
        cubes = cubes - np.maximum(inside - before, 0.0) ** 3 / narrow
        columns.append(cubes + 3.0 * (wide - narrow) * (x - inside))  # the tangent beyond
    return np.stack(columns, axis=-1)


def spline_tilt(
    points: FloatArray, knots: FloatArray, grid: FloatArray, law: FloatArray
) -> tuple[FloatArray, float, float]:
    """Fit the density ``law·exp(θ·N(x) − ψ)`` to points by maximum likelihood.

    ``N`` is the basis of the natural spline, ``law`` a density on the grid (with its step). Returns
    ``θ``, ``ψ`` and the mean log-likelihood ratio to ``law``. The problem is convex: Newton's
    method with halved steps.
    """
    basis = natural_basis(grid, knots)
    centre, scale = basis.T @ law, np.sqrt(np.maximum((basis**2).T @ law, 1e-300))
    basis = (basis - centre) / scale
    goal = ((natural_basis(points, knots) - centre) / scale).mean(axis=0)
    theta = np.zeros(basis.shape[1])
    value, log_mass, p = _log_likelihood(theta, goal, basis, law)
    for _ in range(_STEPS):
        mean = basis.T @ p
        hessian = (basis * p[:, None]).T @ basis - np.outer(mean, mean)
        hessian[np.diag_indices_from(hessian)] += _RIDGE * (1.0 + np.trace(hessian))
        step = np.linalg.solve(hessian, goal - mean)
        size = 1.0
        while size > 1e-10:
            tried = _log_likelihood(theta + size * step, goal, basis, law)
            if tried[0] >= value - _ROUNDING * (1.0 + abs(value)):  # the last step changes no digit
                break
            size /= 2.0
        else:
            break
        gain, theta = tried[0] - value, theta + size * step
        value, log_mass, p = tried
        if gain < 1e-13 * (1.0 + abs(value)):
            break
    plain = theta / scale
    return plain, float(log_mass + plain @ centre), float(value)


def _log_likelihood(
    theta: FloatArray, goal: FloatArray, basis: FloatArray, law: FloatArray
) -> tuple[float, float, FloatArray]:
    exponent = basis @ theta
    top = float(exponent.max())
    mass = np.exp(exponent - top) * law
    total = float(mass.sum())
    log_mass = top + math.log(total)
    return float(theta @ goal) - log_mass, log_mass, mass / total
