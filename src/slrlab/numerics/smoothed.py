r"""A function averaged over Gaussian noise: ``R(ω) = E r(χ)`` over ``χ ~ N(ω, V)``.

The trapezoid rule in ``z = (χ − ω)/√V`` holds for every ``V > 0``, and the derivatives in ``ω`` are
moments of ``z`` with the same weights. All is computed from ``log r``. This module knows no
physics.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slrlab._types import FloatArray

_STEP = 0.35  # grid step in z, or in χ where 1/steepness is the shorter scale
_EDGE = 9.0  # standard deviations kept of a Gaussian
_BLOCK = 1 << 20  # entries of a table (ω, z)


@dataclass(frozen=True)
class Smoothed:
    """``log R``, its derivative, and ``R''/R``, elementwise in ``ω``."""

    log: FloatArray
    slope: FloatArray
    curvature: FloatArray


def smoothed(
    log_ratio: Callable[[FloatArray], FloatArray],
    fields: FloatArray,
    variance: float,
    *,
    interval: tuple[float, float],
    steepness: float,
    resolution: float = 1.0,
) -> Smoothed:
    """Return ``R`` at ``ω = fields``, an array of one axis.

    Parameters
    ----------
    log_ratio
        ``log r``; ``r`` times the standard normal density is a density.
    fields, variance
        ``ω`` and ``0 < V <= 1``.
    interval
        Where ``r`` times the normal density has its mass.
    steepness
        The grid resolves ``χ`` to the inverse of this.
    resolution
        Factor on the number of nodes.
    """
    root = math.sqrt(variance)
    # r·N(0, 1) is integrable, so that r·N(ω, V) is at most 1/√(1 − V) wider than N(ω, V)
    x = np.linspace(*interval, 1001)
    with np.errstate(invalid="ignore"):
        slope = np.abs(np.diff(log_ratio(x))) / (x[1] - x[0])
    steepest = float(slope[np.isfinite(slope)].max(initial=0.0))
    reach = (interval[1] - interval[0] + 2.0 * _EDGE) / root
    if variance < 1.0:
        reach = min(reach, _EDGE / math.sqrt(1.0 - variance) + root * steepest)
    step = min(_STEP, _STEP / (root * steepness)) / resolution
    z = step * np.arange(-math.ceil(reach / step), math.ceil(reach / step) + 1.0)
    rows = max(1, _BLOCK // z.size)
    parts = [
        _block(log_ratio, fields[at : at + rows], root, z) for at in range(0, len(fields), rows)
    ]
    return Smoothed(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _block(
    log_ratio: Callable[[FloatArray], FloatArray], fields: FloatArray, root: float, z: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    logs = log_ratio(fields[:, None] + root * z) - z**2 / 2.0
    top = np.maximum(logs.max(axis=1), -700.0)
    weights = np.exp(logs - top[:, None])
    total = np.maximum(weights.sum(axis=1), 1e-300)
    log = top + np.log(total * ((z[1] - z[0]) / math.sqrt(2.0 * math.pi)))
    slope = weights @ z / total / root
    return log, slope, (weights @ z**2 / total - 1.0) / root**2
