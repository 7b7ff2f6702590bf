import math

import pytest

from slrlab import Estimate, MaxSLR, OrderParameters, SpikedSLR
from slrlab.simulation.data.monte_carlo import (
    finite_dimension_risk,
    monte_carlo_risk,
    posterior_mean_risk,
)


def test_the_trivial_predictor_has_the_trivial_risk():
    task = SpikedSLR(2.0, "1,2,3", noise=0.5)
    sample = monte_carlo_risk(task, "softmax", OrderParameters(1.0, 0.0), samples=50_000)
    assert abs(sample.z_score(task.trivial_risk)) < 3


def test_a_seed_repeats_and_another_differs():
    order = OrderParameters(1.0, 0.5)
    first, again, other = (
        monte_carlo_risk(MaxSLR(2.0, 3), "linear", order, samples=2000, seed=s) for s in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_error_bars_are_honest():
    """Over replicates the z-scores against the pooled mean have unit scatter."""
    runs = [posterior_mean_risk(SpikedSLR(1.0, 3), samples=2000, seed=s) for s in range(60)]
    mean = sum(run.value for run in runs) / 60
    scatter = math.sqrt(sum(run.z_score(mean) ** 2 for run in runs) / 59)
    assert 0.7 < scatter < 1.4


@pytest.mark.parametrize(
    "task", [SpikedSLR(2.0, 3), MaxSLR(2.0, "1,2"), MaxSLR(math.inf, 2)], ids=str
)
def test_finite_dimension_meets_the_infinite_one(task):
    order = OrderParameters(1.0, 0.8, 0.3, 0.1)
    finite = finite_dimension_risk(task, "softmax", order, dim=200, samples=10_000, seed=4)
    limit = monte_carlo_risk(task, "softmax", order, samples=100_000, seed=5)
    assert abs(finite.z_score(limit)) < 3


def test_bad_sizes_are_named():
    with pytest.raises(ValueError, match="dim must be a whole number >= 2, got 1"):
        finite_dimension_risk(SpikedSLR(1.0, 2), "linear", OrderParameters(0, 0), dim=1)
    with pytest.raises(ValueError, match="samples must be a whole number >= 2, got 0"):
        posterior_mean_risk(SpikedSLR(1.0, 2), samples=0)


def test_estimates_print_with_their_error():
    assert str(Estimate(0.35241, 0.00123)) == "0.3524 ± 0.0012"
    assert Estimate(1.0, 0.0).z_score(1.0) == 0.0
    assert Estimate(1.0, 0.0).z_score(2.0) == -math.inf
