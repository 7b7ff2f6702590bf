r"""The result of a flow of the order parameters, and its starts.

Independent of how a flow is integrated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from slrlab import _checks
from slrlab._plot import draw_quantities
from slrlab._types import Axes, FloatArray
from slrlab.model.order_parameters import OVERLAPS, OverlapPath
from slrlab.model.setting import Setting
from slrlab.theory.landscape.minima import Minimum
from slrlab.theory.landscape.reduced import FAR
from slrlab.theory.landscape.risk import Point, read_point
from slrlab.theory.landscape.slope import SIZE

STARTS = ("random", "matched", "mismatched")
COLUMNS = ("times", *OVERLAPS, "bias", "risk")


@dataclass(frozen=True)
class Flow(OverlapPath):
    """Path of a flow: arrays with one entry for each time, and the minimum it leads to.

    Attributes
    ----------
    status
        ``converged``: the gradient fell below the tolerance, or the risk to the goal.
        ``not converged``: the time ended before. ``diverged``: the vectors grow without bound.
        ``sampled``: a flow with noise, followed to its end. ``failed``: there is no number.
    times
        Time of the gradient flow of the risk, that of all descents of the package.
    m_kk, m_kv, m_vk, m_vv, q_kk, q_kv, q_vv, bias
        Order parameters and bias along the path.
    risk
        Risk along the path, label noise included.
    minimum
        ``matched``, ``mismatched`` or ``other``: the minimum that the flow leads to; ``none`` if it
        failed or ended at a goal.
    destination
        That minimum itself, the result of a descent from the end of the path, or None.
    gradient_norm
        Length of the gradient (in a learned bias, too) at the end.
    evaluations
        Number of evaluations of risk and gradient.
    """

    risk: FloatArray
    minimum: str
    destination: Minimum | None
    gradient_norm: float
    evaluations: int
    method: str
    rate: float
    k: FloatArray = field(repr=False)
    v: FloatArray = field(repr=False)
    setting: Setting

    _columns: ClassVar[tuple[str, ...]] = COLUMNS

    @property
    def residuals(self) -> FloatArray:
        """``R_kk, R_kv, R_vv`` along the path, one row each."""
        points = [self.overlaps(index).residuals for index in range(self.times.size)]
        return np.array(points).T

    def time_to(self, fraction: float, least: float | None = None) -> float:
        """Return the time at which the risk has fallen by ``fraction`` of its whole decrease.

        The whole decrease is from the first risk to ``least``, or to the risk of the minimum that
        the flow leads to if that is None; nan if the path ends before or there is no such minimum.
        """
        if least is None and self.destination is None:
            return math.nan
        fraction = _checks.within(fraction, "fraction", 0.0, 1.0)
        if least is None and self.destination is not None:
            least = self.destination.risk
        least = _checks.finite(least, "least")
        goal = self.risk[0] + fraction * (least - self.risk[0])
        # the excess over the minimum falls exponentially at last: interpolate its logarithm
        log_excess = np.log(np.maximum(self.risk - least, 1e-300))
        log_goal = math.log(max(goal - least, 1e-300))
        if not log_excess[-1] <= log_goal:  # nor if the flow failed
            return math.nan
        return float(np.interp(-log_goal, -log_excess, self.times))

    def __str__(self) -> str:
        return (
            f"{self.method} of {self.setting}: risk {self.risk[-1]:.6g} at time "
            f"{self.times[-1]:.4g}, {self.minimum}, {self.status}"
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw order parameters and risk against time."""
        names = ("m_kk", "m_vv", "m_kv", "m_vk", "risk")
        columns = {name: getattr(self, name) for name in names}
        return draw_quantities(ax, self.times, columns, xlabel="time $t$", xscale="symlog")


def start_vectors(
    start: Point | str, size: float | None, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Return the checked vectors of R⁴ of a start.

    Raises
    ------
    ValueError
        If the start is unknown, not finite, of the wrong shape or too long.
    """
    if not isinstance(start, str):
        if size is not None:
            raise ValueError(f"size must not be given with a start of your own, got {size}")
        k, v = read_point(start, "start")
    else:
        _checks.choice(start, "start", STARTS)
        if start == "random":
            size = 0.1 if size is None else _checks.positive(size, "size")
            k, v = size * np.random.default_rng(seed).standard_normal((2, SIZE))
        else:
            sizes = (2.0, 0.5) if size is None else (_checks.positive(size, "size"),) * 2
            unit_k, unit_v = np.eye(SIZE)[[0, 1] if start == "matched" else [1, 0]]
            k, v = sizes[0] * unit_k, sizes[1] * unit_v
    if max(np.linalg.norm(k), np.linalg.norm(v)) > FAR / 2.0:
        raise ValueError(f"start must have |k| and |v| of at most {FAR / 2.0:g}, got more")
    return k, v


def read_times(times: Sequence[float] | FloatArray | None, end: float) -> FloatArray | None:
    """Return the checked times of a path, if any.

    Raises
    ------
    ValueError
        If they do not increase from 0 or later to ``end`` at most.
    """
    if times is None:
        return None
    checked = np.asarray(times, dtype=float)
    rising = checked.ndim == 1 and checked.size > 0 and bool((np.diff(checked) > 0.0).all())
    if not (rising and np.isfinite(checked).all() and checked[0] >= 0.0 and checked[-1] <= end):
        raise ValueError(f"times must increase within [0, {end:g}], got {times!r}")
    return checked
