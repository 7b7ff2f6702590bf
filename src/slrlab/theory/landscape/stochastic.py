r"""Online SGD in high dimension as a flow of the overlaps: the gradient flow plus its noise.

A step of rate ``η`` on a batch of ``n`` fresh sequences takes the time ``η/D`` and has a random
part of squared length ``|Δk|²/D = (η/D)(η/n) N_kk``. As ``D → ∞`` it averages out of the overlaps
with the teachers and adds up in the residuals, so that

    dm/dt = −∂E/∂m,        dR_ab/dt = −(a⊥·∂E/∂b⊥ + b⊥·∂E/∂a⊥) + (η/n) N_ab,      a, b ∈ {k, v}.

At a constant rate it ends where drift and noise balance, above the minimum of the risk; if the rate
is large, it diverges. Independent of simulated steps.
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
from slrlab.theory.landscape.minima import Minimum, kind_of
from slrlab.theory.landscape.path import Flow, read_times, start_vectors
from slrlab.theory.landscape.risk import (
    Landscape,
    Point,
    is_sampled,
    make_landscape,
    overlaps_of,
    start_bias,
)
from slrlab.theory.landscape.sampled import SampledLandscape
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
    r"""Integrate the overlaps of online SGD at a constant rate, in the limit ``D → ∞``.

    The status is ``converged`` if the overlaps came to rest, ``sampled`` if they still moved at
    the end, ``diverged`` if the vectors grew without bound: the rate is too large. ``minimum`` is
    the kind of alignment at the end; a path with noise has no ``destination``.

    Parameters
    ----------
    task, activation
        Task and attention; a free bias is learned.
    rate, batch
        ``η > 0``, and sequences per step; only ``η/batch`` matters as ``D → ∞``.
    start, size, bias, times, landscape, report
        As for `slrlab.gradient_flow`.
    time
        Largest time; a step takes ``η/D``.
    tolerance
        Stop when the derivatives of all overlaps, residuals and the bias are below.
    samples
        Number of sequences from which the noise is computed.
    seed
        Seed of that sample and of a random start.
    strict
        Raise `slrlab.ComputationError` if the flow diverges or fails.

    Returns
    -------
    Flow
        Overlaps and risk along the path.

    Raises
    ------
    ValueError
        As `slrlab.gradient_flow`, and if the sequences are too long for a sample.

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
    state = np.array(
        [k[0], k[1], v[0], v[1], *overlaps_of(k, v).residuals, start_bias(chosen, bias)]
    )
    time = _checks.positive(time, "time")
    kept = read_times(times, time)
    sample = SampledLandscape.draw(task, chosen, samples=samples, seed=seed)
    if landscape is None:
        landscape = sample if is_sampled(chosen) else make_landscape(task, chosen)
    path = _NoisyDescent(landscape, chosen, report, sample, rate / batch)
    method = "online sgd" if batch == 1 else f"online sgd in batches of {batch}"
    setting = Setting(task, chosen)
    result = path.run(state, time, kept, tolerance, method=method, rate=rate, setting=setting)
    return result.require() if strict else result


def vectors_of(state: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return vectors of R⁴ with these overlaps; residuals that are not a covariance are cut."""
    m_kk, m_kv, m_vk, m_vv, R_kk, R_kv, R_vv, _bias = state.tolist()
    first, R_vv = math.sqrt(max(R_kk, 0.0)), max(R_vv, 0.0)
    along = math.copysign(min(abs(R_kv) / first, math.sqrt(R_vv)), R_kv) if first else 0.0
    across = math.sqrt(max(R_vv - along**2, 0.0))
    return np.array([m_kk, m_kv, first, 0.0]), np.array([m_vk, m_vv, along, across])


class _NoisyDescent(Follower):
    """Integrates ``(m_kk, m_kv, m_vk, m_vv, R_kk, R_kv, R_vv, bias)``."""

    accuracy = (1e-4, 1e-7)  # the noise is sampled: a finer solver would resolve its error
    norm = math.inf

    def __init__(
        self,
        landscape: Landscape,
        activation: Activation,
        report: Report | None,
        sample: SampledLandscape,
        strength: float,
    ) -> None:
        super().__init__(landscape, activation, report)
        self.sample = sample
        self.strength = strength  # η over the batch

    def vectors(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        return vectors_of(y)

    def velocity(self, y: FloatArray) -> FloatArray:
        k, v = vectors_of(y)
        slope, noise = self.sample.slope_and_noise(k, v, float(y[-1]))
        if self.landscape is not self.sample:  # the error of a quadrature is negligible
            slope = self.slope(y)
        free_k, free_v, to_k, to_v = k[2:], v[2:], slope.k[2:], slope.v[2:]
        drift = np.array([2.0 * free_k @ to_k, free_v @ to_k + free_k @ to_v, 2.0 * free_v @ to_v])
        bias = -slope.bias if self.learn_bias else 0.0
        return np.concatenate([-slope.k[:2], -slope.v[:2], self.strength * noise - drift, [bias]])

    def ending(
        self, last: FloatArray, *, failed: bool, escaped: bool, rests: bool
    ) -> tuple[Status, str, Minimum | None]:
        """Return how the flow ended, and the kind of its last state."""
        if escaped or failed:
            return Status.DIVERGED if escaped else Status.FAILED, "none", None
        kind = str(kind_of(overlaps_of(*vectors_of(last))))
        return Status.CONVERGED if rests else Status.SAMPLED, kind, None
