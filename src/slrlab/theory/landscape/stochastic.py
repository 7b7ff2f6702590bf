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
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.integrate import solve_ivp

from slrlab import _checks
from slrlab._result import Result, Status
from slrlab.model.activations import Activation
from slrlab.model.lengths import FloatArray, LengthLaw
from slrlab.model.order_parameters import FullOrderParameters
from slrlab.model.tasks import Task
from slrlab.theory.landscape.risk import (
    Landscape,
    Point,
    Slope,
    make_landscape,
    overlaps_of,
    read_point,
    start_bias,
)
from slrlab.theory.landscape.sampled import SampledLandscape
from slrlab.theory.population import checked

if TYPE_CHECKING:
    import pandas as pd

_FAR = 1e4  # residual beyond which a flow has run away
_OVERLAPS = ("m_kk", "m_kv", "m_vk", "m_vv", "q_kk", "q_kv", "q_vv")


@dataclass(frozen=True)
class SgdFlow(Result):
    """Path of the overlaps under online SGD as ``D → ∞``: arrays with one entry for each time.

    Attributes
    ----------
    status
        ``converged``: came to rest before the end. ``not converged``: still moving at the end.
        ``diverged``: ran away; the path ends at the last time kept before. ``failed``: the
        integration broke down.
    times
        ``η/D`` times steps: the time of the gradient flow.
    m_kk, m_kv, m_vk, m_vv, q_kk, q_kv, q_vv
        Order parameters, see `slrlab.FullOrderParameters`.
    bias, risk
        Along the path.
    speed
        Largest rate of change of an overlap (or residual) at the last time.
    rate, batch
        ``η``, and sequences a step.
    """

    times: FloatArray
    m_kk: FloatArray
    m_kv: FloatArray
    m_vk: FloatArray
    m_vv: FloatArray
    q_kk: FloatArray
    q_kv: FloatArray
    q_vv: FloatArray
    bias: FloatArray
    risk: FloatArray
    speed: float
    rate: float
    batch: int
    task: str
    signal: float
    length: LengthLaw
    noise: float
    activation: str

    def overlaps(self, index: int = -1) -> FullOrderParameters:
        """Return the order parameters at one of the times, by default the last."""
        return FullOrderParameters(*(float(getattr(self, name)[index]) for name in _OVERLAPS))

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each time."""
        import pandas as pd

        names = ("times", *_OVERLAPS, "bias", "risk")
        return pd.DataFrame({name: getattr(self, name) for name in names})

    def __str__(self) -> str:
        return (
            f"online sgd of {self.activation}, rate {self.rate:g}: risk {self.risk[-1]:.6g} "
            f"at time {self.times[-1]:g}, {self.status}"
        )


@dataclass(frozen=True)
class _Drift:
    """Velocity of ``(m_kk, m_kv, m_vk, m_vv, R_kk, R_kv, R_vv, bias)``."""

    landscape: Landscape | None  # None: the sample gives the slope too
    sample: SampledLandscape
    strength: float
    learns_bias: bool

    def slope(self, state: FloatArray) -> Slope:
        k, v = vectors_of(state)
        return (self.landscape or self.sample)(k, v, float(state[7]))

    def __call__(self, time: float, state: FloatArray) -> FloatArray:
        k, v = vectors_of(state)
        here = k, v, float(state[7])
        if self.landscape is None:
            slope, noise = self.sample.slope_and_noise(*here)
        else:
            slope, noise = self.landscape(*here), self.sample.noise(*here)
        k_free, v_free, to_k, to_v = k[2:], v[2:], slope.k[2:], slope.v[2:]
        fall = np.array([2.0 * k_free @ to_k, v_free @ to_k + k_free @ to_v, 2.0 * v_free @ to_v])
        push = -slope.bias if self.learns_bias else 0.0
        return np.concatenate(
            [-slope.k[:2], -slope.v[:2], self.strength * noise - fall, np.array([push])]
        )


def vectors_of(state: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return vectors of R⁴ with these overlaps; residuals a solver left no covariance are cut."""
    R_kk, R_vv = max(float(state[4]), 0.0), max(float(state[6]), 0.0)
    first = math.sqrt(R_kk)
    along = math.copysign(min(abs(state[5]) / first, math.sqrt(R_vv)), state[5]) if first else 0.0
    across = math.sqrt(max(R_vv - along**2, 0.0))
    return np.array([state[0], state[1], first, 0.0]), np.array([state[2], state[3], along, across])


def sgd_flow(
    task: Task,
    activation: Activation | str,
    *,
    rate: float,
    start: Point,
    bias: float | None = None,
    time: float = 20.0,
    batch: int = 1,
    record: int = 101,
    tolerance: float = 1e-6,
    rest: float = 1e-5,
    samples: int = 1 << 15,
    seed: int = 0,
    strict: bool = False,
) -> SgdFlow:
    r"""Return the path of online SGD at a constant rate in the limit ``D → ∞``.

    Parameters
    ----------
    task, activation
        What is learned, and by which attention; a free bias is learned.
    rate, batch
        ``η > 0``, and sequences a step; only ``η/batch`` matters, as long as ``D`` is large.
    start
        Overlaps, or a pair ``(k, v)`` of vectors in R⁴ on the basis (k*, v*, two free directions).
    bias
        Bias of the scores at the start; None for the activation's own, 0 if that is free.
    time
        How long to go, in units of ``η/D`` times steps.
    record
        Number of times kept.
    tolerance
        Local accuracy of the integration.
    rest
        Speed of the overlaps below which the flow has come to rest.
    samples, seed
        The sample that gives the noise (and the drift of a projection).
    strict
        Raise `slrlab.ComputationError` unless the flow came to rest.

    Raises
    ------
    ValueError
        If a number is out of range, the start is no point of the problem, the sequences are too
        long to be sampled, or an infinite signal shifts the relevant token.

    Examples
    --------
    >>> from slrlab import SpikedSLR
    >>> from slrlab.theory.landscape.stochastic import sgd_flow
    >>> task, start = SpikedSLR(signal=4.0, length=3), ([1.0, 0, 0, 0], [0, 1.0, 0, 0])
    >>> slow, fast = (sgd_flow(task, "softmax", rate=r, start=start, time=3.0) for r in (0.1, 0.4))
    >>> bool(slow.risk[-1] < fast.risk[-1]), bool(slow.q_kk[-1] > slow.m_kk[-1] ** 2)
    (True, True)
    """
    chosen = checked(task, activation, tolerance).without_idle_bias()
    pace, size = _checks.positive(rate, "rate"), _checks.integer(batch, "batch")
    end, least = _checks.positive(time, "time"), _checks.positive(rest, "rest")
    grid = np.linspace(0.0, end, _checks.integer(record, "record", low=2))
    k, v = read_point(start, "start")
    order, where = overlaps_of(k, v), start_bias(chosen, bias)
    sample = SampledLandscape.draw(task, chosen, samples=samples, seed=seed)
    landscape = make_landscape(task, chosen, samples=samples, seed=seed)
    sampled = isinstance(landscape, SampledLandscape)
    drift = _Drift(None if sampled else landscape, sample, pace / size, chosen.bias is None)
    state = np.array([k[0], k[1], v[0], v[1], *order.residuals, where])
    times, states, status = _integrate(drift, state, grid, tolerance, least)
    speed = float(np.abs(drift(times[-1], states[-1])).max())
    slopes = [drift.slope(row) for row in states]
    result = SgdFlow(
        status=status,
        times=times,
        **_overlap_arrays(states),
        bias=states[:, 7],
        risk=np.array([slope.risk for slope in slopes]),
        speed=speed,
        rate=pace,
        batch=size,
        task=task.name,
        signal=task.signal,
        length=task.length,
        noise=task.noise,
        activation=chosen.name,
    )
    return result.require() if strict else result


def _overlap_arrays(states: FloatArray) -> dict[str, FloatArray]:
    orders = [overlaps_of(*vectors_of(row)) for row in states]
    return {name: np.array([getattr(order, name) for order in orders]) for name in _OVERLAPS}


def _integrate(
    drift: _Drift, state: FloatArray, grid: FloatArray, tolerance: float, rest: float
) -> tuple[FloatArray, FloatArray, Status]:
    """Follow the drift; return the times kept, the states there and how it ended."""

    def moving(time: float, state: FloatArray) -> float:
        return float(np.abs(drift(time, state)).max()) - rest

    def near(time: float, state: FloatArray) -> float:
        # nan counts as far: a solver that jumped past every finite number
        far = float(np.abs(state).max())
        return _FAR - far if math.isfinite(far) else -1.0

    span = (float(grid[0]), float(grid[-1]))
    found = solve_ivp(
        drift,
        span,
        state,
        method="LSODA",
        t_eval=grid,
        events=[_terminal(moving), _terminal(near)],
        rtol=tolerance,
        atol=1e-2 * tolerance,
    )
    times, states = np.asarray(found.t), np.asarray(found.y).T
    rested, left = found.t_events or ([], [])
    if len(rested):
        before = times < rested[0]
        last = np.asarray((found.y_events or [])[0])[:1]
        times, states = np.append(times[before], rested[0]), np.concatenate([states[before], last])
        return times, states, Status.CONVERGED
    if not len(times):
        times, states = grid[:1], state[None]
    if len(left):
        return times, states, Status.DIVERGED
    if found.status != 0:
        return times, states, Status.FAILED
    still = moving(times[-1], states[-1]) <= 0.0  # a start at rest crosses no threshold
    return times, states, Status.CONVERGED if still else Status.NOT_CONVERGED


def _terminal(event: Callable[[float, FloatArray], float]) -> Callable[[float, FloatArray], float]:
    event.terminal = True  # type: ignore[attr-defined]
    event.direction = -1.0  # type: ignore[attr-defined]
    return event
