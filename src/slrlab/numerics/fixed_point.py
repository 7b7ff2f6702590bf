"""The one fixed-point loop: Anderson acceleration with a damping that adapts itself.

Undamped iteration of state evolution falls into two-cycles, a fixed damping is either too slow
or too bold. Here the damping (the weight on the old iterate) grows when the residual does and
fades when it falls, and the last few iterates are combined so that the linearised residual is
least (Anderson 1965; Walker and Ni, SIAM J. Numer. Anal. 49, 2011). The loop knows no physics.
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
    """Where the iteration ended.

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
        Whether the iterates ran away or the map stopped being defined.
    stalled
        Whether it gave up early because the residual had stopped falling.
    damping
        The damping in use at the end.
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
    most: int = 300,
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
    most
        Evaluations of the map before giving up.
    damping
        First weight on the old iterate; it adapts.
    memory
        Earlier iterates used for acceleration; 0 is the plain damped iteration, which cannot
        step over a fixed point of a monotone map.
    longest_step
        Steps are cut to this length.
    patience
        Give up when this many evaluations have not halved the smallest residual.

    Examples
    --------
    >>> import numpy as np
    >>> found = fixed_point(np.cos, np.array([1.0]))
    >>> found.converged, round(float(found.point[0]), 6)
    (True, 0.739085)
    """
    x = np.array(start, dtype=float)
    weight, best, best_residual, last = 1.0 - damping, x, np.inf, np.inf
    halved_at, to_beat = 0, np.inf
    xs: list[FloatArray] = []
    gaps: list[FloatArray] = []
    for count in range(1, most + 1):
        gap = np.asarray(function(x), dtype=float) - x
        residual = float(np.abs(gap).max(initial=0.0))
        if not np.isfinite(residual) or np.abs(x).max(initial=0.0) > _FARTHEST:
            if not xs or weight <= 1e-3:
                return FixedPoint(best, best_residual, count, False, True, 1.0 - weight)
            weight /= 2.0  # the step left the domain: go back and take a shorter one
            xs, gaps = xs[-1:], gaps[-1:]
            x = xs[0] + _cut(weight * gaps[0], longest_step)
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
        # without acceleration a step that turns back overshoots, even if the residual is no larger
        turned = memory == 0 and bool(gaps) and float(gap @ gaps[-1]) < 0.0
        if residual > 1.5 * last or turned:
            weight = max(weight / 2.0, 1.0 - _MOST_DAMPING)
            xs, gaps = [], []  # the history belongs to another linear regime
        else:
            weight = min(1.0, 1.15 * weight)
        last = residual
        xs, gaps = [*xs, x][-memory - 1 :], [*gaps, gap][-memory - 1 :]
        x = x + _cut(_anderson(xs, gaps, weight), longest_step)
    diverged = bool(best_residual > 0.5)
    return FixedPoint(best, best_residual, most, False, diverged, 1.0 - weight)


def _anderson(xs: list[FloatArray], gaps: list[FloatArray], weight: float) -> FloatArray:
    """Return the step that mixes the history so that the linearised residual is least."""
    step = weight * gaps[-1]
    if len(xs) < 2:
        return step
    moves = np.diff(np.array(xs), axis=0).T
    changes = np.diff(np.array(gaps), axis=0).T
    # small singular values would extrapolate along directions the history hardly knows
    mix = np.linalg.lstsq(changes, gaps[-1], rcond=1e-6)[0]
    return np.asarray(step - (moves + weight * changes) @ mix)


def _cut(step: FloatArray, longest: float) -> FloatArray:
    size = float(np.abs(step).max(initial=0.0))
    return step if size <= longest else step * (longest / size)
