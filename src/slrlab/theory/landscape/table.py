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
from slrlab._result import Report as Report
from slrlab.model.activations import Activation
from slrlab.model.lengths import FloatArray
from slrlab.model.tasks import Task
from slrlab.theory.landscape.moments import NAMES, LandscapeMoments
from slrlab.theory.landscape.risk import (
    Landscape,
    QuadratureLandscape,
    Slope,
    assemble,
    best_values,
)
from slrlab.theory.population import checked

_GROWTH = 1.4
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
    spread: float,
    bias: float | None = None,
    tolerance: float = 1e-6,
    seed: int = 0,
    report: Report | None = None,
) -> TabulatedLandscape:
    """Tabulate the landscape for ``m_kk`` in an interval and ``√(q_kk − m_kk²)`` up to ``spread``.

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
    top = _checks.positive(spread, "spread") ** 2
    exact = QuadratureLandscape(task, chosen, 1.0)
    rng = np.random.default_rng(seed)
    draws = rng.uniform(size=(_CHECKS, 2)).tolist()
    tests = [(low + (high - low) * a, top * b**2) for a, b in draws]
    known = [_column(exact, shift, *test) for test in tests]
    shape = (8 + math.ceil(4.0 * (high - low)), 6 + math.ceil(4.0 * spread))
    while True:
        series = _series(exact, shift, (low, high), top, shape, report)
        found = TabulatedLandscape(exact, shift, (low, high), top, math.nan, series)
        error = max(_gap(found, test, row) for test, row in zip(tests, known, strict=True))
        shape = math.ceil(_GROWTH * shape[0]), math.ceil(_GROWTH * shape[1])
        if error <= tolerance or shape[0] * shape[1] > _MOST:
            return TabulatedLandscape(exact, shift, (low, high), top, error, series)


def _column(exact: QuadratureLandscape, bias: float, m: float, S: float) -> FloatArray:
    """Return the exact moments (rows) with derivatives in ``m`` and ``S`` (columns)."""
    moments = exact.moments(np.array([m, math.sqrt(S)]), bias)
    return np.array([getattr(moments, name)[:3] for name in NAMES])


def _gap(table: TabulatedLandscape, test: tuple[float, float], row: FloatArray) -> float:
    moments = table._moments(np.array([test[0], math.sqrt(test[1])]), table.bias)
    assert moments is not None
    found = np.array([getattr(moments, name)[:3] for name in NAMES])
    return float((np.abs(found - row) / (1.0 + np.abs(row))).max())


def _series(
    exact: QuadratureLandscape,
    bias: float,
    m: tuple[float, float],
    top: float,
    shape: tuple[int, int],
    report: Report | None,
) -> FloatArray:
    """Return coefficients ``(moment, derivative, m, S)`` from values at Chebyshev points."""
    nodes = [np.cos(np.pi * (np.arange(n) + 0.5) / n) for n in shape]
    values = np.empty((len(NAMES), *shape))
    for i, x in enumerate(nodes[0]):
        place = 0.5 * (m[0] + m[1]) + 0.5 * (m[1] - m[0]) * x
        for j, y in enumerate(nodes[1]):
            values[:, i, j] = _column(exact, bias, float(place), 0.5 * top * (1.0 + y))[:, 0]
        if report is not None:
            report(i + 1, shape[0], "table of the landscape")
    inverse = [np.linalg.inv(chebyshev.chebvander(x, x.size - 1)) for x in nodes]
    plain = np.einsum("ai,bj,nij->nab", inverse[0], inverse[1], values)
    slopes = derived(plain, 2.0 / (m[1] - m[0]), 1), derived(plain, 2.0 / top, 2)
    return np.stack([plain, *slopes], axis=1)


def refuse_frozen_bias(activation: Activation, landscape: Landscape) -> None:
    """Raise ValueError if a bias is to be learned on a table, where it cannot move."""
    if activation.bias is None and isinstance(landscape, TabulatedLandscape):
        raise ValueError(
            f"bias of {activation.name} must be a number on a table, got free: "
            f"fix it with make_activation({activation.name!r}, bias={landscape.bias:g})"
        )
