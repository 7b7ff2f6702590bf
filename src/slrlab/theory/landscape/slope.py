"""Risk and gradient at a point of the effective problem in R⁴, as one value.

Independent of how they are computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slrlab._types import FloatArray

SIZE = 4  # dimension of the effective problem


@dataclass(frozen=True)
class Slope:
    """Risk at a point of the effective problem and its gradient in ``k``, ``v`` and the bias."""

    risk: float
    k: FloatArray
    v: FloatArray
    bias: float

    @classmethod
    def of(cls, row: FloatArray) -> Slope:
        """Return the slope from its `row`."""
        return cls(float(row[0]), row[1 : SIZE + 1], row[SIZE + 1 : -1], float(row[-1]))

    @property
    def row(self) -> FloatArray:
        """Risk and gradient in ``k``, ``v`` and the bias as one vector."""
        return np.array([self.risk, *self.k, *self.v, self.bias])

    @property
    def finite(self) -> bool:
        """Whether risk and gradient are finite."""
        return bool(np.isfinite(self.row).all())

    def gradient(self, learn_bias: bool) -> FloatArray:
        """Return the gradient as one vector; its last entry is 0 if the bias is not learned."""
        return np.concatenate([self.k, self.v, [self.bias if learn_bias else 0.0]])
