"""Several heads on several directions: aligned risks, Bayes risk, and the flow of training."""

from slrlab.theory.heads.aligned import HeadOptimum, HeadsRisk, heads_risk
from slrlab.theory.heads.bayes import HeadsBayesRisk, heads_bayes_risk
from slrlab.theory.heads.flow import heads_flow
from slrlab.theory.heads.general import HeadsMoments, best_values_risk, heads_moments

__all__ = [
    "HeadOptimum",
    "HeadsBayesRisk",
    "HeadsMoments",
    "HeadsRisk",
    "best_values_risk",
    "heads_bayes_risk",
    "heads_flow",
    "heads_moments",
    "heads_risk",
]
