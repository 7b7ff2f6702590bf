r"""Minima of the risk as functions of the task.

A minimum moves smoothly with the task until it disappears, so that the minimum of a similar task is
the best start of a search. By symmetry the keys of the matched and mismatched minima stay in the
plane of ``k*`` and ``v*``. Independent of how risks are computed.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slrlab import _checks
from slrlab._result import Status
from slrlab._types import FloatArray
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task
from slrlab.model.traits import degree
from slrlab.theory.landscape.continuation import End, Plane, trace
from slrlab.theory.landscape.minima import Kind, Minimum, kind_of, minimum_at
from slrlab.theory.landscape.reduced import FAR, LONG, Candidate, ReducedRisk
from slrlab.theory.landscape.risk import SAMPLES, make_landscape, start_bias
from slrlab.theory.landscape.slope import SIZE
from slrlab.theory.population.minimal import checked, minimal_risk

_SIZES = (2.0, 1.0, 4.0)  # |k| at the mismatched starts of a sampled risk, in this order
_STRAY = 0.3  # distance from the guess, relative to 1 + |k|, beyond which a root is rejected


def minimum_from(
    task: Task,
    activation: Activation | str,
    start: Kind | str | Minimum | Sequence[float] | FloatArray,
    *,
    bias: float | None = None,
    curvatures: bool = True,
    resolution: float = 1.0,
    samples: int = SAMPLES,
) -> Minimum | None:
    r"""Return the local minimum below a start, or None if there is no minimum of its kind.

    Parameters
    ----------
    task, activation
        Task and attention; a free bias is part of the search.
    start
        ``"matched"`` or ``"mismatched"``; a minimum of a similar task; or keys in R⁴, with their
        best values. A descent from keys always ends at some minimum; a minimum of a kind, or that
        of a similar task, may not exist. ``"mismatched"`` searches from several starts and returns
        the lowest minimum of that kind. The risk of a minimum at infinity is its limit.
    bias
        Bias at the start; None for that of the start, 0 if it has none.
    curvatures
        Whether to compute the Hessian (most of the cost); the curvatures are empty otherwise.
    resolution
        Resolution of the quadrature: 1.0 gives about 12 digits, 0.8 about 7 if the keys are off M.
    samples
        Number of sequences behind the risk of a projection, which is sampled.

    Returns
    -------
    Minimum or None
        The minimum, with its risk, overlaps and kind.

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
    landscape = make_landscape(task, chosen, resolution=resolution, samples=samples)
    risk = ReducedRisk(landscape, chosen.bias is None)
    bias = start_bias(chosen, bias)
    if isinstance(start, Minimum):
        candidate = _follow(risk, start)
    elif isinstance(start, str):
        if _checks.choice(start, "start", ("matched", "mismatched")) == Kind.MATCHED:
            best = minimal_risk(task, chosen)
            best_bias = best.bias if chosen.bias is None else chosen.bias
            candidate = _near(risk, best.m_k * np.eye(SIZE)[0], best_bias)
        elif degree(chosen) is not None:
            candidate = _without_scale(risk, bias)
        else:
            candidate = _mismatched(risk, bias, task.length.mean)
    else:
        keys = np.array(start, dtype=float)
        if keys.shape != (SIZE,) or not np.isfinite(keys).all():
            raise ValueError(f"start must be finite keys of shape ({SIZE},), got {start!r}")
        candidate = _descend(risk, keys, bias)
    return None if candidate is None else minimum_at(risk, candidate, curvatures=curvatures)


def follow_minimum(
    tasks: Iterable[Task],
    activation: Activation | str,
    start: Kind | str | Minimum,
    *,
    curvatures: bool = True,
    resolution: float = 1.0,
) -> list[Minimum | None]:
    """Return a minimum for each task in turn; the search starts at the last one.

    Between tasks that differ only in the signal, a mismatched minimum is continued in steps short
    enough to stay on it. From the task on at which the minimum has disappeared, entries are None.

    Parameters
    ----------
    tasks
        The tasks in the order in which the minimum is followed.
    activation
        The activation on all of them.
    start
        The kind of the first minimum, or a minimum to start from.
    curvatures
        Whether to compute the spectrum of the Hessian.
    resolution
        Resolution of the quadrature: 1.0 gives about 12 digits.

    Returns
    -------
    list of Minimum or None
        One entry for each task.

    Examples
    --------
    >>> from slrlab import SpikedSLR, follow_minimum
    >>> found = follow_minimum([SpikedSLR(1.0, 3), SpikedSLR(2.0, 3)], "softmax", "matched")
    >>> print([f"{minimum.risk:.4f}" for minimum in found])
    ['0.4811', '0.3524']
    """
    minima: list[Minimum | None] = []
    guess: Kind | str | Minimum | None = start
    last: Task | None = None
    how: dict[str, Any] = {"curvatures": curvatures, "resolution": resolution}
    for task in tasks:
        if last is not None and isinstance(guess, Minimum) and _continuous(last, task, guess):
            guess = _continued(last, task, activation, guess, **how)
        elif guess is not None:
            guess = minimum_from(task, activation, guess, **how)
        minima.append(guess)
        last = task
    return minima


def _continuous(last: Task, task: Task, minimum: Minimum) -> bool:
    """Return whether a mismatched minimum can be continued from a task to the next."""
    finite = 0.0 < last.signal < math.inf and 0.0 < task.signal < math.inf
    same = finite and last.signal != task.signal and replace(last, signal=task.signal) == task
    return same and minimum.kind is Kind.MISMATCHED and minimum.status is Status.CONVERGED


def _continued(
    last: Task, task: Task, activation: Activation | str, minimum: Minimum, **how: Any
) -> Minimum | None:
    """Return the continuation of a mismatched minimum to another signal, if it exists there."""
    planes = planes_of(task, activation, how["resolution"])
    here, there = math.log(last.signal), math.log(task.signal)
    plane = planes(there)
    if not plane.reduced.landscape.smooth:
        return minimum_from(task, activation, minimum, **how)
    k, _ = minimum.order.vectors()
    points, end = trace(planes, np.append(plane.point(k, minimum.bias), here), there)
    if end is End.RANGE:
        candidate = plane.candidate(points[-1][:-1])
        return minimum_at(plane.reduced, candidate, curvatures=how["curvatures"])
    if end in (End.INFINITY, End.LOST):
        return minimum_from(task, activation, minimum, **how)
    return None


def planes_of(
    task: Task, activation: Activation | str, resolution: float, longest: float = FAR
) -> Callable[[float], Plane]:
    """Return the plane of ``k*`` and ``v*`` as a function of the logarithm of the signal."""
    chosen = checked(task, activation, 1.0).without_idle_bias()

    def plane_at(log_signal: float) -> Plane:
        here = replace(task, signal=math.exp(log_signal))
        landscape = make_landscape(here, chosen, resolution=resolution)
        return Plane(ReducedRisk(landscape, chosen.bias is None), chosen.bias or 0.0, longest)

    return plane_at


class _StrayedError(Exception):
    """A search for a root left the neighbourhood of its guess."""


def _descend(risk: ReducedRisk, k: FloatArray, bias: float) -> Candidate:
    """Return the minimum below given keys, or the limit if they grow without bound."""
    candidate = risk.descend(k, bias)
    if np.linalg.norm(candidate.k) > FAR / 2.0:
        return risk.at_infinity(candidate.k, candidate.bias) or candidate
    return candidate


def _near(risk: ReducedRisk, k: FloatArray, bias: float) -> Candidate | None:
    """Return the minimum next to a guess in the plane of ``k*`` and ``v*``."""
    from scipy.optimize import root

    guess, plane_risk = risk.over(np.array([k[0], k[1], 0.0, 0.0, bias]), 0, 1)
    reach = _STRAY * (1.0 + float(np.linalg.norm(guess)))

    def gradient(y: FloatArray) -> FloatArray:
        if not float(np.linalg.norm(y - guess)) < reach:
            raise _StrayedError
        return plane_risk(y)[1]

    try:
        stationary = root(gradient, guess, tol=1e-9).x
    except _StrayedError:
        return None
    norm = float(np.linalg.norm(plane_risk(stationary)[1]))
    if norm > 1e-6:
        return None
    keys = np.array([stationary[0], stationary[1], 0.0, 0.0])
    bias = float(stationary[2]) if risk.learn_bias else bias
    point, full_risk = risk.over(np.append(keys, bias), 0, 1, 2)
    curvatures = np.linalg.eigvalsh(risk.second_derivatives(full_risk, point))
    # a curvature of 0 up to rounding (a risk of almost 0) is allowed
    if curvatures.min() < -1e-9 * max(1.0, float(curvatures.max())):
        return None
    return replace(risk.candidate(keys, bias, Status.CONVERGED), gradient_norm=norm)


def _mismatched(risk: ReducedRisk, bias: float, length: float) -> Candidate | None:
    """Return the lowest mismatched minimum below keys along ``v*``."""
    along = np.eye(SIZE)[1]
    if risk.landscape.smooth:
        best = next(iter(Plane(risk, bias).search(length, bias)), None)
        if best is not None and best.status is Status.CONVERGED:
            return best
        return risk.at_infinity(LONG * along if best is None else best.k, bias) or best
    for size in _SIZES:
        candidate = _descend(risk, size * along, bias)
        if kind_of(candidate.order) is Kind.MISMATCHED:
            return candidate
    return risk.at_infinity(LONG * along, bias)


def _without_scale(risk: ReducedRisk, bias: float) -> Candidate | None:
    """Return the mismatched minimum of keys whose length has no effect: they are 1 along ``v*``.

    A minimum is then a ray, of which no point is isolated.
    """
    from scipy.optimize import minimize

    unit = np.eye(SIZE)[1]
    start, over = risk.over(np.append(unit, bias), 0)
    flat = 1e-7 if risk.landscape.smooth else 1e-3
    end = minimize(over, start, jac=True, method="BFGS", options={"gtol": flat}).x
    unit[0] = end[0]
    candidate = risk.candidate(unit, float(end[1]) if risk.learn_bias else bias)
    if candidate.status is not Status.CONVERGED or kind_of(candidate.order) is not Kind.MISMATCHED:
        return None
    point, over = risk.over(np.append(unit, candidate.bias), 0, 1, 2)
    curvatures = np.linalg.eigvalsh(risk.second_derivatives(over, point))
    return candidate if curvatures.min() > -1e-6 * max(1.0, float(curvatures.max())) else None


def _follow(risk: ReducedRisk, last: Minimum) -> Candidate | None:
    """Return the continuation of a minimum of another landscape, if it has not disappeared."""
    k, _ = last.order.vectors()
    if last.at_infinity:
        limit = risk.at_infinity(k, last.bias)
        if limit is not None:
            return limit
    candidate = None if last.at_infinity else _near(risk, k, last.bias)
    candidate = candidate or _descend(risk, k, last.bias)
    return candidate if kind_of(candidate.order) is last.kind else None
