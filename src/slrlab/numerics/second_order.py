"""Numbers that carry a gradient and a Hessian, many points at a time.

The module knows nothing about what the derivatives are taken in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slrlab._types import FloatArray


@dataclass(frozen=True)
class Expansion:
    """Values ``(n,)``, gradients ``(n, d)`` and, if asked for, Hessians ``(n, d, d)``.

    >>> x = Expansion.coordinate(np.array([[3.0, 2.0]]), 0)
    >>> y = Expansion.coordinate(np.array([[3.0, 2.0]]), 1)
    >>> (x * y + 2.0 * x).gradient.tolist()
    [[4.0, 3.0]]
    """

    value: FloatArray
    gradient: FloatArray
    hessian: FloatArray | None

    @classmethod
    def coordinate(cls, points: FloatArray, axis: int, *, second: bool = True) -> Expansion:
        """Return one coordinate of points ``(n, d)``."""
        count, size = points.shape
        slope = np.zeros((count, size))
        slope[:, axis] = 1.0
        return cls(points[:, axis], slope, np.zeros((count, size, size)) if second else None)

    def __add__(self, other: Expansion) -> Expansion:
        bent = None
        if self.hessian is not None and other.hessian is not None:
            bent = self.hessian + other.hessian
        return Expansion(self.value + other.value, self.gradient + other.gradient, bent)

    def __mul__(self, other: Expansion) -> Expansion:
        a, b = self.value[:, None], other.value[:, None]
        bent = None
        if self.hessian is not None and other.hessian is not None:
            cross = self.gradient[:, :, None] * other.gradient[:, None, :]
            bent = a[..., None] * other.hessian + b[..., None] * self.hessian
            bent = bent + cross + cross.transpose(0, 2, 1)
        return Expansion(self.value * other.value, a * other.gradient + b * self.gradient, bent)

    def __rmul__(self, factor: float) -> Expansion:
        bent = None if self.hessian is None else factor * self.hessian
        return Expansion(factor * self.value, factor * self.gradient, bent)
