"""The moments of attention weights that determine a population risk."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slrlab._types import FloatArray

_HUGE = 1e75  # weights whose fourth power over- or underflows are measured in the largest


def scaled(weights: FloatArray) -> tuple[FloatArray, float]:
    """Return weights in a unit in which their squares are doubles, and the unit."""
    unit = float(np.abs(weights).max(initial=0.0))
    unit = unit if _HUGE < unit < math.inf or 0.0 < unit < 1.0 / _HUGE else 1.0
    return weights / unit, unit


@dataclass(frozen=True)
class AttentionMoments:
    """Moments of the attention weights.

    Attributes
    ----------
    target
        ``A = E[σ_ε]``.
    shortfall
        ``1 − A`` without cancellation.
    unexplained
        ``B − A² = Var σ_ε + E Σ_{ℓ≠ε} σ_ℓ²`` without cancellation.
    defect
        Distance from 1 of the sum of ``A`` and ``1 − A``, computed separately.
    sampled_error
        Standard error of ``A²/B`` where the moments were sampled, else 0.
    unit
        Unit of the weights: ``A`` is ``target·unit``. It is 1 unless squares of the weights would
        over- or underflow.
    """

    target: float
    shortfall: float
    unexplained: float
    defect: float = 0.0
    sampled_error: float = 0.0
    unit: float = 1.0

    @property
    def energy(self) -> float:
        """``B = E Σ σ_ℓ²`` in units of ``unit²``."""
        return self.target**2 + self.unexplained

    @property
    def best_value_scale(self) -> float:
        """The ``m_v = A/B`` that minimises the risk."""
        return self.target / self.energy / self.unit if self.energy != 0.0 else 0.0

    @property
    def best_risk(self) -> float:
        """``1 − A²/B``, the noiseless risk at the best ``v``."""
        return self.unexplained / self.energy if self.energy != 0.0 else 1.0

    def risk(self, m_v: float, R_v: float = 0.0) -> float:
        """Return ``1 − 2 m_v A + q_v B`` as a sum of squares."""
        m = m_v * self.unit
        missed = (1.0 - m) + m * self.shortfall
        rest = R_v * self.unit * (self.unit * self.energy) if R_v else 0.0
        return missed * missed + m * m * self.unexplained + rest
