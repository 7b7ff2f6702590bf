"""Finite samples: the Bayes-optimal risk, what AMP reaches, and the thresholds between them."""

from slrlab.theory.bayes_optimal.optimal import BayesOptimal, bayes_optimal
from slrlab.theory.bayes_optimal.thresholds import BayesThresholds, bayes_thresholds

__all__ = ["BayesOptimal", "BayesThresholds", "bayes_optimal", "bayes_thresholds"]
