r"""Population theory: Bayes risk, the risk at given order parameters, and the best risk.

With infinite data the risk of ``f(X) = σ(χ)ᵀz`` on the manifold M is
``E = Δ² + 1 − 2 m_v A + q_v B`` (``A``, ``B``: `slrlab.theory.moments`); at the best ``v`` it is
``Δ² + 1 − A²/B``. This module optimises and estimates errors; it holds no quadrature of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from slrlab import _checks
from slrlab._plot import BAYES, axes_of, mark_of
from slrlab._result import Result, Status, plain
from slrlab._types import FloatArray
from slrlab.model.activations import Activation, Elementwise, Projection, make_activation
from slrlab.model.order_parameters import OrderParameters
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task, TiltedTask
from slrlab.theory.moments import AttentionMoments, attention_moments
from slrlab.theory.population.bayes_risk import BayesRisk, bayes_risk
from slrlab.theory.population.search import best_keys

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_LEVELS = (1.0, 1.35, 1.9, 2.7)


@dataclass(frozen=True)
class PopulationRisk(Result):
    """Risk of one activation with infinite data.

    Attributes
    ----------
    risk
        Mean squared error, label noise included.
    bayes_risk
        The least risk of any predictor for this task.
    m_k, m_v, R_k, R_v
        Order parameters of the predictor (``inf``: the optimum is a limit).
    A, B
        ``E[σ_ε]`` and ``E Σ σ_ℓ²`` there.
    bias
        Bias of the activation, given or optimised.
    error
        Estimate of the numerical error of ``risk`` (sampled activations: a standard error).
    """

    risk: float
    bayes_risk: float
    m_k: float
    m_v: float
    A: float
    B: float
    error: float
    bias: float
    R_k: float
    R_v: float
    setting: Setting

    _sharing_error: ClassVar[tuple[str, ...]] = ("risk", "excess")

    @property
    def excess(self) -> float:
        """Risk above the Bayes risk."""
        return self.risk - self.bayes_risk

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the excess risk as JSON-ready values."""
        return super().to_dict() | {"excess": plain(self.excess)}

    def __str__(self) -> str:
        return (
            f"{self.setting}: risk {self.risk:.10g} (Bayes {self.bayes_risk:.10g}), {self.status}"
        )


def minimal_risk(
    task: Task, activation: Activation | str, *, tolerance: float = 1e-9, strict: bool = False
) -> PopulationRisk:
    r"""Return the least risk of an activation over all keys and values on M.

    ``E_σ = Δ² + 1 − max_k A²/B`` with ``R_k = R_v = 0`` at the optimum; a free bias is optimised
    along with ``m_k``. With a random length, ``A`` and ``B`` are averaged before the ratio: one
    ``(k, v)`` serves all lengths.

    Parameters
    ----------
    task
        The task, with its signal, length law and noise.
    activation
        An activation, its name, or an expression in ``x``.
    tolerance
        Relative accuracy asked of the noiseless risk.
    strict
        Raise `slrlab.ComputationError` instead of returning a failed status.

    Raises
    ------
    ValueError
        If the name of the activation is unknown.

    Examples
    --------
    >>> from slrlab import SpikedSLR, minimal_risk
    >>> result = minimal_risk(SpikedSLR(signal=2.0, length=3), "softmax")
    >>> print(f"{result.risk:.10f} at m_k = {result.m_k:.6f}")
    0.3524232689 at m_k = 1.414214
    """
    chosen = checked(task, activation, tolerance).without_idle_bias()
    bayes = bayes_risk(task)
    limit = _exact_limit(task, chosen, bayes)
    if limit is not None:
        return limit
    if task.length.longest == 1:
        return _single_token(task, chosen, bayes)
    search = best_keys(task, chosen)
    m_k, found = search.m_k, search.activation
    moments, error, status = _refined(partial(_moments_at, task, found, (m_k, 0.0)), tolerance)
    order = (m_k, moments.best_value_scale, 0.0, 0.0)
    gap = task.noise**2 + moments.best_risk - bayes.risk
    unfinished = search.status is Status.BOUNDARY and status is Status.SAMPLED
    if unfinished or (status is Status.CONVERGED and search.status is not Status.CONVERGED):
        beyond = search.remaining * moments.best_risk * moments.target**2 / moments.energy
        status, error = search.status, error + max(0.0, min(gap, beyond))
    if status is Status.SAMPLED:  # a sample below the Bayes risk is off by the difference or more
        error = max(error, -gap)
    result = _result(task, found, bayes, order, moments, moments.best_risk, error, status)
    return result.require() if strict else result


def risk_at(
    task: Task,
    activation: Activation | str,
    order: OrderParameters,
    *,
    tolerance: float = 1e-9,
    strict: bool = False,
) -> PopulationRisk:
    """Return the risk of the predictor with given order parameters on M.

    Raises
    ------
    ValueError
        If the bias of the activation is free: a point of M needs a definite activation.

    Examples
    --------
    >>> from slrlab import MaxSLR, OrderParameters, risk_at
    >>> result = risk_at(MaxSLR(signal=2.0, length=3), "softmax", OrderParameters(2.0, 1.0))
    >>> abs(result.risk - result.bayes_risk) < 1e-12
    True
    """
    chosen = checked(task, activation, tolerance)
    if chosen.bias is None:
        raise ValueError(
            f"bias of {chosen.name} must be a number at given order parameters, got free"
        )
    if not isinstance(order, OrderParameters):
        raise TypeError(f"order must be OrderParameters(m_k, m_v), got {order!r}")
    moments, error, status = _refined(
        partial(_moments_at, task, chosen, (order.m_k, order.R_k)),
        tolerance,
        risk=lambda found: found.risk(order.m_v, order.R_v),
    )
    risk = moments.risk(order.m_v, order.R_v)
    at = (order.m_k, order.m_v, order.R_k, order.R_v)
    result = _result(task, chosen, bayes_risk(task), at, moments, risk, error, status)
    return result.require() if strict else result


def best_value(task: Task, activation: Activation | str, order: OrderParameters) -> float:
    """Return the ``m_v = A/B`` that is best for the keys of ``order``."""
    chosen = make_activation(activation)
    return attention_moments(task, chosen, order.m_k, order.R_k).best_value_scale


@dataclass(frozen=True)
class RiskProfile(Result):
    """Risk against the key overlap ``m_k``, values optimised for each."""

    m_k: FloatArray
    risk: FloatArray
    error: FloatArray
    m_v: FloatArray
    bayes_risk: float
    setting: Setting

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each ``m_k``."""
        import pandas as pd

        columns = {"m_k": self.m_k, "risk": self.risk, "error": self.error, "m_v": self.m_v}
        return pd.DataFrame(columns)

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Draw the risk against ``m_k`` with the Bayes risk as a line below."""
        axes = axes_of(ax)
        mark = mark_of(self.setting.activation_name)
        axes.plot(self.m_k, self.risk, **mark.line(marker="", **style))
        axes.axhline(self.bayes_risk, **BAYES.line(linestyle=":"))
        axes.set(xlabel="key overlap $m_k$", ylabel="risk at the best $v$")
        axes.legend()
        return axes


def risk_profile(
    task: Task, activation: Activation | str, m_k: Sequence[float] | FloatArray, *, R_k: float = 0.0
) -> RiskProfile:
    """Return the risk as a function of ``m_k`` at fixed ``R_k``, with the best ``v`` for each.

    >>> from slrlab import SpikedSLR, risk_profile
    >>> profile = risk_profile(SpikedSLR(signal=2.0, length=3), "softmax", [0.0, 1.0, 2.0])
    >>> profile.risk.round(4).tolist()
    [0.6667, 0.3595, 0.3577]
    """
    chosen = checked(task, activation, 1e-9)
    if chosen.bias is None:
        if math.isinf(task.signal):
            raise ValueError(
                f"bias must be a number at an infinite signal, got free ({chosen.name})"
            )
        chosen = chosen.with_bias(minimal_risk(task, chosen).bias)
    if isinstance(m_k, str):
        raise TypeError(f"m_k must be a sequence of finite numbers, got {m_k!r}")
    scales = [_checks.finite(m, "m_k") for m in np.asarray(m_k, dtype=float).tolist()]
    R_k = _checks.non_negative(R_k, "R_k")
    found = [_refined(partial(_moments_at, task, chosen, (m, R_k)), tolerance=1e-9) for m in scales]
    return RiskProfile(
        status=Status.worst(status for _, _, status in found),
        m_k=np.array(scales),
        risk=np.array([task.noise**2 + moments.best_risk for moments, _, _ in found]),
        error=np.array([error for _, error, _ in found]),
        m_v=np.array([moments.best_value_scale for moments, _, _ in found]),
        bayes_risk=bayes_risk(task).risk,
        setting=Setting(task, chosen),
    )


def _moments_at(
    task: Task, activation: Activation, keys: tuple[float, float], level: float
) -> AttentionMoments:
    return attention_moments(task, activation, *keys, resolution=level)


def checked(task: Task, activation: Activation | str, tolerance: float) -> Activation:
    """Validate what every public function takes and return the activation."""
    if not isinstance(task, Task):
        raise TypeError(
            f"task must be a Task such as SpikedSLR(signal=2.0, length=3), got {task!r}"
        )
    _checks.positive(tolerance, "tolerance")
    return make_activation(activation)


def _exact_limit(task: Task, activation: Activation, bayes: BayesRisk) -> PopulationRisk | None:
    """Return the exact result where an infinite signal makes the optimum a limit.

    ``A`` and ``B`` are then quoted with the weights scaled so that the relevant one is 1.
    """
    certain = AttentionMoments(1.0, 0.0, 0.0)
    scale = task.posterior_scale
    if task.length.longest == 1 and not math.isinf(task.signal):
        return None
    if not math.isinf(task.signal) and bayes.status is Status.LIMIT and activation.is_softmax:
        # the Bayes risk is below the smallest double, and softmax has it
        order = (scale if scale is not None else math.inf, 1.0, 0.0, 0.0)
        return _result(task, activation, bayes, order, certain, 0.0, 0.0, Status.LIMIT)
    if not _separates(task, activation):
        return None
    fixed = activation if activation.bias is not None else activation.with_bias(0.0)
    bias = -math.inf if activation.bias is None else activation.bias
    order = (math.inf, 1.0, 0.0, 0.0)
    return _result(task, fixed, bayes, order, certain, 0.0, 0.0, Status.LIMIT, bias=bias)


def _separates(task: Task, activation: Activation) -> bool:
    """Return whether steep enough keys have a risk of 0, or below the smallest double."""
    if math.isinf(task.signal):
        posterior = activation.is_softmax and task.posterior_scale == math.inf
        return posterior or (isinstance(task, TiltedTask) and activation.unbounded_contrast)
    if task.gaussian_shift is None:
        return False
    log_length, square = math.log(task.length.mean), task.gaussian_shift**2
    if isinstance(activation, Projection):  # the argmax: (L̄ − 1) Φ(−√(ν/2)) misses
        return log_length - square / 4.0 < -746.0
    # a step at √ν/2: L̄ Φ(−√ν/2) misses and false alarms
    bounded = isinstance(activation, Elementwise) and activation.bias is None
    return bounded and activation.unbounded_contrast and log_length - square / 8.0 < -746.0


def _single_token(task: Task, activation: Activation, bayes: BayesRisk) -> PopulationRisk:
    """Return the result for sequences of one token: constant weights lose nothing."""
    fixed = activation.with_bias(activation.bias or 0.0)
    weight = float(fixed.weights(np.zeros((1, 1)))[0, 0])
    moments = AttentionMoments(weight, 1.0 - weight, 0.0)
    order = (0.0, moments.best_value_scale, 0.0, 0.0)
    return _result(task, fixed, bayes, order, moments, 0.0, 0.0, Status.CONVERGED)


def _refined(
    compute: Callable[[float], AttentionMoments],
    tolerance: float,
    risk: Callable[[AttentionMoments], float] = lambda found: found.best_risk,
) -> tuple[AttentionMoments, float, Status]:
    """Refine until two successive grids agree; their difference is the error of the coarser."""
    last = compute(_LEVELS[0])
    if last.sampled_error > 0.0:
        return last, last.sampled_error, Status.SAMPLED
    error = math.inf
    for level in _LEVELS[1:]:
        found = compute(level)
        if not (math.isfinite(found.target) and math.isfinite(found.unexplained)):
            return found, math.nan, Status.FAILED
        rounding = 5e-14 * max(1.0, abs(risk(found)))
        error = abs(risk(found) - risk(last)) + found.defect * risk(found)
        last = found
        if found.defect > 1e-7:  # A and 1 − A disagree: the integral in log t went wrong
            error += found.defect
        elif error <= tolerance * risk(found) + rounding:
            return found, error, Status.CONVERGED
    # without geometric convergence the last difference alone is no bound
    return last, 3.0 * error, Status.INACCURATE


def _result(
    task: Task,
    activation: Activation,
    bayes: BayesRisk,
    order: tuple[float, float, float, float],
    moments: AttentionMoments,
    risk: float,
    error: float,
    status: Status,
    bias: float | None = None,
) -> PopulationRisk:
    m_k, m_v, R_k, R_v = order
    return PopulationRisk(
        status=status,
        risk=task.noise**2 + risk,
        bayes_risk=bayes.risk,
        m_k=m_k,
        m_v=m_v,
        A=moments.target * moments.unit,
        B=moments.energy * moments.unit * moments.unit,
        error=error,
        bias=bias if bias is not None else float(activation.bias or 0.0),
        R_k=R_k,
        R_v=R_v,
        setting=Setting(task, activation),
    )
