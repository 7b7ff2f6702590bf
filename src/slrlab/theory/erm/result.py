"""Results of the theory of trained attention."""

from __future__ import annotations

from dataclasses import dataclass, field

from slrlab._result import Estimate, Result, TrainedRisk
from slrlab.model.setting import Setting


@dataclass(frozen=True)
class ErmBranch(Result):
    """One fixed point of state evolution on a small sample.

    Attributes
    ----------
    branch
        The start that led there: informed, uninformed, mismatched or continued.
    """

    branch: str
    test_risk: float
    objective: float
    m_k: float
    m_v: float


@dataclass(frozen=True)
class ErmTheory(TrainedRisk):
    """Trained attention in the limit ``N, D → ∞`` at fixed ``α = N/D``.

    Attributes
    ----------
    test_risk, test_risk_error
        Risk on new data, label noise included, and its standard error. At the best ridge the
        error includes what the search may have missed.
    test_risk_low, test_risk_high
        The test risk with the trace and with Stein's form of ``V̂``, the lower one first. They
        are equal where the prox does not jump. Where it does, training ends between them, or
        within its noise of them.
    train_mse, objective
        Mean squared error on the training set; training objective per dimension.
    m_k, m_v, q_k, q_v, V_k, V_v
        Order parameters; ``errors`` has the standard error of each, and those of ``train_mse``
        and ``objective``. At optimal ridges it includes where the search may end, and has errors
        of ``ridge_k`` and ``ridge_v``.
    bias
        Bias of the activation: given, or learned with the vectors if it is free.
    replicon, stable
        Stability of replica symmetry: ``stable`` is ``replicon < 1`` and ``trace_gap <= 0.03``.
    bistable_fraction, trace_gap
        Measures of the jumps of the prox, where the replicon understates the instability.
    stiffness
        Form of ``V̂`` in the equations, ``stein`` or ``trace``.
    branch, branches
        The start that led to the fixed point of lowest objective, and all distinct ones.
    samples, steps, residual
        Sequences averaged over, evaluations of the map, and its last residual.
    setting
        Task, activation, ``alpha`` and the ridges, given or optimal.
    """

    test_risk_low: float
    test_risk_high: float
    train_mse: float
    objective: float
    m_k: float
    m_v: float
    q_k: float
    q_v: float
    V_k: float
    V_v: float
    bias: float
    replicon: float
    stable: bool
    bistable_fraction: float
    trace_gap: float
    branch: str
    branches: tuple[ErmBranch, ...]
    samples: int
    steps: int
    residual: float
    stiffness: str
    setting: Setting
    errors: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        low, high = (Estimate(x, self.test_risk_error) for x in self.interval)
        between = "" if self.stable else f" (between {low} and {high})"
        return f"{self.setting}: test risk {self.risk}{between}, {self.status}"

    @property
    def interval(self) -> tuple[float, float]:
        """``test_risk_low`` and ``test_risk_high``."""
        return self.test_risk_low, self.test_risk_high
