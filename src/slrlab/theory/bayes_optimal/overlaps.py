"""Overlaps of the posterior mean with the teachers, and their conjugates, as distinct types.

The two are related by ``q_a = q̂_a/(1 + q̂_a)``. Close to 1 an overlap loses digits to rounding, so
that ``1 − q`` is stored as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from slrlab._types import FloatArray


@dataclass(frozen=True)
class BayesOverlaps:
    """Overlaps ``q_k``, ``q_v`` in ``[0, 1]`` with their complements ``1 − q``."""

    q_k: float
    q_v: float
    variance_k: float
    variance_v: float

    @classmethod
    def at(cls, q_k: float, q_v: float) -> BayesOverlaps:
        """Return the overlaps at plain numbers, not too close to 1."""
        return cls(q_k, q_v, 1.0 - q_k, 1.0 - q_v)


@dataclass(frozen=True)
class BayesConjugates:
    """Conjugates ``q̂_a = α·M_a >= 0``; ``inf`` stands for a teacher known exactly."""

    k: float
    v: float

    def overlaps(self) -> BayesOverlaps:
        """Return ``q = q̂/(1 + q̂)``.

        >>> BayesConjugates(k=1.0, v=3.0).overlaps().q_v
        0.75
        """
        variance_k, variance_v = 1.0 / (1.0 + self.k), 1.0 / (1.0 + self.v)
        q_k = 1.0 if math.isinf(self.k) else self.k * variance_k
        q_v = 1.0 if math.isinf(self.v) else self.v * variance_v
        return BayesOverlaps(q_k, q_v, variance_k, variance_v)


@dataclass(frozen=True)
class ChannelMoments:
    """Moments of the output channel at given overlaps.

    Attributes
    ----------
    key
        ``M_k = E|g_χ|²``.
    value
        ``s²·M_v = s²·E|g_z|²``, between 0 and 1, where ``s² = 1 − q_v + Δ²``.
    log_z
        ``E log Z``; ``inf`` at ``s = 0``.
    """

    key: float
    value: float
    log_z: float


@dataclass(frozen=True)
class ScrambleMoments:
    """Sampled moments, each an array over independent scrambles.

    ``confusion`` is ``1 − E Σ π_ℓ(ω_χ)²``, the others are those of `ChannelMoments`.
    """

    key: FloatArray
    value: FloatArray
    log_z: FloatArray
    confusion: FloatArray

    def mean(self) -> ChannelMoments:
        """Return the average over scrambles."""
        key, value, log_z = (float(part.mean()) for part in (self.key, self.value, self.log_z))
        return ChannelMoments(key, value, log_z)
