r"""What a flow of the order parameters leaves behind, and where it may start.

This module must not know how a flow is integrated.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from slrlab import _checks
from slrlab._plot import axes_of, draw_quantities
from slrlab._result import Result
from slrlab._types import FloatArray
from slrlab.model.order_parameters import FullOrderParameters
from slrlab.model.setting import Setting
from slrlab.theory.landscape.minima import FAR, Minimum
from slrlab.theory.landscape.risk import SIZE, Point, read_point

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

STARTS = ("random", "matched", "mismatched")
OVERLAPS = tuple(item.name for item in dataclasses.fields(FullOrderParameters))
COLUMNS = ("times", *OVERLAPS, "bias", "risk")


@dataclass(frozen=True)
class Flow(Result):
    """Path of a flow: arrays with one entry for each time, and where it leads.

    Attributes
    ----------
    status
        ``converged``: the gradient fell below the tolerance. ``not converged``: time ran out on
        the way to a minimum. ``diverged``: the vectors grow without bound. ``sampled``: a flow
        with noise, followed to its end. ``failed``: no number came out.
    times
        Time of the gradient flow of the risk, that of all descents of the package.
    m_kk, m_kv, m_vk, m_vv, q_kk, q_kv, q_vv, bias
        Order parameters and bias along the path.
    risk
        Risk along the path, label noise included.
    minimum
        ``matched``, ``mismatched`` or ``other``: the minimum that the flow leads to.
    destination
        That minimum itself, found by descent from the end of the path.
    gradient_norm
        Length of the gradient (in a learned bias, too) at the end.
    evaluations
        Number of times that risk and gradient were computed.
    """

    times: FloatArray
    m_kk: FloatArray
    m_kv: FloatArray
    m_vk: FloatArray
    m_vv: FloatArray
    q_kk: FloatArray
    q_kv: FloatArray
    q_vv: FloatArray
    bias: FloatArray
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

    def overlaps(self, index: int = -1) -> FullOrderParameters:
        """Return the order parameters at one of the times, by default the last."""
        return FullOrderParameters(*(float(getattr(self, name)[index]) for name in OVERLAPS))

    @property
    def residuals(self) -> FloatArray:
        """``R_kk, R_kv, R_vv`` along the path, one a row."""
        points = [self.overlaps(index).residuals for index in range(self.times.size)]
        return np.array(points).T

    def time_to(self, fraction: float) -> float:
        """Return when ``fraction`` of the way from the first risk down to the minimum is done.

        nan if the path ends before.
        """
        if self.destination is None:
            return math.nan
        share = _checks.real(fraction, "fraction", accepted="a number in [0, 1]", low=0.0, high=1.0)
        low = self.destination.risk
        goal = self.risk[0] + share * (low - self.risk[0])
        # risks fall along a flow; interpolate in the logarithm of what is left
        left = np.log(np.maximum(self.risk - low, 1e-300))
        wanted = math.log(max(goal - low, 1e-300))
        if left[-1] > wanted:
            return math.nan
        return float(np.interp(-wanted, -left, self.times))

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each time."""
        import pandas as pd

        return pd.DataFrame({name: getattr(self, name) for name in COLUMNS})

    def __str__(self) -> str:
        return (
            f"{self.method} of {self.setting}: risk {self.risk[-1]:.6g} at time "
            f"{self.times[-1]:.4g}, {self.minimum}, {self.status}"
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw order parameters and risk against time."""
        axes = axes_of(ax)
        names = ("m_kk", "m_vv", "m_kv", "m_vk", "risk")
        draw_quantities(axes, self.times, {name: getattr(self, name) for name in names})
        axes.set(xlabel="time $t$", xscale="symlog")
        axes.legend()
        return axes


def start_vectors(
    start: Point | str, size: float | None, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Return checked vectors of R⁴ to begin with.

    Raises
    ------
    ValueError
        If the start is unknown, not finite, of the wrong shape or too long to be followed.
    """
    if not isinstance(start, str):
        if size is not None:
            raise ValueError(f"size must be left out with a start of your own, got {size}")
        k, v = read_point(start, "start")
    else:
        _checks.choice(start, "start", STARTS)
        if start == "random":
            scale = 0.1 if size is None else _checks.positive(size, "size")
            k, v = scale * np.random.default_rng(seed).standard_normal((2, SIZE))
        else:
            sizes = (2.0, 0.5) if size is None else (_checks.positive(size, "size"),) * 2
            first, second = (0, 1) if start == "matched" else (1, 0)
            k, v = sizes[0] * np.eye(SIZE)[first], sizes[1] * np.eye(SIZE)[second]
    if max(np.linalg.norm(k), np.linalg.norm(v)) > FAR / 2.0:
        raise ValueError(f"start must have |k| and |v| of at most {FAR / 2.0:g}, got more")
    return k, v


def read_times(times: Sequence[float] | FloatArray, end: float) -> FloatArray:
    """Return checked times to keep.

    Raises
    ------
    ValueError
        If they do not increase from 0 or later to ``end`` at most.
    """
    found = np.asarray(times, dtype=float)
    rising = found.ndim == 1 and found.size > 0 and bool((np.diff(found) > 0.0).all())
    if not (rising and np.isfinite(found).all() and found[0] >= 0.0 and found[-1] <= end):
        raise ValueError(f"times must increase within [0, {end:g}], got {times!r}")
    return found
