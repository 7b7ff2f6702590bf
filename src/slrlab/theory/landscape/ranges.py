r"""Ranges of signals in which mismatched minima exist.

There can be several mismatched minima at one signal, and none between two ranges. A search at some
signals finds them; each is continued to its two ends. Independent of how risks are computed.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from slrlab import _checks
from slrlab._plot import axes_of, mark_of
from slrlab._result import Result, Status
from slrlab._types import Axes, FloatArray
from slrlab.model.activations import Activation, make_activation
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.theory.landscape.branches import planes_of
from slrlab.theory.landscape.continuation import STEP, End, Plane, trace
from slrlab.theory.landscape.reduced import FAR, LONG, Candidate
from slrlab.theory.landscape.slope import SIZE

_POINTS = 25  # number of points of a branch at infinity
_EDGE = 1e-4  # accuracy of the logarithm of the signal at the end of a branch at infinity


@dataclass(frozen=True)
class MinimumBranch(Result):
    """A mismatched minimum over the signals at which it exists.

    Attributes
    ----------
    signals, risk, m_kk, m_kv, bias
        Points of the branch by increasing signal, from one end to the other: risk (its limit for a
        minimum at infinity), overlaps of the keys and bias.
    ends
        Why it ends at its smallest and at its largest signal: ``range`` (it continues beyond the
        range of signals), ``fold``, ``plane``, ``kind``, ``infinity`` or ``lost``, see
        `slrlab.theory.landscape.continuation.End`.
    at_infinity
        Whether the risk falls as the keys grow without bound, at every signal.
    setting
        Task (its own signal does not matter) and activation.
    """

    signals: FloatArray
    risk: FloatArray
    m_kk: FloatArray
    m_kv: FloatArray
    bias: FloatArray
    ends: tuple[End, End]
    at_infinity: bool
    setting: Setting

    @property
    def low(self) -> float:
        """The smallest signal."""
        return float(self.signals[0])

    @property
    def high(self) -> float:
        """The largest signal."""
        return float(self.signals[-1])

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-ready values, without the signal of the task."""
        return {name: value for name, value in super().to_dict().items() if name != "signal"}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the risk of the minimum against the signal."""
        axes = axes_of(ax)
        axes.plot(self.signals, self.risk, **mark_of(self.setting.activation_name).line(marker=""))
        axes.set(xlabel="signal $\\nu$", ylabel="risk", title=str(self))
        axes.set_xscale("log")
        axes.legend()
        return axes

    def __str__(self) -> str:
        low, high = self.ends
        return f"mismatched minimum: signal {self.low:.6g} ({low}) to {self.high:.6g} ({high})"


def minimum_branches(
    task: Task,
    activation: Activation | str,
    *,
    signals: tuple[float, float] = (0.1, 100.0),
    anchors: int = 4,
    step: float = STEP,
    longest: float = FAR,
    resolution: float = 1.0,
) -> list[MinimumBranch]:
    r"""Return the mismatched minima in a range of signals, each from end to end.

    A search at some signals of the range finds minima, and each is continued in both directions.
    Ends are roots along a curve of stationary points (a curvature becomes zero), so that they do
    not depend on the steps. A branch that contains none of these signals is missing.

    Parameters
    ----------
    task, activation
        Task (its own signal does not matter) and attention.
    signals
        Smallest and largest signal, above 0.
    anchors
        Number of signals of the search, at least 2, evenly spaced in the logarithm.
    step
        Longest step along a branch; steps are shorter where it bends.
    longest
        Length ``m_kv`` of keys up to which a branch is continued; long keys cost more.
    resolution
        Resolution of the quadrature.

    Returns
    -------
    list of MinimumBranch
        A branch has its minima and its two ends.

    Raises
    ------
    ValueError
        If the activation is sampled, or a number is out of range.

    Examples
    --------
    >>> from slrlab import SpikedSLR, minimum_branches
    >>> for branch in minimum_branches(SpikedSLR(1.0, 10), "erf", signals=(0.15, 0.5), anchors=2):
    ...     print(branch)
    mismatched minimum: signal 0.15 (range) to 0.158745 (fold)
    mismatched minimum: signal 0.242507 (fold) to 0.5 (range)
    """
    low, high = (_checks.positive(signal, "signals") for signal in signals)
    if not low < high:
        raise ValueError(f"signals must be two increasing numbers, got {signals!r}")
    anchors = _checks.integer(anchors, "anchors", low=2)
    _checks.positive(step, "step")
    planes = planes_of(task, activation, resolution, _checks.positive(longest, "longest"))
    bounds = math.log(low), math.log(high)
    if not planes(bounds[0]).reduced.landscape.smooth:
        raise ValueError(f"activation must be smooth to be followed, got {activation}")
    grid = np.linspace(*bounds, anchors).tolist()
    setting = Setting(task, make_activation(activation))
    branches: list[MinimumBranch] = []
    for anchor in grid:
        plane = planes(anchor)
        for candidate in plane.search(task.length.mean, plane.bias):
            at_infinity = candidate.status is Status.BOUNDARY
            if at_infinity or any(_contains(b, anchor, plane, candidate) for b in branches):
                continue
            start = np.append(plane.point(candidate.k, candidate.bias), anchor)
            (down, first), (up, last) = (trace(planes, start, end, step=step) for end in bounds)
            points = [*down[::-1], *up[1:]]
            candidates = {float(y[-1]): planes(float(y[-1])).candidate(y[:-1]) for y in points}
            branches.append(_branch(setting, candidates, (first, last)))
    branches = branches or _branches_at_infinity(setting, planes, grid)
    return sorted(branches, key=lambda branch: branch.low)


def _branches_at_infinity(
    setting: Setting, planes: Callable[[float], Plane], grid: list[float]
) -> list[MinimumBranch]:
    """Return the ranges in which the risk falls as mismatched keys grow without bound."""

    def limit(log_signal: float) -> Candidate | None:
        plane = planes(log_signal)
        return plane.reduced.at_infinity(LONG * np.eye(SIZE)[1], plane.bias)

    def edge(inside: float, outside: float) -> float:
        while abs(inside - outside) > _EDGE:
            middle = (inside + outside) / 2.0
            inside, outside = (inside, middle) if limit(middle) is None else (middle, outside)
        return inside

    exists = [limit(anchor) is not None for anchor in grid]
    branches = []
    for inside, group in groupby(range(len(grid)), key=exists.__getitem__):
        indices = list(group)
        if not inside:
            continue
        first, last = indices[0], indices[-1]
        low, high = grid[first], grid[last]
        ends = [End.RANGE, End.RANGE]
        if first > 0:
            low, ends[0] = edge(low, grid[first - 1]), End.INFINITY
        if last < len(grid) - 1:
            high, ends[1] = edge(high, grid[last + 1]), End.INFINITY
        limits = {t: limit(t) for t in np.linspace(low, high, _POINTS).tolist()}
        candidates = {t: candidate for t, candidate in limits.items() if candidate is not None}
        branches.append(_branch(setting, candidates, (ends[0], ends[1])))
    return branches


def _branch(
    setting: Setting, points: dict[float, Candidate], ends: tuple[End, End]
) -> MinimumBranch:
    """Return a branch from its candidates by the logarithm of the signal."""
    candidates = list(points.values())
    return MinimumBranch(
        status=Status.NOT_CONVERGED if End.LOST in ends else candidates[0].status,
        signals=np.exp(list(points)),
        risk=np.array([candidate.risk for candidate in candidates]),
        m_kk=np.array([candidate.k[0] for candidate in candidates]),
        m_kv=np.array([candidate.k[1] for candidate in candidates]),
        bias=np.array([candidate.bias for candidate in candidates]),
        ends=ends,
        at_infinity=candidates[0].status is Status.BOUNDARY,
        setting=setting,
    )


def _contains(branch: MinimumBranch, anchor: float, plane: Plane, candidate: Candidate) -> bool:
    """Return whether a minimum at an anchor is a point of a branch."""
    if branch.at_infinity or not branch.low <= math.exp(anchor) <= branch.high:
        return False
    columns = (branch.m_kk, branch.m_kv, branch.bias)
    m_kk, m_kv, bias = (np.interp(anchor, np.log(branch.signals), column) for column in columns)
    point = plane.settle(plane.point(np.array([m_kk, m_kv]), float(bias)))
    return point is not None and plane.same(plane.candidate(point), candidate)
