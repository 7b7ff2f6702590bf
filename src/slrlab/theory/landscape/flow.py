r"""Gradient flow of the risk on the effective problem in R⁴.

Time is that of every descent of the package, ``dk/dt = −∂E/∂k`` with ``k, v`` on the orthonormal
basis (k*, v*, two free directions): what gradient descent in ``R^D`` with steps ``η D ∂E/∂k`` does
as ``D → ∞`` and ``η → 0``, on infinite data. The problem is stiff (values relax fast, keys slowly),
so the solver is implicit. This module must not know how risks are computed.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from slrlab import _checks
from slrlab._result import Status
from slrlab._types import FloatArray, Report
from slrlab.model.activations import Activation
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.theory.landscape.follow import Follower
from slrlab.theory.landscape.minima import Minimum, descend, minimum_at
from slrlab.theory.landscape.path import Flow, read_times, start_vectors
from slrlab.theory.landscape.risk import (
    SIZE,
    Landscape,
    Point,
    make_landscape,
    start_bias,
)
from slrlab.theory.landscape.table import refuse_frozen_bias
from slrlab.theory.population.minimal import checked

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
    refuse_frozen_bias(chosen, ground)
    k, v = start_vectors(start, size, seed)
    where = start_bias(chosen, bias)
    end = _checks.positive(time, "time")
    kept = None if times is None else read_times(times, end)
    path = _Descent(ground, chosen.bias is None, report)
    start_state = np.concatenate([k, v, [where]])
    solution = path.solve(start_state, end, tolerance, dense=kept is not None)
    destination, status = path.destination(solution, tolerance)
    result = path.result(
        solution,
        kept,
        status,
        "none" if destination is None else str(destination.kind),
        destination,
        method="gradient flow",
        rate=0.0,
        setting=Setting(task, chosen),
    )
    return result.require() if strict else result


class _Descent(Follower):
    """Integrates ``(k, v, bias)`` down the gradient."""

    accuracy = (1e-5, 1e-8)

    def vectors(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        return y[:SIZE], y[SIZE : 2 * SIZE]

    def velocity(self, t: float, y: FloatArray) -> FloatArray:
        found = self.slope(y)
        return -np.concatenate([found.k, found.v, [found.bias if self.learn_bias else 0.0]])

    def speed(self, y: FloatArray) -> float:
        return float(np.linalg.norm(self.velocity(0.0, y)))

    def destination(self, solution: Any, tolerance: float) -> tuple[Minimum | None, Status]:
        """Return the minimum below the end of the path, and how the flow ended.

        A small gradient alone is no minimum: on the way to infinity it becomes small too.
        """
        last = self.last(solution)
        if solution.status < 0 or not math.isfinite(self.speed(last)):
            return None, Status.FAILED
        candidate = descend(
            self.landscape, last[:SIZE], float(last[-1]), learn_bias=self.learn_bias
        )
        found = minimum_at(self.landscape, candidate, learn_bias=self.learn_bias)
        if found.at_infinity or len(solution.t_events[1]):
            return found, Status.DIVERGED
        there = found.order
        length = float(np.linalg.norm(last[:SIZE]))
        gaps = (
            float(last[0]) - there.m_kk,
            abs(float(last[1])) - abs(there.m_kv),
            length - math.sqrt(there.q_kk),
        )
        near = max(map(abs, gaps)) < _ARRIVED * (1.0 + length)
        settled = self.rests(solution, tolerance)
        return found, Status.CONVERGED if settled and near else Status.NOT_CONVERGED
