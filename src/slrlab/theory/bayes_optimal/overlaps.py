"""Overlaps of the posterior mean with the teachers, and their conjugates, as distinct types.

The two are related by ``q_a = q̂_a/(1 + q̂_a)``. Close to 1 an overlap loses digits to rounding, so
that ``1 − q`` is stored as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from slrlab._types import FloatArray


@dataclass(frozen=True)
class Overlaps:
    """Overlaps ``q_k``, ``q_v`` in ``[0, 1]`` with their complements ``1 − q``."""

    q_k: float
    q_v: float
    gap_k: float
    gap_v: float

    @classmethod
    def at(cls, q_k: float, q_v: float) -> Overlaps:
        """Return the overlaps at plain numbers, not too close to 1."""
        return cls(q_k, q_v, 1.0 - q_k, 1.0 - q_v)


@dataclass(frozen=True)
class HattedOverlaps:
    """Conjugates ``q̂_a = α·M_a >= 0``; ``inf`` stands for a teacher known exactly."""

    k: float
    v: float

    def overlaps(self) -> Overlaps:
        """Return ``q = q̂/(1 + q̂)``.

        >>> HattedOverlaps(k=1.0, v=3.0).overlaps().q_v
        0.75
        """
        gap_k, gap_v = 1.0 / (1.0 + self.k), 1.0 / (1.0 + self.v)
        q_k = 1.0 if math.isinf(self.k) else self.k * gap_k
        q_v = 1.0 if math.isinf(self.v) else self.v * gap_v
        return Overlaps(q_k, q_v, gap_k, gap_v)


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
class Scatter:
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
