"""Averages over scores known up to Gaussian noise, against closed forms and tensor grids."""

import math

import numpy as np
import pytest

from slrlab.numerics.smoothed import smoothed
from slrlab.numerics.weighted_race import WeightedRace

FIELDS = np.linspace(-3.0, 3.0, 13)


@pytest.mark.parametrize("variance", [1.0, 0.4, 1e-2, 1e-8])
def test_an_exponential_stays_one(variance):
    """E e^{bχ} over N(ω, V) is e^{bω + b²V/2}."""
    b = 1.5
    here = smoothed(
        lambda x: b * x - b**2 / 2, FIELDS, variance, interval=(b - 9, b + 9), steepness=b
    )
    np.testing.assert_allclose(here.log, b * FIELDS + b**2 * (variance - 1) / 2, atol=1e-12)
    np.testing.assert_allclose(here.slope, b, atol=1e-9)
    np.testing.assert_allclose(here.curvature, b**2, atol=1e-6)


@pytest.mark.parametrize("variance", [1.0, 0.4, 1e-2, 1e-8])
def test_a_gaussian_stays_one(variance):
    """E e^{bχ²/2} over N(ω, V) is e^{cω²/2}/√(1 − bV), c = b/(1 − bV)."""
    b = 0.75
    here = smoothed(lambda x: b * x**2 / 2, FIELDS, variance, interval=(-18, 18), steepness=2.0)
    c = b / (1 - b * variance)
    log = c * FIELDS**2 / 2 - math.log(1 - b * variance) / 2
    np.testing.assert_allclose(here.log, log, atol=1e-10)
    np.testing.assert_allclose(here.slope, c * FIELDS, atol=1e-8)
    np.testing.assert_allclose(here.curvature, c + (c * FIELDS) ** 2, atol=1e-6)


@pytest.mark.parametrize("variance", [0.9, 0.2, 1e-4])
def test_two_tokens_of_any_weight(variance):
    def log_weight(x):
        return 4.0 * np.arctan(x)

    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    law = np.outer(weights, weights) / (2 * math.pi)
    fields = np.array([[0.0, 0.0], [0.7, -0.2], [-1.0, 1.3], [2.0, 1.9]])
    race = WeightedRace.build(log_weight, 4.0, variance)

    def exact(fields):
        one, two = (
            log_weight(column + math.sqrt(variance) * nodes) for column in fields.T[:, :, None]
        )
        odds = np.exp(two[:, None, :] - one[:, :, None])
        return np.einsum("ij,nij->n", law, 1.0 / (1.0 + odds))

    pi, score = race.log_derivatives(fields)
    np.testing.assert_allclose(pi[:, 0], exact(fields), atol=1e-6)
    np.testing.assert_allclose(race.posterior(fields), pi, rtol=1e-12)
    np.testing.assert_allclose(pi.sum(axis=1), 1.0)
    h = 1e-3
    for m in range(2):
        move = h * np.eye(2)[m]
        slope = (exact(fields + move) - exact(fields - move)) / (2 * h)
        np.testing.assert_allclose(score[:, 0, m] * pi[:, 0], slope, atol=2e-5)
