import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from slrlab import (
    ComputationError,
    MaxSLR,
    SpikedSLR,
    amp_state_evolution,
    bayes_optimal,
    bayes_risk,
    bayes_thresholds,
    make_task,
)
from slrlab.numerics.race import Race
from slrlab.theory.bayes_optimal.curve import Curve, stable_points
from slrlab.theory.bayes_optimal.overlaps import HattedOverlaps, Overlaps
from slrlab.theory.bayes_optimal.refine import refine
from slrlab.theory.bayes_optimal.selected import MaxChannel
from slrlab.theory.bayes_optimal.spiked import SpikedChannel

solve, thresholds = cache(bayes_optimal), cache(bayes_thresholds)


# --- the channel of spiked-SLR ------------------------------------------------------------------

POINTS = [
    (SpikedSLR(2.0, 3, 0.5), 0.5, 0.4),
    (SpikedSLR(2.0, 3), 0.5, 0.999),
    (SpikedSLR(5.0, 10, 0.1), 0.8, 0.6),
    (SpikedSLR(1.0, "1,2,5"), 0.3, 0.7),
    (SpikedSLR(1.0, 2), 0.1, 5e-4),
    (SpikedSLR(0.0, 4), 0.0, 0.5),
    (SpikedSLR(30.0, 3, 0.1), 0.9, 0.9),
    (SpikedSLR(2.0, 3, 30.0), 0.3, 0.5),
]


def _spiked_sample(task, q_k, q_v, size=100_000, seed=0):
    """Plain Monte Carlo: location at token 0, fields and label as the model says."""
    rng = np.random.default_rng(seed)
    variance = 1 - q_v + task.noise**2
    length = task.length.sample(rng, size)
    here = np.arange(task.length.longest) < length[:, None]
    keys = math.sqrt(q_k) * rng.standard_normal(here.shape)
    keys[:, 0] += q_k * math.sqrt(task.signal)
    values = math.sqrt(q_v) * rng.standard_normal(here.shape)
    y = values[:, 0] + math.sqrt(variance) * rng.standard_normal(size)
    log_psi = math.sqrt(task.signal) * keys - task.signal * q_k / 2
    log_psi += -((y[:, None] - values) ** 2) / (2 * variance) - math.log(2 * math.pi * variance) / 2
    log_z = np.log(np.where(here, np.exp(log_psi), 0.0).sum(axis=1))
    p = np.where(here, np.exp(log_psi - log_z[:, None]), 0.0)
    key = task.signal * (p**2).sum(axis=1)
    value = (p**2 * (y[:, None] - values) ** 2).sum(axis=1) / variance
    return key, value, log_z - np.log(length), task.signal * p[:, 0]


def _z(sample, expected):
    error = sample.std() / math.sqrt(sample.size)
    return abs(sample.mean() - expected) / max(error, 1e-12)


@pytest.mark.parametrize(("task", "q_k", "q_v"), POINTS)
def test_spiked_channel_against_monte_carlo(task, q_k, q_v):
    found = SpikedChannel(task).moments(Overlaps.at(q_k, q_v))
    key, value, log_z, location = _spiked_sample(task, q_k, q_v)
    assert _z(key, found.key) < 3.0
    assert _z(location, found.key) < 3.0  # Nishimori: E P_ε = E ΣP²
    assert _z(value, found.value) < 3.0
    assert _z(log_z, found.log_z) < 3.0


@pytest.mark.parametrize(("task", "q_k", "q_v"), [*POINTS, (SpikedSLR(3.0, 10**6), 0.9, 0.9)])
def test_spiked_channel_converges_and_keeps_nishimori(task, q_k, q_v):
    q = Overlaps.at(q_k, q_v)
    coarse, fine = (SpikedChannel(task, level).moments(q) for level in (1.0, 1.7))
    for name in ("key", "value", "log_z"):
        assert getattr(coarse, name) == pytest.approx(getattr(fine, name), rel=2e-9, abs=1e-9)
    assert SpikedChannel(task).location_defect(q) < 1e-9


def test_coarse_grids_are_seen_to_fail():
    """The difference of two resolutions must not hide an error that is there."""
    q, task = Overlaps.at(0.5, 0.4), SpikedSLR(2.0, 3)
    exact = SpikedChannel(task, 1.5).moments(q).value
    rough = [SpikedChannel(task, level).moments(q).value for level in (0.2, 0.27)]
    assert abs(rough[0] - exact) > 1e-7
    assert abs(rough[0] - exact) < 3 * abs(rough[0] - rough[1])


@pytest.mark.parametrize(
    ("task", "q_k", "q_v"), [point for point in POINTS if point[0].signal > 0 and point[2] < 0.95]
)
def test_spiked_map_is_the_gradient_of_the_free_entropy(task, q_k, q_v):
    """∂E log Z/∂q_a = ½ M_a, which makes fixed points stationary points of Φ."""
    channel = SpikedChannel(task, 1.2)
    found = channel.moments(Overlaps.at(q_k, q_v))
    s2 = 1 - q_v + task.noise**2

    def slope(k, v):
        h = 0.02 * min(q_k if k else q_v, 0.05)
        at = lambda n: channel.moments(Overlaps.at(q_k + n * h * k, q_v + n * h * v)).log_z
        return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)

    assert slope(1, 0) == pytest.approx(found.key / 2, rel=1e-6, abs=2e-6)
    assert slope(0, 1) == pytest.approx(found.value / s2 / 2, rel=1e-6, abs=2e-6)


@pytest.mark.parametrize("gap", [1e-4, 1e-8, 1e-12])
def test_nearly_perfect_values(gap):
    """As s → 0 the label names ε: 1 − s²M_v and ν − M_k fall like s, log Z like −log s."""
    task = SpikedSLR(2.0, 3)
    channel = SpikedChannel(task)
    near, nearer = (channel.moments(Overlaps(0.5, 1.0 - g, 0.5, g)) for g in (gap, gap / 4))
    ratio = (2.0 - near.key) / (2.0 - nearer.key)
    assert ratio == pytest.approx(2.0, rel=0.02 if gap > 1e-5 else 1e-3)
    assert (1 - near.value) / (1 - nearer.value) == pytest.approx(
        2.0, rel=0.02 if gap > 1e-5 else 1e-3
    )
    assert nearer.log_z - near.log_z == pytest.approx(math.log(2.0), abs=2 * math.sqrt(gap))


# --- the channel of max-SLR ---------------------------------------------------------------------


@pytest.mark.parametrize(("signal", "gap"), [(0.5, 0.9), (2.0, 0.3), (8.0, 0.05), (3.0, 1e-8)])
def test_two_tokens_race(signal, gap):
    """L = 2: π_1 = E sigmoid(ν·d), d ~ N(ω_1 − ω_2, 2V), and its derivative."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / math.sqrt(2 * math.pi)
    fields = np.array([[0.0, 0.0], [0.7, -0.2], [-1.0, 1.3], [2.0, 1.9]])
    d = fields[:, :1] - fields[:, 1:] + math.sqrt(2 * gap) * nodes
    sigmoid = special.expit(signal * d)
    pi, score = Race.build(signal, gap).log_derivatives(fields)
    np.testing.assert_allclose(pi[:, 0], sigmoid @ weights, atol=2e-6)
    slope = signal * (sigmoid * (1 - sigmoid)) @ weights
    np.testing.assert_allclose(-score[:, 0, 1] * pi[:, 0], slope, atol=2e-6 * signal)
    np.testing.assert_allclose(score[:, 0, 0], slope / pi[:, 0], atol=1e-4)
    np.testing.assert_allclose(score[:, 1, 0], -slope / pi[:, 1], atol=1e-4)


def test_two_tokens_race_at_infinite_signal():
    fields, gap = np.array([[0.0, 0.0], [0.7, -0.2], [-0.3, 0.4]]), 0.3
    d = (fields[:, 0] - fields[:, 1]) / math.sqrt(2 * gap)
    pi, score = Race.build(math.inf, gap).log_derivatives(fields)
    np.testing.assert_allclose(pi[:, 0], special.ndtr(d), atol=2e-6)
    slope = np.exp(-(d**2) / 2) / math.sqrt(4 * math.pi * gap)
    np.testing.assert_allclose(-score[:, 0, 1] * pi[:, 0], slope, atol=5e-6)


def _max_sample(task, q_k, q_v, size, seed=0):
    """Plain Monte Carlo of max-SLR: draw scores and location, then fields; π on a tensor grid."""
    rng = np.random.default_rng(seed)
    length, s = task.length.longest, math.sqrt(1 - q_v + task.noise**2)
    scores, location = task.sample_scores(rng, size, length)
    keys = q_k * scores + math.sqrt(q_k * (1 - q_k)) * rng.standard_normal(scores.shape)
    values = math.sqrt(q_v) * rng.standard_normal(scores.shape)
    rows = np.arange(size)
    y = values[rows, location] + s * rng.standard_normal(size)
    nodes, weights = np.polynomial.hermite_e.hermegauss(12)
    mesh = np.stack(np.meshgrid(*[nodes] * length), axis=-1).reshape(-1, length)
    law = np.prod(np.stack(np.meshgrid(*[weights] * length), axis=-1), axis=-1).ravel()
    law = law / law.sum()
    pi, slopes = np.zeros((size, length)), np.zeros((size, length, length))
    for node, weight in zip(mesh, law, strict=True):
        p = special.softmax(task.signal * (keys + math.sqrt(1 - q_k) * node), axis=1)
        pi += weight * p
        slopes += weight * task.signal * (p[:, :, None] * (np.eye(length) - p[:, None, :]))
    density = np.exp(-((y[:, None] - values) ** 2) / (2 * s**2)) / (s * math.sqrt(2 * math.pi))
    z = (pi * density).sum(axis=1)
    g_key = np.einsum("sij,si->sj", slopes, density) / z[:, None]
    g_value = pi * density * (y[:, None] - values) / (z[:, None] * s)
    return (g_key**2).sum(axis=1), (g_value**2).sum(axis=1), np.log(z)


@pytest.mark.parametrize(
    ("task", "q_k", "q_v"),
    [
        (MaxSLR(1.5, 2, 0.3), 0.6, 0.5),
        (MaxSLR(1.0, 3), 0.3, 0.8),
        (MaxSLR(2.0, 3, 0.1), 0.7, 0.2),
    ],
)
def test_max_channel_against_monte_carlo(task, q_k, q_v):
    found = MaxChannel(task, 12).moments(Overlaps.at(q_k, q_v))
    sample = _max_sample(task, q_k, q_v, 40_000 if task.length.longest == 2 else 4_000)
    for values, expected in zip(sample, (found.key, found.value, found.log_z), strict=True):
        assert _z(values, expected) < 3.0


def test_max_channel_averages_over_lengths():
    q = Overlaps.at(0.4, 0.6)
    mixed = MaxChannel(MaxSLR(2.0, {2: 0.25, 3: 0.75}, 0.2), 9).moments(q)
    two, three = (MaxChannel(MaxSLR(2.0, n, 0.2), 9).moments(q) for n in (2, 3))
    for name in ("key", "value", "log_z"):
        expected = 0.25 * getattr(two, name) + 0.75 * getattr(three, name)
        assert getattr(mixed, name) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("task", [MaxSLR(2.0, 3, 0.3), MaxSLR(math.inf, 2, 0.3)])
def test_max_map_is_the_gradient_of_the_free_entropy(task):
    q_k, q_v, h = 0.5, 0.6, 0.02
    channel = MaxChannel(task, 13)
    found = channel.scatter(Overlaps.at(q_k, q_v))
    for moment, (k, v) in (
        (found.key / 2, (h, 0.0)),
        (found.value / (1 - q_v + task.noise**2) / 2, (0.0, h)),
    ):
        up, down = (
            channel.scatter(Overlaps.at(q_k + sign * k, q_v + sign * v)).log_z for sign in (1, -1)
        )
        gaps = (up - down) / (2 * h) - moment
        bias = 0.15 * h**2 * moment.mean()  # of the difference quotient
        assert abs(gaps.mean()) < 3.5 * gaps.std(ddof=1) / math.sqrt(gaps.size) + bias


def test_max_perfect_channel_is_the_limit():
    """At q_v = 1 the location is known and M_k = E Σ|∂π|²/π."""
    channel = MaxChannel(MaxSLR(2.0, 3), 11)
    limit = channel.moments(Overlaps(0.5, 1.0, 0.5, 0.0))
    gaps = [
        limit.key - channel.moments(Overlaps(0.5, 1.0 - g, 0.5, g)).key for g in (1e-4, 1e-6, 1e-8)
    ]
    assert gaps[0] > gaps[1] > gaps[2] > -1e-6
    assert gaps[2] < 1e-3 * limit.key
    assert limit.value == 1.0
    assert limit.log_z == math.inf


# --- fixed points -------------------------------------------------------------------------------


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


def _iterate(channel, alpha, hats=HattedOverlaps(0.0, 0.0), steps=4000, close=1e-10):
    """Plain state evolution."""
    for _ in range(steps):
        q = hats.overlaps()
        found = channel.moments(q)
        variance = q.gap_v + channel.task.noise**2
        new = HattedOverlaps(alpha * found.key, alpha * found.value / variance)
        done = abs(math.log(new.v / hats.v)) < close if hats.v > 0 else False
        hats = new
        if done or hats.v > 1e13:
            break
    return hats


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
def test_amp_and_informed_branches_are_where_plain_iteration_ends(task, alpha):
    found, channel = solve(task, alpha=alpha), SpikedChannel(task)
    low = _iterate(channel, alpha).overlaps()
    assert found.q_v == pytest.approx(low.q_v, abs=1e-8)
    assert found.q_k == pytest.approx(low.q_k, abs=1e-8)
    high = _iterate(channel, alpha, HattedOverlaps(1e9, 1e9)).overlaps()
    points = stable_points(Curve(channel), alpha)
    assert points[-1].overlaps.q_v == pytest.approx(high.q_v, abs=1e-8)
    assert found.hard == (found.q_v_it != found.q_v)


def test_max_amp_branch_is_where_plain_iteration_ends():
    task = MaxSLR(2.0, 2, 0.3)
    channel = MaxChannel(task, 9)
    (point,) = stable_points(Curve(channel), 2.0)
    low = _iterate(channel, 2.0, close=1e-8).overlaps()
    assert point.overlaps.q_v == pytest.approx(low.q_v, abs=1e-5)
    assert point.overlaps.q_k == pytest.approx(low.q_k, abs=1e-5)


def test_the_standard_error_of_a_sampled_risk_is_honest():
    """The scatter over independent samples is what each sample claims."""
    task, alpha = MaxSLR(2.0, 2, 0.3), 2.0
    coarse = MaxChannel(task, 8)
    (start,) = stable_points(Curve(coarse), alpha)
    found = [refine(coarse, MaxChannel(task, 8, seed), start, alpha) for seed in range(1, 11)]
    scatter = np.std([branch.risk for branch in found], ddof=1)
    claimed = np.mean([branch.error for branch in found])
    assert 0.5 < scatter / claimed < 2.0
    assert all(branch.settled for branch in found)


def test_the_optimal_branch_has_the_larger_free_entropy():
    task = SpikedSLR(2.0, 3, 0.02)
    jump = thresholds(task)
    before, after = (
        solve(task, alpha=alpha) for alpha in (jump.alpha_it - 1e-3, jump.alpha_it + 1e-3)
    )
    assert not before.hard
    assert after.hard
    assert after.free_entropy > after.free_entropy_amp
    assert after.risk_it < after.risk_amp - 0.05
    assert not solve(task, alpha=jump.alpha_alg + 1e-3).hard


@pytest.mark.parametrize("task", [SpikedSLR(2.0, 3), SpikedSLR(1.0, "1,2,3", 0.3)])
def test_more_data_never_hurts(task):
    found = [solve(task, alpha=alpha) for alpha in (0.1, 0.9, 1.05, 1.2, 1.6, 20.0)]
    for name, sign in (("risk_it", -1), ("risk_amp", -1), ("q_k", 1), ("q_v", 1), ("q_k_it", 1)):
        values = np.array([getattr(result, name) for result in found])
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
    found = bayes_optimal(task, alpha=alpha)
    for q in (found.q_k, found.q_v, found.q_k_it, found.q_v_it):
        assert 0.0 <= q <= 1.0
    room = found.error + 1e-12
    assert bayes_risk(task).risk <= found.risk_it + room
    assert found.risk_it <= found.risk_amp + room
    assert found.risk_amp <= task.trivial_risk + room
    assert found.free_entropy >= found.free_entropy_amp


# --- the noiseless branch -----------------------------------------------------------------------


def test_perfect_recovery_has_a_closed_form():
    found = solve(SpikedSLR(2.0, 3), alpha=8.0)
    assert found.q_v == found.q_v_it == 1.0
    assert found.q_k == pytest.approx(16.0 / 17.0, rel=1e-12)
    assert found.free_entropy == math.inf
    assert found.risk_it == pytest.approx(bayes_risk(SpikedSLR(32.0 / 17.0, 3)).risk, rel=1e-12)


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
    assert near[-1].overlaps.gap_v < 1e-6
    assert near[-1].overlaps.q_k == pytest.approx(exact[-1].overlaps.q_k, abs=1e-3)


# --- thresholds ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("signal", "above"), [(0.0, 1.5e-3), (2.0, 1.5e-3), (10.0, 0.03)])
def test_thresholds_without_noise(signal, above):
    """Plain iteration ends on the poor branch just below the threshold, and leaves it above."""
    task = SpikedSLR(signal, 3)
    jump = thresholds(task)
    assert jump.alpha_it == jump.alpha_informed == 1.0
    assert jump.hard_phase
    assert jump.status == "converged"
    just, channel = jump.alpha_alg, SpikedChannel(task, 0.7)
    # closer to it, and to alpha 1, the iteration slows down
    for alpha, near, escapes in ((just - 1.5e-3, -1e-4, False), (just + above, 1e-4, True)):
        assert (_iterate(channel, alpha, steps=600, close=1e-5).v > 1e6) is escapes
        assert solve(task, alpha=just + near).hard is not escapes


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


# --- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [SpikedSLR(2.0, 3, 0.3), MaxSLR(2.0, 2, 0.3)])
def test_no_data(task):
    found = solve(task, alpha=1e-7)
    assert found.risk_it == pytest.approx(task.trivial_risk, abs=1e-6)
    assert max(found.q_k, found.q_v) < 1e-6


def test_inputs_alone_speak_of_the_keys():
    """At small alpha q̂_k = αν/L in spiked-SLR, before any label is understood."""
    found = solve(SpikedSLR(2.0, 3, 0.3), alpha=1e-7)
    assert found.q_k == pytest.approx(1e-7 * 2.0 / 3.0, rel=1e-5)


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
    found = solve(SpikedSLR(0.0, "1,4"), alpha=2.0)
    assert found.q_k == 0.0
    assert found.q_v == 1.0
    assert found.risk_it == pytest.approx(bayes_risk(SpikedSLR(0.0, "1,4")).risk, abs=1e-12)
    by_sample, exact = (
        solve(MaxSLR(0.0, 3, 0.3), alpha=2.0),
        solve(SpikedSLR(0.0, 3, 0.3), alpha=2.0),
    )
    assert by_sample.risk_amp == pytest.approx(exact.risk_amp, abs=3.5 * by_sample.error)


@pytest.mark.parametrize("noise", [0.0, 0.3, 4.0])
@pytest.mark.parametrize("alpha", [0.4, 1.0, 3.0])
def test_one_token_is_linear_regression(noise, alpha):
    found = solve(SpikedSLR(2.0, 1, noise), alpha=alpha)
    q = found.q_v
    assert q * (1 - q + noise**2 + alpha) == pytest.approx(alpha, rel=1e-12)
    assert found.risk_it == pytest.approx(1 + noise**2 - q, rel=1e-12)
    assert found.risk_amp == pytest.approx(1 + noise**2 - q, rel=1e-12)
    assert found.q_k == pytest.approx(2 * alpha / (1 + 2 * alpha))
    assert found.status == "limit"
    assert solve(MaxSLR(2.0, 1, noise), alpha=alpha).q_k == 0.0
    certain = solve(SpikedSLR(math.inf, 3, noise), alpha=alpha)
    assert certain.q_v == pytest.approx(q, rel=1e-12)
    assert certain.q_k == 1.0
    nearly = solve(SpikedSLR(2000.0, 3, noise), alpha=alpha)
    assert nearly.risk_it == pytest.approx(certain.risk_it, abs=2e-3)


def test_one_token_has_the_entropy_of_the_general_formula():
    task = SpikedSLR(2.0, 1, 0.3)
    (point,) = stable_points(Curve(SpikedChannel(task)), 1.7)
    found = solve(task, alpha=1.7)
    assert point.free_entropy == pytest.approx(found.free_entropy, rel=1e-9)
    assert point.overlaps.q_v == pytest.approx(found.q_v, rel=1e-9)


def test_strong_noise():
    found = solve(SpikedSLR(2.0, 3, 100.0), alpha=2.0)
    assert found.risk_it == pytest.approx(10001.0, rel=1e-6)
    assert found.q_v < 1e-3
    assert found.status == "converged"


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
    found = solve(SpikedSLR(2.0, 3), alpha=1.1)
    assert "by AMP (hard)" in str(found)
    assert found.to_dict()["free_entropy"] == "inf"
    assert found.to_frame().shape[0] == 1
    assert HattedOverlaps(math.inf, 0.0).overlaps() == Overlaps(1.0, 0.0, 0.0, 1.0)


# --- the path of message passing ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "alpha"),
    [
        (SpikedSLR(2.0, 3, 0.3), 2.0),
        (SpikedSLR(2.0, 3), 0.9),
        (SpikedSLR(2.0, 3), 1.5),
        (SpikedSLR(0.0, "1,2,3", 0.5), 1.0),
        (SpikedSLR(1.0, 1, 0.5), 2.0),
        (SpikedSLR(math.inf, 4, 0.5), 2.0),
        (MaxSLR(1.0, 1, 0.5), 2.0),
        (MaxSLR(2.0, 2, 0.5), 2.0),
    ],
    ids=str,
)
def test_the_path_ends_at_the_amp_branch(task, alpha):
    sampled = isinstance(task, MaxSLR) and task.length.longest > 1
    path = amp_state_evolution(task, alpha=alpha, steps=30 if sampled else 80)
    end = solve(task, alpha=alpha)
    assert path.status == ("sampled" if sampled else end.status)
    tolerance = 4.0 * (path.error + end.error) if sampled else 1e-6
    assert path.q_k[-1] == pytest.approx(end.q_k, abs=tolerance)
    assert path.q_v[-1] == pytest.approx(end.q_v, abs=tolerance)
    assert path.risk[-1] == pytest.approx(end.risk_amp, abs=tolerance)
    if not sampled:
        assert (np.diff(path.q_v) > -1e-9).all()  # the map is monotone
        assert (np.diff(path.risk) < 1e-9).all()
        assert path.error < 1e-7


def test_the_first_step_of_the_path():
    """From the inputs alone, q̂_k = αν E[1/L]; from the labels, q̂_v = α E[1/L]/(1 + Δ²)."""
    hint = 2.0 * (1.0 + 1.0 / 2.0 + 1.0 / 3.0) / 3.0
    found = amp_state_evolution(SpikedSLR(3.0, "1,2,3", 0.5), alpha=2.0, steps=1)
    assert found.q_k[0] == pytest.approx(3.0 * hint / (1.0 + 3.0 * hint), abs=1e-9)
    assert found.q_v[0] == pytest.approx(hint / (1.25 + hint), abs=1e-9)
    found = amp_state_evolution(MaxSLR(3.0, "1,2,3", 0.5), alpha=2.0, steps=1)
    assert found.q_k[0] == pytest.approx(0.0, abs=1e-9)
    assert found.q_v[0] == pytest.approx(hint / (1.25 + hint), abs=5e-3)


def test_a_path_without_noise_may_be_long():
    path = amp_state_evolution(SpikedSLR(3.0, 1), alpha=4.0, steps=1000)
    assert path.q_v[-1] == 1.0
    assert path.risk[-1] == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": -1.0}, "alpha must be a finite number > 0, got -1.0"),
        ({"steps": 0}, "steps must be a whole number >= 1, got 0"),
        ({"task": MaxSLR(1.0, 65)}, "length must be at most 64"),
        ({"task": 3}, "task must be a TiltedTask or a SelectionTask, got 3"),
    ],
)
def test_bad_input_to_the_path(change, message):
    options = {"task": SpikedSLR(2.0, 3), "alpha": 1.0, "steps": 2} | change
    with pytest.raises((ValueError, TypeError), match=message):
        amp_state_evolution(options.pop("task"), **options)
