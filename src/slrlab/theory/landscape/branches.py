r"""Minima of the risk followed from one task to the next.

A minimum moves smoothly with the task until it disappears, so that its neighbour is the best start
to look for it. By symmetry the matched and mismatched minima keep their keys in the plane of
``k*`` and ``v*``. This module must not know how risks are computed.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slrlab import _checks
from slrlab._result import Status
from slrlab._types import FloatArray
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task
from slrlab.theory.landscape.continuation import End, Plane, trace
from slrlab.theory.landscape.minima import (
    FAR,
    Candidate,
    Kind,
    Minimum,
    descend,
    differences,
    kind_of,
    minimum_at,
)
from slrlab.theory.landscape.risk import SIZE, Landscape, make_landscape, overlaps_of
from slrlab.theory.population.minimal import checked, minimal_risk

_SIZES = (2.0, 1.0, 4.0)  # of |k| at a mismatched start of a sampled risk, one after the other
_STRAY = 0.3  # a root this far from its guess, relative to 1 + |k|, may be another minimum
_LONG = 30.0  # |k| at which it is asked whether the risk still falls


def minimum_from(
    task: Task,
    activation: Activation | str,
    start: Kind | str | Minimum | Sequence[float] | FloatArray,
    *,
    bias: float | None = None,
    curvatures: bool = True,
    resolution: float = 1.0,
) -> Minimum | None:
    r"""Return the local minimum that is found from a start, or None if a kind is not there.

    Parameters
    ----------
    task, activation
        What is learned, and by which attention; a free bias is part of the search.
    start
        ``"matched"`` or ``"mismatched"``; a minimum of a task nearby, to be followed; or keys in
        R⁴ to descend from, with the values that are best for them. From keys some minimum is
        always found; a kind, or a minimum followed, may not exist. ``"mismatched"`` searches from
        several starts and returns the lowest minimum of that kind. The risk of a minimum at
        infinity is its limit.
    bias
        Bias at the start; None for that of the start, 0 if it has none.
    curvatures
        Whether to compute the Hessian (most of the cost); it is left empty otherwise.
    resolution
        Of the quadrature: 1.0 gives about 12 digits, 0.8 about 7 if the keys are off M.

    Raises
    ------
    ValueError
        If the start is unknown or the signal is infinite and shifts the relevant token.

    Examples
    --------
    >>> from slrlab import SpikedSLR
    >>> from slrlab.theory.landscape.branches import minimum_from
    >>> print(minimum_from(SpikedSLR(signal=2.0, length=10), "softmax", "mismatched"))
    mismatched minimum: risk 0.930744, converged
    >>> minimum_from(SpikedSLR(signal=0.5, length=10), "softmax", "mismatched") is None
    True
    """
    chosen = checked(task, activation, 1.0).without_idle_bias()
    search = _Search(make_landscape(task, chosen, resolution=resolution), chosen.bias is None)
    own = 0.0 if chosen.bias is None else chosen.bias
    if isinstance(start, Minimum):
        candidate = search.follow(start)
    elif isinstance(start, str):
        wanted = Kind(_checks.choice(start, "start", ("matched", "mismatched")))
        if wanted is Kind.MATCHED:
            best = minimal_risk(task, chosen)
            candidate = search.near(
                best.m_k * np.eye(SIZE)[0], best.bias if search.learn_bias else own
            )
        else:
            candidate = search.mismatched(own if bias is None else bias, task.length.mean)
    else:
        keys = np.array(start, dtype=float)
        if keys.shape != (SIZE,) or not np.isfinite(keys).all():
            raise ValueError(f"start must be finite keys of shape ({SIZE},), got {start!r}")
        candidate = search.descend(keys, own if bias is None else bias)
    return None if candidate is None else search.minimum(candidate, curvatures)


def follow_minimum(
    tasks: Iterable[Task],
    activation: Activation | str,
    start: Kind | str | Minimum,
    *,
    curvatures: bool = True,
    resolution: float = 1.0,
) -> list[Minimum | None]:
    """Return a minimum for each task in turn, each looked for where the last one was.

    Between tasks that differ in nothing but the signal a mismatched minimum is followed in steps
    as short as it takes, so that it is not mistaken for another one. From the task on at which the
    minimum has disappeared the list holds None.
    """
    found: list[Minimum | None] = []
    guess: Kind | str | Minimum | None = start
    last: Task | None = None
    how: dict[str, Any] = {"curvatures": curvatures, "resolution": resolution}
    for task in tasks:
        if last is not None and isinstance(guess, Minimum) and _continuous(last, task, guess):
            guess = _continued(last, task, activation, guess, **how)
        elif guess is not None:
            guess = minimum_from(task, activation, guess, **how)
        found.append(guess)
        last = task
    return found


def _continuous(last: Task, task: Task, minimum: Minimum) -> bool:
    """Return whether a mismatched minimum can be followed from a task to the next."""
    finite = 0.0 < last.signal < math.inf and 0.0 < task.signal < math.inf
    same = finite and last.signal != task.signal and replace(last, signal=task.signal) == task
    return same and minimum.kind is Kind.MISMATCHED and minimum.status is Status.CONVERGED


def _continued(
    last: Task, task: Task, activation: Activation | str, minimum: Minimum, **how: Any
) -> Minimum | None:
    """Return what a mismatched minimum turns into at another signal, if it gets there."""
    planes = planes_of(task, activation, how["resolution"])
    here, there = math.log(last.signal), math.log(task.signal)
    k, _ = minimum.order.vectors()
    plane = planes(there)
    if not plane.landscape.smooth:
        return minimum_from(task, activation, minimum, **how)
    points, end = trace(planes, np.append(plane.point(k, minimum.bias), here), there)
    if end is End.RANGE:
        search = _Search(plane.landscape, plane.fixed is None)
        return search.minimum(plane.candidate(points[-1][:-1]), how["curvatures"])
    if end in (End.INFINITY, End.LOST):
        return minimum_from(task, activation, minimum, **how)
    return None


def planes_of(
    task: Task, activation: Activation | str, resolution: float, longest: float = FAR
) -> Callable[[float], Plane]:
    """Return what gives the plane of ``k*`` and ``v*`` at the logarithm of a signal."""
    chosen = checked(task, activation, 1.0).without_idle_bias()

    def plane_at(logarithm: float) -> Plane:
        here = replace(task, signal=math.exp(logarithm))
        return Plane(make_landscape(here, chosen, resolution=resolution), chosen.bias, longest)

    return plane_at


def limit_at_infinity(
    task: Task, activation: Activation | str, resolution: float = 1.0
) -> Candidate | None:
    """Return the candidate for mismatched keys of any length, if the risk falls there."""
    chosen = checked(task, activation, 1.0).without_idle_bias()
    search = _Search(make_landscape(task, chosen, resolution=resolution), chosen.bias is None)
    return search.at_infinity(_LONG * np.eye(SIZE)[1], chosen.bias or 0.0)


class _StrayedError(Exception):
    """A search for a root left the neighbourhood of its guess."""


@dataclass(frozen=True)
class _Search:
    """Looks for minima of one landscape over keys (and the bias) at the best values."""

    landscape: Landscape
    learn_bias: bool

    def descend(self, k: FloatArray, bias: float) -> Candidate:
        """Go down from given keys; without end, if need be."""
        candidate = descend(self.landscape, k, bias, learn_bias=self.learn_bias)
        if np.linalg.norm(candidate.k) > FAR / 2.0:
            return self.at_infinity(candidate.k, candidate.bias) or candidate
        return candidate

    def near(self, k: FloatArray, bias: float) -> Candidate | None:
        """Return the minimum next to a guess in the plane of ``k*`` and ``v*``."""
        from scipy.optimize import root

        guess = np.array([k[0], k[1], bias])[: 3 if self.learn_bias else 2]
        reach = _STRAY * (1.0 + float(np.linalg.norm(guess)))

        def slope_at(y: FloatArray) -> FloatArray:
            if not float(np.linalg.norm(y - guess)) < reach:
                raise _StrayedError
            return self._slope(y, bias)

        try:
            found = root(slope_at, guess, tol=1e-9)
        except _StrayedError:
            return None
        norm = float(np.linalg.norm(self._slope(found.x, bias)))
        if norm > 1e-6:
            return None
        keys = np.array([found.x[0], found.x[1], 0.0, 0.0])
        shift = float(found.x[2]) if self.learn_bias else bias
        bends = self._bends(keys, shift)
        # flat to rounding (a risk of almost 0) is no evidence against a minimum
        if bends.min() < -1e-9 * max(1.0, float(bends.max())):
            return None
        v, slope = self.landscape.at_best_values(keys, shift)
        return Candidate(keys, v, shift, slope.risk, norm, Status.CONVERGED)

    def minimum(self, candidate: Candidate, curvatures: bool) -> Minimum:
        """Return the minimum at a candidate, without its Hessian if ``curvatures`` is False."""
        return minimum_at(
            self.landscape, candidate, learn_bias=self.learn_bias, curvatures=curvatures
        )

    def mismatched(self, bias: float, length: float) -> Candidate | None:
        """Return the lowest minimum found from keys along ``v*`` that keeps them there."""
        if self.landscape.smooth:
            plane = Plane(self.landscape, None if self.learn_bias else bias)
            found = plane.search(length, bias)
            if found and found[0].status is Status.CONVERGED:
                return found[0]
            start = found[0].k if found else _LONG * np.eye(SIZE)[1]
            return self.at_infinity(start, bias) or (found[0] if found else None)
        for size in _SIZES:
            candidate = self.descend(size * np.eye(SIZE)[1], bias)
            if kind_of(overlaps_of(candidate.k, candidate.v)) is Kind.MISMATCHED:
                return candidate
        return self.at_infinity(_LONG * np.eye(SIZE)[1], bias)

    def follow(self, last: Minimum) -> Candidate | None:
        """Return the minimum that another one turns into, if it has not disappeared."""
        k, _ = last.order.vectors()
        if last.at_infinity:
            candidate = self.at_infinity(k, last.bias)
            if candidate is not None:
                return candidate
        else:
            candidate = self.near(k, last.bias)
        if candidate is None:
            candidate = self.descend(k, last.bias)
        kind = kind_of(overlaps_of(candidate.k, candidate.v))
        return candidate if kind is last.kind else None

    def at_infinity(self, k: FloatArray, bias: float) -> Candidate | None:
        """Return the limit of the risk along keys that grow without bound, if it falls to it.

        Beyond any scale the risk is its limit plus ``c/m_kv²``, with ``c`` a function of ``m_kk``:
        a descent has no end if the least ``c`` is above 0.
        """
        from scipy.optimize import minimize

        long = math.copysign(_LONG, k[1])
        start = np.array([k[0] * min(1.0, _LONG / max(abs(k[1]), 1e-9)), bias])
        start = start[: 2 if self.learn_bias else 1]

        def objective(y: FloatArray) -> tuple[float, FloatArray]:
            keys = np.array([y[0], long, 0.0, 0.0])
            _, slope = self.landscape.at_best_values(keys, self._bias(y[1:], bias))
            # in units in which what depends on m_kk is of order one
            return _LONG**2 * slope.risk, _LONG**2 * np.append(slope.k[0], slope.bias)[: y.size]

        found = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-3})
        keys = np.array([found.x[0], long, 0.0, 0.0])
        shift = self._bias(found.x[1:], bias)
        v, slope = self.landscape.at_best_values(keys, shift)
        falling = long * slope.k[1] < 0.0
        if abs(keys[0]) > _LONG or not falling:
            return None
        limit = slope.risk + long * float(slope.k[1]) / 2.0
        return Candidate(keys, v, shift, limit, float(np.linalg.norm(slope.k)), Status.BOUNDARY)

    def _bias(self, entry: FloatArray, bias: float) -> float:
        return float(entry[0]) if self.learn_bias else bias

    def _slope(self, y: FloatArray, bias: float) -> FloatArray:
        """Return the slope in the plane (and the bias)."""
        k = np.array([y[0], y[1], 0.0, 0.0])
        _, slope = self.landscape.at_best_values(k, self._bias(y[2:], bias))
        return np.array([slope.k[0], slope.k[1], slope.bias])[: y.size]

    def _bends(self, k: FloatArray, bias: float) -> FloatArray:
        """Return the curvatures over three directions of the keys and the bias."""

        def gradient(y: FloatArray) -> FloatArray:
            keys = np.array([y[0], y[1], y[2], 0.0])
            _, slope = self.landscape.at_best_values(keys, self._bias(y[3:], bias))
            return np.append(slope.k[:3], slope.bias)[: y.size]

        point = np.array([k[0], k[1], k[2], bias])[: 4 if self.learn_bias else 3]
        second = differences(gradient, point, self.landscape.smooth)
        return np.asarray(np.linalg.eigvalsh(second), dtype=float)
