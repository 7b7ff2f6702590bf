"""Risks on the task of Marion et al.: softmax, and the least risk for each amount of knowledge."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slrlab import (
    Estimate,
    MarionSLR,
    OrderParameters,
    SpikedSLR,
    Status,
    bayes_optimal,
    bayes_risk,
    erm_theory,
    excess_parts,
    hit_rate,
    make_activation,
    make_task,
    minimal_risk,
    risk_at,
    weight_statistics,
)
from slrlab.simulation.data.monte_carlo import monte_carlo_risk, posterior_mean_risk
from slrlab.theory.population.marion_bayes import KNOWLEDGE

TASKS = [MarionSLR(2.0, 3, relevant_std=0.5), MarionSLR(2.0, "1,2,4", noise=0.5, relevant_std=1.6)]
by_std = pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.relevant_std:g}")


def simulated(task, knows, dim, size=100_000, seed=5):
    """Return the risk of the posterior mean (or of the best weights) on drawn tokens."""
    rng, std, length = np.random.default_rng(seed), task.relevant_std, task.length.longest
    x = rng.standard_normal((2, size, length))
    rest = rng.chisquare(dim - 2, (size, length)) if dim > 2 else np.zeros((size, length))
    x[:, :, 0] *= std
    rest[:, 0] *= std**2
    x[0, :, 0] += math.sqrt(task.signal)
    gap = np.sum((x - np.array([math.sqrt(task.signal), 0.0])[:, None, None]) ** 2, axis=0) + rest
    log_ratio = (np.sum(x**2, axis=0) + rest - gap / std**2) / 2.0 - dim * math.log(std)
    r = np.exp(log_ratio - log_ratio.max(axis=1, keepdims=True))
    answers = (r / r.sum(axis=1, keepdims=True) * x[1]).sum(axis=1)
    return Estimate.of((x[1, :, 0] - answers) ** 2 + task.noise**2)


@by_std
def test_best_weights_of_the_key_scores(task):
    result = bayes_risk(task)
    assert result.status is Status.CONVERGED
    assert result.nishimori_gap < 1e-10
    drawn = posterior_mean_risk(task, samples=200_000, seed=3)
    assert abs(drawn.z_score(result.risk)) < 3.5


@pytest.mark.parametrize(("knows", "dim"), [("scores", 2), ("tokens", 2), ("tokens", 12)])
@pytest.mark.parametrize("std", [0.5, 0.95, 1.6])
def test_the_posterior_mean_of_what_is_seen(knows, dim, std):
    task = MarionSLR(2.0, 3, noise=0.3, relevant_std=std)
    result = bayes_risk(task, knows=knows, dim=dim if knows == "tokens" else None)
    assert result.nishimori_gap < 1e-10
    assert abs(simulated(task, knows, dim).z_score(result.risk)) < 3.5


def test_two_directions_are_key_and_value_scores():
    assert (
        bayes_risk(TASKS[0], knows="tokens", dim=2).risk
        == bayes_risk(TASKS[0], knows="scores").risk
    )


@settings(max_examples=6, deadline=None)
@given(
    st.floats(0.0, 20.0), st.floats(0.1, 5.0), st.integers(2, 40), st.sampled_from(KNOWLEDGE[:2])
)
def test_two_forms_of_each_risk_agree(signal, std, length, knows):
    result = bayes_risk(MarionSLR(signal, length, relevant_std=std), knows=knows)
    assert result.nishimori_gap < 1e-8
    assert 0.0 <= result.risk <= std**2 * (1.0 + 1e-12)


@pytest.mark.parametrize("knows", KNOWLEDGE)
def test_at_unit_variance_all_are_the_bayes_risk_of_spiked_slr(knows):
    dim = 30 if knows == "tokens" else None
    spiked = SpikedSLR(2.0, "1,2,4", noise=0.5)
    same = MarionSLR(2.0, "1,2,4", noise=0.5, relevant_std=1.0)
    assert bayes_risk(same, knows=knows, dim=dim).risk == pytest.approx(
        bayes_risk(spiked).risk, rel=1e-11
    )
    near = MarionSLR(2.0, "1,2,4", noise=0.5, relevant_std=1.0 + 1e-6)
    assert bayes_risk(near, knows=knows, dim=dim).risk == pytest.approx(
        bayes_risk(spiked).risk, rel=1e-5
    )
    assert bayes_risk(spiked, knows=knows, dim=dim).risk == bayes_risk(spiked).risk


@by_std
def test_who_sees_more_has_less_risk(task):
    seen = [bayes_risk(task, knows=knows).risk for knows in ("keys", "scores")]
    seen += [bayes_risk(task, knows="tokens", dim=dim).risk for dim in (8, 200)]
    softmax = minimal_risk(task, "softmax")
    assert softmax.status is Status.CONVERGED
    assert softmax.bayes_risk == seen[0]
    assert [softmax.risk, *seen] == sorted([softmax.risk, *seen], reverse=True)
    assert softmax.excess > 1e-3  # it is not optimal here
    assert seen[-1] - task.noise**2 < 1e-8  # long tokens give the location away


@by_std
@pytest.mark.parametrize("name", ["softmax", "erf", "softmax-1"])
def test_risks_agree_with_monte_carlo(task, name):
    order = OrderParameters(m_k=0.8, m_v=0.7, R_k=0.3, R_v=0.2)
    chosen = make_activation(name).with_bias(-0.4)
    result = risk_at(task, chosen, order)
    drawn = monte_carlo_risk(task, chosen, order, samples=200_000, seed=1)
    assert result.status is Status.CONVERGED
    assert abs(drawn.z_score(result.risk)) < 3.5


def test_at_unit_variance_softmax_is_optimal():
    same = minimal_risk(MarionSLR(2.0, 3, relevant_std=1.0), "softmax")
    spiked = minimal_risk(SpikedSLR(2.0, 3), "softmax")
    assert same.risk == pytest.approx(spiked.risk, rel=1e-10)
    assert same.m_k == pytest.approx(math.sqrt(2.0), abs=1e-4)
    # the excess is of second order in the distance from unit variance
    near = [minimal_risk(MarionSLR(2.0, 3, relevant_std=1.0 + x), "softmax") for x in (0.02, 0.04)]
    assert near[1].excess / near[0].excess == pytest.approx(4.0, rel=0.1)


def test_one_token_and_no_signal():
    assert bayes_risk(MarionSLR(2.0, 1, noise=0.5)).risk == 0.25
    # without a signal only the variance tells tokens apart: weights of the key scores still gain
    blind = MarionSLR(0.0, 2, relevant_std=3.0)
    assert bayes_risk(blind).risk < 9.0 * (1.0 - 9.0 / 10.0)


def test_it_is_made_from_its_name():
    task = MarionSLR(2.0, 3, relevant_std=0.5)
    assert make_task("marion", signal=2.0, length=3, relevant_std=0.5) == task
    assert make_task("marion", signal=2.0, length=3).relevant_std == math.sqrt(0.5)
    assert task.is_named
    with pytest.raises(ValueError, match=r"^relevant_std must be a number from 0.01 to 100, got 0"):
        MarionSLR(2.0, 3, relevant_std=0.0)
    with pytest.raises(
        ValueError, match=r"^relevant_std must not be given for the task spiked, go"
    ):
        make_task("spiked", signal=2.0, length=3, relevant_std=0.5)


@pytest.mark.parametrize(
    "call",
    [
        lambda task: erm_theory(task, "softmax", alpha=2.0, ridge_k=1.0, ridge_v=1.0),
        lambda task: bayes_optimal(task, alpha=2.0),
        hit_rate,
        lambda task: weight_statistics(task, "softmax"),
        lambda task: excess_parts(task, "softmax"),
    ],
    ids=["erm", "bayes", "hit rate", "weights", "parts"],
)
def test_theories_of_the_two_families_refuse_it(call):
    with pytest.raises(TypeError, match=r"^task must be a TiltedTask or a SelectionTask, got Mar"):
        call(TASKS[0])


def test_bad_input_is_named():
    with pytest.raises(TypeError, match=r"^activation must be Elementwise or Normalised on the ta"):
        minimal_risk(TASKS[0], "sparsemax")
    with pytest.raises(ValueError, match=r"^knows must be one of keys, scores, tokens, got all$"):
        bayes_risk(TASKS[0], knows="all")
    with pytest.raises(ValueError, match=r"^dim must be given if whole tokens are known, got noth"):
        bayes_risk(TASKS[0], knows="tokens")
    with pytest.raises(ValueError, match=r"^dim must be a whole number >= 2, got 1$"):
        bayes_risk(TASKS[0], knows="tokens", dim=1)
