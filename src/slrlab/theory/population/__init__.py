"""Infinite data: the Bayes risk, and the least risk of attention with a given activation."""

from slrlab.theory.population.bayes_risk import BayesRisk, bayes_risk
from slrlab.theory.population.minimal import (
    PopulationRisk,
    RiskProfile,
    minimal_risk,
    risk_at,
    risk_profile,
)

__all__ = [
    "BayesRisk",
    "PopulationRisk",
    "RiskProfile",
    "bayes_risk",
    "minimal_risk",
    "risk_at",
    "risk_profile",
]
