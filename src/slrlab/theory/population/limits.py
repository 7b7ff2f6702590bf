"""Minimal risks that are limits: certain locations, single tokens, infinite keys or biases."""

from __future__ import annotations

import math

import numpy as np

from slrlab._result import Status
from slrlab.model.activations import Activation, Elementwise, Normalised, Projection
from slrlab.model.families import NormMax
from slrlab.model.tasks import SelectionTask, Task, TiltedTask
from slrlab.theory.moments import AttentionMoments
from slrlab.theory.moments.infinite_keys import argmax_limit, infinite_keys
from slrlab.theory.population.bayes_risk import BayesRisk
from slrlab.theory.population.result import PopulationRisk, population_risk


def exact_limit(task: Task, activation: Activation, bayes: BayesRisk) -> PopulationRisk | None:
    """Return the exact result where the optimum is a limit without any noiseless risk, else None.

    ``A`` and ``B`` are then given with the weights scaled so that the relevant one is 1.
    """
    if task.length.longest == 1 and not math.isinf(task.signal):
        return None
    m_k, bias = math.inf, activation.bias
    if not math.isinf(task.signal) and bayes.status is Status.LIMIT and activation.is_softmax:
        # the Bayes risk is below the smallest double, and so is that of softmax
        m_k = math.inf if task.posterior_scale is None else task.posterior_scale
    elif not _separates(task, activation):
        return None
    elif bias is None:
        activation, bias = activation.with_bias(0.0), -math.inf
    order, certain = (m_k, 1.0, 0.0, 0.0), AttentionMoments(1.0, 0.0, 0.0)
    return population_risk(
        task, activation, bayes, order, certain, 0.0, 0.0, Status.LIMIT, bias=bias
    )


def softmax_limit(task: Task, activation: Activation, bayes: BayesRisk) -> PopulationRisk | None:
    """Return the Bayes risk for a normalised map that contains softmax as a limit of its bias.

    A map with an exponential left tail is softmax as the bias tends to −∞; a sink vanishes as it
    tends to ∞.
    """
    scale = task.posterior_scale
    if not isinstance(activation, Normalised) or activation.bias is not None or scale is None:
        return None
    kind = (activation.exponential, activation.sink > 0.0)
    limits = {("left", False): -math.inf, ("everywhere", True): math.inf}
    if kind not in limits or not math.isfinite(scale):
        return None
    risk = bayes.risk - task.noise**2
    order, moments = (scale, 1.0, 0.0, 0.0), AttentionMoments(1.0 - risk, risk, risk * (1.0 - risk))
    fixed, bias = activation.with_bias(0.0), limits[kind]
    return population_risk(
        task, fixed, bayes, order, moments, risk, bayes.error, Status.LIMIT, bias=bias
    )


def longest_keys(task: Task, activation: Activation, bayes: BayesRisk) -> PopulationRisk | None:
    """Return the limit of infinitely long keys if it is known."""
    if not isinstance(task, TiltedTask | SelectionTask):
        return None
    coarse, moments = (infinite_keys(task, activation, resolution) for resolution in (1.0, 1.35))
    if coarse is None or moments is None:
        return None
    error = abs(moments.best_risk - coarse.best_risk)
    order = (math.inf, moments.best_value_scale, 0.0, 0.0)
    status = Status.LIMIT
    return population_risk(
        task, activation, bayes, order, moments, moments.best_risk, error, status
    )


def _separates(task: Task, activation: Activation) -> bool:
    """Return whether steep enough keys have a risk of 0, or below the smallest double."""
    if math.isinf(task.signal):
        posterior = activation.is_softmax and task.posterior_scale == math.inf
        if task.hard:
            limit = argmax_limit(task, activation)
            return posterior or (limit is not None and limit.best_risk == 0.0)
        return posterior or (task.has_infinite_score and activation.unbounded_contrast)
    if task.gaussian_shift is None:
        return False
    log_length, square = math.log(task.length.mean), task.gaussian_shift**2
    if isinstance(activation, Projection | NormMax) and activation.unbounded_contrast:
        # argmax: a miss has probability (L̄ − 1) Φ(−√(ν/2))
        return log_length - square / 4.0 < -746.0
    # a step at √ν/2: an error has probability L̄ Φ(−√ν/2)
    bounded = isinstance(activation, Elementwise) and activation.bias is None
    return bounded and activation.unbounded_contrast and log_length - square / 8.0 < -746.0


def single_token(task: Task, activation: Activation, bayes: BayesRisk) -> PopulationRisk:
    """Return the result for sequences of one token: constant weights lose nothing."""
    fixed = activation.with_bias(activation.bias or 0.0)
    weight = float(fixed.weights(np.zeros((1, 1)))[0, 0])
    moments = AttentionMoments(weight, 1.0 - weight, 0.0)
    order = (0.0, moments.best_value_scale, 0.0, 0.0)
    return population_risk(task, fixed, bayes, order, moments, 0.0, 0.0, Status.CONVERGED)
