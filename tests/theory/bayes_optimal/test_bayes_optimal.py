"""Fixed points of the Bayes-optimal state evolution: references, plain iteration and limits."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slrlab import ComputationError, MaxSLR, SpikedSLR, bayes_optimal, bayes_risk, make_task
from slrlab.theory.bayes_optimal.curve import Curve, stable_points
from slrlab.theory.bayes_optimal.overlaps import BayesConjugates, BayesOverlaps
from slrlab.theory.bayes_optimal.refine import refine
from slrlab.theory.bayes_optimal.selected import MaxChannel
from slrlab.theory.bayes_optimal.spiked import SpikedChannel

solve = cache(bayes_optimal)


@pytest.mark.parametrize("index", range(5))
def test_agreement_with_the_reference(bayes_reference, index):
    assert len(bayes_reference) == 5
    case = bayes_reference[index]
    task = make_task(case["task"], signal=float(case["nu"]), length=case["L"], noise=case["noise"])
    result = solve(task, alpha=case["alpha"])
    for name, suffix in (("amp", ""), ("informed", "_it")):
        if name not in case:
            continue
        expected = case[name]
        assert getattr(result, f"q_k{suffix}") == pytest.approx(expected["q_k"], abs=5e-4)
        assert getattr(result, f"q_v{suffix}") == pytest.approx(expected["q_v"], abs=5e-4)
        risk = result.risk_it if suffix else result.risk_amp
        assert risk == pytest.approx(expected["risk"], abs=5e-4)
        if "free_entropy" in expected and task.noise > 0.0:
            # the reference samples E log Z: its accuracy is that of Φ per sample
            entropy = result.free_entropy if suffix else result.free_entropy_amp
            assert entropy / case["alpha"] == pytest.approx(
                expected["free_entropy"] / case["alpha"], abs=1e-3
            )


@pytest.mark.parametrize(
    ("task", "alpha"),
    [
        (SpikedSLR(2.0, 3, 0.5), 2.0),
        (SpikedSLR(2.0, 3), 1.1),
        (SpikedSLR(1.0, "1,2,3"), 0.9),
        (SpikedSLR(0.0, 5, 0.1), 1.5),
        (SpikedSLR(2.0, 3, 0.01), 1.2),
    ],
)
def test_amp_and_informed_branches_are_where_plain_iteration_ends(task, alpha, iterate):
    result, channel = solve(task, alpha=alpha), SpikedChannel(task)
    low = iterate(channel, alpha).overlaps()
    assert result.q_v == pytest.approx(low.q_v, abs=1e-8)
    assert result.q_k == pytest.approx(low.q_k, abs=1e-8)
    high = iterate(channel, alpha, BayesConjugates(1e9, 1e9)).overlaps()
    points = stable_points(Curve(channel), alpha)
    assert points[-1].overlaps.q_v == pytest.approx(high.q_v, abs=1e-8)
    assert result.hard == (result.q_v_it != result.q_v)


def test_max_amp_branch_is_where_plain_iteration_ends(iterate):
    task = MaxSLR(2.0, 2, 0.3)
    channel = MaxChannel(task, 9)
    (point,) = stable_points(Curve(channel), 2.0)
    low = iterate(channel, 2.0, close=1e-8).overlaps()
    assert point.overlaps.q_v == pytest.approx(low.q_v, abs=1e-5)
    assert point.overlaps.q_k == pytest.approx(low.q_k, abs=1e-5)


def test_the_standard_error_of_a_sampled_risk_is_honest():
    """The scatter over independent samples is what each sample claims."""
    task, alpha = MaxSLR(2.0, 2, 0.3), 2.0
    coarse = MaxChannel(task, 8)
    (start,) = stable_points(Curve(coarse), alpha)
    branches = [refine(coarse, MaxChannel(task, 8, seed), start, alpha) for seed in range(1, 11)]
    scatter = np.std([branch.risk for branch in branches], ddof=1)
    claimed = np.mean([branch.error for branch in branches])
    assert 0.5 < scatter / claimed < 2.0
    assert all(branch.settled for branch in branches)


@pytest.mark.parametrize("task", [SpikedSLR(2.0, 3), SpikedSLR(1.0, "1,2,3", 0.3)])
def test_more_data_never_hurts(task):
    results = [solve(task, alpha=alpha) for alpha in (0.1, 0.9, 1.05, 1.2, 1.6, 20.0)]
    for name, sign in (("risk_it", -1), ("risk_amp", -1), ("q_k", 1), ("q_v", 1), ("q_k_it", 1)):
        values = np.array([getattr(result, name) for result in results])
        assert (sign * np.diff(values) > -1e-12).all(), name


@given(
    signal=st.one_of(st.just(0.0), st.floats(0.01, 40.0)),
    length=st.sampled_from(["1", "2", "3", "1,2,3", "12", "geometric(5)", "1000"]),
    noise=st.sampled_from([0.0, 0.03, 0.5, 3.0]),
    alpha=st.floats(0.01, 50.0),
)
@settings(max_examples=12)
def test_order_of_the_risks(signal, length, noise, alpha):
    task = SpikedSLR(signal, length, noise)
    result = bayes_optimal(task, alpha=alpha)
    for q in (result.q_k, result.q_v, result.q_k_it, result.q_v_it):
        assert 0.0 <= q <= 1.0
    room = result.error + 1e-12
    assert bayes_risk(task).risk <= result.risk_it + room
    assert result.risk_it <= result.risk_amp + room
    assert result.risk_amp <= task.trivial_risk + room
    assert result.free_entropy >= result.free_entropy_amp


# --- the noiseless branch -----------------------------------------------------------------------


def test_perfect_recovery_has_a_closed_form():
    result = solve(SpikedSLR(2.0, 3), alpha=8.0)
    assert result.q_v == result.q_v_it == 1.0
    assert result.q_k == pytest.approx(16.0 / 17.0, rel=1e-12)
    assert result.free_entropy == math.inf
    assert result.risk_it == pytest.approx(bayes_risk(SpikedSLR(32.0 / 17.0, 3)).risk, rel=1e-12)


@pytest.mark.parametrize("alpha", [1.1, 3.0])
def test_perfect_recovery_is_the_limit_of_small_noise(alpha):
    exact = solve(SpikedSLR(2.0, 3), alpha=alpha)
    gaps = []
    for noise in (1e-3, 1e-4):
        points = stable_points(Curve(SpikedChannel(SpikedSLR(2.0, 3, noise))), alpha)
        gaps.append(exact.q_k_it - points[-1].overlaps.q_k)
    assert 0.0 < gaps[1] < gaps[0] / 5
    assert gaps[1] < 1e-3


def test_max_perfect_recovery_is_the_limit_of_small_noise():
    exact, near = (
        stable_points(Curve(MaxChannel(MaxSLR(2.0, 2, noise), 9)), 4.0) for noise in (0.0, 1e-4)
    )
    assert exact[-1].perfect
    assert near[-1].overlaps.variance_v < 1e-6
    assert near[-1].overlaps.q_k == pytest.approx(exact[-1].overlaps.q_k, abs=1e-3)


# --- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [SpikedSLR(2.0, 3, 0.3), MaxSLR(2.0, 2, 0.3)])
def test_no_data(task):
    result = solve(task, alpha=1e-7)
    assert result.risk_it == pytest.approx(task.trivial_risk, abs=1e-6)
    assert max(result.q_k, result.q_v) < 1e-6


def test_inputs_alone_speak_of_the_keys():
    """At small alpha q̂_k = αν/L in spiked-SLR, before any label is understood."""
    result = solve(SpikedSLR(2.0, 3, 0.3), alpha=1e-7)
    assert result.q_k == pytest.approx(1e-7 * 2.0 / 3.0, rel=1e-5)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_much_data_reaches_the_bayes_risk_like_one_over_alpha(noise):
    task = SpikedSLR(2.0, 3, noise)
    excess = [
        alpha * (solve(task, alpha=alpha).risk_it - bayes_risk(task).risk) for alpha in (1e3, 1e5)
    ]
    assert excess[0] == pytest.approx(excess[1], rel=2e-3)
    if noise == 0.0:  # only q_k = αν/(1+αν) is off: the excess is −(1/α)·dE_Bayes/dν
        h = 1e-3
        slope = (bayes_risk(SpikedSLR(2 + h, 3)).risk - bayes_risk(SpikedSLR(2 - h, 3)).risk) / h
        assert excess[1] == pytest.approx(-slope / 2, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("task", [MaxSLR(2.0, 2), MaxSLR(math.inf, 2, 0.3)])
def test_much_data_for_max(task):
    floor = bayes_risk(task).risk
    excess = [solve(task, alpha=alpha).risk_it - floor for alpha in (30.0, 300.0)]
    error = solve(task, alpha=300.0).error
    assert -3 * error < excess[1] < excess[0] / 5
    assert solve(task, alpha=300.0).status == "sampled"


def test_no_signal():
    result = solve(SpikedSLR(0.0, "1,4"), alpha=2.0)
    assert result.q_k == 0.0
    assert result.q_v == 1.0
    assert result.risk_it == pytest.approx(bayes_risk(SpikedSLR(0.0, "1,4")).risk, abs=1e-12)
    by_sample, exact = (
        solve(MaxSLR(0.0, 3, 0.3), alpha=2.0),
        solve(SpikedSLR(0.0, 3, 0.3), alpha=2.0),
    )
    assert by_sample.risk_amp == pytest.approx(exact.risk_amp, abs=3.5 * by_sample.error)


@pytest.mark.parametrize("noise", [0.0, 0.3, 4.0])
@pytest.mark.parametrize("alpha", [0.4, 1.0, 3.0])
def test_one_token_is_linear_regression(noise, alpha):
    result = solve(SpikedSLR(2.0, 1, noise), alpha=alpha)
    q = result.q_v
    assert q * (1 - q + noise**2 + alpha) == pytest.approx(alpha, rel=1e-12)
    assert result.risk_it == pytest.approx(1 + noise**2 - q, rel=1e-12)
    assert result.risk_amp == pytest.approx(1 + noise**2 - q, rel=1e-12)
    assert result.q_k == pytest.approx(2 * alpha / (1 + 2 * alpha))
    assert result.status == "limit"
    assert solve(MaxSLR(2.0, 1, noise), alpha=alpha).q_k == 0.0
    certain = solve(SpikedSLR(math.inf, 3, noise), alpha=alpha)
    assert certain.q_v == pytest.approx(q, rel=1e-12)
    assert certain.q_k == 1.0
    nearly = solve(SpikedSLR(2000.0, 3, noise), alpha=alpha)
    assert nearly.risk_it == pytest.approx(certain.risk_it, abs=2e-3)


def test_one_token_has_the_entropy_of_the_general_formula():
    task = SpikedSLR(2.0, 1, 0.3)
    (point,) = stable_points(Curve(SpikedChannel(task)), 1.7)
    result = solve(task, alpha=1.7)
    assert point.free_entropy == pytest.approx(result.free_entropy, rel=1e-9)
    assert point.overlaps.q_v == pytest.approx(result.q_v, rel=1e-9)


def test_strong_noise():
    result = solve(SpikedSLR(2.0, 3, 100.0), alpha=2.0)
    assert result.risk_it == pytest.approx(10001.0, rel=1e-6)
    assert result.q_v < 1e-3
    assert result.status == "converged"


# --- input and output ---------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.inf, math.nan])
def test_bad_alpha(alpha):
    with pytest.raises(ValueError, match="alpha must be a finite number > 0, got"):
        bayes_optimal(SpikedSLR(2.0, 3), alpha=alpha)


def test_other_bad_input():
    with pytest.raises(TypeError, match="alpha must be a finite number > 0, got 2"):
        bayes_optimal(SpikedSLR(2.0, 3), alpha="2")
    with pytest.raises(ValueError, match="length must be at most 64 for a selection task"):
        bayes_optimal(MaxSLR(2.0, 65), alpha=1.0)
    with pytest.raises(ValueError, match="tolerance must be a finite number > 0, got 0"):
        bayes_optimal(SpikedSLR(2.0, 3), alpha=1.0, tolerance=0)


def test_strict_raises_what_the_status_says():
    task = SpikedSLR(2.0, 3)
    with pytest.raises(ComputationError, match="inaccurate"):
        bayes_optimal(task, alpha=0.9, tolerance=1e-16, strict=True)


def test_results_print_and_convert():
    result = solve(SpikedSLR(2.0, 3), alpha=1.1)
    assert "by AMP (hard)" in str(result)
    assert result.to_dict()["free_entropy"] == "inf"
    assert result.to_frame().shape[0] == 1
    assert BayesConjugates(math.inf, 0.0).overlaps() == BayesOverlaps(1.0, 0.0, 0.0, 1.0)
