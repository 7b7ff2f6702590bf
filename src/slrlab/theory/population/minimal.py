r"""Population theory: the risk at given order parameters, and the least risk.

With infinite data the risk of ``f(X) = σ(χ)ᵀz`` on the manifold M is
``E = Δ² + 1 − 2 m_v A + q_v B`` (``A``, ``B``: `slrlab.theory.moments`); at the best ``v`` it is
``Δ² + 1 − A²/B``. This module optimises and estimates errors; it has no quadrature of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab import _checks
from slrlab._errors import ComputationError
from slrlab._plot import BAYES, axes_of, mark_of
from slrlab._result import Result, Status
from slrlab._types import FloatArray
from slrlab.model.activations import Activation, make_activation
from slrlab.model.order_parameters import OrderParameters
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.numerics.blas import one_blas_thread
from slrlab.theory.moments import AttentionMoments, attention_moments
from slrlab.theory.population.bayes_risk import bayes_risk
from slrlab.theory.population.limits import (
    exact_limit,
    longest_keys,
    single_token,
    softmax_limit,
)
from slrlab.theory.population.result import PopulationRisk as PopulationRisk
from slrlab.theory.population.result import population_risk, risk_from
from slrlab.theory.population.search import MomentsOf, best_keys

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_RESOLUTIONS = (1.0, 1.35, 1.9, 2.7)
_LONG = 8.0  # overlap from which the limit of infinitely long keys may be better


@one_blas_thread
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
        Relative accuracy of the noiseless risk.
    strict
        Raise `slrlab.ComputationError` instead of returning a failed status.

    Returns
    -------
    PopulationRisk
        The risk, its error, the Bayes risk, and the keys, values and bias that reach it.

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
    limit = exact_limit(task, chosen, bayes) or softmax_limit(task, chosen, bayes)
    if limit is not None:
        return limit
    if task.length.longest == 1:
        return single_token(task, chosen, bayes)
    limit, unexplained = None, math.nan
    if chosen.bias is not None:
        limit = longest_keys(task, chosen, bayes)
    if limit is not None:
        unexplained = (limit.risk - task.noise**2) / task.relevant_std**2
    search = best_keys(task, chosen, limit=unexplained)
    if limit is None and search.m_k >= _LONG:
        limit = longest_keys(task, search.activation, bayes)
    if limit is not None and (
        math.isinf(search.m_k) or limit.risk <= risk_from(task, search.edge_risk)
    ):
        return limit  # the risk still falls at the edge of the search, towards its limit
    try:
        moments, error, status = refined_moments(
            task, search.activation, search.m_k, 0.0, tolerance
        )
    except ComputationError:  # the best keys are too long for any grid
        if limit is None:
            raise
        return limit
    if limit is not None and limit.risk <= risk_from(task, moments.best_risk):
        return limit
    order = (search.m_k, moments.best_value_scale, 0.0, 0.0)
    excess = (risk_from(task, moments.best_risk) - bayes.risk) / task.relevant_std**2
    unfinished = search.status is Status.BOUNDARY and status is Status.SAMPLED
    if unfinished or (status is Status.CONVERGED and search.status is not Status.CONVERGED):
        beyond = search.remaining * moments.best_risk * moments.target**2 / moments.energy
        status, error = search.status, error + max(0.0, min(excess, beyond))
    if status is Status.SAMPLED:  # a sample below the Bayes risk is off by the difference or more
        error = max(error, -excess)
    risk = moments.best_risk
    result = population_risk(task, search.activation, bayes, order, moments, risk, error, status)
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

    Parameters
    ----------
    task
        The task.
    activation
        An activation with a definite bias.
    order
        The overlaps of keys and values with the teachers.
    tolerance
        Error asked of the risk.
    strict
        Whether to raise if the tolerance is not reached.

    Returns
    -------
    PopulationRisk
        The risk with its error and status, beside the Bayes risk.

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
        _checks.fail(f"bias of {chosen.name}", "a number at given order parameters", "free")
    if not isinstance(order, OrderParameters):
        _checks.fail("order", "OrderParameters(m_k, m_v)", order, TypeError)
    m_v, R_v = order.m_v, order.R_v
    moments, error, status = refined_moments(
        task, chosen, order.m_k, order.R_k, tolerance, lambda moments: moments.risk(m_v, R_v)
    )
    risk, at = moments.risk(m_v, R_v), (order.m_k, m_v, order.R_k, R_v)
    result = population_risk(task, chosen, bayes_risk(task), at, moments, risk, error, status)
    return result.require() if strict else result


def best_value(task: Task, activation: Activation | str, order: OrderParameters) -> float:
    """Return the ``m_v = A/B`` that is best for the keys of ``order``."""
    moments = attention_moments(task, make_activation(activation), order.m_k, order.R_k)
    return moments.best_value_scale


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

    Parameters
    ----------
    task, activation
        Task and attention.
    m_k
        Key overlaps at which the risk is computed.
    R_k
        Squared norm, per dimension, of the part of ``k`` orthogonal to ``k*``.

    Returns
    -------
    RiskProfile
        The risk at each key overlap.

    Examples
    --------
    >>> from slrlab import SpikedSLR, risk_profile
    >>> profile = risk_profile(SpikedSLR(signal=2.0, length=3), "softmax", [0.0, 1.0, 2.0])
    >>> profile.risk.round(4).tolist()
    [0.6667, 0.3595, 0.3577]
    """
    chosen = checked(task, activation, 1e-9)
    if chosen.bias is None:
        if math.isinf(task.signal):
            _checks.fail("bias", "a number at an infinite signal", f"free ({chosen.name})")
        chosen = chosen.with_bias(minimal_risk(task, chosen).bias)
    if isinstance(m_k, str):
        _checks.fail("m_k", "a sequence of finite numbers", m_k, TypeError)
    m_k = np.array([_checks.finite(m, "m_k") for m in np.asarray(m_k, dtype=float).tolist()])
    R_k = _checks.non_negative(R_k, "R_k")
    refined = (refined_moments(task, chosen, m, R_k, 1e-9) for m in m_k.tolist())
    moments, errors, statuses = zip(*refined, strict=True)
    return RiskProfile(
        status=Status.worst(statuses),
        m_k=m_k,
        risk=np.array([risk_from(task, row.best_risk) for row in moments]),
        error=np.array(errors),
        m_v=np.array([row.best_value_scale for row in moments]),
        bayes_risk=bayes_risk(task).risk,
        setting=Setting(task, chosen),
    )


def checked(task: Task, activation: Activation | str, tolerance: float) -> Activation:
    """Check the arguments that all public functions share; return the activation."""
    if not isinstance(task, Task):
        accepted = "a Task such as SpikedSLR(signal=2.0, length=3)"
        _checks.fail("task", accepted, task, TypeError)
    _checks.positive(tolerance, "tolerance")
    return make_activation(activation)


def refined_moments(
    task: Task,
    activation: Activation,
    m_k: float,
    R_k: float,
    tolerance: float,
    risk: Callable[[AttentionMoments], float] = lambda moments: moments.best_risk,
    moments_of: MomentsOf = attention_moments,
) -> tuple[AttentionMoments, float, Status]:
    """Refine until two successive grids agree; their difference is the error of the coarser."""
    last = moments_of(task, activation, m_k, R_k, resolution=_RESOLUTIONS[0])
    if last.sampled_error > 0.0:
        return last, last.sampled_error, Status.SAMPLED
    error = math.inf
    for resolution in _RESOLUTIONS[1:]:
        moments = moments_of(task, activation, m_k, R_k, resolution=resolution)
        if not (math.isfinite(moments.target) and math.isfinite(moments.unexplained)):
            return moments, math.nan, Status.FAILED
        value = risk(moments)
        error = abs(value - risk(last)) + moments.defect * value
        last = moments
        if moments.defect > 1e-7:  # A and 1 − A disagree: the integral in log t is wrong
            error += moments.defect
        elif error <= tolerance * value + 5e-14 * max(1.0, abs(value)):
            return moments, error, Status.CONVERGED
    # without geometric convergence the last difference alone is not a bound
    return last, 3.0 * error, Status.INACCURATE
