r"""Integrates a flow with an implicit solver until it rests, runs away or time is over.

The states of a flow end with the bias; what comes before is up to the flow, which says how fast a
state moves and which vectors of R⁴ it stands for. This module must not know why it moves.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from slrlab._result import Status
from slrlab._types import FloatArray, Report
from slrlab.theory.landscape.minima import FAR, Minimum
from slrlab.theory.landscape.path import OVERLAPS, Flow
from slrlab.theory.landscape.risk import Landscape, Slope, overlaps_of

_JUMPY = (1e-3, 1e-5)  # relative and absolute accuracy where the gradient jumps
_INSIDE = 0.99  # share of the tolerance at which to stop: a root is exact up to rounding only


class Follower(ABC):
    """A flow on a landscape; ``accuracy`` is asked of the solver where the gradient is smooth."""

    accuracy: tuple[float, float]

    def __init__(self, landscape: Landscape, learn_bias: bool, report: Report | None) -> None:
        self.landscape = landscape
        self.learn_bias = learn_bias
        self.report = report
        self.evaluations = 0
        self._slopes: dict[bytes, Slope] = {}

    @abstractmethod
    def vectors(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``k`` and ``v`` of a state."""

    @abstractmethod
    def velocity(self, t: float, y: FloatArray) -> FloatArray:
        """Return how fast a state changes."""

    @abstractmethod
    def speed(self, y: FloatArray) -> float:
        """Return how far a state is from rest."""

    def slope(self, y: FloatArray) -> Slope:
        """Return the slope at a state; solver, events and the path kept ask for the same ones."""
        key = y.tobytes()
        if key not in self._slopes:
            self.evaluations += 1
            self._slopes[key] = self.landscape(*self.vectors(y), float(y[-1]))
        return self._slopes[key]

    def solve(self, y: FloatArray, time: float, tolerance: float, *, dense: bool) -> Any:
        """Return scipy's solution, at all times if ``dense``; its events are rest and runaway."""
        from scipy.integrate import solve_ivp

        def settled(t: float, y: FloatArray) -> float:
            if self.report is not None:
                share = math.log1p(t) / math.log1p(time)
                self.report(int(100.0 * share), 100, f"flow: time {t:.4g}")
            return self.speed(y) - _INSIDE * tolerance

        def gone(_: float, y: FloatArray) -> float:
            return FAR - float(np.linalg.norm(self.vectors(y)))

        settled.terminal = gone.terminal = True  # type: ignore[attr-defined]
        rtol, atol = self.accuracy if self.landscape.smooth else _JUMPY
        return solve_ivp(
            self.velocity,
            (0.0, time),
            y,
            method="BDF",
            dense_output=dense,
            events=(settled, gone),
            rtol=rtol,
            atol=atol,
        )

    @staticmethod
    def last(solution: Any) -> FloatArray:
        """Return the state at which the flow ended."""
        return np.asarray(solution.y[:, -1])

    def rests(self, solution: Any, tolerance: float) -> bool:
        """Return whether the end is at rest."""
        return self.speed(self.last(solution)) <= tolerance

    def result(
        self,
        solution: Any,
        times: FloatArray | None,
        status: Status,
        minimum: str,
        destination: Minimum | None,
        **setting: Any,
    ) -> Flow:
        """Return the path at given times, or at the steps of the solver.

        A flow that ended before the last of the times has its end as the last point.
        """
        last, end = self.last(solution), float(solution.t[-1])
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
        bottom = self.slope(last)
        return Flow(
            status=status,
            times=times,
            **dict(zip(OVERLAPS, np.array(rows).T, strict=True)),
            bias=np.array([state[-1] for state in states]),
            risk=np.array([self.slope(state).risk for state in states]),
            minimum=minimum,
            destination=destination,
            gradient_norm=math.hypot(*bottom.k, *bottom.v, bottom.bias if self.learn_bias else 0.0),
            evaluations=self.evaluations,
            k=k,
            v=v,
            **setting,
        )
