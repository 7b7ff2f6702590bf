"""Finite samples: the Bayes-optimal risk, what AMP reaches, and the thresholds between them."""

from slrlab.theory.bayes_optimal.optimal import BayesOptimal, bayes_optimal
from slrlab.theory.bayes_optimal.thresholds import BayesThresholds, bayes_thresholds
from slrlab.theory.bayes_optimal.trajectory import AmpStateEvolution, amp_state_evolution

__all__ = [
    "AmpStateEvolution",
    "BayesOptimal",
    "BayesThresholds",
    "amp_state_evolution",
    "bayes_optimal",
    "bayes_thresholds",
]
