"""Infinite data: the Bayes risk, and the least risk of attention with a given activation."""

from slrlab.theory.population.bayes_risk import BayesRisk, bayes_risk
from slrlab.theory.population.hit_rate import hit_rate
from slrlab.theory.population.minimal import (
    PopulationRisk,
    RiskProfile,
    minimal_risk,
    risk_at,
    risk_profile,
)
from slrlab.theory.population.parts import ExcessParts, excess_parts
from slrlab.theory.population.weight_statistics import WeightStatistics, weight_statistics

__all__ = [
    "BayesRisk",
    "ExcessParts",
    "PopulationRisk",
    "RiskProfile",
    "WeightStatistics",
    "bayes_risk",
    "excess_parts",
    "hit_rate",
    "minimal_risk",
    "risk_at",
    "risk_profile",
    "weight_statistics",
]
