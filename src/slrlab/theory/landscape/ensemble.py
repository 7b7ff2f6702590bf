r"""Gradient flow from many starts at once, on the table of one landscape.

One flow takes a fifth of a second; hundreds of them, each with its own time step, take little more
when every operation works on all of them. The solver is a linearly implicit one of order 2
(Shampine and Reichelt's), as the problem is stiff and the table gives exact Hessians. This module
must not know how a table is made.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab import _checks
from slrlab._plot import END_COLORS, axes_of
from slrlab._result import Result, Status
from slrlab._types import FloatArray
from slrlab.numerics.second_order import Expansion
from slrlab.theory.landscape.minima import Kind, kind_of
from slrlab.theory.landscape.risk import SIZE, overlaps_of
from slrlab.theory.landscape.table import TabulatedLandscape, cosines, derived

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_D = 1.0 / (2.0 + math.sqrt(2.0))
_E32 = 6.0 + math.sqrt(2.0)
_NEGLIGIBLE = 1e-11  # coefficients of a series that are rounding
_STEPS = 5000


@dataclass(frozen=True)
class FlowEnsemble(Result):
    """Ends and histories of many flows, one column or entry each.

    Attributes
    ----------
    status
        ``converged`` if all flows did, else the worst of ``statuses``.
    statuses
        ``converged``: the gradient fell below the tolerance. ``diverged``: the keys left the table.
        ``not converged``: time ran out.
    k, v
        Where each flow ended, one row each.
    risk, times
        Risks and times after each step (rows), of each flow (columns); a finished flow stays.
    """

    statuses: tuple[Status, ...]
    k: FloatArray = field(repr=False)
    v: FloatArray = field(repr=False)
    risk: FloatArray = field(repr=False)
    times: FloatArray = field(repr=False)

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each flow: how and where it ended."""
        import pandas as pd

        ends = {"status": map(str, self.statuses), "kind": map(str, self.kinds)}
        return pd.DataFrame(
            {name: list(column) for name, column in ends.items()}
            | {"risk": self.risk[-1], "time": self.times[-1]}
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the risk of each flow against time, in the colour of what it ends aligned with."""
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
        """What each end is aligned with."""
        return [kind_of(overlaps_of(k, v)) for k, v in zip(self.k, self.v, strict=True)]

    def time_within(self, gap: float, floor: float | FloatArray) -> FloatArray:
        """Return when the risk of each flow comes within ``gap`` of ``floor``; nan if never."""
        left = np.log(np.maximum(self.risk - floor, 1e-300))
        wanted = math.log(_checks.positive(gap, "gap"))
        found = np.full(left.shape[1], math.nan)
        for column in np.flatnonzero(left.min(axis=0) <= wanted):
            # risks fall along a flow, at last exponentially: interpolate the logarithm
            path = -np.minimum.accumulate(left[:, column])
            found[column] = np.interp(-wanted, path, self.times[:, column])
        return found


def flow_ensemble(
    landscape: TabulatedLandscape,
    k: FloatArray,
    v: FloatArray,
    *,
    time: float = 1e5,
    tolerance: float = 1e-6,
    accuracy: float = 1e-3,
) -> FlowEnsemble:
    """Follow ``dk/dt = −∂E/∂k``, ``dv/dt = −∂E/∂v`` from many starts on a table.

    Parameters
    ----------
    landscape
        Table of the landscape (`slrlab.tabulate`); a flow that leaves it is stopped.
    k, v
        Starts in R⁴, one row each.
    time, tolerance
        When to stop at the latest, and the length of the gradient below which a flow has ended.
    accuracy
        Error allowed in a step, relative to the length of the vectors.

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
    >>> found = flow_ensemble(table, k, v)
    >>> [str(kind) for kind in found.kinds], str(found.status)
    (['matched', 'matched', 'matched', 'matched', 'matched'], 'converged')
    """
    y = np.concatenate([_starts(k, "k"), _starts(v, "v")], axis=1)
    ground = _Ground(landscape)
    if not ground.covers(y).all():
        raise ValueError("k must lie inside the table, got keys outside")
    end = _checks.positive(time, "time")
    return _integrate(ground, y, end, _checks.positive(tolerance, "tolerance"), accuracy)


def _starts(vectors: FloatArray, name: str) -> FloatArray:
    found = np.array(vectors, dtype=float)
    if found.ndim != 2 or found.shape[1] != SIZE or not np.isfinite(found).all():
        raise ValueError(f"{name} must be finite vectors of shape (n, {SIZE}), got {found.shape}")
    return found


def _integrate(
    ground: _Ground, y: FloatArray, end: float, tolerance: float, accuracy: float
) -> FlowEnsemble:
    count = len(y)
    t, h = np.zeros(count), np.full(count, 1e-2)
    alive, diverged = np.ones(count, dtype=bool), np.zeros(count, dtype=bool)
    settled = np.zeros(count, dtype=bool)
    risk = ground(y, second=False).value
    risks, times = [risk.copy()], [t.copy()]
    for _ in range(_STEPS):
        if not alive.any():
            break
        index = np.flatnonzero(alive)
        here, step = y[index], np.minimum(h[index], end - t[index])
        slope = ground(here, second=True)
        new, error = _rosenbrock(ground, here, slope, step)
        scale = 1e-2 + np.linalg.norm(here, axis=1)
        ratio = np.where(np.isfinite(error), error / (accuracy * scale), 1e6)
        inside = ground.covers(new)
        good = (ratio <= 1.0) & inside
        taken = index[good]
        y[taken], t[taken] = new[good], t[taken] + step[good]
        factor = np.clip(0.8 / np.cbrt(np.maximum(ratio, 1e-9)), 0.2, 4.0)
        h[index] = step * np.where(inside, factor, 0.2)
        diverged[index[~inside & (step < 1e-3 * (1.0 + t[index]))]] = True
        norms = np.linalg.norm(slope.gradient, axis=1)
        settled[index[norms < tolerance]] = True
        risk[index] = slope.value
        times.append(t.copy())
        risks.append(risk.copy())
        alive = ~(settled | diverged | (t >= end))
    return _result(ground, y, settled, diverged, np.array(risks), np.array(times))


def _result(
    ground: _Ground,
    y: FloatArray,
    settled: FloatArray,
    diverged: FloatArray,
    risks: FloatArray,
    times: FloatArray,
) -> FlowEnsemble:
    # a step is told the risk of where it starts: shift by one
    shifted = np.vstack([risks[1:], ground(y, second=False).value])
    names = np.where(settled, "converged", np.where(diverged, "diverged", "not converged"))
    statuses = tuple(Status(name) for name in names.tolist())
    return FlowEnsemble(
        status=Status.worst(statuses),
        statuses=statuses,
        k=y[:, :SIZE],
        v=y[:, SIZE:],
        risk=shifted,
        times=times,
    )


def _rosenbrock(
    ground: _Ground, y: FloatArray, slope: Expansion, step: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the state after a step, and an estimate of its error."""
    assert slope.hessian is not None
    h = step[:, None]
    matrix = np.eye(y.shape[1]) + (_D * step)[:, None, None] * slope.hessian

    def solve(right: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.solve(matrix, right[..., None])[..., 0])

    f0 = -slope.gradient
    k1 = solve(f0)
    f1 = -ground(y + 0.5 * h * k1, second=False).gradient
    k2 = solve(f1 - k1) + k1
    new = y + h * k2
    f2 = -ground(new, second=False).gradient
    k3 = solve(f2 - _E32 * (k2 - f1) - 2.0 * (k1 - f0))
    return new, np.linalg.norm(h / 6.0 * (k1 - 2.0 * k2 + k3), axis=1)


class _Ground:
    """Risks, gradients and Hessians at many points ``(k, v)``, from the series of a table."""

    def __init__(self, table: TabulatedLandscape) -> None:
        plain = table.series[:, 0]
        big = np.abs(plain) > _NEGLIGIBLE * np.abs(plain).max(axis=(1, 2), keepdims=True)
        rows = 1 + int(np.flatnonzero(big.any(axis=(0, 2))).max())
        columns = 1 + int(np.flatnonzero(big.any(axis=(0, 1))).max())
        plain = plain[:, : max(rows, 3), : max(columns, 3)]
        self.m, self.S, self.trivial = table.m, table.S, table.exact.task.trivial_risk
        along, across = 2.0 / (table.m[1] - table.m[0]), 2.0 / table.S
        dm, dS = derived(plain, along, 1), derived(plain, across, 2)
        bends = (derived(dm, along, 1), derived(dm, across, 2), derived(dS, across, 2))
        self.series = np.stack([plain, dm, dS, *bends], axis=1)

    def covers(self, y: FloatArray) -> Any:
        """Return which points are on the table."""
        S = (y[:, 1:SIZE] ** 2).sum(axis=1)
        return (self.m[0] <= y[:, 0]) & (y[:, 0] <= self.m[1]) & (self.S >= S)

    def __call__(self, y: FloatArray, *, second: bool) -> Expansion:
        """Return the risk, quadratic in ``v``: `slrlab.theory.landscape.risk.assemble`."""
        k, v = (
            [Expansion.coordinate(y, first + i, second=second) for i in range(SIZE)]
            for first in (0, SIZE)
        )
        S = k[1] * k[1] + k[2] * k[2] + k[3] * k[3]
        g = k[1] * v[1] + k[2] * v[2] + k[3] * v[3]
        rest = v[1] * v[1] + v[2] * v[2] + v[3] * v[3]
        A, B, P, Q, X, Y, U = self._moments(k[0], S)
        push = k[1] * v[0]
        risk = -2.0 * (v[1] * A + push * P + k[1] * g * Q) + rest * B
        risk = risk + v[0] * v[0] * X + 2.0 * (v[0] * g * Y) + g * g * U
        return Expansion(risk.value + self.trivial, risk.gradient, risk.hessian)

    def _moments(self, m: Expansion, S: Expansion) -> list[Expansion]:
        second = m.hessian is not None and S.hessian is not None
        kept = self.series if second else self.series[:, :3]
        moments, parts, rows, columns = kept.shape
        low, high = self.m
        across = cosines(2.0 * S.value / self.S - 1.0, columns)
        along = cosines((2.0 * m.value - low - high) / (high - low), rows)
        table = (kept.reshape(-1, columns) @ across).reshape(moments, parts, rows, -1)
        found = np.einsum("ajrn,rn->ajn", table, along)
        return [self._through(row, m, S) for row in found]

    @staticmethod
    def _through(row: FloatArray, m: Expansion, S: Expansion) -> Expansion:
        """Return a function of ``m`` and ``S`` from its value and derivatives."""
        slope = row[1][:, None] * m.gradient + row[2][:, None] * S.gradient
        if m.hessian is None or S.hessian is None:
            return Expansion(row[0], slope, None)
        first, last = m.gradient, S.gradient
        cross = first[:, :, None] * last[:, None, :]
        bent = row[2][:, None, None] * S.hessian
        bent = bent + row[3][:, None, None] * first[:, :, None] * first[:, None, :]
        bent = bent + row[4][:, None, None] * (cross + cross.transpose(0, 2, 1))
        bent = bent + row[5][:, None, None] * last[:, :, None] * last[:, None, :]
        return Expansion(row[0], slope, bent)
