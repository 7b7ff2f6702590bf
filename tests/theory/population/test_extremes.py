"""Every finite signal, lengths up to 10¹⁵ and random ones, label noise: an answer, in order."""

import math
import tracemalloc
from itertools import product

import numpy as np
import pytest

from slrlab import (
    OrderParameters,
    bayes_risk,
    make_activation,
    make_task,
    minimal_risk,
    risk_at,
)
from slrlab._result import Status
from slrlab.theory.moments import attention_moments, sampled
from slrlab.theory.population.closed_forms import linear_risk

ACTIVATIONS = ("softmax", "linear", "erf", "softplus", "sparsemax")
SIGNALS = (0.0, 1e-6, 0.1, 3.0, 30.0, 1e3, 1e5, 1e12, 1e300)
LENGTHS = (1, 2, 10, 1000, 10**6, 10**10, 10**15, "2,7,10000")
SETTINGS = [*product(("spiked", "max"), SIGNALS, LENGTHS, ACTIVATIONS)]
# noise adds its square to every risk: one of two values in turn is enough
GRID = [(*setting, 0.5 * (index % 2)) for index, setting in enumerate(SETTINGS)]
QUICK = [
    pytest.param(setting, marks=[pytest.mark.slow] * (index % 2))
    for index, setting in enumerate(GRID[::19])
]


def _check(name, signal, length, activation, noise):
    task = make_task(name, signal=signal, length=length, noise=noise)
    result, bayes = minimal_risk(task, activation), bayes_risk(task).risk
    assert result.status.usable
    assert 0.0 <= result.error < 0.01
    if result.status in (Status.CONVERGED, Status.LIMIT):
        assert result.error <= 1e-9 * result.risk + 5e-14
    slack = result.error + 1e-13
    assert bayes - slack <= result.risk <= 1.0 + noise**2 + slack
    if activation == "softmax":
        assert result.risk == pytest.approx(bayes, rel=1e-8, abs=1e-13)
    if activation == "linear":
        assert result.risk == pytest.approx(linear_risk(task), rel=1e-8, abs=1e-13)


@pytest.mark.parametrize("setting", QUICK, ids=str)
def test_extreme_settings_have_an_answer_between_bayes_and_trivial(setting):
    _check(*setting)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("name", ["spiked", "max"])
def test_the_whole_grid_has_answers_between_bayes_and_trivial(name, activation):
    for setting in GRID:
        if (setting[0], setting[3]) == (name, activation):
            _check(*setting)


@pytest.mark.parametrize("name", ["spiked", "max"])
def test_bayes_risk_falls_with_the_signal_and_grows_with_the_length(name):
    lengths = [length for length in LENGTHS if isinstance(length, int)]
    table = [
        [bayes_risk(make_task(name, signal=nu, length=length)) for length in lengths]
        for nu in SIGNALS
    ]
    risks, errors = (
        np.array([[getattr(one, key) for one in row] for row in table]) for key in ("risk", "error")
    )
    assert errors.max() < 1e-8
    assert (np.diff(risks, axis=0) <= 1e-13 + errors[1:] + errors[:-1]).all()
    assert (np.diff(risks, axis=1) >= -1e-13 - errors[:, 1:] - errors[:, :-1]).all()


@pytest.mark.parametrize("length", [2, 1000, 10**15])
def test_steep_selections_miss_the_second_largest_score_by_a_law_of_the_signal(length):
    # the risk is about E[1/(1+e^{ν gap})] of the two largest scores, whose gap is uniform near 0
    near, far = (bayes_risk(make_task("max", signal=nu, length=length)).risk for nu in (1e8, 1e12))
    assert near * 1e8 == pytest.approx(far * 1e12, rel=1e-6)


@pytest.mark.slow
def test_extreme_settings_take_less_than_200_megabytes_beside_the_libraries():
    tracemalloc.start()
    try:
        for name, signal, length in product(["spiked", "max"], [1e4, 1e300], [1000, 10**15]):
            task = make_task(name, signal=signal, length=length)
            for activation in ("softmax", "softplus"):
                minimal_risk(task, activation)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200e6


def test_projections_refuse_keys_for_which_too_many_tokens_get_weight():
    task = make_task("spiked", signal=3.0, length=10**6)
    with pytest.raises(
        ValueError, match=r"length must be at most 4096 for sparsemax at m_k 0\.001"
    ):
        risk_at(task, "sparsemax", OrderParameters(m_k=0.001, m_v=1.0))


@pytest.mark.parametrize(("name", "signal"), [("spiked", 12.0), ("max", 3.0), ("max", math.inf)])
def test_the_largest_scores_alone_give_the_risk_of_all(name, signal):
    """Sampling draws the largest scores of a long sequence; the rule knows all of them."""
    task, sparsemax = make_task(name, signal=signal, length=5000), make_activation("sparsemax")
    whole = attention_moments(task, sparsemax, 1.5)
    few = sampled.sampled_moments(task, sparsemax, 1.5, 0.0, 0.3)
    assert whole.sampled_error == 0.0
    assert few.sampled_error < 0.01
    assert abs(few.best_risk - whole.best_risk) < 4.0 * few.sampled_error
