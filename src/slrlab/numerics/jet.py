"""Values with their first derivatives: sums, products and functions of them.

Independent of the variables of the derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slrlab._types import FloatArray


@dataclass(frozen=True)
class Jet:
    """A value (row 0 of ``parts``) and its derivatives (the other rows), entry by entry.

    >>> x = Jet(np.array([[3.0], [1.0]]))
    >>> (x * x + 2.0 * x).parts.ravel().tolist()
    [15.0, 8.0]
    """

    parts: FloatArray

    @property
    def value(self) -> FloatArray:
        """The value without its derivatives."""
        return np.asarray(self.parts[0])

    def __add__(self, other: Jet) -> Jet:
        return Jet(self.parts + other.parts)

    def __mul__(self, other: Jet) -> Jet:
        product = self.parts[0] * other.parts
        product[1:] += self.parts[1:] * other.parts[0]
        return Jet(product)

    def __rmul__(self, factor: float) -> Jet:
        return Jet(factor * self.parts)

    def through(self, value: FloatArray, slope: FloatArray) -> Jet:
        """Return a function of this jet, from its value and its derivative there.

        >>> Jet(np.array([[2.0], [1.0]])).through(np.array([8.0]), np.array([12.0])).parts.tolist()
        [[8.0], [12.0]]
        """
        parts = slope * self.parts
        parts[0] = value
        return Jet(parts)
