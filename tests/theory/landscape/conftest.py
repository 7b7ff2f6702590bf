"""Plain simulation of the landscape: tokens drawn in four dimensions, no formula of the theory."""

import numpy as np
import pytest

from slrlab import Estimate, make_activation


def _simulated_risk(task, activation, k, v, bias=0.0, size=200_000, seed=7):
    """Return the risk with its error; ``E y² + E[f² − 2f E[y|X]]`` beats ``(y−f)²``."""
    rng, length = np.random.default_rng(seed), task.length.longest
    scores, _ = task.sample_scores(rng, size, length)
    tokens = np.concatenate([scores[..., None], rng.standard_normal((size, length, 3))], axis=2)
    labels = (task.posterior(scores) * tokens[..., 1]).sum(axis=1)
    weights = make_activation(activation).with_bias(bias).weights(tokens @ k)
    answers = (weights * (tokens @ v)).sum(axis=1)
    gain = Estimate.of(answers**2 - 2.0 * labels * answers)
    return Estimate(task.trivial_risk + gain.value, gain.error)


@pytest.fixture(scope="session")
def simulated_risk():
    return _simulated_risk
