r"""Online SGD in high dimension as a flow of the overlaps: the gradient flow plus its noise.

A step of rate ``η`` on a batch of ``n`` fresh sequences takes the time ``η/D`` and has a random
part of squared length ``|Δk|²/D = (η/D)(η/n) N_kk``. As ``D → ∞`` it averages out of the overlaps
with the teachers and adds up in the residuals, so that

    dm/dt = −∂E/∂m,        dR_ab/dt = −(a⊥·∂E/∂b⊥ + b⊥·∂E/∂a⊥) + (η/n) N_ab,      a, b ∈ {k, v}.

At a constant rate it ends where drift and noise balance, above the minimum of the risk, or, if the
rate is large, nowhere. This module must not know about simulated steps.
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
from slrlab.model.activations import Activation, Projection
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.theory.landscape.follow import Follower
from slrlab.theory.landscape.minima import kind_of
from slrlab.theory.landscape.path import Flow, read_times, start_vectors
from slrlab.theory.landscape.risk import (
    Landscape,
    Point,
    make_landscape,
    overlaps_of,
    start_bias,
)
from slrlab.theory.landscape.sampled import SampledLandscape
from slrlab.theory.landscape.table import refuse_frozen_bias
from slrlab.theory.population.minimal import checked


def sgd_flow(
    task: Task,
    activation: Activation | str,
    *,
    rate: float,
    batch: int = 1,
    start: Point | str = "random",
    size: float | None = None,
    bias: float | None = None,
    time: float = 100.0,
    times: Sequence[float] | FloatArray | None = None,
    tolerance: float = 1e-5,
    samples: int = 1 << 15,
    seed: int = 0,
    landscape: Landscape | None = None,
    strict: bool = False,
    report: Report | None = None,
) -> Flow:
    r"""Follow the overlaps under online SGD at a constant rate, in the limit ``D → ∞``.

    The status is ``converged`` if the overlaps came to rest, ``sampled`` if they still moved at
    the end, ``diverged`` if the vectors grew without bound: the rate is too large. ``minimum`` says
    what the vectors are aligned with at the end; a path with noise has no ``destination``.

    Parameters
    ----------
    task, activation
        What is learned, and by which attention; a free bias is learned.
    rate, batch
        ``η > 0``, and sequences a step; only ``η/batch`` matters as ``D → ∞``.
    start, size, bias, times, landscape, report
        As for `slrlab.gradient_flow`.
    time
        When to stop at the latest; steps take ``η/D``.
    tolerance
        Stop when no overlap (residual, bias) changes faster.
    samples
        Size of the sample that gives the noise.
    seed
        Seed of that sample and of a random start.
    strict
        Raise `slrlab.ComputationError` if the flow diverges or fails.

    Raises
    ------
    ValueError
        If the start has the wrong shape or is not finite, a number is out of range, the sequences
        are too long to be sampled, or the signal is infinite and shifts the relevant token.

    Examples
    --------
    >>> from slrlab import SpikedSLR, minimal_risk, sgd_flow
    >>> task = SpikedSLR(signal=4.0, length=3)
    >>> slow, fast = (sgd_flow(task, "linear", rate=rate, start="matched") for rate in (0.02, 0.3))
    >>> print(f"{slow.risk[-1]:.2f}, {slow.status}; least {minimal_risk(task, 'linear').risk:.2f}")
    0.47, converged; least 0.35
    >>> print(fast.status)
    diverged
    """
    chosen = checked(task, activation, tolerance).without_idle_bias()
    rate, batch = _checks.positive(rate, "rate"), _checks.integer(batch, "batch")
    k, v = start_vectors(start, size, _checks.integer(seed, "seed", low=0))
    where, end = start_bias(chosen, bias), _checks.positive(time, "time")
    kept = None if times is None else read_times(times, end)
    sample = SampledLandscape.draw(task, chosen, samples=samples, seed=seed)
    ground: Landscape = sample if isinstance(chosen, Projection) else make_landscape(task, chosen)
    if landscape is not None:
        ground = landscape
    refuse_frozen_bias(chosen, ground)
    path = _NoisyDescent(ground, sample, rate / batch, chosen.bias is None, report)
    state = np.array([k[0], k[1], v[0], v[1], *overlaps_of(k, v).residuals, where])
    solution = path.solve(state, end, tolerance, dense=kept is not None)
    method = "online sgd" if batch == 1 else f"online sgd in batches of {batch}"
    status, last = path.ending(solution, tolerance), path.last(solution)
    kind = str(kind_of(overlaps_of(*vectors_of(last)))) if status.usable else "none"
    setting = Setting(task, chosen)
    result = path.result(
        solution, kept, status, kind, None, method=method, rate=rate, setting=setting
    )
    return result.require() if strict else result


def vectors_of(state: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return vectors of R⁴ with these overlaps; residuals a solver left no covariance are cut."""
    R_kk, R_vv = max(float(state[4]), 0.0), max(float(state[6]), 0.0)
    first = math.sqrt(R_kk)
    along = math.copysign(min(abs(state[5]) / first, math.sqrt(R_vv)), state[5]) if first else 0.0
    across = math.sqrt(max(R_vv - along**2, 0.0))
    return np.array([state[0], state[1], first, 0.0]), np.array([state[2], state[3], along, across])


class _NoisyDescent(Follower):
    """Integrates ``(m_kk, m_kv, m_vk, m_vv, R_kk, R_kv, R_vv, bias)``."""

    accuracy = (1e-4, 1e-7)  # the noise is sampled: a finer solver would resolve its error

    def __init__(
        self,
        landscape: Landscape,
        sample: SampledLandscape,
        strength: float,
        learn_bias: bool,
        report: Report | None,
    ) -> None:
        super().__init__(landscape, learn_bias, report)
        self.sample = sample
        self.strength = strength  # η over the batch
        self._last: tuple[bytes, FloatArray] = (b"", np.zeros(0))

    def vectors(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        return vectors_of(y)

    def velocity(self, t: float, y: FloatArray) -> FloatArray:
        key = y.tobytes()
        if self._last[0] != key:  # solver and events ask for the same one
            self._last = key, self._velocity(y)
        return self._last[1]

    def _velocity(self, y: FloatArray) -> FloatArray:
        k, v = vectors_of(y)
        slope, noise = self.sample.slope_and_noise(k, v, float(y[-1]))
        if self.landscape is not self.sample:  # the quadrature has no error worth the name
            slope = self.slope(y)
        free_k, free_v, to_k, to_v = k[2:], v[2:], slope.k[2:], slope.v[2:]
        fall = np.array([2.0 * free_k @ to_k, free_v @ to_k + free_k @ to_v, 2.0 * free_v @ to_v])
        push = -slope.bias if self.learn_bias else 0.0
        return np.concatenate([-slope.k[:2], -slope.v[:2], self.strength * noise - fall, [push]])

    def speed(self, y: FloatArray) -> float:
        return float(np.abs(self.velocity(0.0, y)).max())

    def ending(self, solution: Any, tolerance: float) -> Status:
        """Return how the flow ended."""
        if len(solution.t_events[1]):
            return Status.DIVERGED
        if solution.status < 0 or not math.isfinite(self.speed(self.last(solution))):
            return Status.FAILED
        return Status.CONVERGED if self.rests(solution, tolerance) else Status.SAMPLED
