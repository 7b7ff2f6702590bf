"""Aligned heads, the Bayes-softmax and the general formula, with infinite data."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slrlab import (
    Estimate,
    LengthLaw,
    MultiHeadSLR,
    SpikedSLR,
    Status,
    bayes_risk,
    heads_bayes_risk,
    heads_moments,
    heads_risk,
    make_activation,
    minimal_risk,
)
from slrlab.model.heads import head_weights
from slrlab.theory.heads import best_values_risk
from slrlab.theory.heads.aligned import sink_bias

EXAMPLE = MultiHeadSLR(6.0, 5, directions=4)
UNEQUAL = MultiHeadSLR([1.0, 4.0, 9.0], 4, 0.3, probabilities=[0.5, 0.3, 0.2])


def test_the_three_numbers_of_the_example():
    softmax = heads_risk(EXAMPLE, "softmax")
    sink = heads_risk(EXAMPLE, make_activation("softmax-1", bias=-4.0))
    joint = heads_risk(EXAMPLE, "bayes-softmax")
    # the formulas of Sagitova, Duranthon and Zdeborová (arXiv 2603.03993), ``1 − max A²/(B + 3B⁰)``
    # and the Bayes risk at length 20, evaluated without slrlab; Monte Carlo agrees
    assert [round(r.risk, 4) for r in (softmax, sink, joint)] == [0.7214, 0.4964, 0.4058]
    assert round(softmax.heads[0].m_k, 2) == 1.39  # below √6: idle heads add noise
    assert {r.status for r in (softmax, sink, joint)} == {Status.CONVERGED}
    assert softmax.bayes_risk == joint.risk


@pytest.mark.parametrize(("signal", "length", "count"), [(6.0, 5, 4), (2.0, 1, 3), (30.0, 2, 5)])
def test_equal_directions_are_one_head_at_a_longer_length(signal, length, count):
    result = heads_bayes_risk(MultiHeadSLR(signal, length, directions=count))
    alone = bayes_risk(SpikedSLR(signal, length * count))
    assert result.risk == pytest.approx(alone.risk, rel=1e-10)
    assert result.nishimori_gap < 1e-12


def test_a_random_length_is_multiplied_too():
    result = heads_bayes_risk(MultiHeadSLR(3.0, {1: 0.2, 4: 0.8}, directions=3))
    alone = bayes_risk(SpikedSLR(3.0, LengthLaw.of({3: 0.2, 12: 0.8})))
    assert result.risk == pytest.approx(alone.risk, rel=1e-10)


def test_one_direction_is_spiked_slr():
    task = MultiHeadSLR([2.0], 3, 0.4)
    spiked = SpikedSLR(2.0, 3, 0.4)
    assert heads_bayes_risk(task).risk == pytest.approx(bayes_risk(spiked).risk, rel=1e-10)
    for name in ("softmax", "linear", "sparsemax"):
        ours, theirs = heads_risk(task, name), minimal_risk(spiked, name)
        assert ours.risk == pytest.approx(theirs.risk, abs=1e-7), name
    assert heads_bayes_risk(MultiHeadSLR([2.0], 1, 0.5)).risk == 0.25


def test_limits_of_the_signal():
    assert heads_bayes_risk(MultiHeadSLR(0.0, 4, directions=3)).risk == pytest.approx(
        11.0 / 12.0, rel=1e-12
    )
    blind = heads_bayes_risk(MultiHeadSLR([0.0, 60.0], 4))
    # a direction without a signal costs its probability, up to 1/(2L) for a guess
    assert 0.3 < blind.risk < 0.5


@pytest.mark.parametrize(
    "signal", [3e3, *(pytest.param(signal, marks=pytest.mark.slow) for signal in (1e4, 1e9))]
)
def test_large_signals_have_an_answer(signal):
    """Below the smallest double a noiseless risk is 0; a direction so loud is never confused."""
    loud = MultiHeadSLR(signal, 3, 0.5, directions=2)
    least = heads_bayes_risk(loud)
    assert (least.status, least.risk) == (Status.LIMIT, 0.25)
    softmax = heads_risk(loud, "softmax")
    assert softmax.status is Status.CONVERGED
    # an idle head has the noise 1/L: the risk tends to 1 − ½/(½ + ½/L) = 1/(L + 1), as m_k² does
    # to 0 with m_k ~ log ν/√ν
    assert 0.0 < softmax.risk - 0.25 - 1.0 / 4.0 < 0.2 * math.log(signal) ** 2 / signal
    assert heads_risk(loud, "bayes-softmax").risk == 0.25
    quiet = heads_bayes_risk(MultiHeadSLR([signal, 4.0], 3))
    assert quiet.status is Status.CONVERGED
    assert quiet.risk == pytest.approx(0.5 * bayes_risk(SpikedSLR(4.0, 3)).risk, rel=1e-10)


@pytest.mark.parametrize("task", [UNEQUAL, MultiHeadSLR([1.0, 5.0], "1,3", 0.2)], ids=["3", "2"])
def test_the_bayes_risk_is_that_of_the_posterior_mean(task):
    rng, losses = np.random.default_rng(3), []
    for length, share in task.length.pairs():
        size = int(200_000 * share)
        scores, chosen = task.sample(rng, size, length)
        values = rng.standard_normal(scores.shape)
        labels = values[np.arange(size), 0, chosen] + task.noise * rng.standard_normal(size)
        losses.append((labels - (task.posterior(scores) * values).sum(axis=(1, 2))) ** 2)
    risk = Estimate.of(np.concatenate(losses))
    assert abs(risk.z_score(heads_bayes_risk(task).risk)) < 3.5


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0.0, 25.0), min_size=1, max_size=4), st.integers(1, 12))
def test_two_forms_of_the_bayes_risk_agree(signals, length):
    result = heads_bayes_risk(MultiHeadSLR(signals, length))
    assert result.nishimori_gap < 1e-8
    assert 0.0 <= result.risk <= 1.0


@pytest.mark.parametrize("task", [EXAMPLE, UNEQUAL], ids=["equal", "unequal"])
def test_the_best_head_of_its_own_scores_is_softmax_with_a_sink(task):
    """The sink is the hypothesis that the head is idle."""
    best = heads_risk(task, make_activation("softmax-1", bias="optimal"))
    for head in best.heads:
        signal = task.signals[head.direction]
        assert head.m_k == pytest.approx(math.sqrt(signal), abs=1e-3)
        assert head.bias == pytest.approx(sink_bias(task, head.direction), abs=1e-3)
        assert head.m_v == pytest.approx(1.0, abs=1e-4)
        assert head.A * task.probabilities[head.direction] == pytest.approx(head.gain, abs=1e-7)
    assert best.bayes_risk < best.risk


@pytest.mark.parametrize("name", ["softmax", "linear", "erf", "sigmoid", "relu", "sparsemax"])
def test_no_head_of_its_own_scores_is_better_than_one_with_a_sink(name):
    best = heads_risk(EXAMPLE, make_activation("softmax-1", bias=sink_bias(EXAMPLE, 0)))
    assert heads_risk(EXAMPLE, name, tolerance=1e-6).risk > best.risk + 1e-4


def test_fewer_and_more_heads_than_directions():
    risks = [heads_risk(UNEQUAL, "softmax", heads=heads).risk for heads in (1, 2, 3, 5)]
    assert risks[0] > risks[1] > risks[2] == risks[3]
    gains = [head.gain for head in heads_risk(UNEQUAL, "softmax").heads]
    assert gains == sorted(gains, reverse=True)
    assert risks[2] == pytest.approx(UNEQUAL.trivial_risk - sum(gains), rel=1e-12)


def test_the_general_formula_contains_the_aligned_one():
    aligned = heads_risk(EXAMPLE, "softmax")
    scale = aligned.heads[0].m_k
    result = heads_moments(EXAMPLE, "softmax", scale * np.eye(4), samples=1 << 16, seed=1)
    head = aligned.heads[0]
    assert np.diag(result.A) * 4.0 == pytest.approx(head.A, abs=0.02)
    assert np.diag(result.B) == pytest.approx((head.B + 3.0 * head.B_idle) / 4.0, abs=0.01)
    own = 1.0 - float(np.sum(np.diag(result.A) ** 2 / np.diag(result.B)))
    assert own == pytest.approx(aligned.risk, abs=0.01)
    assert result.risk < own  # values along several directions can only help
    # a head that attends to all tokens alike lets the others subtract their mean
    more = np.vstack([scale * np.eye(4), np.zeros((1, 4))])
    assert heads_moments(EXAMPLE, "softmax", more, seed=1).risk < result.risk
    copies = np.vstack([scale * np.eye(4)] * 2)
    assert heads_moments(EXAMPLE, "softmax", copies, seed=1).risk == pytest.approx(
        heads_moments(EXAMPLE, "softmax", copies[:4], seed=1).risk, abs=1e-9
    )


@pytest.mark.parametrize("task", [EXAMPLE, MultiHeadSLR([1.0, 4.0], "2,5", 0.3)], ids=["4", "2"])
def test_a_uniform_head_subtracts_the_mean_of_the_weights(task):
    """The closed form against the general formula at the same keys."""
    result = heads_risk(task, "softmax", uniform=True)
    keys = np.zeros((task.directions + 1, task.directions))
    for row, head in enumerate(result.heads):
        keys[row, head.direction] = head.m_k
    sampled = heads_moments(task, "softmax", keys, samples=1 << 16, seed=3)
    assert abs(Estimate(sampled.risk, sampled.error).z_score(result.risk)) < 3.5
    assert result.bayes_risk < result.risk < heads_risk(task, "softmax").risk
    with pytest.raises(ValueError, match=r"^uniform must be False for weights that do not sum to"):
        heads_risk(task, "erf", uniform=True)


def test_the_bayes_softmax_by_the_general_formula():
    keys = np.diag(np.sqrt(UNEQUAL.signals))
    result = heads_moments(UNEQUAL, "bayes-softmax", keys, samples=1 << 17, seed=4)
    assert abs(Estimate(result.risk, result.error).z_score(heads_bayes_risk(UNEQUAL).risk)) < 3.5
    assert result.values == pytest.approx(np.eye(3), abs=0.06)


def test_best_values_of_given_moments():
    rng = np.random.default_rng(0)
    A, root = rng.standard_normal((3, 2)), rng.standard_normal((3, 3))
    B = root @ root.T
    risk, values = best_values_risk(A, B, 0.5)
    assert risk == pytest.approx(1.25 - np.trace(A.T @ np.linalg.solve(B, A)), rel=1e-10)
    assert B @ values == pytest.approx(A, abs=1e-9)


def test_weights_of_heads():
    scores = np.random.default_rng(0).standard_normal((7, 4, 3))
    joint = head_weights(None, scores, np.zeros(3))
    assert joint.sum(axis=(1, 2)) == pytest.approx(1.0)
    own = head_weights(make_activation("softmax"), scores, np.array([0.0, 1.0, 2.0]))
    assert own.sum(axis=1) == pytest.approx(1.0)


def test_what_a_result_tells():
    result = heads_risk(UNEQUAL, "softmax")
    shown = json.loads(json.dumps(result.to_dict()))
    assert shown["signals"] == [1.0, 4.0, 9.0]
    assert len(shown["m_k"]) == 3
    assert shown["excess"] == pytest.approx(result.excess)
    assert "3 heads of softmax on 3 directions" in str(result)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MultiHeadSLR([], 3), r"^signals must be 1 to 64 numbers, got 0 numbers$"),
        (lambda: MultiHeadSLR([-1.0], 3), r"^signals must be a finite number >= 0, got -1.0$"),
        (lambda: MultiHeadSLR([1.0, 2.0], 3, directions=2), r"^directions must not be given if"),
        (
            lambda: MultiHeadSLR([1.0, 2.0], 3, probabilities=[0.5]),
            r"^probabilities must be 2 numbers, one for each signal, got \[0.5\]$",
        ),
        (
            lambda: MultiHeadSLR([1.0, 2.0], 3, probabilities=[0.5, 0.6]),
            r"^probabilities must be numbers that sum to 1",
        ),
        (lambda: heads_risk(EXAMPLE, "softmax", heads=0), r"^heads must be a whole number >= 1"),
        (
            lambda: heads_risk(MultiHeadSLR([1e9, 1.0], 3), "sparsemax"),
            r"^signals must be at most 10000 with sparsemax, got 1000000000.0$",
        ),
        (lambda: heads_risk(EXAMPLE, "bayes-softmax", heads=3), r"^heads must be at least the 4"),
        (lambda: heads_moments(EXAMPLE, "softmax", np.eye(3)), r"^keys must be finite numbers of"),
        (
            lambda: heads_moments(EXAMPLE, "erf", np.eye(4)),
            r"^bias of erf must be a number for each head, got free$",
        ),
        (
            lambda: heads_moments(EXAMPLE, "softmax", np.eye(4), biases=np.zeros(3)),
            r"^biases must be 4 finite numbers",
        ),
        (lambda: sink_bias(MultiHeadSLR([1.0], "1,2"), 0), r"^length must be a single number here"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
