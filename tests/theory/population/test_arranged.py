"""Tasks with several kinds of tokens: Bayes risk by two routes, limits, and every activation."""

import math

import numpy as np
import pytest
from scipy import special

from slrlab import (
    HardNegativeSLR,
    NeedlesSLR,
    OrderParameters,
    SpikedSLR,
    VarianceSLR,
    bayes_risk,
    best_normalised,
    hit_rate,
    make_activation,
    minimal_risk,
    risk_at,
    weight_statistics,
)
from slrlab.model.activations import ACTIVATIONS
from slrlab.model.arrangements import relevant_count
from slrlab.simulation.data.monte_carlo import monte_carlo_risk, posterior_mean_risk
from slrlab.theory.population import arranged

HARD, NEEDLES = HardNegativeSLR(6.0, "3,5", similarity=0.6), NeedlesSLR(5.0, 6, needles=3)
NARROW, WIDE = VarianceSLR(4.0, 5, variance=0.05), VarianceSLR(4.0, 5, variance=12.0)
TASKS = {"hard-negative": HARD, "needles": NEEDLES, "narrow": NARROW, "wide": WIDE}
QUICK = ("softmax", "linear", "erf", "softplus", "hardmax", "ssmax")


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_the_bayes_risk_is_that_of_the_posterior_mean(task):
    exact, sampled = bayes_risk(task), posterior_mean_risk(task, samples=300_000, seed=3)
    assert exact.error < 2e-5
    assert abs(exact.risk - sampled.value) < 3.5 * math.hypot(exact.error, sampled.error)


@pytest.mark.parametrize(
    "task",
    [HardNegativeSLR(1.0, 4, similarity=0.6), NeedlesSLR(1.0, 4, needles=2)],
    ids=lambda task: task.name,
)
def test_quadrature_and_sample_agree(task):
    squares, location = arranged.quadrature(task, 4)
    assert squares == pytest.approx(location, abs=1e-12)
    risk, gap, error, was_sampled = arranged._sampled(task, 4)
    assert was_sampled
    assert error < 1e-5
    assert abs(risk - squares) < 4.0 * error
    assert gap < 1e-3


def test_the_quadrature_converges_geometrically():
    """Each halving of the step squares the error, until rounding."""
    task = HardNegativeSLR(4.0, 3, similarity=0.6)
    exact = arranged.quadrature(task, 3, 1.6)[0]
    coarse, fine = (abs(arranged.quadrature(task, 3, level)[0] - exact) for level in (0.2, 0.4))
    assert 1e-9 < coarse < 1e-2
    assert fine < 30.0 * coarse**2


@pytest.mark.parametrize("length", [3, "2,5"])
def test_limits_that_are_spiked(length):
    exact = bayes_risk(SpikedSLR(4.0, length, 0.5))
    for task in (
        HardNegativeSLR(4.0, length, 0.5, similarity=0.0),
        NeedlesSLR(4.0, length, 0.5, needles=1),
        VarianceSLR(4.0, length, 0.5, variance=1.0),
    ):
        assert bayes_risk(task).risk == pytest.approx(exact.risk, abs=1e-11)


def test_two_tokens_with_a_hard_negative_are_a_weaker_spike():
    """Only the difference of the scores counts: N((1 − τ)√ν, 2)."""
    task, same = HardNegativeSLR(9.0, 2, similarity=0.4), SpikedSLR(9.0 * 0.36, 2)
    assert bayes_risk(task).risk == pytest.approx(bayes_risk(same).risk, abs=1e-13)
    best = minimal_risk(task, "softmax")
    assert best.excess == pytest.approx(0.0, abs=1e-12)
    assert best.m_k == pytest.approx(0.6 * 3.0, rel=1e-4)


def test_needles_that_are_all_tokens_or_all_but_one():
    assert bayes_risk(NeedlesSLR(4.0, 5, needles=5)).risk == 0.0
    for name in ("softmax", "linear", "sparsemax"):
        assert minimal_risk(NeedlesSLR(4.0, 5, needles=5), name).risk == pytest.approx(0, abs=1e-12)
    spiked = bayes_risk(SpikedSLR(4.0, 5)).risk
    result = bayes_risk(NeedlesSLR(4.0, 5, needles=4))
    assert abs(result.risk - spiked / 4.0) < 4.0 * result.error


@pytest.mark.slow
def test_leaving_tokens_out_is_choosing_the_others():
    """``J·R_J = (L − J)·R_{L−J}``: the scores of the one task are those of the other, reflected."""
    few, many = (bayes_risk(NeedlesSLR(3.0, 5, needles=n)) for n in (2, 3))
    assert abs(2.0 * few.risk - 3.0 * many.risk) < 4.0 * math.hypot(2 * few.error, 3 * many.error)


def test_a_hard_negative_like_the_relevant_token_leaves_a_fair_coin():
    alike, pair = HardNegativeSLR(4.0, 3, similarity=1.0), NeedlesSLR(4.0, 3, needles=2)
    expected = 0.5 + 0.5 * bayes_risk(pair).risk
    assert bayes_risk(alike).risk == pytest.approx(expected, abs=1e-12)
    near = bayes_risk(HardNegativeSLR(4.0, 3, similarity=1.0 - 1e-6)).risk
    assert near == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("make", [HardNegativeSLR, NeedlesSLR], ids=["hard-negative", "needles"])
@pytest.mark.parametrize("name", ["softmax", "erf", "softplus", "l2-softmax"])
def test_activations_at_the_limits(make, name):
    """Three kinds of tokens reduce to two: another integral, the same number."""
    own = {"similarity": 0.0} if make is HardNegativeSLR else {"needles": 1}
    exact = minimal_risk(SpikedSLR(4.0, "2,6"), name)
    result = minimal_risk(make(4.0, "2,6", **own), name)
    assert result.risk == pytest.approx(exact.risk, abs=1e-9)


def _cases():
    for kind in TASKS:
        for name in ACTIVATIONS:
            marks = () if name in QUICK else pytest.mark.slow
            yield pytest.param(kind, name, marks=marks, id=f"{kind}-{name}")


@pytest.mark.parametrize(("kind", "name"), list(_cases()))
def test_every_activation_against_monte_carlo(kind, name):
    task, best = TASKS[kind], bayes_risk(TASKS[kind])
    result = minimal_risk(task, name)
    assert result.status.usable
    assert result.excess > -5.0 * (result.error + best.error)
    if not (math.isfinite(result.m_k) and math.isfinite(result.bias)):
        return
    activation = make_activation(name)
    activation = activation if activation.bias is not None else activation.with_bias(result.bias)
    order = OrderParameters(result.m_k, result.m_v)
    sampled = monte_carlo_risk(task, activation, order, samples=100_000, seed=5)
    assert abs(result.risk - sampled.value) < 4.0 * math.hypot(sampled.error, result.error)


@pytest.mark.slow
@pytest.mark.parametrize("task", [HARD, NEEDLES], ids=lambda task: task.name)
@pytest.mark.parametrize("name", ["softmax", "sigmoid", "entmax15", "stick-breaking", "hardmax"])
def test_keys_with_a_residual(task, name):
    order = OrderParameters(m_k=0.8, m_v=0.7, R_k=0.5, R_v=0.2)
    activation = make_activation(name).with_bias(0.0)
    result = risk_at(task, activation, order)
    sampled = monte_carlo_risk(task, activation, order, samples=100_000, seed=6)
    assert abs(result.risk - sampled.value) < 4.0 * math.hypot(sampled.error, result.error)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
@pytest.mark.parametrize("R_k", [0.0, 0.7])
def test_the_hit_rate_against_a_sample(task, R_k):
    rng, size, hits = np.random.default_rng(8), 40_000, 0.0
    for length, probability in task.length.pairs():
        keys, location = task.sample_scores(rng, size, length)
        scores = 0.9 * keys + math.sqrt(R_k) * rng.standard_normal(keys.shape)
        places = location.reshape(size, -1)
        hits += probability * (places == scores.argmax(axis=1)[:, None]).any(axis=1).mean()
    result = hit_rate(task, OrderParameters(0.9, 1.0, R_k=R_k))
    assert abs(result - hits) < 4.0 * math.sqrt(result * (1.0 - result) / size)
    assert 0.0 < result < 1.0


def test_the_hit_rate_without_a_signal_or_an_overlap():
    assert hit_rate(NeedlesSLR(0.0, 6, needles=3)) == pytest.approx(0.5, abs=1e-12)
    assert hit_rate(NEEDLES, OrderParameters(0.0, 1.0, R_k=1.0)) == pytest.approx(0.5)
    assert hit_rate(HardNegativeSLR(0.0, 4)) == pytest.approx(0.25, abs=1e-12)
    exact = special.ndtr((1.0 - 0.5) * 3.0 / math.sqrt(2.0))
    assert hit_rate(HardNegativeSLR(9.0, 2, similarity=0.5)) == pytest.approx(exact, abs=1e-12)


@pytest.mark.slow
def test_softmax_loses_its_exponential_rate_with_two_needles():
    """The Bayes risk of two needles falls as fast as that of one, softmax only as a power of ν."""
    signals = (25.0, 100.0)
    softmax = [minimal_risk(NeedlesSLR(nu, 3, needles=2), "softmax") for nu in signals]
    one = [bayes_risk(SpikedSLR(nu, 3)).risk for nu in signals]
    assert softmax[0].bayes_risk == pytest.approx(one[0] / 2.0, rel=1e-6)
    slope = math.log(softmax[1].risk / softmax[0].risk) / math.log(4.0)
    assert -1.5 < slope < -0.5
    assert softmax[1].risk > 1e3 * one[1]


@pytest.mark.slow
def test_no_rising_normalised_map_is_optimal_for_needles():
    best = best_normalised(NeedlesSLR(4.0, 4, needles=2))
    assert np.isnan(best.exact).all()
    softmax = minimal_risk(NeedlesSLR(4.0, 4, needles=2), "softmax").risk
    assert best.exact_risk + 0.03 < best.risk < softmax - 0.02


def test_what_these_tasks_cannot_do_is_refused_in_one_line():
    with pytest.raises(
        ValueError, match=r"^task must be one with a single relevant token, got nee"
    ):
        weight_statistics(NEEDLES, "softmax")
    assert weight_statistics(HARD, "softmax", samples=1000).hit_rate == pytest.approx(
        hit_rate(HARD)
    )
    with pytest.raises(ValueError, match=r"^length must be at most 4096 for the Bayes risk"):
        bayes_risk(HardNegativeSLR(4.0, 5000))
    assert relevant_count(SpikedSLR(1.0, 2)) == 1
