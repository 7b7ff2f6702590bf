"""Order parameters of trained attention, plain and conjugate: two types that never mix.

`ErmOverlaps` describe the vectors ``k, v``; `ErmConjugates` (hatted) describe the information that
the data give on them. The two halves of state evolution that are pure algebra are methods here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np

from slrlab._types import FloatArray

_SMALLEST = 1e-10  # residuals and stiffnesses are cut off here
_LARGEST_V = 1e10


class Coordinate(IntEnum):
    """Index of each number in the vector of unconstrained coordinates."""

    M_K = 0
    LOG_R_K = 1
    LOG_V_K = 2
    M_V = 3
    LOG_R_V = 4
    LOG_V_V = 5
    BIAS = 6


@dataclass(frozen=True, kw_only=True)
class _KeysAndValues:
    m_k: float
    q_k: float
    V_k: float
    m_v: float
    q_v: float
    V_v: float


ORDER = tuple(field.name for field in fields(_KeysAndValues))


@dataclass(frozen=True, kw_only=True)
class ErmOverlaps(_KeysAndValues):
    """``m = w·w*/D``, ``q = |w|²/D`` and the variance ``V`` of keys and values; the bias."""

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
        """Return the numbers in the order of `Coordinate`; logarithms are cut off from below."""
        positive = (self.R_k, self.V_k, self.R_v, self.V_v)
        log_R_k, log_V_k, log_R_v, log_V_v = (math.log(max(x, _SMALLEST)) for x in positive)
        return np.array([self.m_k, log_R_k, log_V_k, self.m_v, log_R_v, log_V_v, self.bias])

    @classmethod
    def from_vector(cls, x: FloatArray) -> ErmOverlaps:
        """Return the overlaps with these coordinates."""
        m_k, log_R_k, log_V_k, m_v, log_R_v, log_V_v, bias = x.tolist()
        return cls(
            m_k=m_k,
            q_k=m_k**2 + math.exp(log_R_k),
            V_k=math.exp(log_V_k),
            m_v=m_v,
            q_v=m_v**2 + math.exp(log_R_v),
            V_v=math.exp(log_V_v),
            bias=bias,
        )


@dataclass(frozen=True, kw_only=True)
class ErmConjugates(_KeysAndValues):
    """The hatted order parameters ``m̂, q̂, V̂`` of keys and values."""

    def variances(self, ridge_k: float, ridge_v: float) -> tuple[float, float]:
        """Return ``V_a = 1/(r_a + V̂_a)``; nan if the sum is negative."""
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


def _inverse(stiffness: float) -> float:
    if stiffness < -1.0 / _LARGEST_V:
        return math.nan
    return min(1.0 / max(stiffness, _SMALLEST), _LARGEST_V)
