"""Fixed-point iteration: Anderson acceleration with adaptive damping.

Undamped iteration of state evolution ends in two-cycles; a fixed damping is too slow or diverges.
Here the damping (the weight on the old iterate) grows when the residual grows and falls when it
falls, and the last few iterates are combined so that the linearised residual is least (Anderson
1965; Walker and Ni, SIAM J. Numer. Anal. 49, 2011). This module knows no physics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slrlab._types import FloatArray

_MOST_DAMPING = 0.95
_FARTHEST = 1e8


@dataclass(frozen=True)
class FixedPoint:
    """Result of a fixed-point iteration.

    Attributes
    ----------
    point
        The iterate with the smallest residual.
    residual
        Largest entry of ``|F(x) − x|`` there.
    steps
        Evaluations of the map.
    converged
        Whether the residual reached the tolerance.
    diverged
        Whether the iterates grew without bound or the map is not finite.
    stalled
        Whether the iteration stopped early because the residual no longer fell.
    damping
        The last damping.
    """

    point: FloatArray
    residual: float
    steps: int
    converged: bool
    diverged: bool
    damping: float
    stalled: bool = False


def fixed_point(
    function: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    *,
    tolerance: float = 1e-8,
    max_steps: int = 300,
    damping: float = 0.3,
    memory: int = 5,
    longest_step: float = 1.0,
    patience: int | None = None,
) -> FixedPoint:
    """Return a solution of ``F(x) = x``.

    Parameters
    ----------
    function
        The map; it may return non-finite entries where it is not defined.
    start
        First iterate, with coordinates that vary on a scale of order 1.
    tolerance
        Largest entry of ``|F(x) − x|`` to stop at.
    max_steps
        Largest number of evaluations of the map.
    damping
        First weight on the old iterate; it adapts.
    memory
        Number of earlier iterates used for acceleration; 0 is the plain damped iteration, which
        cannot step over a fixed point of a monotone map.
    longest_step
        Largest change of a coordinate in a step.
    patience
        Stop after this number of evaluations without halving the smallest residual.

    Examples
    --------
    >>> import numpy as np
    >>> result = fixed_point(np.cos, np.array([1.0]))
    >>> result.converged, round(float(result.point[0]), 6)
    (True, 0.739085)
    """
    x = np.array(start, dtype=float)
    weight, best, best_residual, last = 1.0 - damping, x, np.inf, np.inf
    halved_at, to_beat = 0, np.inf
    xs: list[FloatArray] = []
    changes: list[FloatArray] = []
    for count in range(1, max_steps + 1):
        change = np.asarray(function(x), dtype=float) - x
        residual = float(np.abs(change).max(initial=0.0))
        if not np.isfinite(residual) or np.abs(x).max(initial=0.0) > _FARTHEST:
            if not xs or weight <= 1e-3:
                return FixedPoint(best, best_residual, count, False, True, 1.0 - weight)
            weight /= 2.0  # the step left the domain: go back and take a shorter one
            xs, changes = xs[-1:], changes[-1:]
            x = xs[0] + _cut(weight * changes[0], longest_step)
            continue
        if residual < best_residual:
            best, best_residual = x, residual
        if residual <= tolerance:
            return FixedPoint(x, residual, count, True, False, 1.0 - weight)
        if residual < 0.5 * to_beat:
            halved_at, to_beat = count, residual
        elif patience is not None and count - halved_at >= patience:
            return FixedPoint(
                best, best_residual, count, False, best_residual > 0.5, 1.0 - weight, True
            )
        # without acceleration a step that turns back is too long, even if the residual is no larger
        turned = memory == 0 and bool(changes) and float(change @ changes[-1]) < 0.0
        if residual > 1.5 * last or turned:
            weight = max(weight / 2.0, 1.0 - _MOST_DAMPING)
            xs, changes = [], []  # the history belongs to another linear regime
        else:
            weight = min(1.0, 1.15 * weight)
        last = residual
        xs, changes = [*xs, x][-memory - 1 :], [*changes, change][-memory - 1 :]
        x = x + _cut(_anderson(xs, changes, weight), longest_step)
    diverged = bool(best_residual > 0.5)
    return FixedPoint(best, best_residual, max_steps, False, diverged, 1.0 - weight)


def _anderson(xs: list[FloatArray], changes: list[FloatArray], weight: float) -> FloatArray:
    """Return the step that mixes the history so that the linearised residual is least."""
    step = weight * changes[-1]
    if len(xs) < 2:
        return step
    by_x, by_change = (np.diff(np.array(history), axis=0).T for history in (xs, changes))
    # small singular values would extrapolate along directions that the history hardly covers
    mix = np.linalg.lstsq(by_change, changes[-1], rcond=1e-6)[0]
    return np.asarray(step - (by_x + weight * by_change) @ mix)


def _cut(step: FloatArray, longest: float) -> FloatArray:
    size = float(np.abs(step).max(initial=0.0))
    return step if size <= longest else step * (longest / size)
