"""The moments of attention weights that fix a population risk."""

from __future__ import annotations

from dataclasses import dataclass


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
        How far ``A`` and ``1 − A``, computed apart, are from adding up to 1.
    sampled_error
        Standard error of ``A²/B`` where the moments were sampled, else 0.
    unit
        Weights are measured in this unit: ``A`` is ``target·unit``. It is not 1 where squares of
        the weights would overflow.
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
