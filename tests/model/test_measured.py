"""A task whose log density ratio is a spline."""

from dataclasses import replace

import numpy as np
import pytest

from slrlab import MeasuredTask, SpikedSLR, bayes_risk, hit_rate, minimal_risk
from slrlab.simulation.data.monte_carlo import posterior_mean_risk

BENT = MeasuredTask(5.0, 6, 0.0, knots=(-0.5, 1.0, 2.5, 4.0), slopes=(0.4, 0.35, -0.4))


def test_two_knots_are_spiked_slr():
    spiked = SpikedSLR(4.0, 7)
    linear = MeasuredTask(4.0, 7, knots=(0.0, 3.0), slopes=(2.0,))
    x = np.linspace(-6.0, 9.0, 50)
    np.testing.assert_allclose(linear.log_ratio(x), spiked.log_ratio(x), atol=1e-8)
    assert bayes_risk(linear).risk == pytest.approx(bayes_risk(spiked).risk, rel=1e-7)
    assert hit_rate(linear) == pytest.approx(hit_rate(spiked), rel=1e-7)


def test_a_bent_ratio_is_a_task_like_any_other():
    BENT.check()
    risk = bayes_risk(BENT)
    assert risk.nishimori_gap < 1e-6
    sampled = posterior_mean_risk(BENT, samples=100_000, seed=3)
    assert abs(sampled.z_score(risk.risk)) < 3.5
    assert minimal_risk(BENT, "softmax").risk > risk.risk


def test_the_sampler_has_the_law():
    drawn = BENT.sample_relevant(np.random.default_rng(0), 40_000)
    mean, square = BENT.relevant_moments()
    error = np.sqrt((square - mean**2) / 40_000)
    assert abs(drawn.mean() - mean) < 4.0 * error


def test_other_lengths_keep_the_law():
    longer = replace(BENT, length=20)
    assert (longer.knots, longer.slopes) == (BENT.knots, BENT.slopes)
    assert longer.length.longest == 20
    assert bayes_risk(longer).risk > bayes_risk(BENT).risk


@pytest.mark.parametrize(
    ("knots", "slopes"), [((0.0,), ()), ((1.0, 0.0), (1.0,)), ((0, 1), (1, 2))]
)
def test_knots_and_slopes_must_fit(knots, slopes):
    with pytest.raises(ValueError, match="knots must be two or more increasing numbers"):
        MeasuredTask(1.0, 3, knots=knots, slopes=slopes)
