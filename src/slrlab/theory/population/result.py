"""The result of the population theory: a risk with the order parameters and moments behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slrlab._result import Result, Status, plain
from slrlab.model.activations import Activation
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.theory.moments import AttentionMoments
from slrlab.theory.population.bayes_risk import BayesRisk


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
        ``E[σ_ε]`` and ``E Σ σ_ℓ²`` there. Where the relevant token has its own variance ``γ²``
        (`slrlab.MarionSLR`), the squares of the other tokens count ``1/γ²`` in ``B``.
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

    @property
    def scaled_weight(self) -> float:
        """``m_v A``: mean factor with which the value of the relevant token is read."""
        return self.m_v * self.A

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the excess risk as JSON-ready values."""
        return super().to_dict() | {"excess": plain(self.excess)}

    def __str__(self) -> str:
        return (
            f"{self.setting}: risk {self.risk:.10g} (Bayes {self.bayes_risk:.10g}), {self.status}"
        )


def risk_from(task: Task, fraction: float) -> float:
    """Return the risk that leaves a fraction of the variance of ``z*_ε`` unexplained."""
    return task.relevant_std**2 * fraction + task.noise**2


def population_risk(
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
    """Return the result at ``order = (m_k, m_v, R_k, R_v)``.

    ``risk`` and ``error`` are without noise, in units of the variance of ``z*_ε``.
    """
    m_k, m_v, R_k, R_v = order
    return PopulationRisk(
        status=status,
        risk=risk_from(task, risk),
        bayes_risk=bayes.risk,
        m_k=m_k,
        m_v=m_v,
        A=moments.target * moments.unit,
        B=moments.energy * moments.unit * moments.unit,
        error=task.relevant_std**2 * error,
        bias=bias if bias is not None else float(activation.bias or 0.0),
        R_k=R_k,
        R_v=R_v,
        setting=Setting(task, activation),
    )
