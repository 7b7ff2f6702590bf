r"""The landscape interpolated from a table, for many flows of one task and activation.

The risk is a function of seven moments, smooth in ``(m, S)``. On a box they are replaced by
Chebyshev series in both; a series is differentiated exactly, so that the tabulated gradient is that
of the tabulated risk. Outside the box the exact moments are used. Independent of how moments are
computed.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.polynomial import chebyshev

from slrlab import _checks
from slrlab._types import FloatArray, Report
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task
from slrlab.theory.landscape.moments import LandscapeMoments
from slrlab.theory.landscape.risk import MomentLandscape, QuadratureLandscape
from slrlab.theory.population.minimal import checked

_SMALLER = 0.2  # ratio of the last coefficients of two axes below which the first does not grow
_CHECKS = 24  # number of random points at which a table is compared with the exact moments
_MOST = 20_000  # largest number of points of a table


@dataclass(frozen=True)
class TabulatedLandscape(MomentLandscape):
    """Risk and gradient from a table at a fixed bias.

    ``error`` is the largest error of a moment, or of its derivatives in ``m`` and ``S``, at random
    points of the box, relative to ``1 + |value|``.
    """

    exact: QuadratureLandscape
    bias: float
    m: tuple[float, float]
    S: float
    error: float
    series: FloatArray = field(repr=False)

    @property
    def trivial_risk(self) -> float:
        return self.exact.trivial_risk

    def moments(self, k: FloatArray, bias: float) -> LandscapeMoments:
        S = float(k[1:] @ k[1:])
        if bias != self.bias or not (self.m[0] <= k[0] <= self.m[1] and S <= self.S):
            return self.exact.moments(k, bias)
        along = chebyshev_in(float(k[0]), self.m, self.series.shape[-2])
        across = chebyshev_in(S, (0.0, self.S), self.series.shape[-1])
        rows = (self.series @ across) @ along
        # the bias is fixed: the derivative in it is not tabulated
        return LandscapeMoments(*(np.append(row, 0.0) for row in rows))


def chebyshev_in(x: float | FloatArray, interval: tuple[float, float], count: int) -> FloatArray:
    """Return the Chebyshev polynomials of an interval at points of it, one row each."""
    low, high = interval
    angles = np.arccos(np.clip((2.0 * x - low - high) / (high - low), -1.0, 1.0))
    return np.asarray(np.cos(np.multiply.outer(np.arange(count), angles)))


def derivative_series(series: FloatArray, scale: float, axis: int) -> FloatArray:
    """Return the series of the derivative, of the same shape."""
    shorter = chebyshev.chebder(series, scl=scale, axis=axis)
    return np.pad(shorter, [(0, int(i == axis)) for i in range(series.ndim)])


def tabulate(
    task: Task,
    activation: Activation | str,
    *,
    m: tuple[float, float],
    std: float,
    bias: float | None = None,
    tolerance: float = 1e-6,
    seed: int = 0,
    report: Report | None = None,
) -> TabulatedLandscape:
    """Tabulate the landscape for ``m_kk`` in an interval and ``√(q_kk − m_kk²)`` up to ``std``.

    The table grows until its ``error`` is below the tolerance, or it has 20,000 points.

    Parameters
    ----------
    task, activation
        Task and attention.
    m
        Interval of ``m_kk``.
    std
        Largest ``√(q_kk − m_kk²)``.
    bias
        Bias, required if that of the activation is free.
    tolerance
        Error asked of the table.
    seed
        Seed of the points at which the table is checked.
    report
        Called with the progress.

    Returns
    -------
    TabulatedLandscape
        The table, which evaluates risk and gradient in the box.

    Raises
    ------
    ValueError
        If the box is empty, or the bias is free and none is given.

    Examples
    --------
    >>> from slrlab import SpikedSLR, tabulate
    >>> table = tabulate(SpikedSLR(1.0, 2), "softmax", m=(-1.0, 1.0), std=1.0, tolerance=1e-3)
    >>> table.error < 1e-3
    True
    """
    chosen = checked(task, activation, tolerance).without_idle_bias()
    bias = chosen.bias if bias is None else _checks.finite(bias, "bias")
    if bias is None:
        raise ValueError(f"bias of {chosen.name} must be a number for a table, got free")
    low, high = (_checks.finite(end, "m") for end in m)
    if not low < high:
        raise ValueError(f"m must be an interval (low, high), got {m}")
    top = _checks.positive(std, "std") ** 2
    exact = QuadratureLandscape(task, chosen, 1.0)
    draws = np.random.default_rng(seed).uniform(size=(_CHECKS, 2)).tolist()
    checks = [(low + (high - low) * a, top * b**2) for a, b in draws]
    known = np.array([_moments_at(exact, bias, *check) for check in checks])
    shape = (8 + math.ceil(3.0 * (high - low)), 6 + math.ceil(4.0 * std))
    values: dict[tuple[float, float], FloatArray] = {}
    while True:
        nodes = _evaluate(exact, bias, values, (low, high), top, shape, report)
        series = _series(nodes, (high - low, top))
        table = TabulatedLandscape(exact, bias, (low, high), top, math.nan, series)
        rows = np.array([_moments_at(table, bias, *check) for check in checks])
        error = float((np.abs(rows - known) / (1.0 + np.abs(known))).max())
        shape = _grown(series)
        if error <= tolerance or shape[0] * shape[1] > _MOST:
            return replace(table, error=error)


def _grown(series: FloatArray) -> tuple[int, int]:
    """Return a larger shape whose nodes contain the present ones.

    An axis does not grow if its last coefficients are much smaller than those of the other.
    """
    sizes = np.abs(series[:, 0]).max(axis=0)
    ends = float(sizes[-3:].max()), float(sizes[:, -3:].max())
    longer = [
        2 * n - 1 if end >= _SMALLER * max(ends) else n
        for n, end in zip(sizes.shape, ends, strict=True)
    ]
    return longer[0], longer[1]


def _moments_at(landscape: MomentLandscape, bias: float, m: float, S: float) -> FloatArray:
    """Return the moments (rows) with derivatives in ``m`` and ``S`` (columns)."""
    return np.array(landscape.moments(np.array([m, math.sqrt(S)]), bias))[:, :3]


def _evaluate(
    exact: QuadratureLandscape,
    bias: float,
    values: dict[tuple[float, float], FloatArray],
    m: tuple[float, float],
    top: float,
    shape: tuple[int, int],
    report: Report | None,
) -> FloatArray:
    """Return the moments ``(m, S, moment)`` at the nodes; ``values`` holds those computed before.

    Nodes are the extrema of Chebyshev polynomials: a doubled shape contains the nodes of the last.
    """
    x, y = (np.cos(np.pi * (np.arange(n) / (n - 1))) for n in shape)
    along = (0.5 * (m[0] + m[1]) + 0.5 * (m[1] - m[0]) * x).tolist()
    across = (0.5 * top * (1 + y)).tolist()
    for done, here in enumerate(along):
        if report is not None:
            report(done, len(along), "table of the landscape")
        for S in across:
            if (here, S) not in values:
                values[here, S] = _moments_at(exact, bias, here, S)[:, 0]
    return np.array([[values[here, S] for S in across] for here in along])


def _series(values: FloatArray, widths: tuple[float, float]) -> FloatArray:
    """Return coefficients ``(moment, derivative, m, S)`` from values at the nodes of a box."""
    inverse = [
        np.linalg.inv(chebyshev.chebvander(np.cos(np.pi * (np.arange(n) / (n - 1))), n - 1))
        for n in values.shape[:2]
    ]
    plain = np.einsum("ai,bj,ijn->nab", *inverse, values, optimize=True)
    slopes = (derivative_series(plain, 2.0 / w, axis) for axis, w in enumerate(widths, start=1))
    return np.stack([plain, *slopes], axis=1)
