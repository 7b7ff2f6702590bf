r"""Gradient flow of the risk on the effective problem in R⁴.

Time is that of every descent of the package, ``dk/dt = −∂E/∂k`` with ``k, v`` on the orthonormal
basis (k*, v*, two free directions): the limit ``D → ∞``, ``η → 0`` of gradient descent in ``R^D``
with steps ``η D ∂E/∂k`` on infinite data. The problem is stiff (values relax fast, keys slowly), so
the solver is implicit. Independent of how risks are computed.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from slrlab import _checks
from slrlab._result import Status
from slrlab._types import FloatArray, Report
from slrlab.model.activations import Activation
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.theory.landscape.follow import Follower
from slrlab.theory.landscape.minima import Minimum, key_distance, minimum_at
from slrlab.theory.landscape.path import Flow, read_times, start_vectors
from slrlab.theory.landscape.reduced import ReducedRisk
from slrlab.theory.landscape.risk import Landscape, Point, make_landscape, overlaps_of, start_bias
from slrlab.theory.landscape.slope import SIZE
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
    goal: float | None = None,
    seed: int = 0,
    landscape: Landscape | None = None,
    strict: bool = False,
    report: Report | None = None,
) -> Flow:
    r"""Integrate ``dk/dt = −∂E/∂k``, ``dv/dt = −∂E/∂v`` (and a free bias) from a start.

    Parameters
    ----------
    task, activation
        Task and attention; a free bias is learned with the vectors.
    start
        ``"random"`` (Gaussian entries of standard deviation ``size``), ``"matched"`` (``k`` along
        ``k*``, ``v`` along ``v*``), ``"mismatched"`` (``k`` along ``v*``, ``v`` along ``k*``),
        overlaps, or vectors ``(k, v)`` of R⁴ on the basis (k*, v*, two free directions).
    size
        Scale of a named start; None for 0.1 if random, else 2 for ``k`` and 0.5 for ``v``.
    bias
        Bias at the start; None for the activation's own, 0 if that is free.
    time
        Largest time.
    times
        Times of the path, increasing from 0 or later; None for the steps of the solver.
    tolerance
        Stop when the length of the gradient is below.
    goal
        Stop also when the risk has fallen to this number; the minimum beyond is then not searched.
        None to follow the flow to its end.
    seed
        Seed of a random start (and of the sample of a projection).
    landscape
        Risk and gradient prepared for many flows (`slrlab.tabulate`); None to compute them.
    strict
        Raise `slrlab.ComputationError` if the flow does not converge.
    report
        Called as ``report(done, total, label)`` after each step.

    Returns
    -------
    Flow
        Overlaps and risk along the path, and the minimum that it leads to.

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
    if landscape is None:
        landscape = make_landscape(task, chosen, seed=seed)
    path = _Descent(landscape, chosen, report)
    if goal is not None:
        path.goal = _checks.finite(goal, "goal")
    state = np.concatenate([*start_vectors(start, size, seed), [start_bias(chosen, bias)]])
    time = _checks.positive(time, "time")
    setting = {"method": "gradient flow", "rate": 0.0, "setting": Setting(task, chosen)}
    result = path.run(state, time, read_times(times, time), tolerance, **setting)
    return result.require() if strict else result


class _Descent(Follower):
    """Integrates ``(k, v, bias)`` down the gradient."""

    accuracy = (1e-5, 1e-8)

    def vectors(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        return y[:SIZE], y[SIZE : 2 * SIZE]

    def velocity(self, y: FloatArray) -> FloatArray:
        return -self.gradient(y)

    def ending(
        self, last: FloatArray, *, failed: bool, escaped: bool, rests: bool
    ) -> tuple[Status, str, Minimum | None]:
        """Return the minimum below the last state, and how the flow ended.

        A small gradient alone does not show a minimum: it also becomes small as the keys grow
        without bound.
        """
        if failed:
            return Status.FAILED, "none", None
        risk = ReducedRisk(self.landscape, self.learn_bias)
        minimum = minimum_at(risk, risk.descend(last[:SIZE], float(last[-1])))
        order = overlaps_of(*self.vectors(last))
        close = key_distance(order, minimum.order) < _ARRIVED * (1.0 + math.sqrt(order.q_kk))
        status = Status.CONVERGED if rests and close else Status.NOT_CONVERGED
        if minimum.at_infinity or escaped:
            status = Status.DIVERGED
        return status, str(minimum.kind), minimum
