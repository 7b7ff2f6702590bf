"""The channels of spiked-SLR and of max-SLR against Monte Carlo, identities and limits."""

import math

import numpy as np
import pytest
from scipy import special

import spiked_points
from slrlab import MaxSLR, SpikedSLR
from slrlab.numerics.race import Race
from slrlab.theory.bayes_optimal.overlaps import BayesOverlaps
from slrlab.theory.bayes_optimal.selected import MaxChannel
from slrlab.theory.bayes_optimal.spiked import SpikedChannel

POINTS = [
    *spiked_points.POINTS,
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
    moments = SpikedChannel(task).moments(BayesOverlaps.at(q_k, q_v))
    key, value, log_z, location = _spiked_sample(task, q_k, q_v)
    assert _z(key, moments.key) < 3.0
    assert _z(location, moments.key) < 3.0  # Nishimori: E P_ε = E ΣP²
    assert _z(value, moments.value) < 3.0
    assert _z(log_z, moments.log_z) < 3.0


@pytest.mark.parametrize(("task", "q_k", "q_v"), [*POINTS, (SpikedSLR(3.0, 10**6), 0.9, 0.9)])
def test_spiked_channel_converges_and_keeps_nishimori(location_defect, task, q_k, q_v):
    q = BayesOverlaps.at(q_k, q_v)
    coarse, fine = (SpikedChannel(task, level).moments(q) for level in (1.0, 1.7))
    for name in ("key", "value", "log_z"):
        assert getattr(coarse, name) == pytest.approx(getattr(fine, name), rel=2e-9, abs=1e-9)
    assert location_defect(SpikedChannel(task), q) < 1e-9


def test_coarse_grids_are_seen_to_fail():
    """The difference of two resolutions must not hide an error that is there."""
    q, task = BayesOverlaps.at(0.5, 0.4), SpikedSLR(2.0, 3)
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
    moments = channel.moments(BayesOverlaps.at(q_k, q_v))
    s2 = 1 - q_v + task.noise**2

    def slope(k, v):
        h = 0.02 * min(q_k if k else q_v, 0.05)
        at = lambda n: channel.moments(BayesOverlaps.at(q_k + n * h * k, q_v + n * h * v)).log_z
        return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)

    assert slope(1, 0) == pytest.approx(moments.key / 2, rel=1e-6, abs=2e-6)
    assert slope(0, 1) == pytest.approx(moments.value / s2 / 2, rel=1e-6, abs=2e-6)


@pytest.mark.parametrize("gap", [1e-4, 1e-8, 1e-12])
def test_nearly_perfect_values(gap):
    """As s → 0 the label names ε: 1 − s²M_v and ν − M_k fall like s, log Z like −log s."""
    task = SpikedSLR(2.0, 3)
    channel = SpikedChannel(task)
    near, nearer = (channel.moments(BayesOverlaps(0.5, 1.0 - g, 0.5, g)) for g in (gap, gap / 4))
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
    moments = MaxChannel(task, 12).moments(BayesOverlaps.at(q_k, q_v))
    sample = _max_sample(task, q_k, q_v, 40_000 if task.length.longest == 2 else 4_000)
    for values, expected in zip(sample, (moments.key, moments.value, moments.log_z), strict=True):
        assert _z(values, expected) < 3.0


def test_max_channel_averages_over_lengths():
    q = BayesOverlaps.at(0.4, 0.6)
    mixed = MaxChannel(MaxSLR(2.0, {2: 0.25, 3: 0.75}, 0.2), 9).moments(q)
    two, three = (MaxChannel(MaxSLR(2.0, n, 0.2), 9).moments(q) for n in (2, 3))
    for name in ("key", "value", "log_z"):
        expected = 0.25 * getattr(two, name) + 0.75 * getattr(three, name)
        assert getattr(mixed, name) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("task", [MaxSLR(2.0, 3, 0.3), MaxSLR(math.inf, 2, 0.3)])
def test_max_map_is_the_gradient_of_the_free_entropy(task):
    q_k, q_v, h = 0.5, 0.6, 0.02
    channel = MaxChannel(task, 13)
    moments = channel.scramble_moments(BayesOverlaps.at(q_k, q_v))
    for moment, (k, v) in (
        (moments.key / 2, (h, 0.0)),
        (moments.value / (1 - q_v + task.noise**2) / 2, (0.0, h)),
    ):
        up, down = (
            channel.scramble_moments(BayesOverlaps.at(q_k + sign * k, q_v + sign * v)).log_z
            for sign in (1, -1)
        )
        gaps = (up - down) / (2 * h) - moment
        bias = 0.15 * h**2 * moment.mean()  # of the difference quotient
        assert abs(gaps.mean()) < 3.5 * gaps.std(ddof=1) / math.sqrt(gaps.size) + bias


def test_max_perfect_channel_is_the_limit():
    """At q_v = 1 the location is known and M_k = E Σ|∂π|²/π."""
    channel = MaxChannel(MaxSLR(2.0, 3), 11)
    limit = channel.moments(BayesOverlaps(0.5, 1.0, 0.5, 0.0))
    gaps = [
        limit.key - channel.moments(BayesOverlaps(0.5, 1.0 - g, 0.5, g)).key
        for g in (1e-4, 1e-6, 1e-8)
    ]
    assert gaps[0] > gaps[1] > gaps[2] > -1e-6
    assert gaps[2] < 1e-3 * limit.key
    assert limit.value == 1.0
    assert limit.log_z == math.inf
