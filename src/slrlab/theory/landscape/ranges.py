r"""Ranges of signals in which mismatched minima exist.

There can be several mismatched minima at one signal, and none between two ranges. Each is found at
some signal and followed to its two ends. This module must not know how risks are computed.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab import _checks
from slrlab._plot import axes_of, mark_of
from slrlab._result import Result, Status
from slrlab._types import FloatArray
from slrlab.model.activations import Activation, make_activation
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.theory.landscape.branches import limit_at_infinity, planes_of
from slrlab.theory.landscape.continuation import STEP, End, Plane, trace
from slrlab.theory.landscape.minima import FAR, Candidate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 25  # of a branch at infinity
_EDGE = 1e-4  # accuracy of the logarithm of the signal at which a minimum at infinity ends


@dataclass(frozen=True)
class MinimumBranch(Result):
    """A mismatched minimum over the signals at which it exists.

    Attributes
    ----------
    signals, risk, m_kk, m_kv, bias
        Points of the branch by increasing signal, from one end to the other: risk (its limit for a
        minimum at infinity), overlaps of the keys and bias.
    ends
        Why it ends at its smallest and at its largest signal: ``range`` (it goes on beyond the
        signals asked for), ``fold``, ``plane``, ``kind``, ``infinity`` or ``lost``, as described
        by `slrlab.theory.landscape.continuation.End`.
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
        """Return the fields as JSON-ready values; the branch has signals of its own."""
        given = super().to_dict()
        del given["signal"]
        return given

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

    At some signals of the range minima are searched for from several starts; each one is followed
    in both directions. Ends are roots along a curve of stationary points (a curvature becomes
    zero), so that they do not depend on the steps. A branch that contains none of the signals
    searched is not found.

    Parameters
    ----------
    task, activation
        What is learned (its own signal does not matter), and by which attention.
    signals
        Smallest and largest signal, above 0.
    anchors
        Number of signals at which minima are searched for, at least 2, even in the logarithm.
    step
        Longest step along a branch; steps become shorter where it bends.
    longest
        Length ``m_kv`` of keys up to which a branch is followed; long keys cost more.
    resolution
        Of the quadrature.

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
    count = _checks.integer(anchors, "anchors", low=2)
    _checks.positive(step, "step")
    planes = planes_of(task, activation, resolution, _checks.positive(longest, "longest"))
    bounds = math.log(low), math.log(high)
    if not planes(bounds[0]).landscape.smooth:
        raise ValueError(f"activation must be smooth to be followed, got {activation}")
    grid = np.linspace(*bounds, count).tolist()
    found: list[MinimumBranch] = []
    nowhere = []
    for anchor in grid:
        plane = planes(anchor)
        candidates = plane.search(task.length.mean, plane.fixed or 0.0)
        finite = [candidate for candidate in candidates if candidate.status is Status.CONVERGED]
        nowhere.append(not finite)
        for candidate in finite:
            if not any(_contains(branch, anchor, plane, candidate) for branch in found):
                start = np.append(plane.point(candidate.k, candidate.bias), anchor)
                sides = [trace(planes, start, bound, step=step) for bound in bounds]
                found.append(_branch(task, activation, planes, sides))
    if all(nowhere):
        found = _endless(task, activation, grid, resolution)
    return sorted(found, key=lambda branch: branch.low)


def _branch(
    task: Task,
    activation: Activation | str,
    planes: Callable[[float], Plane],
    sides: list[tuple[list[FloatArray], End]],
) -> MinimumBranch:
    """Return the two sides of a start as one branch."""
    (down, low), (up, high) = sides
    points = [*down[::-1], *up[1:]]
    candidates = [planes(float(y[-1])).candidate(y[:-1]) for y in points]
    return _result(task, activation, [float(y[-1]) for y in points], candidates, (low, high))


def _endless(
    task: Task, activation: Activation | str, grid: list[float], resolution: float
) -> list[MinimumBranch]:
    """Return the ranges in which the risk falls as mismatched keys grow without bound."""

    def limit(logarithm: float) -> Candidate | None:
        here = replace(task, signal=math.exp(logarithm))
        return limit_at_infinity(here, activation, resolution)

    def edge(there: float, gone: float) -> float:
        while abs(there - gone) > _EDGE:
            middle = (there + gone) / 2.0
            there, gone = (middle, gone) if limit(middle) is not None else (there, middle)
        return there

    known = [limit(anchor) for anchor in grid]
    found = []
    for there, group in groupby(range(len(grid)), key=lambda i: known[i] is not None):
        inside = list(group)
        if not there:
            continue
        first, last = inside[0], inside[-1]
        low, high = grid[first], grid[last]
        ends = [End.RANGE, End.RANGE]
        if first > 0:
            low, ends[0] = edge(low, grid[first - 1]), End.INFINITY
        if last < len(grid) - 1:
            high, ends[1] = edge(high, grid[last + 1]), End.INFINITY
        points = {t: limit(t) for t in np.linspace(low, high, _POINTS).tolist()}
        candidates = {t: candidate for t, candidate in points.items() if candidate is not None}
        both = ends[0], ends[1]
        found.append(_result(task, activation, list(candidates), list(candidates.values()), both))
    return found


def _result(
    task: Task,
    activation: Activation | str,
    points: list[float],
    candidates: list[Candidate],
    ends: tuple[End, End],
) -> MinimumBranch:
    """Return a branch from logarithms of signals and candidates."""
    return MinimumBranch(
        status=Status.NOT_CONVERGED if End.LOST in ends else candidates[0].status,
        signals=np.exp(points),
        risk=np.array([candidate.risk for candidate in candidates]),
        m_kk=np.array([candidate.k[0] for candidate in candidates]),
        m_kv=np.array([candidate.k[1] for candidate in candidates]),
        bias=np.array([candidate.bias for candidate in candidates]),
        ends=ends,
        at_infinity=candidates[0].status is Status.BOUNDARY,
        setting=Setting(task, make_activation(activation)),
    )


def _contains(branch: MinimumBranch, anchor: float, plane: Plane, candidate: Candidate) -> bool:
    """Return whether a minimum at an anchor is a point of a branch."""
    if branch.at_infinity or not branch.low <= math.exp(anchor) <= branch.high:
        return False
    columns = (branch.m_kk, branch.m_kv, branch.bias)
    m_kk, m_kv, bias = (np.interp(anchor, np.log(branch.signals), column) for column in columns)
    near = plane.settle(plane.point(np.array([m_kk, m_kv]), float(bias)))
    return near is not None and plane.same(plane.candidate(near), candidate)
