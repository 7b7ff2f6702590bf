r"""Integrates a flow with an implicit solver until it rests, diverges or its time is over.

A state ends with the bias; its other entries depend on the flow, which gives the velocity of a
state and its vectors of R⁴. Independent of what drives a flow.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from slrlab._result import Status
from slrlab._types import FloatArray, Report
from slrlab.model.activations import Activation
from slrlab.model.order_parameters import OVERLAPS
from slrlab.theory.landscape.minima import Minimum
from slrlab.theory.landscape.path import Flow
from slrlab.theory.landscape.reduced import FAR
from slrlab.theory.landscape.risk import Landscape, overlaps_of
from slrlab.theory.landscape.slope import Slope
from slrlab.theory.landscape.table import TabulatedLandscape

_JUMPY = (1e-3, 1e-5)  # relative and absolute accuracy where the gradient jumps
_INSIDE = 0.99  # fraction of the tolerance at which to stop: a root is exact up to rounding only


class Follower(ABC):
    """A flow on a landscape.

    ``accuracy`` is that of the solver where the gradient is smooth, relative and absolute. A state
    rests when the norm of its velocity, of order ``norm``, is below the tolerance. A flow ends when
    its state rests, or when the risk has fallen to ``goal``.

    Raises
    ------
    ValueError
        If the bias is free and the landscape is a table, which has one bias.
    """

    accuracy: tuple[float, float]
    norm: float | None = None
    goal: float = -math.inf

    def __init__(self, landscape: Landscape, activation: Activation, report: Report | None) -> None:
        self.learn_bias = activation.bias is None
        if self.learn_bias and isinstance(landscape, TabulatedLandscape):
            raise ValueError(
                f"bias of {activation.name} must be a number on a table, got free: "
                f"fix it with make_activation({activation.name!r}, bias={landscape.bias:g})"
            )
        self.landscape = landscape
        self.report = report
        # solver, events and the path evaluate the same states
        self._slopes: dict[bytes, Slope] = {}
        self._velocities: dict[bytes, FloatArray] = {}

    @abstractmethod
    def vectors(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``k`` and ``v`` of a state."""

    @abstractmethod
    def velocity(self, y: FloatArray) -> FloatArray:
        """Return the time derivative of a state."""

    @abstractmethod
    def ending(
        self, last: FloatArray, *, failed: bool, escaped: bool, rests: bool
    ) -> tuple[Status, str, Minimum | None]:
        """Return the status, the kind of minimum and, if known, the minimum of the last state.

        ``failed``: the solver stopped or the velocity is not finite. ``escaped``: the vectors are
        longer than `FAR`. ``rests``: the speed is below the tolerance.
        """

    def gradient(self, y: FloatArray) -> FloatArray:
        """Return the gradient of the risk at a state, as far as the flow is driven by it."""
        return self.slope(y).gradient(self.learn_bias)

    def slope(self, y: FloatArray) -> Slope:
        """Return risk and gradient at a state."""
        key = y.tobytes()
        if key not in self._slopes:
            self._slopes[key] = self.landscape(*self.vectors(y), float(y[-1]))
        return self._slopes[key]

    def speed(self, y: FloatArray) -> float:
        """Return the norm of the velocity."""
        return float(np.linalg.norm(self._velocity(0.0, y), self.norm))

    def _velocity(self, _: float, y: FloatArray) -> FloatArray:
        key = y.tobytes()
        if key not in self._velocities:
            self._velocities[key] = self.velocity(y)
        return self._velocities[key]

    def _solve(self, start: FloatArray, end: float, tolerance: float, *, dense: bool) -> Any:
        """Return SciPy's solution, at all times if ``dense``; its events are the ends."""
        from scipy.integrate import solve_ivp

        def settled(t: float, y: FloatArray) -> float:
            if self.report is not None:
                fraction = math.log1p(t) / math.log1p(end)
                self.report(int(100.0 * fraction), 100, f"flow: time {t:.4g}")
            return self.speed(y) - _INSIDE * tolerance

        def escaped(_: float, y: FloatArray) -> float:
            return FAR - float(np.linalg.norm(self.vectors(y)))

        def arrived(_: float, y: FloatArray) -> float:
            return self.slope(y).risk - self.goal

        events = [settled, escaped] + ([arrived] if math.isfinite(self.goal) else [])
        for event in events:
            event.terminal = True  # type: ignore[attr-defined]
        rtol, atol = self.accuracy if self.landscape.smooth else _JUMPY
        return solve_ivp(
            self._velocity,
            (0.0, end),
            start,
            method="BDF",
            dense_output=dense,
            events=events,
            rtol=rtol,
            atol=atol,
        )

    def run(
        self,
        start: FloatArray,
        end: float,
        times: FloatArray | None,
        tolerance: float,
        **setting: Any,
    ) -> Flow:
        """Return the path at given times, or at the steps of the solver.

        A flow that ended before the last of the times has its end as the last point.
        """
        solution = self._solve(start, end, tolerance, dense=times is not None)
        last, end = np.asarray(solution.y[:, -1]), float(solution.t[-1])
        speed = self.speed(last)
        if any(len(times) for times in solution.t_events[2:]):  # at the goal
            status, minimum, destination = Status.CONVERGED, "none", None
        else:
            status, minimum, destination = self.ending(
                last,
                failed=solution.status < 0 or not math.isfinite(speed),
                escaped=len(solution.t_events[1]) > 0,
                rests=speed <= tolerance,
            )
        if times is None:
            states, times = list(solution.y.T), np.asarray(solution.t, dtype=float)
        else:
            early = times[-1] > end
            times = times[times <= end]
            states = [np.asarray(solution.sol(t)) for t in times]
            if early:
                states, times = [*states, last], np.append(times, end)
        k, v = self.vectors(last)
        rows = [dataclasses.astuple(overlaps_of(*self.vectors(state))) for state in states]
        risks = np.array([self.slope(state).risk for state in states])
        return Flow(
            status=status,
            times=times,
            **dict(zip(OVERLAPS, np.array(rows).T, strict=True)),
            bias=np.array([state[-1] for state in states]),
            risk=risks,
            minimum=minimum,
            destination=destination,
            gradient_norm=math.hypot(*self.gradient(last)),
            evaluations=len(self._slopes),
            k=k,
            v=v,
            **setting,
        )
