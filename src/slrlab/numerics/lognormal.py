r"""Averages ``E[Tʲ e^{−T}]`` of a log-normal ``T = e^{x + a·n}``, tabulated against ``x``.

These are the one-token factors of every Laplace integral whose weights are exponentials of
Gaussian scores. As functions of ``x`` their derivatives are again such averages,
``d/dx E[Tʲe^{−T}] = j·E[Tʲe^{−T}] − E[Tʲ⁺¹e^{−T}]``, so Taylor's formula interpolates a table.
`LognormalTable.of_nodes` does the same for any other law of ``log T − x``, given on nodes. This
module knows no physics.
"""

# notation: docs/notation.md, "Laplace variables"
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slrlab._types import FloatArray

_ORDER = 4  # order of the Taylor formula
_STEP = 0.02  # step of the table: Taylor error about (step/2)^5, 1e-10, of alternating sign
_NODE = 0.36  # step in log T of the average over n: error e^{−π²/0.36}, 1e-12
_EDGE = 8.6  # standard deviations kept of n
_SLIM = 0.3  # width below which Gauss–Hermite nodes in n are few
_HERMITE = np.polynomial.hermite_e.hermegauss(24)
_BLOCK = 1 << 19  # entries of a table (x, node)


@dataclass(frozen=True)
class LognormalTable:
    """``E[1−e^{−T}]``, ``E[T e^{−T}]``, ``E[T² e^{−T}]`` on a uniform grid of ``x``.

    Attributes
    ----------
    start, step
        The grid of ``x``.
    coefficients
        Taylor coefficients, of shape ``(3, order + 1, grid)``; 4 where a second law is given.
    """

    start: float
    step: float
    coefficients: FloatArray

    @classmethod
    def build(
        cls, width: float, low: float, high: float, resolution: float = 1.0
    ) -> LognormalTable:
        """Tabulate for ``log T`` of standard deviation ``width`` and mean in ``[low, high]``."""
        if width < _SLIM:
            x, sums = _slim_averages(width, low, high, _STEP / resolution)
        else:
            x, sums = _wide_averages(width, low, high, resolution)
        return cls(float(x[0]), float(x[1] - x[0]), _taylor(sums))

    @classmethod
    def of_nodes(
        cls, log_t: FloatArray, laws: FloatArray, low: float, high: float, resolution: float = 1.0
    ) -> LognormalTable:
        """Tabulate for ``T = e^{x + log_t}`` on nodes; ``laws`` has two rows of weights.

        The three averages are over the first; a fourth is ``E[T² e^{−T}]`` over the second.
        """
        step = _STEP / resolution
        x = np.arange(low, high + step, step, dtype=np.float64)
        sums = np.empty((_ORDER + 3, x.size, len(laws)))
        rows = max(1, _BLOCK // log_t.size)
        for at in range(0, x.size, rows):
            sums[:, at : at + rows] = _decays(x[at : at + rows, None] + log_t) @ laws.T
        first, second = map(_taylor, np.moveaxis(sums, 2, 0))
        return cls(low, step, np.concatenate([first, second[2:]]))

    def __call__(self, x: FloatArray) -> tuple[FloatArray, ...]:
        """Return the averages at ``x``; outside the grid, those at its nearer end."""
        position = (x - self.start) * (1.0 / self.step)
        position = np.clip(position, 0.0, self.coefficients.shape[2] - 1.0)
        index = np.rint(position).astype(np.intp)
        offset = (position - index) * self.step
        averages = []
        for table in self.coefficients:
            value = table[_ORDER].take(index)
            for row in table[_ORDER - 1 :: -1]:
                value *= offset
                value += row.take(index)
            averages.append(value)
        return tuple(averages)


def _decays(log_t: FloatArray) -> FloatArray:
    """Return ``1−e^{−T}`` and ``Tʲ e^{−T}``, ``j = 1 … order + 2``, stacked."""
    t = np.exp(np.minimum(log_t, 700.0))
    out = np.empty((_ORDER + 3, *log_t.shape))
    out[0] = -np.expm1(-t)
    decay = np.exp(-t)
    for j in range(1, _ORDER + 3):
        decay = decay * t
        out[j] = decay
    return out


def _slim_averages(
    width: float, low: float, high: float, step: float
) -> tuple[FloatArray, FloatArray]:
    """Return the grid of ``x`` and the averages of `_decays` on it, by Gauss–Hermite nodes."""
    x = np.arange(low, high + step, step, dtype=np.float64)
    nodes, weights = _HERMITE
    used = weights > 1e-17 * weights.max() if width > 0.0 else np.abs(nodes) == np.abs(nodes).min()
    law = weights[used] / weights[used].sum()
    return x, np.asarray(_decays(x[:, None] + width * nodes[used]) @ law)


def _wide_averages(
    width: float, low: float, high: float, resolution: float
) -> tuple[FloatArray, FloatArray]:
    """Return the same by a trapezoid rule."""
    node_step = min(0.5, _NODE / width) / resolution
    n = node_step * np.arange(-math.ceil(_EDGE / node_step), (_EDGE + width) / node_step + 1.0)
    law = np.exp(-(n**2) / 2.0) * (node_step / math.sqrt(2.0 * math.pi))
    # the step of the table divides that of the average: each sum is a correlation on one grid
    wanted = _STEP * max(1.0, width / 2.0) / resolution
    phases = max(1, math.ceil(width * node_step / wanted))
    step = width * node_step / phases
    count = (math.ceil((high - low) / step) // phases + 2) * phases
    grid = low + width * n[0] + step * np.arange(count + phases * (n.size - 1))
    sums = np.empty((_ORDER + 3, count))
    for sheet, function in zip(sums, _decays(grid), strict=True):
        for phase in range(phases):
            sheet[phase::phases] = np.correlate(function[phase::phases], law, "valid")
    return np.asarray(low + step * np.arange(count), dtype=np.float64), sums


def _taylor(sums: FloatArray) -> FloatArray:
    """Return Taylor coefficients of the averages of the first three of `_decays`."""
    # a function Σ c_j·E[Tʲe^{−T}] is its row of c; the derivative acts on rows
    size = len(sums) - 1
    derivative = np.diag(np.arange(1.0, size + 1.0)) - np.diag(np.ones(size - 1), 1)
    out = np.empty((3, _ORDER + 1, sums.shape[1]))
    out[0, 0] = sums[0]
    for which, first in enumerate((1, 0, 0)):  # d/dx E[1−e^{−T}] is E[Te^{−T}]
        row = np.eye(size)[max(which - 1, 0)]
        for power in range(first, _ORDER + 1):
            out[which, power] = (row @ sums[1:]) / math.factorial(power)
            row = row @ derivative
    return out
