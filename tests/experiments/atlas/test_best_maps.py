import math

import numpy as np
import pytest
from scipy import special

from slrlab import (
    MaxSLR,
    SpikedSLR,
    best_elementwise,
    best_normalised,
    bias_limit,
    minimal_risk,
)
from slrlab.theory.population.closed_forms import best_elementwise_risk


@pytest.mark.parametrize(("signal", "length"), [(9.0, 10), (2.0, 3)])
def test_the_best_elementwise_map_is_a_shifted_logistic(signal, length):
    task = SpikedSLR(signal, length, noise=0.1)
    coarse, fine = (best_elementwise(task, knots=knots) for knots in (41, 81))
    logistic = special.expit(
        math.sqrt(signal) * fine.scores - signal / 2.0 - math.log(length - 1.0)
    )
    np.testing.assert_allclose(fine.exact, logistic, rtol=1e-12)
    assert fine.exact_risk == pytest.approx(best_elementwise_risk(task), abs=1e-9)
    likely = np.abs(fine.scores - 1.0) < 3.0
    assert np.abs(fine.values - logistic)[likely].max() < 3e-3
    # linear between knots: an error of second order in the map, of fourth order in the risk
    assert fine.risk > fine.exact_risk
    order = math.log2((coarse.risk - fine.exact_risk) / (fine.risk - fine.exact_risk))
    assert order == pytest.approx(4.0, abs=0.2)


def test_the_best_elementwise_map_sees_the_mean_length_only():
    fixed, random = (best_elementwise(SpikedSLR(4.0, length)) for length in (3, "1,2,6"))
    np.testing.assert_allclose(random.values, fixed.values)
    assert random.risk == pytest.approx(fixed.risk)
    assert random.risk <= minimal_risk(SpikedSLR(4.0, "1,2,6"), "sigmoid").risk + 1e-4


@pytest.mark.parametrize(
    "task",
    [
        SpikedSLR(9.0, 10),
        pytest.param(SpikedSLR(2.0, "1,2,3"), marks=pytest.mark.slow),
        MaxSLR(3.0, 5),
    ],
)
def test_the_best_normalised_map_is_the_exponential(task):
    best = best_normalised(task)
    slopes = np.diff(best.values) / np.diff(best.scores)
    middle = slopes[slopes.size // 4 : -slopes.size // 4]
    np.testing.assert_allclose(middle, task.posterior_scale, rtol=1e-3)
    assert 0.0 <= best.risk - best.exact_risk < 1e-7
    assert best.status == "sampled"
    start = minimal_risk(task, "softplus")
    assert start.excess > 1e3 * (best.risk - best.exact_risk)


@pytest.mark.parametrize(("name", "sign"), [("softplus", -1), ("hedgehog", -1), ("softmax-1", 1)])
def test_the_excess_of_a_biased_map_falls_as_the_square_of_its_exponential(name, sign):
    biases = [sign * size for size in (7.0, 8.0)]
    limit = bias_limit(SpikedSLR(1.0, 3), name, biases)
    assert limit.rate[-1] == pytest.approx(-2.0, abs=0.02)
    scaled = limit.excess[-1] * math.exp(16.0)
    corrections = 3.0 * math.exp(-8.0) * limit.constant  # the next order, a few e^{−|bias|}
    assert abs(scaled - limit.constant) < 3.0 * limit.constant_error + 10.0 * corrections


def test_a_map_that_is_exactly_exponential_falls_faster():
    limit = bias_limit(SpikedSLR(1.0, 3), "elu1", [-2.0, -3.0, -4.0])
    assert limit.constant == 0.0
    assert limit.rate[1] < limit.rate[0] < -2.0


@pytest.mark.parametrize("name", ["softmax", "relu-normalised"])
def test_other_maps_have_no_limit(name):
    with pytest.raises(ValueError, match=r"^activation must be"):
        bias_limit(SpikedSLR(1.0, 3), name, [-1.0])


def test_bad_input_is_named():
    with pytest.raises(TypeError, match=r"^activation must be"):
        bias_limit(SpikedSLR(1.0, 3), "sigmoid", [-1.0])
    with pytest.raises(TypeError, match=r"^task must be"):
        best_elementwise(MaxSLR(1.0, 3))
    for function in (best_elementwise, best_normalised):
        with pytest.raises(ValueError, match=r"^signal must be"):
            function(SpikedSLR(math.inf, 3))
        with pytest.raises(ValueError, match=r"^knots must be"):
            function(SpikedSLR(1.0, 3), knots=2)
