r"""Gradient flow of the risk on the effective problem in R⁴.

Time is that of every descent of the package, ``dk/dt = −∂E/∂k`` with ``k, v`` on the orthonormal
basis (k*, v*, two free directions): what gradient descent in ``R^D`` with steps ``η D ∂E/∂k`` does
as ``D → ∞`` and ``η → 0``, on infinite data. The problem is stiff (values relax fast, keys slowly),
so the solver is implicit. This module must not know how risks are computed.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from slrlab import _checks
from slrlab._result import Status
from slrlab.model.activations import Activation
from slrlab.model.lengths import FloatArray
from slrlab.model.tasks import Task
from slrlab.theory.landscape.minima import FAR, Minimum, descend, minimum_at
from slrlab.theory.landscape.path import (
    ACCURACY,
    OVERLAPS,
    Flow,
    Report,
    describe,
    read_times,
    start_vectors,
)
from slrlab.theory.landscape.risk import (
    SIZE,
    Landscape,
    Point,
    Slope,
    make_landscape,
    overlaps_of,
    start_bias,
)
from slrlab.theory.population import checked

_ARRIVED = 0.05  # distance to a minimum, relative to |k|, within which a flow has converged


def gradient_flow(
    task: Task,
    activation: Activation | str,
    *,
    start: Point | str = "random",
    size: float | None = None,
    bias: float | None = None,
    time: float = 1e5,
    times: Sequence[float] | FloatArray | None = None,
    tolerance: float = 1e-6,
    seed: int = 0,
    landscape: Landscape | None = None,
    strict: bool = False,
    report: Report | None = None,
) -> Flow:
    r"""Follow ``dk/dt = −∂E/∂k``, ``dv/dt = −∂E/∂v`` (and a free bias) from a start.

    Parameters
    ----------
    task, activation
        What is learned, and by which attention; a free bias flows with the vectors.
    start
        ``"random"`` (Gaussian entries of standard deviation ``size``), ``"matched"`` (``k`` along
        ``k*``, ``v`` along ``v*``), ``"mismatched"`` (``k`` along ``v*``, ``v`` along ``k*``),
        overlaps, or vectors ``(k, v)`` of R⁴ on the basis (k*, v*, two free directions).
    size
        Scale of a named start; None for 0.1 if random, else 2 for ``k`` and 0.5 for ``v``.
    bias
        Bias at the start; None for the activation's own, 0 if that is free.
    time
        When to stop at the latest.
    times
        Times to keep, increasing from 0 on; None for the steps of the solver.
    tolerance
        Stop when the length of the gradient is below.
    seed
        Seed of a random start (and of the sample of a projection).
    landscape
        Risk and gradient, if they were prepared for many flows (`slrlab.tabulate`).
    strict
        Raise `slrlab.ComputationError` if the flow does not converge.
    report
        Called as ``report(done, total, label)`` along the way.

    Raises
    ------
    ValueError
        If the start has the wrong shape or is not finite, a number is out of range, or the signal
        is infinite and shifts the relevant token.

    Examples
    --------
    >>> from slrlab import SpikedSLR, gradient_flow
    >>> flow = gradient_flow(SpikedSLR(signal=2.0, length=3), "softmax", seed=1)
    >>> print(f"{flow.minimum}, risk {flow.risk[-1]:.6f}, {flow.status}")
    matched, risk 0.352423, converged
    """
    chosen = checked(task, activation, tolerance).without_idle_bias()
    seed = _checks.integer(seed, "seed", low=0)
    ground = make_landscape(task, chosen, seed=seed) if landscape is None else landscape
    k, v = start_vectors(start, size, seed)
    where = start_bias(chosen, bias)
    path = _Path(ground, chosen.bias is None, report, _checks.positive(time, "time"))
    kept = None if times is None else read_times(times, time)
    solution = path.solve(np.concatenate([k, v, [where]]), kept, tolerance)
    result = path.result(solution, method="gradient flow", rate=0.0, **describe(task, chosen))
    return result.require() if strict else result


class _Path:
    """Integrates a flow and remembers what was evaluated on the way."""

    def __init__(
        self, landscape: Landscape, learn_bias: bool, report: Report | None, time: float
    ) -> None:
        self.landscape = landscape
        self.learn_bias = learn_bias
        self.report = report
        self.time = time
        self.evaluations = 0
        self._known: dict[bytes, Slope] = {}

    def slope(self, y: FloatArray) -> Slope:
        """Return the slope at a state; solver, events and the path kept ask for the same ones."""
        key = y.tobytes()
        if key not in self._known:
            self.evaluations += 1
            self._known[key] = self.landscape(y[:SIZE], y[SIZE : 2 * SIZE], float(y[-1]))
        return self._known[key]

    def velocity(self, _: float, y: FloatArray) -> FloatArray:
        found = self.slope(y)
        return -np.concatenate([found.k, found.v, [found.bias if self.learn_bias else 0.0]])

    def solve(self, y: FloatArray, times: FloatArray | None, tolerance: float) -> Any:
        """Return scipy's solution, ended by convergence, runaway or time."""
        from scipy.integrate import solve_ivp

        def settled(t: float, y: FloatArray) -> float:
            if self.report is not None:
                share = math.log1p(t) / math.log1p(self.time)
                self.report(int(100.0 * share), 100, f"flow: time {t:.4g}")
            return float(np.linalg.norm(self.velocity(t, y))) - tolerance

        def gone(_: float, y: FloatArray) -> float:
            return FAR - float(np.linalg.norm(y[: 2 * SIZE]))

        settled.terminal = gone.terminal = True  # type: ignore[attr-defined]
        span = (0.0, self.time)
        rtol, atol = ACCURACY
        events = (settled, gone)
        return solve_ivp(self.velocity, span, y, "BDF", times, events=events, rtol=rtol, atol=atol)

    def result(self, solution: Any, **setting: Any) -> Flow:
        """Return the path with the minimum that it leads to."""
        ends = [points[-1] for points in solution.y_events if len(points)]
        last = np.asarray(ends[0] if ends else solution.y[:, -1])
        states, times = finished(solution, last)
        risks = [self.slope(state).risk for state in states]
        k, v = last[:SIZE], last[SIZE : 2 * SIZE]
        norm = float(np.linalg.norm(self.velocity(0.0, last)))
        destination, status = self._destination(solution, last, norm)
        rows = [dataclasses.astuple(overlaps_of(s[:SIZE], s[SIZE : 2 * SIZE])) for s in states]
        return Flow(
            status=status,
            times=times,
            **dict(zip(OVERLAPS, np.array(rows).T, strict=True)),
            bias=np.array([state[-1] for state in states]),
            risk=np.array(risks),
            minimum="none" if destination is None else str(destination.kind),
            destination=destination,
            gradient_norm=norm,
            evaluations=self.evaluations,
            k=k,
            v=v,
            **setting,
        )

    def _destination(
        self, solution: Any, last: FloatArray, norm: float
    ) -> tuple[Minimum | None, Status]:
        """Return the minimum below the end of the path, and how the flow ended.

        A small gradient alone is no minimum: on the way to infinity it becomes small too.
        """
        if not (math.isfinite(norm) and solution.status >= 0):
            return None, Status.FAILED
        place = descend(self.landscape, last[:SIZE], float(last[-1]), learn_bias=self.learn_bias)
        found = minimum_at(self.landscape, place, learn_bias=self.learn_bias)
        if found.at_infinity or len(solution.t_events[1]):
            return found, Status.DIVERGED
        length = float(np.linalg.norm(last[:SIZE]))
        gap = abs(length - math.sqrt(found.order.q_kk))
        stopped = len(solution.t_events[0]) > 0
        near = gap < _ARRIVED * (1.0 + length)
        return found, Status.CONVERGED if stopped and near else Status.NOT_CONVERGED


def finished(solution: Any, last: FloatArray) -> tuple[list[FloatArray], FloatArray]:
    """Return the states kept and their times, the end of the path among them."""
    states, times = list(solution.y.T), np.asarray(solution.t, dtype=float)
    ends = [when[-1] for when in solution.t_events if len(when)]
    if ends and (times.size == 0 or ends[0] > times[-1]):
        return [*states, last], np.append(times, ends[0])
    return states, times
