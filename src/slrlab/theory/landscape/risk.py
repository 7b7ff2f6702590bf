r"""Risk and gradient of a predictor at any point of the effective problem in R⁴.

As ``D → ∞`` the risk depends on ``(k, v)`` through seven overlaps only, so that gradient descent in
``R^D`` is one of vectors of R⁴ on the basis ``(k*, v*, two free directions)``. Elementwise and
normalised activations are integrated (`slrlab.theory.landscape.moments`), the others sampled.
Independent of flows and searches.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy as np

from slrlab import _checks
from slrlab._result import Result, Status
from slrlab._types import FloatArray
from slrlab.model.activations import Activation, Elementwise, Normalised
from slrlab.model.order_parameters import FullOrderParameters
from slrlab.model.setting import Setting
from slrlab.model.tasks import SelectionTask, Task
from slrlab.model.traits import jumps
from slrlab.theory.landscape.moments import LandscapeMoments, landscape_moments
from slrlab.theory.landscape.sampled import SampledLandscape, sampled_slope
from slrlab.theory.landscape.slope import SIZE as SIZE
from slrlab.theory.landscape.slope import Slope
from slrlab.theory.population.minimal import checked

Point: TypeAlias = FullOrderParameters | Sequence[Sequence[float] | FloatArray]
_RESOLUTIONS = (0.8, 1.0, 1.35, 1.9)
SAMPLES = 1 << 16  # samples for the risk of a projection
_MOST_TILT = 1e4  # signal beyond which the risk is lost to rounding
_MOST_SELECTION = 100.0  # signal beyond which a point takes gigabytes, unless it is infinite


class Landscape(Protocol):
    """Risk and gradient as functions of ``k``, ``v`` and the bias.

    ``smooth`` says whether the gradient is smooth; that of a sample of projections has small jumps.
    """

    @property
    def smooth(self) -> bool: ...

    def __call__(self, k: FloatArray, v: FloatArray, bias: float) -> Slope: ...

    def at_best_values(self, k: FloatArray, bias: float) -> tuple[FloatArray, Slope]:
        """Return the ``v`` of least risk for given keys, and the slope there."""


class MomentLandscape(ABC):
    """A landscape given by its moments, functions of ``m_kk`` and ``q_kk − m_kk²``."""

    smooth: ClassVar[bool] = True

    @property
    @abstractmethod
    def trivial_risk(self) -> float:
        """Risk of the prediction 0."""

    @abstractmethod
    def moments(self, k: FloatArray, bias: float) -> LandscapeMoments:
        """Return the moments at given keys."""

    def __call__(self, k: FloatArray, v: FloatArray, bias: float) -> Slope:
        if not np.isfinite([*k, *v, bias]).all():
            return Slope.of(np.full(2 * SIZE + 2, math.nan))
        return assemble(self.trivial_risk, self.moments(k, bias), k, v)

    def at_best_values(self, k: FloatArray, bias: float) -> tuple[FloatArray, Slope]:
        moments = self.moments(k, bias)
        v = best_values(moments, k)
        return v, assemble(self.trivial_risk, moments, k, v)


@dataclass(frozen=True)
class QuadratureLandscape(MomentLandscape):
    """The landscape of an elementwise or normalised activation, by quadrature."""

    task: Task
    activation: Activation
    resolution: float

    @property
    def trivial_risk(self) -> float:
        return self.task.trivial_risk

    def moments(self, k: FloatArray, bias: float) -> LandscapeMoments:
        here = self.activation.with_bias(bias)
        S = float(k[1:] @ k[1:])
        return landscape_moments(self.task, here, float(k[0]), S, resolution=self.resolution)


@dataclass(frozen=True)
class RiskGradient(Result):
    """Risk and gradient at a point of the effective problem.

    Attributes
    ----------
    risk, error
        Mean squared error, label noise included, and an estimate of its numerical error
        (sampled activations: a standard error).
    gradient_k, gradient_v, bias_gradient
        ``∂E/∂k`` and ``∂E/∂v`` in R⁴ on the basis (k*, v*, two free directions), and ``∂E/∂bias``.
    gradient_error
        Error of the gradient: the largest of its entries.
    order, bias
        Overlaps and bias of the point.
    """

    risk: float
    error: float
    gradient_k: FloatArray
    gradient_v: FloatArray
    bias_gradient: float
    gradient_error: float
    order: FullOrderParameters
    bias: float
    setting: Setting

    @property
    def gradient_norm(self) -> float:
        """Length of the gradient in ``(k, v)``."""
        return float(np.hypot(np.linalg.norm(self.gradient_k), np.linalg.norm(self.gradient_v)))


def risk_and_gradient(
    task: Task,
    activation: Activation | str,
    point: Point,
    *,
    bias: float | None = None,
    tolerance: float = 1e-9,
    seed: int = 0,
    strict: bool = False,
) -> RiskGradient:
    r"""Return risk and gradient at any order parameters, on the manifold M or off it.

    On M the risk is that of `slrlab.risk_at`.

    Parameters
    ----------
    task, activation
        Task and attention.
    point
        Overlaps, or a pair ``(k, v)`` of vectors in R⁴ on the basis (k*, v*, two free directions).
    bias
        Bias of the scores; None for the activation's own, 0 if that is free.
    tolerance
        Accuracy of risk and gradient; if they are sampled, of the risk alone, 1e-4 or more.
    seed
        Seed of the sample of a projection.
    strict
        Raise `slrlab.ComputationError` if the accuracy is not reached.

    Returns
    -------
    RiskGradient
        Risk and gradient, with errors, and the overlaps of the point.

    Raises
    ------
    ValueError
        If no vectors belong to the point, or the signal is infinite and shifts the relevant token.

    Examples
    --------
    >>> from slrlab import SpikedSLR, risk_and_gradient
    >>> here = risk_and_gradient(SpikedSLR(2.0, 3), "softmax", ([2**0.5, 0, 0, 0], [0, 1, 0, 0]))
    >>> print(f"{here.risk:.10f}, gradient below 1e-9: {here.gradient_norm < 1e-9}")
    0.3524232689, gradient below 1e-9: True
    """
    chosen = checked(task, activation, tolerance)
    k, v = read_point(point)
    bias = start_bias(chosen, bias)
    if is_sampled(chosen):
        slope, errors, status = sampled_slope(task, chosen, (k, v, bias), tolerance, seed)
    else:
        slope, errors, status = _refined(task, chosen, (k, v, bias), tolerance)
    result = RiskGradient(
        status=status,
        risk=slope.risk,
        error=float(errors[0]),
        gradient_k=slope.k,
        gradient_v=slope.v,
        bias_gradient=slope.bias,
        gradient_error=float(errors[1:].max()),
        order=overlaps_of(k, v),
        bias=bias,
        setting=Setting(task, chosen),
    )
    return result.require() if strict else result


def _refined(
    task: Task,
    activation: Activation,
    point: tuple[FloatArray, FloatArray, float],
    tolerance: float,
) -> tuple[Slope, FloatArray, Status]:
    """Return risk and gradient, the error of each number, and a status.

    Grids are refined until two agree; their difference is the error of the coarser.
    """
    last = make_landscape(task, activation, resolution=_RESOLUTIONS[0])(*point)
    for resolution in _RESOLUTIONS[1:]:
        slope = make_landscape(task, activation, resolution=resolution)(*point)
        if not slope.finite:
            return slope, np.full(2 * SIZE + 2, math.nan), Status.FAILED
        errors = np.abs(slope.row - last.row)
        last = slope
        scale = 1.0 + float(np.abs(slope.gradient(learn_bias=False)).max())
        if errors[0] <= tolerance and errors[1:].max() <= tolerance * scale:
            return slope, errors, Status.CONVERGED
    return last, 3.0 * errors, Status.INACCURATE


def is_sampled(activation: Activation) -> bool:
    """Return whether the landscape is an average over a sample, not an integral."""
    return not isinstance(activation, Elementwise | Normalised)


def make_landscape(
    task: Task,
    activation: Activation,
    *,
    resolution: float = 0.8,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Landscape:
    """Return the landscape of a task and an activation.

    ``resolution`` 0.8 gives about 7 digits, 1.0 about 12; ``samples`` and ``seed`` are those of a
    projection.

    Raises
    ------
    ValueError
        If the signal is too large, or weights that are sampled jump.
    """
    most = _MOST_SELECTION if (selects := isinstance(task, SelectionTask)) else _MOST_TILT
    if task.signal > most and (math.isfinite(task.signal) or not selects):
        accepted = f"at most {most:g} for the landscape of task {task.name}"
        _checks.fail("signal", accepted, f"{task.signal:g}")
    if is_sampled(activation):
        if jumps(activation):
            accepted = "without jumps (where the last positive score vanishes) to be sampled"
            _checks.fail("activation", accepted, activation.name)
        return SampledLandscape.draw(task, activation, samples=samples, seed=seed)
    return QuadratureLandscape(task, activation, resolution)


def assemble(trivial: float, moments: LandscapeMoments, k: FloatArray, v: FloatArray) -> Slope:
    """Return the risk, which is quadratic in ``v``, and its gradient."""
    m_kv, m_vk, m_vv = float(k[1]), float(v[0]), float(v[1])
    g, rest = float(k[1:] @ v[1:]), float(v[1:] @ v[1:])
    A, B, P, Q, X, Y, U = moments
    # value and derivatives in m, S and the bias, at fixed v and k beyond k*
    total = -2.0 * m_vv * A + rest * B - 2.0 * m_kv * m_vk * P + m_vk**2 * X
    total = total + 2.0 * m_vk * g * Y - 2.0 * m_kv * g * Q + g**2 * U
    risk, in_m, in_S, in_bias = (float(part) for part in total)
    cross = 2.0 * (m_vk * Y[0] - m_kv * Q[0] + g * U[0])
    along_k = np.concatenate([[in_m], 2.0 * in_S * k[1:] + cross * v[1:]])
    along_k[1] -= 2.0 * (m_vk * P[0] + g * Q[0])
    in_m_vk = 2.0 * (m_vk * X[0] - m_kv * P[0] + g * Y[0])
    along_v = np.concatenate([[in_m_vk], 2.0 * B[0] * v[1:] + cross * k[1:]])
    along_v[1] -= 2.0 * A[0]
    return Slope(trivial + risk, along_k, along_v, in_bias)


def best_values(moments: LandscapeMoments, k: FloatArray) -> FloatArray:
    """Return the ``v`` of least risk for given ``k``: the risk is a quadratic function of it."""
    A, B, P, Q, X, Y, U = (float(moment[0]) for moment in moments)
    beyond = np.concatenate([[0.0], k[1:]])
    matrix = B * np.eye(k.size) + U * np.outer(beyond, beyond)
    matrix[0] = matrix[:, 0] = Y * beyond
    matrix[0, 0] = X
    target = k[1] * Q * beyond
    target[0], target[1] = k[1] * P, target[1] + A
    return np.asarray(np.linalg.lstsq(matrix, target, rcond=1e-14)[0])


def read_point(point: Point, name: str = "point") -> tuple[FloatArray, FloatArray]:
    """Return checked vectors of R⁴.

    Raises
    ------
    ValueError
        If a vector has the wrong shape or a number that is not finite.
    """
    if isinstance(point, FullOrderParameters):
        return point.vectors()
    try:
        k, v = (np.array(vector, dtype=float) for vector in point)
    except (TypeError, ValueError):
        _checks.fail(name, "FullOrderParameters or two vectors (k, v) of R⁴", point)
    if k.shape != (SIZE,) or v.shape != (SIZE,):
        shapes = f"shapes {k.shape} and {v.shape}"
        raise ValueError(f"{name} must have vectors of shape ({SIZE},), got {shapes}")
    if not (np.isfinite(k).all() and np.isfinite(v).all()):
        raise ValueError(f"{name} must hold finite numbers only, got nan or inf")
    return k, v


def start_bias(activation: Activation, bias: float | None) -> float:
    """Return the bias at a point: the one given, else the activation's own, else 0."""
    if bias is not None:
        return _checks.finite(bias, "bias")
    return 0.0 if activation.bias is None else activation.bias


def overlaps_of(k: FloatArray, v: FloatArray) -> FullOrderParameters:
    """Return the overlaps of vectors of R⁴, whose basis is orthonormal."""
    return FullOrderParameters(*(float(x) for x in (k[0], k[1], v[0], v[1], k @ k, k @ v, v @ v)))
