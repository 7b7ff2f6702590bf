"""What a descent leaves behind: order parameters and loss along its path.

This module must not know how steps are taken.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab._plot import axes_of, draw_quantities
from slrlab._result import Estimate, Result, Status, plain
from slrlab._types import FloatArray, Report
from slrlab.model.order_parameters import FullOrderParameters
from slrlab.simulation.data.dataset import Teacher
from slrlab.simulation.training.objective import Weights

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

RUNAWAY = 1e6  # |k|²/D or |v|²/D beyond which a path is not followed
_OVERLAPS = tuple(item.name for item in dataclasses.fields(FullOrderParameters))


@dataclass(frozen=True)
class Trajectory(Result):
    """Path of a descent: arrays with one entry for each time kept.

    Attributes
    ----------
    status
        ``sampled``: followed to the end. ``converged``: stopped at the tolerance asked for.
        ``not converged``: out of steps before it. ``diverged``: ran away; the path ends at the last
        time kept before.
    times
        Time of the gradient flow of the risk, the same for all methods and dimensions: ``rate``
        times steps for full-batch descent, ``rate/D`` times steps for stochastic descent.
    steps
        Number of steps taken.
    m_kk, m_kv, m_vk, m_vv, q_kk, q_kv, q_vv
        Order parameters, see `slrlab.FullOrderParameters`; nan where the teacher is unknown.
    bias
        Learned (or given) bias of the scores.
    loss, loss_error
        Mean squared residual. On given data it is that of all of them, without error; online it is
        the risk on fresh sequences (the same at all times) with its standard error.
    weights
        The vectors at the last time kept.
    method, rate, batch, dim, activation
        What was run.
    """

    times: FloatArray
    steps: npt.NDArray[np.int64]
    m_kk: FloatArray
    m_kv: FloatArray
    m_vk: FloatArray
    m_vv: FloatArray
    q_kk: FloatArray
    q_kv: FloatArray
    q_vv: FloatArray
    bias: FloatArray
    loss: FloatArray
    loss_error: FloatArray
    weights: Weights = field(repr=False)
    method: str
    rate: float
    batch: int
    dim: int
    activation: str

    @property
    def samples_per_dim(self) -> FloatArray:
        """Sequences met, repeats included, per dimension: ``α`` of an online descent."""
        return np.asarray(self.steps * self.batch / self.dim)

    def overlaps(self, index: int = -1) -> FullOrderParameters:
        """Return the order parameters at one of the times, by default the last."""
        return FullOrderParameters(*(float(getattr(self, name)[index]) for name in _OVERLAPS))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields but the vectors as JSON-ready values."""
        names = [item.name for item in dataclasses.fields(self) if item.name != "weights"]
        return {name: plain(getattr(self, name)) for name in names}

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each time."""
        import pandas as pd

        names = ("times", "steps", *_OVERLAPS, "bias", "loss", "loss_error")
        return pd.DataFrame({name: getattr(self, name) for name in names})

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw order parameters and loss against time."""
        axes = axes_of(ax)
        names = ("m_kk", "m_vv", "m_kv", "m_vk", "loss")
        known = [name for name in names if np.isfinite(getattr(self, name)).any()]
        draw_quantities(axes, self.times, {name: getattr(self, name) for name in known})
        axes.set(xlabel="time $t$")
        axes.legend()
        return axes

    def __str__(self) -> str:
        last = Estimate(float(self.loss[-1]), float(self.loss_error[-1]))
        return (
            f"{self.method} of {self.activation}, D {self.dim}, rate {self.rate:g}: "
            f"loss {last} at time {self.times[-1]:g}, {self.status}"
        )


class Recorder:
    """Keeps the path of a descent at a number of steps evenly spaced from start to end."""

    def __init__(
        self,
        teacher: Teacher | None,
        dim: int,
        *,
        total: int,
        record: int,
        measure: Callable[[Weights], Estimate],
        report: Report | None,
    ) -> None:
        count = min(_checks.integer(record, "record", low=2), total + 1)
        self.stops = np.linspace(0, total, count).round().astype(np.int64)
        # without a teacher its overlaps are not known, but those of k and v are
        unknown = np.full(dim, math.nan)
        self._teacher = teacher if teacher is not None else Teacher(unknown, unknown)
        self._measure = measure
        self._report = report
        self._steps: list[int] = []
        self._rows: list[tuple[float, ...]] = []
        self._weights = Weights(unknown, unknown)

    def keep(self, step: int, weights: Weights) -> None:
        """Add a point to the path."""
        loss = self._measure(weights)
        found = dataclasses.astuple(weights.overlaps(self._teacher))
        self._steps.append(step)
        self._rows.append((*found, weights.bias, loss.value, loss.error))
        self._weights = weights
        if self._report is not None:
            self._report(step, int(self.stops[-1]), f"descent: step {step}, loss {loss.value:.6g}")

    def result(self, status: Status, *, tick: float, **setting: Any) -> Trajectory:
        """Return the path; a step takes the time ``tick``."""
        steps = np.array(self._steps, dtype=np.int64)
        names = (*_OVERLAPS, "bias", "loss", "loss_error")
        columns = dict(zip(names, np.array(self._rows).T, strict=True))
        return Trajectory(
            status=status,
            times=np.asarray(tick * steps, dtype=float),
            steps=steps,
            weights=self._weights,
            **columns,
            **setting,
        )


def ran_away(k: FloatArray, v: FloatArray) -> bool:
    """Return whether a vector is not finite or too long for a path to be followed."""
    with np.errstate(over="ignore", invalid="ignore"):
        sizes = float(k @ k) / k.size, float(v @ v) / v.size
    return not max(sizes) < RUNAWAY or any(map(math.isnan, sizes))
