r"""The landscape interpolated from a table: for many flows of one task and activation.

All the risk needs are seven smooth functions of ``(m, S)``. On a box they are replaced by
Chebyshev series in both; a series is differentiated exactly, so flows on it are flows of a true
risk that differs from the exact one by the error given. Outside the box the exact landscape
answers. This module must not know how the functions are computed.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.polynomial import chebyshev

from slrlab import _checks
from slrlab._types import FloatArray, Report
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task
from slrlab.theory.landscape.moments import NAMES, LandscapeMoments
from slrlab.theory.landscape.risk import (
    Landscape,
    QuadratureLandscape,
    Slope,
    assemble,
    best_values,
)
from slrlab.theory.population.minimal import checked

_SMALLER = 0.2  # an axis whose last coefficients are smaller than this share is long enough
_CHECKS = 24  # random points at which a table is compared with the exact functions
_MOST = 20_000  # points of a table


@dataclass(frozen=True)
class TabulatedLandscape:
    """Risk and gradient from a table at a fixed bias.

    ``error`` is the largest error of a moment, or of its derivatives in ``m`` and ``S``, met at
    random points of the box, relative to ``1 + |value|``.
    """

    exact: QuadratureLandscape
    bias: float
    m: tuple[float, float]
    S: float
    error: float
    series: FloatArray = field(repr=False)
    smooth: ClassVar[bool] = True

    def __call__(self, k: FloatArray, v: FloatArray, bias: float) -> Slope:
        moments = self._moments(k, bias)
        if moments is None:
            return self.exact(k, v, bias)
        return assemble(self.exact.task.trivial_risk, moments, k, v)

    def at_best_values(self, k: FloatArray, bias: float) -> tuple[FloatArray, Slope]:
        """Return the ``v`` of least risk for given keys, and the slope there."""
        moments = self._moments(k, bias)
        if moments is None:
            return self.exact.at_best_values(k, bias)
        v = best_values(moments, k)
        return v, assemble(self.exact.task.trivial_risk, moments, k, v)

    def _moments(self, k: FloatArray, bias: float) -> LandscapeMoments | None:
        S = float(k[1:] @ k[1:])
        if bias != self.bias or not (self.m[0] <= k[0] <= self.m[1] and S <= self.S):
            return None
        across = cosines(2.0 * S / self.S - 1.0, self.series.shape[-1])
        along = cosines(_scaled(float(k[0]), self.m), self.series.shape[-2])
        found = (self.series @ across) @ along
        # the bias does not move: its column is idle
        return LandscapeMoments(*(np.append(row, 0.0) for row in found))


def _scaled(x: float, ends: tuple[float, float]) -> float:
    return (2.0 * x - ends[0] - ends[1]) / (ends[1] - ends[0])


def cosines(x: float | FloatArray, count: int) -> FloatArray:
    """Return the Chebyshev polynomials at points of [−1, 1], one row each."""
    return np.asarray(np.cos(np.multiply.outer(np.arange(count), np.arccos(np.clip(x, -1, 1)))))


def derived(series: FloatArray, scale: float, axis: int) -> FloatArray:
    """Return the series of the derivative, of the same shape."""
    found = np.zeros_like(series)
    kept = [slice(None)] * series.ndim
    kept[axis] = slice(0, -1)
    found[tuple(kept)] = chebyshev.chebder(series, scl=scale, axis=axis)
    return found


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

    The table grows until its error at random points is below the tolerance, or it has 20,000
    points: see its ``error``.

    Raises
    ------
    ValueError
        If the box is empty, or the bias is free and none is given.
    """
    chosen = checked(task, activation, tolerance).without_idle_bias()
    shift = chosen.bias if bias is None else _checks.finite(bias, "bias")
    if shift is None:
        raise ValueError(f"bias of {chosen.name} must be a number for a table, got free")
    low, high = (_checks.finite(end, "m") for end in m)
    if not low < high:
        raise ValueError(f"m must be an interval (low, high), got {m}")
    top = _checks.positive(std, "std") ** 2
    exact = QuadratureLandscape(task, chosen, 1.0)
    rng = np.random.default_rng(seed)
    draws = rng.uniform(size=(_CHECKS, 2)).tolist()
    tests = [(low + (high - low) * a, top * b**2) for a, b in draws]
    known = [_column(exact, shift, *test) for test in tests]
    shape = (8 + math.ceil(3.0 * (high - low)), 6 + math.ceil(4.0 * std))
    values: dict[tuple[float, float], FloatArray] = {}
    while True:
        _evaluate(exact, shift, values, *_nodes((low, high), top, shape), report)
        series = _series(values, (low, high), top, shape)
        found = TabulatedLandscape(exact, shift, (low, high), top, math.nan, series)
        error = max(_gap(found, test, row) for test, row in zip(tests, known, strict=True))
        done = TabulatedLandscape(exact, shift, (low, high), top, error, series)
        if error <= tolerance:
            return done
        shape = _grown(series)
        if shape[0] * shape[1] > _MOST:
            return done


def _grown(series: FloatArray) -> tuple[int, int]:
    """Return a larger shape whose nodes hold the old ones.

    An axis stays as it is if its last coefficients are much smaller than those of the other.
    """
    sizes = np.abs(series[:, 0]).max(axis=0)
    ends = float(sizes[-3:].max()), float(sizes[:, -3:].max())
    longer = [
        2 * n - 1 if end >= _SMALLER * max(ends) else n
        for n, end in zip(sizes.shape, ends, strict=True)
    ]
    return longer[0], longer[1]


def _column(exact: QuadratureLandscape, bias: float, m: float, S: float) -> FloatArray:
    """Return the exact moments (rows) with derivatives in ``m`` and ``S`` (columns)."""
    moments = exact.moments(np.array([m, math.sqrt(S)]), bias)
    return np.array([getattr(moments, name)[:3] for name in NAMES])


def _gap(table: TabulatedLandscape, test: tuple[float, float], row: FloatArray) -> float:
    moments = table._moments(np.array([test[0], math.sqrt(test[1])]), table.bias)
    assert moments is not None
    found = np.array([getattr(moments, name)[:3] for name in NAMES])
    return float((np.abs(found - row) / (1.0 + np.abs(row))).max())


def _nodes(
    m: tuple[float, float], top: float, shape: tuple[int, int]
) -> tuple[list[float], list[float]]:
    """Return the extrema of Chebyshev polynomials: every other one of a doubled shape is old."""
    x, y = (np.cos(np.pi * (np.arange(n) / (n - 1))) for n in shape)
    return (0.5 * (m[0] + m[1]) + 0.5 * (m[1] - m[0]) * x).tolist(), (0.5 * top * (1 + y)).tolist()


def _evaluate(
    exact: QuadratureLandscape,
    bias: float,
    values: dict[tuple[float, float], FloatArray],
    along: list[float],
    across: list[float],
    report: Report | None,
) -> None:
    """Compute the moments at those nodes that have none yet."""
    for done, m in enumerate(along):
        if report is not None:
            report(done, len(along), "table of the landscape")
        for S in across:
            if (m, S) not in values:
                values[m, S] = _column(exact, bias, m, S)[:, 0]


def _series(
    values: dict[tuple[float, float], FloatArray],
    m: tuple[float, float],
    top: float,
    shape: tuple[int, int],
) -> FloatArray:
    """Return coefficients ``(moment, derivative, m, S)`` from values at the nodes."""
    along, across = _nodes(m, top, shape)
    found = np.array([[values[a, b] for b in across] for a in along])
    inverse = [
        np.linalg.inv(chebyshev.chebvander(np.cos(np.pi * (np.arange(n) / (n - 1))), n - 1))
        for n in shape
    ]
    plain = np.einsum("ai,bj,ijn->nab", inverse[0], inverse[1], found, optimize=True)
    slopes = derived(plain, 2.0 / (m[1] - m[0]), 1), derived(plain, 2.0 / top, 2)
    return np.stack([plain, *slopes], axis=1)


def refuse_frozen_bias(activation: Activation, landscape: Landscape) -> None:
    """Raise ValueError if a bias is to be learned on a table, where it cannot move."""
    if activation.bias is None and isinstance(landscape, TabulatedLandscape):
        raise ValueError(
            f"bias of {activation.name} must be a number on a table, got free: "
            f"fix it with make_activation({activation.name!r}, bias={landscape.bias:g})"
        )
