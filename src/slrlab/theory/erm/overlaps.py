"""Order parameters of trained attention, plain and conjugate; two types that never mix.

`Overlaps` describe the vectors ``k, v``; `Conjugates` (the hatted ones) describe what the data
say about them. This module holds the two small algebraic halves of state evolution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slrlab._types import FloatArray

_SMALLEST = 1e-10  # of residuals and stiffness: below, a vector is absent or unbounded
_LARGEST_V = 1e10


@dataclass(frozen=True)
class Overlaps:
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
        """Return unconstrained coordinates: overlaps, logs of residuals and variances, bias."""
        logs = [math.log(max(value, _SMALLEST)) for value in (self.R_k, self.V_k)]
        more = [math.log(max(value, _SMALLEST)) for value in (self.R_v, self.V_v)]
        return np.array([self.m_k, *logs, self.m_v, *more, self.bias])

    @classmethod
    def from_vector(cls, x: FloatArray) -> Overlaps:
        """Return the overlaps with these coordinates."""
        m_k, log_r_k, log_v_k, m_v, log_r_v, log_v_v, bias = (float(value) for value in x)
        return cls(
            m_k,
            m_k**2 + math.exp(log_r_k),
            math.exp(log_v_k),
            m_v,
            m_v**2 + math.exp(log_r_v),
            math.exp(log_v_v),
            bias,
        )


@dataclass(frozen=True)
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

    def overlaps(self, V_k: float, V_v: float, bias: float = 0.0) -> Overlaps:
        """Return ``m_a = V_a m̂_a`` and ``q_a = V_a²(m̂_a² + q̂_a)``."""
        return Overlaps(
            V_k * self.m_k,
            V_k**2 * (self.m_k**2 + self.q_k),
            V_k,
            V_v * self.m_v,
            V_v**2 * (self.m_v**2 + self.q_v),
            V_v,
            bias,
        )


def _inverse(stiffness: float) -> float:
    if stiffness < -1.0 / _LARGEST_V:
        return math.nan
    return min(1.0 / max(stiffness, _SMALLEST), _LARGEST_V)
