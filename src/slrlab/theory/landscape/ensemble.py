r"""Gradient flow from many starts at once, on the table of one landscape.

One flow takes a fifth of a second; hundreds of them, each with its own time step, take little more
because every operation works on all of them. The solver is the linearly implicit one of order 2 by
Shampine and Reichelt, because the problem is stiff and the table has exact Hessians. Independent of
how a table is made.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slrlab import _checks
from slrlab._plot import END_COLORS, axes_of
from slrlab._result import Result, Status
from slrlab._types import Axes, DataFrame, FloatArray
from slrlab.numerics.second_order import Expansion
from slrlab.theory.landscape.minima import Kind, kind_of
from slrlab.theory.landscape.risk import overlaps_of
from slrlab.theory.landscape.slope import SIZE
from slrlab.theory.landscape.table import TabulatedLandscape, chebyshev_in, derivative_series

_D = 1.0 / (2.0 + math.sqrt(2.0))  # the coefficients d and e₃₂ of Shampine and Reichelt
_E32 = 6.0 + math.sqrt(2.0)
_NEGLIGIBLE = 1e-11  # relative size of coefficients that are rounding errors
_STEPS = 5000


@dataclass(frozen=True)
class FlowEnsemble(Result):
    """Ends and paths of many flows.

    Attributes
    ----------
    status
        ``converged`` if all flows did, else the worst of ``statuses``.
    statuses
        ``converged``: the gradient fell below the tolerance. ``diverged``: the keys left the table.
        ``not converged``: the time ended before.
    k, v
        Vectors at the ends, one row for each flow.
    risk, times
        Risks and times after each step (rows) of each flow (columns); constant after its end.
    """

    statuses: tuple[Status, ...]
    k: FloatArray = field(repr=False)
    v: FloatArray = field(repr=False)
    risk: FloatArray = field(repr=False)
    times: FloatArray = field(repr=False)

    def to_frame(self) -> DataFrame:
        """Return one row for each flow, with its end."""
        import pandas as pd

        statuses, kinds = ([str(item) for item in items] for items in (self.statuses, self.kinds))
        ends = {"risk": self.risk[-1], "time": self.times[-1]}
        return pd.DataFrame({"status": statuses, "kind": kinds} | ends)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the risk of each flow against time, in the colour of the kind of its end."""
        axes = axes_of(ax)
        for number, kind in enumerate(self.kinds):
            path = self.times[:, number], self.risk[:, number]
            axes.plot(*path, color=END_COLORS[kind], linewidth=0.8)
        for kind in dict.fromkeys(self.kinds):
            axes.plot([], [], color=END_COLORS[kind], label=str(kind))
        axes.set(xlabel="time $t$", ylabel="risk", xscale="symlog")
        axes.legend()
        return axes

    @property
    def kinds(self) -> list[Kind]:
        """Kind of alignment at each end."""
        return [kind_of(overlaps_of(k, v)) for k, v in zip(self.k, self.v, strict=True)]

    def time_within(self, excess: float, floor: float | FloatArray) -> FloatArray:
        """Return the times at which risks are ``excess`` above ``floor``; nan if they never are."""
        logs = np.log(np.maximum(self.risk - floor, 1e-300))
        wanted = math.log(_checks.positive(excess, "excess"))
        times = np.full(logs.shape[1], math.nan)
        for column in np.flatnonzero(logs.min(axis=0) <= wanted):
            # risks fall along a flow, at last exponentially: interpolate the logarithm
            path = -np.minimum.accumulate(logs[:, column])
            times[column] = np.interp(-wanted, path, self.times[:, column])
        return times


def flow_ensemble(
    landscape: TabulatedLandscape,
    k: FloatArray,
    v: FloatArray,
    *,
    time: float = 1e5,
    tolerance: float = 1e-6,
    accuracy: float = 1e-3,
) -> FlowEnsemble:
    """Integrate ``dk/dt = −∂E/∂k``, ``dv/dt = −∂E/∂v`` from many starts on a table.

    Parameters
    ----------
    landscape
        Table of the landscape (`slrlab.tabulate`); a flow that leaves it ends.
    k, v
        Starts in R⁴, one row each.
    time, tolerance
        Largest time, and the length of the gradient below which a flow ends.
    accuracy
        Largest error of a step, relative to the length of the vectors.

    Returns
    -------
    FlowEnsemble
        The end and the status of each flow, and the risk along its path.

    Raises
    ------
    ValueError
        If the starts have the wrong shape, are not finite or lie outside the table.

    Examples
    --------
    >>> import numpy as np
    >>> from slrlab import SpikedSLR, tabulate
    >>> from slrlab.theory.landscape.ensemble import flow_ensemble
    >>> table = tabulate(SpikedSLR(signal=2.0, length=3), "linear", m=(-2.0, 3.0), std=2.0)
    >>> k, v = 0.1 * np.random.default_rng(0).standard_normal((2, 5, 4))
    >>> flows = flow_ensemble(table, k, v)
    >>> [str(kind) for kind in flows.kinds], str(flows.status)
    (['matched', 'matched', 'matched', 'matched', 'matched'], 'converged')
    """
    y = np.concatenate([_starts(k, "k"), _starts(v, "v")], axis=1)
    table = _TableRisk(landscape)
    if not table.covers(y).all():
        raise ValueError("k must lie inside the table, got keys outside")
    time = _checks.positive(time, "time")
    return _integrate(table, y, time, _checks.positive(tolerance, "tolerance"), accuracy)


def _starts(vectors: FloatArray, name: str) -> FloatArray:
    starts = np.array(vectors, dtype=float)
    if starts.ndim != 2 or starts.shape[1] != SIZE or not np.isfinite(starts).all():
        raise ValueError(f"{name} must be finite vectors of shape (n, {SIZE}), got {starts.shape}")
    return starts


def _integrate(
    table: _TableRisk, y: FloatArray, end: float, tolerance: float, accuracy: float
) -> FlowEnsemble:
    count = len(y)
    t, h = np.zeros(count), np.full(count, 1e-2)
    alive, diverged = np.ones(count, dtype=bool), np.zeros(count, dtype=bool)
    settled = np.zeros(count, dtype=bool)
    risk = np.empty(count)
    risks, times = [], [t.copy()]
    for _ in range(_STEPS):
        if not alive.any():
            break
        index = np.flatnonzero(alive)
        here, step = y[index], np.minimum(h[index], end - t[index])
        slope = table(here, second=True)
        new, error = _rosenbrock(table, here, slope, step)
        scale = 1e-2 + np.linalg.norm(here, axis=1)
        ratio = np.where(np.isfinite(error), error / (accuracy * scale), 1e6)
        inside = table.covers(new)
        good = (ratio <= 1.0) & inside
        taken = index[good]
        y[taken], t[taken] = new[good], t[taken] + step[good]
        factor = np.clip(0.8 / np.cbrt(np.maximum(ratio, 1e-9)), 0.2, 4.0)
        h[index] = step * np.where(inside, factor, 0.2)
        diverged[index[~inside & (step < 1e-3 * (1.0 + t[index]))]] = True
        norms = np.linalg.norm(slope.gradient, axis=1)
        settled[index[norms < tolerance]] = True
        risk[index] = slope.value  # before the step
        times.append(t.copy())
        risks.append(risk.copy())
        alive = ~(settled | diverged | (t >= end))
    names = np.where(settled, "converged", np.where(diverged, "diverged", "not converged"))
    statuses = tuple(Status(name) for name in names.tolist())
    return FlowEnsemble(
        status=Status.worst(statuses),
        statuses=statuses,
        k=y[:, :SIZE],
        v=y[:, SIZE:],
        risk=np.vstack([*risks, table(y, second=False).value]),
        times=np.array(times),
    )


def _rosenbrock(
    table: _TableRisk, y: FloatArray, slope: Expansion, step: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the state after a step, and an estimate of its error."""
    assert slope.hessian is not None
    h = step[:, None]
    matrix = np.eye(y.shape[1]) + (_D * step)[:, None, None] * slope.hessian

    def solve(right: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.solve(matrix, right[..., None])[..., 0])

    f0 = -slope.gradient
    k1 = solve(f0)
    f1 = -table(y + 0.5 * h * k1, second=False).gradient
    k2 = solve(f1 - k1) + k1
    new = y + h * k2
    f2 = -table(new, second=False).gradient
    k3 = solve(f2 - _E32 * (k2 - f1) - 2.0 * (k1 - f0))
    return new, np.linalg.norm(h / 6.0 * (k1 - 2.0 * k2 + k3), axis=1)


class _TableRisk:
    """Risks, gradients and Hessians at many points ``(k, v)``, from the series of a table."""

    def __init__(self, table: TabulatedLandscape) -> None:
        plain = table.series[:, 0]
        big = np.abs(plain) > _NEGLIGIBLE * np.abs(plain).max(axis=(1, 2), keepdims=True)
        rows = 1 + int(np.flatnonzero(big.any(axis=(0, 2))).max())
        columns = 1 + int(np.flatnonzero(big.any(axis=(0, 1))).max())
        plain = plain[:, : max(rows, 3), : max(columns, 3)]
        self.m, self.S, self.trivial_risk = table.m, table.S, table.trivial_risk

        def dm(series: FloatArray) -> FloatArray:
            return derivative_series(series, 2.0 / (table.m[1] - table.m[0]), 1)

        def dS(series: FloatArray) -> FloatArray:
            return derivative_series(series, 2.0 / table.S, 2)

        first = dm(plain), dS(plain)
        self.series = np.stack([plain, *first, dm(first[0]), dS(first[0]), dS(first[1])], axis=1)

    def covers(self, y: FloatArray) -> Any:
        """Return which points are inside the table."""
        S = (y[:, 1:SIZE] ** 2).sum(axis=1)
        return (self.m[0] <= y[:, 0]) & (y[:, 0] <= self.m[1]) & (self.S >= S)

    def __call__(self, y: FloatArray, *, second: bool) -> Expansion:
        """Return the risk as in `slrlab.theory.landscape.risk.assemble`."""
        k, v = (
            [Expansion.coordinate(y, first + i, second=second) for i in range(SIZE)]
            for first in (0, SIZE)
        )
        S = k[1] * k[1] + k[2] * k[2] + k[3] * k[3]
        g = k[1] * v[1] + k[2] * v[2] + k[3] * v[3]
        rest = v[1] * v[1] + v[2] * v[2] + v[3] * v[3]
        A, B, P, Q, X, Y, U = self._moments(k[0], S)
        risk = -2.0 * (v[1] * A + k[1] * v[0] * P + k[1] * g * Q) + rest * B
        risk = risk + v[0] * v[0] * X + 2.0 * (v[0] * g * Y) + g * g * U
        return Expansion(risk.value + self.trivial_risk, risk.gradient, risk.hessian)

    def _moments(self, m: Expansion, S: Expansion) -> list[Expansion]:
        second = m.hessian is not None and S.hessian is not None
        kept = self.series if second else self.series[:, :3]
        moments, parts, rows, columns = kept.shape
        along = chebyshev_in(m.value, self.m, rows)
        across = chebyshev_in(S.value, (0.0, self.S), columns)
        table = (kept.reshape(-1, columns) @ across).reshape(moments, parts, rows, -1)
        values = np.einsum("ajrn,rn->ajn", table, along)
        return [self._through(row, m, S) for row in values]

    @staticmethod
    def _through(row: FloatArray, m: Expansion, S: Expansion) -> Expansion:
        """Return a function of ``m`` and ``S`` from its value and derivatives."""
        slope = row[1][:, None] * m.gradient + row[2][:, None] * S.gradient
        if m.hessian is None or S.hessian is None:
            return Expansion(row[0], slope, None)
        first, last = m.gradient, S.gradient
        cross = first[:, :, None] * last[:, None, :]
        hessian = row[2][:, None, None] * S.hessian
        hessian = hessian + row[3][:, None, None] * first[:, :, None] * first[:, None, :]
        hessian = hessian + row[4][:, None, None] * (cross + cross.transpose(0, 2, 1))
        hessian = hessian + row[5][:, None, None] * last[:, :, None] * last[:, None, :]
        return Expansion(row[0], slope, hessian)
