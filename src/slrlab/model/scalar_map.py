"""A scalar map with two derivatives, of which most activations are made.

Independent of activations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slrlab._types import FloatArray

Map = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class ScalarMap:
    """A scalar function with its first two derivatives and, where it is positive, its log.

    ``bends`` are the points where it has a kink, a zero or a narrow feature: integration rules
    refine there. ``width`` is the least width of its smooth features, at most 1.
    """

    value: Map
    first: Map
    second: Map
    log: Map | None = None
    bends: tuple[float, ...] = ()
    width: float = 1.0

    def log_value(self, x: FloatArray) -> FloatArray:
        """Return ``log φ(x)``; ``-inf`` where φ vanishes."""
        if self.log is not None:
            return self.log(x)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.value(x)))
