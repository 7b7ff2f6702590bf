r"""Gradient flow with keys and values of fixed length, the training of Marion et al. (2024).

The risk is a function of the directions ``k̂``, ``v̂`` on spheres, ``E(λk̂, v̂)``; the flow follows
its gradient along the spheres,

    dk̂/dt = −(1 − k̂k̂ᵀ) λ ∂E/∂k,      dv̂/dt = −(1 − v̂v̂ᵀ) ∂E/∂v,

and ``λ`` may fall with time. Both directions stay in the span of the teachers and of their starts:
R⁴, in any dimension. Independent of how risks are computed.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slrlab import _checks
from slrlab._result import Status
from slrlab._types import FloatArray, Report
from slrlab.model.activations import Activation, Elementwise
from slrlab.model.order_parameters import FullOrderParameters
from slrlab.model.setting import Setting
from slrlab.model.sphere import Sphere
from slrlab.model.tasks import Task
from slrlab.theory.landscape.follow import Follower
from slrlab.theory.landscape.minima import Minimum, kind_of
from slrlab.theory.landscape.path import Flow, read_times
from slrlab.theory.landscape.risk import (
    Landscape,
    Point,
    make_landscape,
    overlaps_of,
    read_point,
    start_bias,
)
from slrlab.theory.landscape.slope import SIZE
from slrlab.theory.population.minimal import checked

ERF_ATTENTION = "elementwise: erf(x)"
STARTS = ("random", "manifold")


def sphere_flow(
    task: Task,
    activation: Activation | str = ERF_ATTENTION,
    *,
    sphere: Sphere,
    start: Point | str = "random",
    dim: int | None = None,
    time: float = 100.0,
    times: Sequence[float] | FloatArray | None = None,
    tolerance: float = 1e-6,
    seed: int = 0,
    landscape: Landscape | None = None,
    strict: bool = False,
    report: Report | None = None,
) -> Flow:
    r"""Integrate the gradient flow of directions on the sphere.

    The path has the overlaps of ``k = λk̂`` and ``v = v̂``: ``√q_kk`` is ``λ``, and ``m_kk/λ`` the
    cosine of the angle between ``k`` and ``k*``. If the activation is odd, ``(−k, −v)`` predicts as
    ``(k, v)`` does, and a flow that ends there is matched, too.

    Parameters
    ----------
    task, activation
        Task and attention; by default ``erf`` without a constant, as in the paper.
    sphere
        Lengths of keys and values.
    start
        ``"random"`` (uniform on the spheres of ``R^dim``), ``"manifold"`` (the same on the manifold
        M), overlaps, or vectors of R⁴, of which only the directions count.
    dim
        Dimension of a named start; None for ``2ν`` or the next whole number, as in the paper.
    time, times
        Largest time, and times of the path; None for the steps of the solver. A step of projected
        gradient descent with rate ``η`` takes the time ``η``.
    tolerance
        Stop when the gradient along the spheres is shorter, unless ``λ`` falls.
    seed
        Seed of a named start.
    landscape, strict, report
        As for `slrlab.gradient_flow`.

    Returns
    -------
    Flow
        Overlaps and risk along the path, and where it ends.

    Examples
    --------
    >>> from slrlab import MarionSLR, Sphere, sphere_flow
    >>> task, sphere = MarionSLR(signal=200.0, length=10), Sphere(scale=0.1)
    >>> flow = sphere_flow(task, sphere=sphere, start="manifold", seed=1, time=1000.0)
    >>> print(f"{flow.minimum}, {flow.m_kk[-1] / 0.1:.4f}, {flow.m_vv[-1]:.4f}, {flow.status}")
    matched, -1.0000, -1.0000, converged
    """
    chosen = checked(task, activation, tolerance).without_idle_bias()
    if not isinstance(sphere, Sphere):
        _checks.fail("sphere", "a Sphere such as Sphere(0.1)", sphere, TypeError)
    seed = _checks.integer(seed, "seed", low=0)
    if isinstance(start, str) and dim is None:
        dim = max(4, math.ceil(2.0 * task.signal))
    k, v = sphere_start(start, dim, seed)
    time = _checks.positive(time, "time")
    if landscape is None:
        landscape = make_landscape(task, chosen, seed=seed)
    path = _SphereDescent(landscape, chosen, report, sphere)
    state = np.concatenate([k, v, [sphere.scale, start_bias(chosen, None)]])
    setting = {"method": "flow on the sphere", "rate": 0.0, "setting": Setting(task, chosen)}
    result = path.run(state, time, read_times(times, time), tolerance, **setting)
    return result.require() if strict else result


def sphere_start(start: Point | str, dim: int | None, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return the checked unit vectors of R⁴ of a start.

    Raises
    ------
    ValueError
        If the start is unknown, 0, not finite or of the wrong shape.
    """
    if isinstance(start, str):
        _checks.choice(start, "start", STARTS)
        dim = _checks.integer(dim, "dim", low=4)
        k, v = random_directions(dim, seed, on_manifold=start == "manifold").vectors()
    elif dim is not None:
        raise ValueError(f"dim must not be given with a start of your own, got {dim}")
    else:
        k, v = read_point(start, "start")
    if not (k.any() and v.any()):
        raise ValueError("start must have vectors that are not 0, got 0")
    return k / np.linalg.norm(k), v / np.linalg.norm(v)


def random_directions(dim: int, seed: int, *, on_manifold: bool = False) -> FullOrderParameters:
    """Return the overlaps of two directions drawn uniformly in ``R^dim``.

    On M, ``k`` is orthogonal to ``v*``, and ``v`` to ``k*`` and ``k``.
    """
    k, v = np.random.default_rng(seed).standard_normal((2, dim))
    if on_manifold:  # the teachers are the first two axes
        k[1] = v[0] = 0.0
        beyond = k.copy()
        beyond[0] = 0.0
        v -= beyond * (beyond @ v) / (beyond @ beyond)
    k, v = k / np.linalg.norm(k), v / np.linalg.norm(v)
    q_kv = 0.0 if on_manifold else float(k @ v)
    return FullOrderParameters(float(k[0]), float(k[1]), float(v[0]), float(v[1]), 1.0, q_kv, 1.0)


class _SphereDescent(Follower):
    """Integrates ``(k̂, v̂, λ, bias)``; the solver's states need not have exact lengths."""

    accuracy = (1e-6, 1e-9)

    def __init__(
        self, landscape: Landscape, activation: Activation, report: Report | None, sphere: Sphere
    ) -> None:
        super().__init__(landscape, activation, report)
        self.sphere = sphere
        self.odd = isinstance(activation, Elementwise) and _is_odd(activation)

    def vectors(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        k, v = y[:SIZE], y[SIZE : 2 * SIZE]
        return float(y[-2]) * k / np.linalg.norm(k), v / np.linalg.norm(v)

    def gradient(self, y: FloatArray) -> FloatArray:
        """Return the gradient along the spheres, and in the bias if it is learned."""
        k, v = self.vectors(y)
        slope, length = self.slope(y), float(y[-2])
        along_k, along_v = length * slope.k, slope.v
        along_k = along_k - k * (k @ along_k) / length**2
        along_v = along_v - v * (v @ along_v)
        return np.concatenate([along_k, along_v, [slope.bias if self.learn_bias else 0.0]])

    def velocity(self, y: FloatArray) -> FloatArray:
        gradient = self.gradient(y)
        fall = self.sphere.decay * float(y[-2]) ** 2 / self.sphere.scale
        return np.concatenate([-gradient[:-1], [-fall, -gradient[-1]]])

    def ending(
        self, last: FloatArray, *, failed: bool, escaped: bool, rests: bool
    ) -> tuple[Status, str, Minimum | None]:
        """Return how the flow ended, and the kind of its last state."""
        if failed or escaped:
            return Status.FAILED, "none", None
        order = overlaps_of(*self.vectors(last))
        if self.odd and order.m_kk < 0.0:
            signs = {name: -getattr(order, name) for name in ("m_kk", "m_kv", "m_vk", "m_vv")}
            order = replace(order, **signs)
        return Status.CONVERGED if rests else Status.NOT_CONVERGED, str(kind_of(order)), None


def _is_odd(activation: Elementwise) -> bool:
    x = np.linspace(0.1, 3.0, 7)
    both = activation.phi.value(x), activation.phi.value(-x)
    return activation.bias == 0.0 and bool(np.allclose(both[0], -both[1], rtol=1e-9, atol=0.0))
