"""Gauss–Legendre panels that shrink towards a point, at a cost logarithmic in the smallest width.

A map that varies over a width ``scale`` around ``centre`` and is smooth elsewhere needs panels of
that width there, and further out panels proportional to the distance. This module knows no physics.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from slrlab._types import FloatArray

_ORDER = 12  # nodes of a panel at resolution 1
_CORE = 4.0  # number of panels of width ``scale`` on either side of the centre


def panels(edges: FloatArray, resolution: float = 1.0) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of Gauss–Legendre rules between edges, along the last axis."""
    gauss, share = legendre_rule(math.ceil(_ORDER * resolution))
    half = np.diff(edges, axis=-1)[..., None] / 2.0
    nodes = edges[..., :-1, None] + half * (1.0 + gauss)
    shape = (*edges.shape[:-1], -1)
    return nodes.reshape(shape), (half * share).reshape(shape)


@lru_cache
def legendre_rule(order: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of the Gauss–Legendre rule on ``[-1, 1]``, read-only."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


@lru_cache
def running_matrix(resolution: float = 1.0) -> FloatArray:
    """Return the matrix from values at the nodes of the panel ``[-1, 1]`` to running integrals.

    Row ``i`` integrates from the left edge to node ``i``, exactly for the polynomial through all.
    The matrix is read-only.
    """
    gauss, _ = legendre_rule(math.ceil(_ORDER * resolution))
    legendre = np.polynomial.legendre.Legendre
    integrals = [legendre.basis(n).integ(lbnd=-1.0)(gauss) for n in range(gauss.size)]
    values = np.polynomial.legendre.legvander(gauss, gauss.size - 1)
    matrix = np.asarray(np.linalg.solve(values.T, np.array(integrals)).T)
    matrix.flags.writeable = False
    return matrix


def edges_around(
    low: float, high: float, centres: FloatArray, scale: float, widest: float = 1.5
) -> FloatArray:
    """Return edges of panels on ``[low, high]`` that shrink towards each of several centres.

    They are at most twice as wide as their distance: 12 nodes then leave about 1e-13.
    """
    return np.unique(graded_edges(low, high, centres, scale, widest, growth=3.0))


def graded_edges(
    low: float,
    high: float,
    centre: FloatArray,
    scale: float,
    widest: float = 1.5,
    growth: float = 2.0,
) -> FloatArray:
    """Return edges of panels on ``[low, high]``, one row for each centre.

    No panel is wider than ``widest``; those near a centre are as narrow as ``scale``, and further
    out the distance of an edge is ``growth`` times that of the one before. Rows have equal lengths,
    so panels may be empty.
    """
    even = np.linspace(low, high, 1 + math.ceil((high - low) / widest))
    steps = max(0, math.ceil((math.log(widest) - math.log(scale * _CORE)) / math.log(growth)) + 1)
    away = np.concatenate([np.arange(1.0, _CORE), _CORE * growth ** np.arange(steps + 1)])
    offsets = scale * np.concatenate([-away[::-1], [0.0], away])
    near = np.clip(centre[..., None] + offsets, low, high)
    fixed = np.broadcast_to(even, (*centre.shape, even.size))
    return np.sort(np.concatenate([near, fixed], axis=-1), axis=-1)
