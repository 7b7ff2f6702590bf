"""Order parameters and loss along the path of a descent.

Independent of how steps are taken.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab._plot import draw_quantities
from slrlab._result import Estimate, Status, plain
from slrlab._types import Axes, FloatArray, Report
from slrlab.model.order_parameters import OVERLAPS, OverlapPath
from slrlab.simulation.data.dataset import Teacher
from slrlab.simulation.training.objective import Weights

_MEASURED = (*OVERLAPS, "bias", "loss", "loss_error")
RUNAWAY = 1e6  # |k|²/D or |v|²/D from which a path counts as diverged


@dataclass(frozen=True)
class Trajectory(OverlapPath):
    """Path of a descent: arrays with one entry for each time kept.

    Attributes
    ----------
    status
        ``sampled``: all steps were taken. ``converged``: the tolerance was reached. ``not
        converged``: it was not reached in all steps. ``diverged``: the vectors grew without bound;
        the path ends at the last time kept before.
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
        Mean squared residual: on given data that of all sequences, without error; online the risk
        on fresh sequences (the same at all times) with its standard error.
    weights
        The vectors at the last time kept.
    method, rate, batch, dim, activation
        What was run.
    """

    steps: npt.NDArray[np.int64]
    loss: FloatArray
    loss_error: FloatArray
    weights: Weights = field(repr=False)
    method: str
    rate: float
    batch: int
    dim: int
    activation: str

    _columns: ClassVar[tuple[str, ...]] = ("times", "steps", *_MEASURED)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields but the vectors as JSON-ready values."""
        names = [item.name for item in dataclasses.fields(self) if item.name != "weights"]
        return {name: plain(getattr(self, name)) for name in names}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw order parameters and loss against time."""
        columns = {name: getattr(self, name) for name in ("m_kk", "m_vv", "m_kv", "m_vk", "loss")}
        known = {name: column for name, column in columns.items() if np.isfinite(column).any()}
        return draw_quantities(ax, self.times, known, xlabel="time $t$")

    def __str__(self) -> str:
        last = Estimate(float(self.loss[-1]), float(self.loss_error[-1]))
        return (
            f"{self.method} of {self.activation}, D {self.dim}, rate {self.rate:g}: "
            f"loss {last} at time {self.times[-1]:g}, {self.status}"
        )


class Recorder:
    """The path of a descent at a number of steps, evenly spaced from start to end."""

    def __init__(
        self,
        teacher: Teacher | None,
        dim: int,
        total: int,
        record: int,
        measure: Callable[[Weights], Estimate],
        report: Report | None,
    ) -> None:
        count = min(_checks.integer(record, "record", low=2), total + 1)
        self.stops = np.linspace(0, total, count).round().astype(np.int64)
        # without a teacher the overlaps of k and v with each other are still known
        unknown = np.full(dim, math.nan)
        self._teacher = teacher or Teacher(unknown, unknown)
        self._measure = measure
        self._report = report
        self._steps: list[int] = []
        self._rows: list[tuple[float, ...]] = []
        self._weights = Weights(unknown, unknown)

    def keep(self, step: int, weights: Weights) -> None:
        """Add a point to the path."""
        loss = self._measure(weights)
        overlaps = dataclasses.astuple(weights.overlaps(self._teacher))
        self._steps.append(step)
        self._rows.append((*overlaps, weights.bias, loss.value, loss.error))
        self._weights = weights
        if self._report is not None:
            self._report(step, int(self.stops[-1]), f"descent: step {step}, loss {loss.value:.6g}")

    def result(self, status: Status, *, tick: float, **setting: Any) -> Trajectory:
        """Return the path; a step takes the time ``tick``."""
        steps = np.array(self._steps, dtype=np.int64)
        columns = dict(zip(_MEASURED, np.array(self._rows).T, strict=True))
        return Trajectory(
            status=status,
            times=np.asarray(tick * steps, dtype=float),
            steps=steps,
            weights=self._weights,
            dim=self._teacher.dim,
            **columns,
            **setting,
        )


def ran_away(k: FloatArray, v: FloatArray) -> bool:
    """Return whether a vector is not finite or too long."""
    with np.errstate(over="ignore", invalid="ignore"):
        return not all(float(vector @ vector) / vector.size < RUNAWAY for vector in (k, v))
