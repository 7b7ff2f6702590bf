"""Derivatives by central differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from slrlab._types import FloatArray


def central_differences(
    function: Callable[[FloatArray], FloatArray | float],
    point: FloatArray,
    step: float,
    coordinates: Sequence[int] | None = None,
) -> FloatArray:
    """Return the derivative of a function in each coordinate, or in some: one entry or row each.

    >>> central_differences(lambda x: x[0] * x[1] ** 2, np.array([2.0, 3.0]), 0.5).tolist()
    [9.0, 12.0]
    """
    units = step * np.eye(point.size)
    chosen = units if coordinates is None else units[list(coordinates)]
    rows = [
        (np.asarray(function(point + e)) - np.asarray(function(point - e))) / (2.0 * step)
        for e in chosen
    ]
    return np.array(rows)
