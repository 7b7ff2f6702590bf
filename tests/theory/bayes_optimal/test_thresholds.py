"""Thresholds of the Bayes-optimal problem, and the free entropies around them."""

import math
from functools import cache

import pytest

from slrlab import MaxSLR, SpikedSLR, bayes_optimal, bayes_thresholds
from slrlab.theory.bayes_optimal.curve import Curve, stable_points
from slrlab.theory.bayes_optimal.spiked import SpikedChannel

thresholds = cache(bayes_thresholds)


@pytest.mark.parametrize(
    ("signal", "above"),
    [
        (0.0, 1.5e-3),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((2.0, 1.5e-3), (10.0, 0.03))),
    ],
)
def test_thresholds_without_noise(signal, above, iterate):
    """Plain iteration ends on the poor branch just below the threshold, and leaves it above."""
    task = SpikedSLR(signal, 3)
    jump = thresholds(task)
    assert jump.alpha_it == jump.alpha_informed == 1.0
    assert jump.hard_phase
    assert jump.status == "converged"
    just, channel = jump.alpha_alg, SpikedChannel(task, 0.7)
    # closer to it, and to alpha 1, the iteration slows down
    for alpha, near, escapes in ((just - 1.5e-3, -1e-4, False), (just + above, 1e-4, True)):
        assert (iterate(channel, alpha, steps=600, close=1e-5).v > 1e6) is escapes
        assert bayes_optimal(task, alpha=just + near).hard is not escapes


def test_the_possible_threshold_tends_to_one_with_the_noise():
    """α_IT − 1 falls like 1/log(1/Δ), α_informed − 1 like Δ^{2/3}."""
    noises = (1e-6, 1e-9)
    jumps = [thresholds(SpikedSLR(2.0, 3, noise)) for noise in noises]
    scaled = [
        (jump.alpha_it - 1) * math.log(1 / noise) for jump, noise in zip(jumps, noises, strict=True)
    ]
    assert 0.5 > scaled[0] > scaled[1] > 0.4
    ratio = (jumps[0].alpha_informed - 1) / (jumps[1].alpha_informed - 1)
    assert ratio == pytest.approx(100.0, rel=0.01)
    for jump in jumps:
        assert 1.0 < jump.alpha_informed < jump.alpha_it < jump.alpha_alg


def test_free_entropies_cross_at_the_threshold():
    task = SpikedSLR(2.0, 3, 0.02)
    poor, *_, rich = stable_points(Curve(SpikedChannel(task)), thresholds(task).alpha_it)
    assert rich.free_entropy == pytest.approx(poor.free_entropy, abs=1e-8)
    assert rich.overlaps.q_v > poor.overlaps.q_v + 0.1


def test_no_hard_phase():
    for task in (SpikedSLR(2.0, 3, 0.5), SpikedSLR(2.0, 1, 0.5)):
        jump = thresholds(task)
        assert (jump.alpha_it, jump.alpha_alg, jump.alpha_informed) == (math.inf,) * 3
        assert not jump.hard_phase
    for task in (SpikedSLR(math.inf, 3), MaxSLR(2.0, 1)):
        jump = thresholds(task)
        assert (jump.alpha_it, jump.alpha_alg, jump.alpha_informed) == (1.0, 1.0, 1.0)
        assert not jump.hard_phase
    assert not thresholds(SpikedSLR(300.0, 3)).hard_phase  # closed below rounding


@pytest.mark.slow
def test_max_threshold_has_an_error_bar():
    jump = thresholds(MaxSLR(math.inf, 2))
    assert jump.status == "sampled"
    assert 0.0 < jump.error < 5e-3
    assert 1.05 < jump.alpha_alg < 1.3


def test_the_optimal_branch_has_the_larger_free_entropy():
    task = SpikedSLR(2.0, 3, 0.02)
    jump = thresholds(task)
    before, after = (
        bayes_optimal(task, alpha=alpha) for alpha in (jump.alpha_it - 1e-3, jump.alpha_it + 1e-3)
    )
    assert not before.hard
    assert after.hard
    assert after.free_entropy > after.free_entropy_amp
    assert after.risk_it < after.risk_amp - 0.05
    assert not bayes_optimal(task, alpha=jump.alpha_alg + 1e-3).hard
