"""Gauss–Legendre panels that shrink towards a point: sharp features at a cost of their logarithm.

A map that varies over a width ``scale`` around ``centre`` and is smooth elsewhere needs panels of
that width there and panels in proportion to the distance further out. The module knows no physics.
"""

from __future__ import annotations

import math

import numpy as np

from slrlab._types import FloatArray

_ORDER = 12  # nodes a panel at resolution 1
_CORE = 4.0  # panels of one scale on either side of the centre, before they grow


def panels(edges: FloatArray, resolution: float = 1.0) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of Gauss–Legendre rules between edges, along the last axis."""
    gauss, share = np.polynomial.legendre.leggauss(math.ceil(_ORDER * resolution))
    half = np.diff(edges, axis=-1)[..., None] / 2.0
    nodes = edges[..., :-1, None] + half * (1.0 + gauss)
    shape = (*edges.shape[:-1], -1)
    return nodes.reshape(shape), (half * share).reshape(shape)


def graded_edges(
    low: float, high: float, centre: FloatArray, scale: float, widest: float = 1.5
) -> FloatArray:
    """Return edges of panels on ``[low, high]``, one row for each centre.

    No panel is wider than ``widest``; those near a centre are as narrow as ``scale``, and further
    out at most as wide as their distance from it. Rows have equal lengths, so panels may be empty.
    """
    even = np.linspace(low, high, 1 + math.ceil((high - low) / widest))
    doublings = max(0, math.ceil(math.log2(widest) - math.log2(scale * _CORE)) + 1)
    away = np.concatenate([np.arange(1.0, _CORE), _CORE * 2.0 ** np.arange(doublings + 1)])
    offsets = scale * np.concatenate([-away[::-1], [0.0], away])
    near = np.clip(centre[..., None] + offsets, low, high)
    fixed = np.broadcast_to(even, (*centre.shape, even.size))
    return np.sort(np.concatenate([near, fixed], axis=-1), axis=-1)
