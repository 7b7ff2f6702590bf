"""Iterations of the map of one problem from one start to a fixed point.

Where the prox jumps, so does the map of a finite sample, and the residual has a floor. The
iterations stop there with the flag ``stalled``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from slrlab._types import FloatArray
from slrlab.numerics.fixed_point import FixedPoint, fixed_point
from slrlab.theory.erm.equations import Channel
from slrlab.theory.erm.overlaps import Coordinate, ErmOverlaps
from slrlab.theory.erm.problem import Problem, Response

SMOOTH, JUMPY = 1e-6, 2e-5  # tolerances of a map without jumps of the prox, and with them
_MOST_SEARCHES = 8  # searches of all samples, in one solution


def predicted(problem: Problem, start: ErmOverlaps, response: Response | None) -> FloatArray:
    """Return the coordinates of a start, moved to the given variances along the response."""
    x = start.to_vector()
    for row, V in ((Coordinate.LOG_V_K, problem.V_k), (Coordinate.LOG_V_V, problem.V_v)):
        if V is not None:
            if response is not None:
                x = x + (math.log(V) - x[row]) * response.matrix[:, row]
            x[row] = math.log(V)
    return x


def iterate(
    function: Callable[[FloatArray], FloatArray],
    x: FloatArray,
    response: Response | None,
    tolerance: float,
) -> FixedPoint:
    """Return the fixed point; with a response, Newton's method with that Jacobian comes first."""
    steps = 0
    if response is not None:
        newton = fixed_point(
            lambda point: point + response.matrix @ (function(point) - point),
            x,
            tolerance=tolerance,
            damping=0.0,
            patience=5,
        )
        if newton.converged or (newton.stalled and newton.residual < 50.0 * tolerance):
            return newton
        steps = newton.steps
    damped = fixed_point(
        function, x, tolerance=tolerance, damping=0.3, patience=15, longest_step=2.0
    )
    return replace(damped, steps=damped.steps + steps)


def iterate_globally(
    problem: Problem, channel: Channel, x: FloatArray, response: Response | None
) -> FixedPoint:
    """Return the fixed point of the global prox.

    All samples are searched once, the iteration converges with the minima that were found, then
    all samples are searched again, until the searches change nothing.
    """
    everywhere, remembered = problem.step(channel), problem.step(channel, remembered=True)
    steps, waited, best, least = 0, 0, x, math.inf
    for _ in range(_MOST_SEARCHES):
        change = everywhere(x) - x
        residual = float(np.abs(change if response is None else response.matrix @ change).max())
        steps += 1
        waited = 0 if residual < 0.5 * least else waited + 1
        if residual < least:
            best, least = x, residual
        if least <= JUMPY:
            return FixedPoint(best, least, steps, converged=True, diverged=False, damping=0.0)
        if waited == 2 or not math.isfinite(residual):
            break
        end = iterate(remembered, x, response, JUMPY)
        x, steps = end.point, steps + end.steps
        if end.diverged:
            break
    if least < 50.0 * JUMPY:
        ends = {"converged": False, "diverged": False, "stalled": True}
        return FixedPoint(best, least, steps, damping=0.0, **ends)
    end = iterate(everywhere, best, response, JUMPY)
    return replace(end, steps=steps + end.steps)
