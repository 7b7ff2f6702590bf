r"""Risk and gradient of a predictor at any point of the effective problem in R⁴.

As ``D → ∞`` the risk depends on ``(k, v)`` through seven overlaps only, so gradient descent in
``R^D`` closes on vectors of R⁴ on the basis ``(k*, v*, two free directions)``. Elementwise and
normalised activations are integrated (`slrlab.theory.landscape.moments`), projections sampled.
This module evaluates; it must not know what flows or searches do with it.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy as np

from slrlab import _checks
from slrlab._result import Result, Status
from slrlab._types import FloatArray
from slrlab.model.activations import Activation, Projection
from slrlab.model.order_parameters import FullOrderParameters
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task, TiltedTask
from slrlab.theory.landscape.moments import NAMES, LandscapeMoments, landscape_moments
from slrlab.theory.population.minimal import checked

SIZE = 4  # dimension of the effective problem
Point: TypeAlias = FullOrderParameters | Sequence[Sequence[float] | FloatArray]
_LEVELS = (0.8, 1.0, 1.35, 1.9)
_MOST_TILT = 1e4  # signal beyond which rounding hides the risk
_MOST_SELECTION = 100.0  # and beyond which a point takes gigabytes; an infinite one does not


@dataclass(frozen=True)
class Slope:
    """Risk at a point of the effective problem and its gradient in ``k``, ``v`` and the bias."""

    risk: float
    k: FloatArray
    v: FloatArray
    bias: float

    @property
    def finite(self) -> bool:
        """Whether all of it is a number."""
        whole = (self.risk, *self.k, *self.v, self.bias)
        return bool(np.isfinite(whole).all())


class Landscape(Protocol):
    """Risk and gradient as functions of ``k``, ``v`` and the bias.

    ``smooth`` says that the gradient has derivatives at every scale; that of a sample of
    projections has small jumps.
    """

    @property
    def smooth(self) -> bool: ...

    def __call__(self, k: FloatArray, v: FloatArray, bias: float) -> Slope: ...

    def at_best_values(self, k: FloatArray, bias: float) -> tuple[FloatArray, Slope]:
        """Return the ``v`` of least risk for given keys, and the slope there."""


@dataclass(frozen=True)
class QuadratureLandscape:
    """The landscape of an elementwise or normalised activation, by quadrature."""

    task: Task
    activation: Activation
    resolution: float
    smooth: ClassVar[bool] = True

    def __call__(self, k: FloatArray, v: FloatArray, bias: float) -> Slope:
        if not np.isfinite([*k, *v, bias]).all():
            nan = np.full(k.size, math.nan)
            return Slope(math.nan, nan, nan, math.nan)
        return assemble(self.task.trivial_risk, self.moments(k, bias), k, v)

    def at_best_values(self, k: FloatArray, bias: float) -> tuple[FloatArray, Slope]:
        moments = self.moments(k, bias)
        v = best_values(moments, k)
        return v, assemble(self.task.trivial_risk, moments, k, v)

    def moments(self, k: FloatArray, bias: float) -> LandscapeMoments:
        """Return the functions of ``m_kk`` and ``q_kk − m_kk²`` at given keys."""
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
        What is learned, and by which attention.
    point
        Overlaps, or a pair ``(k, v)`` of vectors in R⁴ on the basis (k*, v*, two free directions).
    bias
        Bias of the scores; None for the activation's own, 0 if that is free.
    tolerance
        Accuracy asked of risk and gradient (of the risk alone where it is sampled, which stops at
        1e-4 or so).
    seed
        Seed of the sample of a projection.
    strict
        Raise `slrlab.ComputationError` instead of returning a failed status.

    Raises
    ------
    ValueError
        If the point is no point of the problem, or an infinite signal shifts the relevant token.

    Examples
    --------
    >>> from slrlab import SpikedSLR, risk_and_gradient
    >>> here = risk_and_gradient(SpikedSLR(2.0, 3), "softmax", ([2**0.5, 0, 0, 0], [0, 1, 0, 0]))
    >>> print(f"{here.risk:.10f}, gradient below 1e-9: {here.gradient_norm < 1e-9}")
    0.3524232689, gradient below 1e-9: True
    """
    chosen = checked(task, activation, tolerance)
    k, v = read_point(point)
    where = start_bias(chosen, bias)
    if isinstance(chosen, Projection):
        from slrlab.theory.landscape.sampled import sampled_slope

        found, error, slack, status = sampled_slope(task, chosen, (k, v, where), tolerance, seed)
    else:
        found, error, slack, status = _refined(task, chosen, (k, v, where), tolerance)
    result = RiskGradient(
        status=status,
        risk=found.risk,
        error=error,
        gradient_k=found.k,
        gradient_v=found.v,
        bias_gradient=found.bias,
        gradient_error=slack,
        order=overlaps_of(k, v),
        bias=where,
        setting=Setting(task, chosen),
    )
    return result.require() if strict else result


def _refined(
    task: Task,
    activation: Activation,
    point: tuple[FloatArray, FloatArray, float],
    tolerance: float,
) -> tuple[Slope, float, float, Status]:
    """Refine until two successive grids agree; their difference is the error of the coarser."""
    last = make_landscape(task, activation, resolution=_LEVELS[0])(*point)
    error = slack = math.inf
    for level in _LEVELS[1:]:
        found = make_landscape(task, activation, resolution=level)(*point)
        if not found.finite:
            return found, math.nan, math.nan, Status.FAILED
        error = abs(found.risk - last.risk)
        steps = (found.k - last.k, found.v - last.v, found.bias - last.bias)
        slack = max(float(np.abs(step).max()) for step in steps)
        last = found
        scale = 1.0 + max(float(np.abs(found.k).max()), float(np.abs(found.v).max()))
        if error <= tolerance and slack <= tolerance * scale:
            return found, error, slack, Status.CONVERGED
    return last, 3.0 * error, 3.0 * slack, Status.INACCURATE


def make_landscape(
    task: Task,
    activation: Activation,
    *,
    resolution: float = 0.8,
    samples: int = 1 << 16,
    seed: int = 0,
) -> Landscape:
    """Return what gives risk and gradient at ``(k, v, bias)``.

    ``resolution`` 0.8 gives about 7 digits, 1.0 about 12; ``samples`` and ``seed`` are those of a
    projection.

    Raises
    ------
    ValueError
        If the signal is so large that rounding (or, for a selection, the grid) leaves no risk.
    """
    tilted = isinstance(task, TiltedTask)
    most = _MOST_TILT if tilted else _MOST_SELECTION
    if task.signal > most and (tilted or math.isfinite(task.signal)):
        raise ValueError(
            f"signal must be at most {most:g} for the landscape of task {task.name}, "
            f"got {task.signal:g}"
        )
    if isinstance(activation, Projection):
        from slrlab.theory.landscape.sampled import SampledLandscape

        return SampledLandscape.draw(task, activation, samples=samples, seed=seed)
    return QuadratureLandscape(task, activation, resolution)


def assemble(trivial: float, moments: LandscapeMoments, k: FloatArray, v: FloatArray) -> Slope:
    """Return the risk, which is quadratic in ``v``, and its gradient."""
    m_kv, m_vk, m_vv = float(k[1]), float(v[0]), float(v[1])
    g, rest = float(k[1:] @ v[1:]), float(v[1:] @ v[1:])
    A, B, P, Q, X, Y, U = (getattr(moments, name) for name in NAMES)
    # value and derivatives in m, S and the bias, at fixed v and k beyond k*
    total = -2.0 * m_vv * A + rest * B - 2.0 * m_kv * m_vk * P + m_vk**2 * X
    total = total + 2.0 * m_vk * g * Y - 2.0 * m_kv * g * Q + g**2 * U
    cross = 2.0 * (m_vk * Y[0] - m_kv * Q[0] + g * U[0])
    along_k = np.concatenate([[total[1]], 2.0 * total[2] * k[1:] + cross * v[1:]])
    along_k[1] -= 2.0 * (m_vk * P[0] + g * Q[0])
    along_v = np.concatenate(
        [[2.0 * (m_vk * X[0] - m_kv * P[0] + g * Y[0])], 2.0 * B[0] * v[1:] + cross * k[1:]]
    )
    along_v[1] -= 2.0 * A[0]
    return Slope(trivial + float(total[0]), along_k, along_v, float(total[3]))


def best_values(moments: LandscapeMoments, k: FloatArray) -> FloatArray:
    """Return the ``v`` of least risk for given ``k``: the risk is a quadratic function of it."""
    size = k.size
    A, B, P, Q, X, Y, U = (float(getattr(moments, name)[0]) for name in NAMES)
    beyond = np.array(k)
    beyond[0] = 0.0
    matrix = B * np.eye(size) + U * np.outer(beyond, beyond)
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
        raise ValueError(
            f"{name} must be FullOrderParameters or two vectors (k, v) of R⁴, got {point!r}"
        ) from None
    if k.shape != (SIZE,) or v.shape != (SIZE,):
        raise ValueError(
            f"{name} must have vectors of shape ({SIZE},), got shapes {k.shape} and {v.shape}"
        )
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
