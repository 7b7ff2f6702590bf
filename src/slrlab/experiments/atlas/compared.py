"""One row of a comparison of activations.

Independent of how rows are computed and drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from slrlab._result import Estimate, Status, plain
from slrlab.model.setting import Setting
from slrlab.theory.bayes_optimal import BayesOptimal
from slrlab.theory.erm import ErmTheory
from slrlab.theory.population.bayes_risk import BayesRisk
from slrlab.theory.population.minimal import PopulationRisk


@dataclass(frozen=True)
class Compared:
    """One activation on one setting, beside the best predictor there.

    Attributes
    ----------
    theory
        Minimal risk with infinite data, or the theory of training on ``N = αD`` samples.
    bayes
        The Bayes risk with as many data; None if it cannot be computed for the task.
    """

    theory: PopulationRisk | ErmTheory
    bayes: BayesRisk | BayesOptimal | None

    @property
    def setting(self) -> Setting:
        """Task, activation and what else determines the risk."""
        return self.theory.setting

    @property
    def alpha(self) -> float:
        """Training sequences per dimension; ``inf`` for infinite data."""
        return self.setting.alpha

    @property
    def status(self) -> Status:
        """How the computation of the risk ended."""
        return self.theory.status

    @property
    def risk(self) -> Estimate:
        """Risk on new data with its error."""
        theory = self.theory
        if isinstance(theory, ErmTheory):
            return theory.risk
        return Estimate(theory.risk, theory.error)

    @property
    def interval(self) -> tuple[float, float]:
        """Range of the risk: that of the two forms of the theory after training."""
        theory = self.theory
        return theory.interval if isinstance(theory, ErmTheory) else (theory.risk, theory.risk)

    @property
    def bayes_risk(self) -> Estimate:
        """Least risk of any predictor from as many data; nan if it is not known."""
        if self.bayes is None:
            return Estimate(math.nan, math.nan)
        best = self.bayes
        value = best.risk_it if isinstance(best, BayesOptimal) else best.risk
        return Estimate(value, best.error)

    @property
    def excess(self) -> Estimate:
        """Risk above the Bayes risk."""
        risk, best = self.risk, self.bayes_risk
        return Estimate(risk.value - best.value, math.hypot(risk.error, best.error))

    def to_dict(self) -> dict[str, Any]:
        """Return setting, risks and status as JSON-ready values."""
        theory = self.theory
        row: dict[str, Any] = self.setting.to_dict() | {"alpha": self.alpha}
        row |= {"risk": self.risk.value, "error": self.risk.error}
        row |= {"bayes_risk": self.bayes_risk.value, "excess": self.excess.value}
        if isinstance(self.bayes, BayesOptimal):
            row |= {"amp_risk": self.bayes.risk_amp}
        if isinstance(theory, ErmTheory):
            row |= {"risk_low": theory.test_risk_low, "risk_high": theory.test_risk_high}
        row |= {"m_k": theory.m_k, "m_v": theory.m_v, "bias": theory.bias, "status": self.status}
        return {name: plain(value) for name, value in row.items()}
