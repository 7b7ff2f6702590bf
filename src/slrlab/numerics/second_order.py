"""Values with gradient and Hessian at several points: sums and products of them.

Independent of the variables of the derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slrlab._types import FloatArray


@dataclass(frozen=True)
class Expansion:
    """Values ``(n,)``, gradients ``(n, d)`` and Hessians ``(n, d, d)`` or None.

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
        hessian = None
        if self.hessian is not None and other.hessian is not None:
            hessian = self.hessian + other.hessian
        return Expansion(self.value + other.value, self.gradient + other.gradient, hessian)

    def __mul__(self, other: Expansion) -> Expansion:
        a, b = self.value[:, None], other.value[:, None]
        hessian = None
        if self.hessian is not None and other.hessian is not None:
            cross = self.gradient[:, :, None] * other.gradient[:, None, :]
            hessian = a[..., None] * other.hessian + b[..., None] * self.hessian
            hessian = hessian + cross + cross.transpose(0, 2, 1)
        return Expansion(self.value * other.value, a * other.gradient + b * self.gradient, hessian)

    def __rmul__(self, factor: float) -> Expansion:
        hessian = None if self.hessian is None else factor * self.hessian
        return Expansion(factor * self.value, factor * self.gradient, hessian)

    def __sub__(self, other: Expansion) -> Expansion:
        return self + (-1.0) * other

    def through(self, value: FloatArray, slope: FloatArray, curve: FloatArray) -> Expansion:
        """Return a function of this expansion, from its value and its two derivatives there.

        >>> x = Expansion.coordinate(np.array([[2.0]]), 0)
        >>> x.through(np.array([8.0]), np.array([12.0]), np.array([12.0])).hessian.tolist()
        [[[12.0]]]
        """
        hessian = None
        if self.hessian is not None:
            square = self.gradient[:, :, None] * self.gradient[:, None, :]
            hessian = slope[:, None, None] * self.hessian + curve[:, None, None] * square
        return Expansion(value, slope[:, None] * self.gradient, hessian)
