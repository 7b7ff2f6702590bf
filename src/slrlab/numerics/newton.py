"""Newton's method with exact derivatives for functions of many variables.

Where the Hessian is not positive definite a multiple of the identity is added to it; steps that do
not lower the function enough are halved. This module knows no physics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slrlab._types import FloatArray

_ENOUGH = 1e-4  # fraction of the decrease that the gradient promises
_HALVINGS = 40
_ROUNDING = 1e-13  # relative size of a promised decrease that rounding hides
_FIRST_SHIFT = 1e-13  # first shift of the Hessian, in units of its largest diagonal entry
_FLAT = 5  # successive points without a gradient after which the minimum is at infinity


@dataclass(frozen=True)
class NewtonEnd:
    """Where the iteration ended.

    Attributes
    ----------
    point, value
        Last point and value.
    values, gradient_norms
        Of all points, the start included.
    converged
        Whether gradient and step are below their tolerances.
    at_infinity
        Whether the gradient vanished and the steps did not: the minimum is at infinity.
    stopped
        Whether ``watch`` ended the iteration.
    """

    point: FloatArray
    value: float
    values: FloatArray
    gradient_norms: FloatArray
    converged: bool
    at_infinity: bool
    stopped: bool

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.values.size - 1


def newton(
    function: Callable[[FloatArray], float],
    derivatives: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    start: FloatArray,
    *,
    gradient_tolerance: float,
    step_tolerance: float,
    longest_step: float,
    step_size: Callable[[FloatArray], float] = lambda step: float(np.abs(step).max(initial=0.0)),
    max_steps: int = 100,
    watch: Callable[[FloatArray, int], bool] = lambda point, step: False,
) -> NewtonEnd:
    """Minimise a smooth function.

    Parameters
    ----------
    function, derivatives
        Value, and gradient with Hessian, at a point.
    start
        First point.
    gradient_tolerance, step_tolerance
        The end is where the norm of the gradient and the size of the next step are below them.
        Towards a minimum at infinity gradients become small, and steps do not.
    longest_step
        Largest size of a step from 0; from another point its size is added. Where the function is
        flat a Newton step may be anything.
    step_size
        Size of a step, which is proportional to it.
    max_steps
        Largest number of steps.
    watch
        Called with each point and its number; true ends the iteration.
    """
    x, value = np.array(start, dtype=float), function(start)
    values, norms = [value], []
    converged = stopped = False
    flat = 0  # successive points without a gradient, but with a step
    for number in range(max_steps + 1):
        gradient, hessian = derivatives(x)
        norms.append(float(np.linalg.norm(gradient)))
        stopped = watch(x, number)
        step = descent_step(gradient, hessian)
        size = step_size(step)
        flat = flat + 1 if norms[-1] <= gradient_tolerance else 0
        converged = flat > 0 and size <= step_tolerance
        if converged or stopped or flat == _FLAT or number == max_steps:
            break
        longest = longest_step + step_size(x)
        step = step * min(1.0, longest / size) if size > 0.0 else step
        better = _search(function, x, value, step, float(gradient @ step))
        if better is None:
            break
        x, value = better
        values.append(value)
    at_infinity = flat == _FLAT and not converged
    ends = {"converged": converged, "at_infinity": at_infinity, "stopped": stopped}
    return NewtonEnd(x, value, np.array(values), np.array(norms), **ends)


def descent_step(gradient: FloatArray, hessian: FloatArray) -> FloatArray:
    """Return ``−(H + μ)⁻¹g`` with the least ``μ`` of a ladder that makes it a descent."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    scale = float(np.abs(np.diagonal(hessian)).max(initial=0.0)) or 1.0
    shift = 0.0
    while True:
        try:
            factor = cho_factor(hessian + shift * np.eye(len(gradient)), check_finite=False)
            step = -cho_solve(factor, gradient, check_finite=False)
            if np.isfinite(step).all():
                return np.asarray(step)
        except LinAlgError:
            pass
        shift = max(4.0 * shift, _FIRST_SHIFT * scale)


def _search(
    function: Callable[[FloatArray], float],
    x: FloatArray,
    value: float,
    step: FloatArray,
    slope: float,
) -> tuple[FloatArray, float] | None:
    """Return the next point and its value; None if no fraction of the step is better."""
    if abs(slope) <= _ROUNDING * max(abs(value), 1e-300):
        return x + step, function(x + step)
    fraction = 1.0
    for _ in range(_HALVINGS):
        there = function(x + fraction * step)
        if there <= value + _ENOUGH * fraction * slope:
            return x + fraction * step, there
        fraction /= 2.0
    return None
