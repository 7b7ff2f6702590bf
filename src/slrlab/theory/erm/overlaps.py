"""Order parameters of trained attention, plain and conjugate; two types that never mix.

`ErmOverlaps` describe the vectors ``k, v``; `Conjugates` (the hatted ones) describe what the data
say about them. This module holds the two small algebraic halves of state evolution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from slrlab._types import FloatArray

_SMALLEST = 1e-10  # of residuals and stiffness: below, a vector is absent or unbounded
_LARGEST_V = 1e10


class Coordinate(IntEnum):
    """Where each number stands in the vector of unconstrained coordinates."""

    M_K = 0
    LOG_R_K = 1
    LOG_V_K = 2
    M_V = 3
    LOG_R_V = 4
    LOG_V_V = 5
    BIAS = 6


@dataclass(frozen=True, kw_only=True)
class ErmOverlaps:
    """``m = w·w*/D``, ``q = |w|²/D`` and the variance ``V`` for keys and values; the bias."""

    m_k: float
    q_k: float
    V_k: float
    m_v: float
    q_v: float
    V_v: float
    bias: float = 0.0

    @property
    def R_k(self) -> float:
        """Residual ``q_k − m_k²``."""
        return self.q_k - self.m_k**2

    @property
    def R_v(self) -> float:
        """Residual ``q_v − m_v²``."""
        return self.q_v - self.m_v**2

    def to_vector(self) -> FloatArray:
        """Return the coordinates: overlaps, logs of residuals and variances, bias."""
        x = np.empty(len(Coordinate))
        x[Coordinate.M_K], x[Coordinate.M_V] = self.m_k, self.m_v
        x[Coordinate.LOG_R_K], x[Coordinate.LOG_R_V] = _log(self.R_k), _log(self.R_v)
        x[Coordinate.LOG_V_K], x[Coordinate.LOG_V_V] = _log(self.V_k), _log(self.V_v)
        x[Coordinate.BIAS] = self.bias
        return x

    @classmethod
    def from_vector(cls, x: FloatArray) -> ErmOverlaps:
        """Return the overlaps with these coordinates."""
        m_k, m_v = float(x[Coordinate.M_K]), float(x[Coordinate.M_V])
        return cls(
            m_k=m_k,
            q_k=m_k**2 + math.exp(x[Coordinate.LOG_R_K]),
            V_k=math.exp(x[Coordinate.LOG_V_K]),
            m_v=m_v,
            q_v=m_v**2 + math.exp(x[Coordinate.LOG_R_V]),
            V_v=math.exp(x[Coordinate.LOG_V_V]),
            bias=float(x[Coordinate.BIAS]),
        )


@dataclass(frozen=True, kw_only=True)
class Conjugates:
    """The hatted order parameters ``m̂, q̂, V̂`` of keys and values."""

    m_k: float
    q_k: float
    V_k: float
    m_v: float
    q_v: float
    V_v: float

    def variances(self, ridge_k: float, ridge_v: float) -> tuple[float, float]:
        """Return ``V_a = 1/(r_a + V̂_a)``; nan where the data do not hold the vector."""
        return _inverse(ridge_k + self.V_k), _inverse(ridge_v + self.V_v)

    def ridges(self, V_k: float, V_v: float) -> tuple[float, float]:
        """Return the ``r_a = 1/V_a − V̂_a`` for which ``V`` is a solution."""
        return 1.0 / V_k - self.V_k, 1.0 / V_v - self.V_v

    def overlaps(self, V_k: float, V_v: float, bias: float = 0.0) -> ErmOverlaps:
        """Return ``m_a = V_a m̂_a`` and ``q_a = V_a²(m̂_a² + q̂_a)``."""
        return ErmOverlaps(
            m_k=V_k * self.m_k,
            q_k=V_k**2 * (self.m_k**2 + self.q_k),
            V_k=V_k,
            m_v=V_v * self.m_v,
            q_v=V_v**2 * (self.m_v**2 + self.q_v),
            V_v=V_v,
            bias=bias,
        )


def _log(value: float) -> float:
    return math.log(max(value, _SMALLEST))


def _inverse(stiffness: float) -> float:
    if stiffness < -1.0 / _LARGEST_V:
        return math.nan
    return min(1.0 / max(stiffness, _SMALLEST), _LARGEST_V)
