r"""Overlaps of several heads along a path, in theory and in simulation.

Independent of how a path is followed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slrlab._plot import axes_of
from slrlab._result import Result, plain
from slrlab._types import Axes, DataFrame, FloatArray
from slrlab.model.heads import MultiHeadSLR


@dataclass(frozen=True)
class HeadsOverlaps:
    """Overlaps of the vectors of ``H`` heads with ``K`` pairs of teachers and with each other.

    Attributes
    ----------
    m
        ``(2H, 2K)``: rows are ``k_1 … k_H, v_1 … v_H``, columns ``k*_1 … k*_K, v*_1 … v*_K``, all
        products over ``D``.
    q
        ``(2H, 2H)``: products of the vectors with each other, over ``D``.
    """

    m: FloatArray
    q: FloatArray

    @classmethod
    def of(cls, vectors: FloatArray, teachers: FloatArray) -> HeadsOverlaps:
        """Measure the overlaps of given rows of vectors."""
        dim = vectors.shape[1]
        return cls(vectors @ teachers.T / dim, vectors @ vectors.T / dim)

    @property
    def residuals(self) -> FloatArray:
        """``R = q − m mᵀ``: products of the parts orthogonal to all teachers."""
        return np.asarray(self.q - self.m @ self.m.T)


@dataclass(frozen=True)
class HeadsPath(Result):
    """Training of several heads: arrays with one entry for each time.

    Attributes
    ----------
    status
        ``sampled``: followed to its end. ``diverged``: the vectors grew without bound.
    times
        Time of the gradient flow of the risk.
    keys, values
        ``(T, H, K)``: overlaps of the keys with ``k*`` and of the values with ``v*``.
    crossed
        Largest overlap of keys with ``v*`` or values with ``k*``, in absolute value.
    q
        ``(T, 2H, 2H)``: products of all vectors of the heads, keys first.
    bias
        ``(T, H)``.
    risk, risk_error
        Risk with its standard error.
    method, rate, activation, task
        What was run.
    """

    times: FloatArray
    keys: FloatArray
    values: FloatArray
    crossed: FloatArray
    q: FloatArray
    bias: FloatArray
    risk: FloatArray
    risk_error: FloatArray
    method: str
    rate: float
    activation: str
    task: MultiHeadSLR

    @property
    def heads(self) -> int:
        """Number ``H`` of heads."""
        return int(self.keys.shape[1])

    def to_frame(self) -> DataFrame:
        """Return one row for each time, head and direction."""
        import pandas as pd

        shape = self.keys.shape
        time, head, direction = (axis.ravel() for axis in np.indices(shape))
        columns = {"times": self.times[time], "head": head, "direction": direction}
        columns |= {"key": self.keys.ravel(), "value": self.values.ravel()}
        columns |= {"bias": self.bias[time, head], "risk": self.risk[time]}
        columns |= {"q_kk": self.q[time, head, head]}
        columns |= {"q_vv": self.q[time, shape[1] + head, shape[1] + head]}
        return pd.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the path as JSON-ready values."""
        names = ("status", "times", "keys", "values", "crossed", "bias", "risk", "risk_error")
        shown = {name: getattr(self, name) for name in (*names, "method", "rate", "activation")}
        return {name: plain(value) for name, value in shown.items()} | self.task.to_dict()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the value overlaps of each head with each direction against time."""
        axes = axes_of(ax)
        for head in range(self.heads):
            for direction in range(self.task.directions):
                label = f"head {head + 1}" if direction == 0 else "_nolegend_"
                axes.plot(
                    self.times, self.values[:, head, direction], color=f"C{head}", label=label
                )
        axes.set(xlabel="time $t$", ylabel="overlap of values and teachers")
        axes.legend()
        return axes

    def __str__(self) -> str:
        return (
            f"{self.method} of {self.heads} heads of {self.activation} on {self.task.directions} "
            f"directions: risk {self.risk[-1]:.4g} at time {self.times[-1]:.4g}, {self.status}"
        )
