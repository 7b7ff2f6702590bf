"""The risk over keys in the plane of the teachers, at the best values, with flows and minima.

The plane is that of ``m_kk`` and ``m_kv``: keys along ``k*`` and along ``v*``. Independent of how
anything is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slrlab._result import Status
from slrlab._types import FloatArray, Report
from slrlab.theory.landscape.minima import Minimum
from slrlab.theory.landscape.path import Flow
from slrlab.theory.landscape.risk import Landscape, make_landscape
from slrlab.theory.landscape.slope import SIZE

_MARGIN = 0.15  # around the flows, as a fraction of their extent
_LEAST = 0.6  # least extent of the plane
_MOST = 6.0  # |m| at which a flow to infinity is cut
_FINE = 120  # points of the interpolated risk along each direction
_SAME = 1e-2  # distance below which two flows have the same end


@dataclass(frozen=True)
class RiskPlane:
    """Flows of one setting, the minima where they end, and ``risk[i, j]`` at ``(x[j], y[i])``."""

    flows: Sequence[Flow]
    minima: list[Minimum]
    x: FloatArray
    y: FloatArray
    risk: FloatArray


def risk_plane(
    flows: Sequence[Flow],
    landscape: Landscape | None = None,
    *,
    points: int,
    report: Report | None = None,
) -> RiskPlane:
    """Return the plane around flows; ``points`` risks are computed along each direction."""
    minima = _distinct_ends(flows)
    orders = [end.order for end in minima]
    x, y = (
        _axis([[0.0], *(np.atleast_1d(getattr(item, name)) for item in (*orders, *flows))])
        for name in ("m_kk", "m_kv")
    )
    bias = _bias(flows)
    if landscape is None:
        setting = flows[0].setting
        landscape = make_landscape(setting.task, setting.activation_at(bias))
    m_kk = np.linspace(x[0], x[-1], points)
    m_kv = np.linspace(0.0, float(np.abs(y).max()), points // 2 + 2)
    half = plane_risk(landscape, m_kk, m_kv, bias, report)
    return RiskPlane(flows, minima, x, y, interpolated_risk(m_kk, m_kv, half, x, y))


def plane_risk(
    landscape: Landscape,
    m_kk: FloatArray,
    m_kv: FloatArray,
    bias: float,
    report: Report | None = None,
) -> FloatArray:
    """Return ``risk[i, j]`` of keys with overlaps ``(m_kk[j], m_kv[i])`` at the best values."""
    risk = np.empty((m_kv.size, m_kk.size))
    for row, along_v in enumerate(m_kv):
        for column, along_k in enumerate(m_kk):
            keys = np.zeros(SIZE)
            keys[:2] = along_k, along_v
            risk[row, column] = landscape.at_best_values(keys, bias)[1].risk
        if report is not None:
            report(row + 1, m_kv.size, "contours of the risk")
    return risk


def interpolated_risk(
    m_kk: FloatArray, m_kv: FloatArray, risk: FloatArray, x: FloatArray, y: FloatArray
) -> FloatArray:
    """Return the risk at ``(x[j], y[i])`` from ``risk[i, j]`` at ``(m_kk[j], m_kv[i])``.

    ``m_kv`` begins at 0, because the risk is even in it. The risk is smooth: a spline is more
    accurate than linear interpolation.
    """
    from scipy.interpolate import RectBivariateSpline

    both = np.concatenate([-m_kv[:0:-1], m_kv])
    spline = RectBivariateSpline(both, m_kk, np.concatenate([risk[:0:-1], risk]))
    return np.asarray(spline(y, x))


def _axis(parts: Sequence[Any]) -> FloatArray:
    """Return a grid around all values."""
    values = np.clip(np.concatenate(parts), -_MOST, _MOST)
    low, high = float(values.min()), float(values.max())
    margin = max(_MARGIN * (high - low), (_LEAST - (high - low)) / 2.0)
    return np.linspace(low - margin, high + margin, _FINE)


def _bias(flows: Sequence[Flow]) -> float:
    """Return the bias of the best minimum that a flow reaches."""
    ends = [flow.destination for flow in flows if flow.destination is not None]
    return min(ends, key=lambda end: end.risk).bias if ends else float(flows[0].bias[-1])


def _distinct_ends(flows: Sequence[Flow]) -> list[Minimum]:
    """Return the minima at which flows end, each once, without those at infinity."""
    minima: list[Minimum] = []
    for flow in flows:
        end = flow.destination
        if end is None or end.at_infinity or end.status is not Status.CONVERGED:
            continue
        if all(_distance(end, other) > _SAME for other in minima):
            minima.append(end)
    return minima


def _distance(one: Minimum, other: Minimum) -> float:
    return math.hypot(one.order.m_kk - other.order.m_kk, one.order.m_kv - other.order.m_kv)
