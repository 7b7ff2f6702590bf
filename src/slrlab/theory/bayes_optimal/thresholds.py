r"""Values of ``alpha`` at which recovery becomes possible, and at which AMP reaches it.

The spinodals are the extrema of ``α`` along the curve of fixed points: AMP leaves the uninformed
branch at a maximum, the informed branch begins at a minimum. In between the free entropies cross.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from slrlab._plot import axes_of
from slrlab._result import Estimate, Result, Status
from slrlab._types import Axes
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.theory.bayes_optimal.channels import channel_class
from slrlab.theory.bayes_optimal.curve import FAR, Channel, Curve, CurvePoint, turning_points


@dataclass(frozen=True)
class BayesThresholds(Result):
    """The values of ``alpha`` at which the Bayes-optimal problem changes.

    Attributes
    ----------
    alpha_it
        Where the informed branch becomes the optimum.
    alpha_alg
        Where AMP reaches it.
    alpha_informed
        Where the informed branch begins to exist.
    hard_phase
        Whether ``alpha_it < alpha_alg``. Without a hard phase the three are equal where perfect
        recovery sets in, and ``inf`` without any jump.
    error
        Error of ``alpha_alg``: a difference of grids, or a standard error.
    setting
        The task.
    """

    alpha_it: float
    alpha_alg: float
    alpha_informed: float
    hard_phase: bool
    error: float
    setting: Setting
    steps: int

    _sharing_error: ClassVar[tuple[str, ...]] = ("alpha_alg",)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw lines at the thresholds against ``alpha``, alone or into a learning curve."""
        axes = axes_of(ax)
        axes.axvline(self.alpha_it, color="black", linestyle="--", label="possible beyond")
        axes.axvline(self.alpha_alg, color="0.5", linestyle="-", label="reached by AMP beyond")
        axes.set(xlabel="samples per dimension $\\alpha$")
        axes.legend()
        return axes


def bayes_thresholds(task: Task) -> BayesThresholds:
    r"""Return the thresholds of the task.

    Without noise the branch ``q_v = 1`` exists for ``α > 1``, where its free entropy is infinite:
    ``alpha_it = alpha_informed = 1``, exactly. With noise, ``alpha_it`` is where the free entropies
    of the two branches cross. If there is more than one jump, the widest is reported.

    Parameters
    ----------
    task
        The task; it must belong to the tilted or the selection family.

    Returns
    -------
    BayesThresholds
        The values of ``alpha``, with errors and a status.

    Raises
    ------
    TypeError
        If the task belongs to neither family.
    ValueError
        If the task is inconsistent, a length is too long for a selection task, or the relevant
        score has mean zero: then the keys stay at ``q_k = 0`` up to a threshold of their own.

    Examples
    --------
    >>> from slrlab import SpikedSLR, bayes_thresholds
    >>> result = bayes_thresholds(SpikedSLR(signal=2.0, length=3))
    >>> print(f"possible beyond {result.alpha_it:g}, easy beyond {result.alpha_alg:.6f}")
    possible beyond 1, easy beyond 1.240964
    """
    channels = channel_class(task)
    if channels.known_key(task) is not None:
        only = 1.0 if task.noise == 0.0 else math.inf
        return _result(task, Status.LIMIT, alpha_it=only, alpha_alg=only, alpha_informed=only)
    first, *others = channels.for_thresholds(task)
    if first.blind:
        raise ValueError(
            "task must have a relevant score of non-zero mean for its thresholds to lie on one "
            f"curve, got {type(task).__name__}"
        )
    curve = Curve(first)
    start = -3.0 - math.log(task.length.longest)
    end = FAR if task.noise == 0.0 else max(7.0, 4.0 - 2.0 * math.log(task.noise))
    path = turning_points(curve, curve.walk(start, end))
    jump = _widest_jump(path, task.noise)
    if jump is None:
        names, status = ("alpha_it", "alpha_alg", "alpha_informed"), _status(curve, math.inf, 0.0)
        return _result(task, status, steps=curve.steps, **dict.fromkeys(names, math.inf))
    top, bottom = jump
    fine, error, steps = _fine_alpha(others, top)
    alphas = {"alpha_it": 1.0, "alpha_alg": fine, "alpha_informed": 1.0}
    if bottom is not None:
        alphas["alpha_it"] = _crossover(curve, path, top, bottom)
        alphas["alpha_informed"] = bottom.alpha
    elif not fine - 1.0 > error:  # at a large signal it falls like e^{−ν/2}, soon below rounding
        alphas["alpha_alg"] = 1.0
    status = _status(curve, fine, error)
    return _result(task, status, error=error, steps=curve.steps + steps, **alphas)


def _widest_jump(
    path: Sequence[CurvePoint], noise: float
) -> tuple[CurvePoint, CurvePoint | None] | None:
    """Return the local maximum and the minimum after it that are furthest apart in ``α``.

    Without noise the curve ends at ``α = 1``, ``q_v = 1``: there is no minimum before.
    """
    if noise == 0.0:
        return max(path, key=lambda point: point.alpha), None
    tops = [
        here
        for before, here, after in zip(path[:-2], path[1:-1], path[2:], strict=True)
        if before.alpha <= here.alpha > after.alpha
    ]
    best: tuple[CurvePoint, CurvePoint] | None = None
    for top in tops:
        bottom = min((point for point in path if point.x > top.x), key=lambda point: point.alpha)
        if best is None or top.alpha / bottom.alpha > best[0].alpha / best[1].alpha:
            best = top, bottom
    # a difference of rounding size is not a jump
    return best if best and best[0].alpha > best[1].alpha * (1.0 + 1e-8) else None


def _fine_alpha(channels: Sequence[Channel], top: CurvePoint) -> tuple[float, float, int]:
    """Return ``α`` of the spinodal on other grids or samples; ``x`` matters to second order."""
    curves = [Curve(channel) for channel in channels]
    alpha = Estimate.of([curve.at(top.x).alpha for curve in curves])
    one_grid = abs(alpha.value - top.alpha) + 1e-9 * alpha.value
    error = alpha.error if len(curves) > 1 else one_grid
    return alpha.value, error, sum(curve.steps for curve in curves)


def _crossover(
    curve: Curve, path: Sequence[CurvePoint], top: CurvePoint, bottom: CurvePoint
) -> float:
    """Return the ``α`` between the spinodals at which both branches have the same free entropy.

    Along a branch ``dΦ/dα = E log Z``, so Newton's method on the difference needs no derivative.
    """
    low_end, high_end = path[0].x, path[-1].x
    alpha = math.sqrt(top.alpha * bottom.alpha)
    for _ in range(30):
        amp = curve.crossing(alpha, low_end, top.x)
        informed = curve.crossing(alpha, bottom.x, high_end)
        difference = informed.free_entropy - amp.free_entropy
        step = -difference / (informed.moments.log_z - amp.moments.log_z)
        inside = min(max(alpha + step, (bottom.alpha + alpha) / 2.0), (top.alpha + alpha) / 2.0)
        if abs(inside - alpha) < 1e-10 * alpha:
            break
        alpha = inside
    return alpha


def _status(curve: Curve, alpha: float, error: float) -> Status:
    if not curve.settled:
        return Status.INACCURATE
    if curve.channel.sampled:
        return Status.SAMPLED
    return Status.CONVERGED if error < 1e-7 * alpha else Status.INACCURATE


def _result(
    task: Task, status: Status, *, error: float = 0.0, steps: int = 0, **alphas: float
) -> BayesThresholds:
    return BayesThresholds(
        status=status,
        hard_phase=alphas["alpha_it"] < alphas["alpha_alg"],
        error=error,
        setting=Setting(task),
        steps=steps,
        **alphas,
    )
