"""The general channels against the special ones, and tasks of one's own."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import special

from slrlab import (
    MaxSLR,
    SelectionTask,
    SpikedSLR,
    TiltedTask,
    amp_state_evolution,
    bayes_optimal,
    bayes_thresholds,
    run_amp,
)
from slrlab.model.tasks import Task
from slrlab.theory.bayes_optimal.channels import CHANNELS, channel_class
from slrlab.theory.bayes_optimal.curve import Curve, stable_points
from slrlab.theory.bayes_optimal.overlaps import BayesConjugates, BayesOverlaps
from slrlab.theory.bayes_optimal.selected import MaxChannel, SelectionChannel
from slrlab.theory.bayes_optimal.spiked import SpikedChannel
from slrlab.theory.bayes_optimal.tilted import TiltedChannel
from spiked_points import POINTS


@dataclass(frozen=True, init=False)
class OwnSpiked(SpikedSLR):
    """Spiked-SLR by another class: the general channel serves it."""


@dataclass(frozen=True, init=False)
class OwnMax(MaxSLR):
    """Max-SLR by another class."""


@dataclass(frozen=True, init=False)
class Wide(TiltedTask):
    """The relevant token has variance 1 + signal: its mean is zero."""

    def log_ratio(self, scores):
        width = 1.0 + self.signal
        return self.signal / width * scores**2 / 2.0 - math.log(width) / 2.0

    @property
    def relevant_interval(self):
        return -9.0 * math.sqrt(1.0 + self.signal), 9.0 * math.sqrt(1.0 + self.signal)

    def sample_relevant(self, rng, size):
        return math.sqrt(1.0 + self.signal) * rng.standard_normal(size)


# --- the registry -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "channel"),
    [
        (SpikedSLR(2.0, 3), SpikedChannel),
        (MaxSLR(2.0, 3), MaxChannel),
        (OwnSpiked(2.0, 3), TiltedChannel),
        (OwnMax(2.0, 3), SelectionChannel),
        (Wide(2.0, 3), TiltedChannel),
    ],
)
def test_an_unlisted_task_has_the_channel_of_its_family(task, channel):
    assert channel_class(task) is channel


def test_a_special_channel_can_be_registered(monkeypatch):
    monkeypatch.setitem(CHANNELS, OwnSpiked, SpikedChannel)
    assert channel_class(OwnSpiked(2.0, 3)) is SpikedChannel


# --- general against special --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "q_k", "q_v"),
    [
        *POINTS,
        (SpikedSLR(2.0, 3), 0.0, 0.0),
        (SpikedSLR(2.0, 3), 1.0 - 1e-9, 0.5),
        (SpikedSLR(3.0, 10**6), 0.9, 0.9),
    ],
)
def test_tilted_channel_on_spiked(location_defect, task, q_k, q_v):
    """Both are quadratures; they agree to 1e-9."""
    q = BayesOverlaps.at(q_k, q_v)
    general, special_one = TiltedChannel(task), SpikedChannel(task)
    ours, theirs = general.moments(q), special_one.moments(q)
    for name in ("key", "value", "log_z"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-9, abs=1e-9)
    assert general.confusion(q) == pytest.approx(special_one.confusion(q), abs=1e-10)
    assert location_defect(general, q) < 1e-9


@pytest.mark.parametrize(
    ("task", "q_k", "q_v"),
    [
        (MaxSLR(2.0, 3, 0.3), 0.5, 0.6),
        (MaxSLR(8.0, 2, 0.3), 0.95, 0.6),
        (MaxSLR(1.0, "2,5", 0.3), 0.1, 0.2),
        (MaxSLR(2.0, 3), 0.5, 1.0),
        (MaxSLR(math.inf, 3, 0.1), 0.6, 0.4),
        (MaxSLR(0.0, 3, 0.1), 0.6, 0.4),
    ],
)
def test_selection_channel_on_max(task, q_k, q_v):
    """The same samples, so that only the posterior of the location differs: by 1e-5."""
    q = BayesOverlaps.at(q_k, q_v)
    ours, theirs = (kind(task, 8).scramble_moments(q) for kind in (SelectionChannel, MaxChannel))
    for name in ("key", "value", "log_z", "confusion"):
        np.testing.assert_allclose(
            getattr(ours, name), getattr(theirs, name), rtol=1e-5, atol=1e-5, err_msg=name
        )


@pytest.mark.parametrize(
    ("alpha", "noise"), [(2.0, 0.3), pytest.param(1.1, 0.0, marks=pytest.mark.slow)]
)
def test_general_results_on_spiked(alpha, noise):
    ours, theirs = (
        bayes_optimal(kind(2.0, 3, noise), alpha=alpha) for kind in (OwnSpiked, SpikedSLR)
    )
    assert ours.status == theirs.status == "converged"
    assert ours.hard == theirs.hard
    for name in ("risk_it", "risk_amp", "q_k", "q_v", "q_k_it", "q_v_it"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), abs=1e-9), name


def test_general_path_on_both():
    for own, listed in (
        (OwnSpiked(2.0, 3, 0.3), SpikedSLR(2.0, 3, 0.3)),
        (OwnMax(2.0, 3, 0.3), MaxSLR(2.0, 3, 0.3)),
    ):
        ours, theirs = (amp_state_evolution(t, alpha=2.0, steps=5) for t in (own, listed))
        assert ours.status == theirs.status
        np.testing.assert_allclose(ours.q_v, theirs.q_v, atol=1e-5)
        np.testing.assert_allclose(ours.q_k, theirs.q_k, atol=1e-5)
        np.testing.assert_allclose(ours.risk, theirs.risk, atol=1e-5)


@pytest.mark.slow
def test_general_results_on_max():
    task = {"signal": 2.0, "length": 2, "noise": 0.3}
    ours, theirs = (bayes_optimal(kind(**task), alpha=2.0) for kind in (OwnMax, MaxSLR))
    assert ours.risk_amp == pytest.approx(theirs.risk_amp, abs=1e-5)


@pytest.mark.slow
def test_general_threshold_on_spiked():
    ours, theirs = (bayes_thresholds(kind(2.0, 3)) for kind in (OwnSpiked, SpikedSLR))
    assert ours.alpha_alg == pytest.approx(theirs.alpha_alg, abs=1e-7)


def test_general_messages_on_both():
    """Message passing on the same data, step by step."""
    options = {"alpha": 2.0, "dim": 150, "seeds": 2, "steps": 6, "test_samples": 200}
    for own, listed in (
        (OwnSpiked(2.0, 3, 0.3), SpikedSLR(2.0, 3, 0.3)),
        (OwnMax(2.0, 3, 0.3), MaxSLR(2.0, 3, 0.3)),
    ):
        for precision in ("ratio", "divergence"):
            ours, theirs = (run_amp(t, precision=precision, **options) for t in (own, listed))
            np.testing.assert_allclose(ours.q_k, theirs.q_k, atol=2e-3)
            np.testing.assert_allclose(ours.q_v, theirs.q_v, atol=2e-3)
            np.testing.assert_allclose(ours.risk, theirs.risk, atol=2e-3)


# --- the channel of a task of one's own ---------------------------------------------------------


def _wide_sample(task, q_k, q_v, size=100_000, seed=0):
    """Plain Monte Carlo; ``R(ω)`` of a Gaussian ratio is known in closed form."""
    rng = np.random.default_rng(seed)
    length, s2, gap = task.length.longest, 1 - q_v + task.noise**2, 1 - q_k
    scores, location = task.sample_scores(rng, size, length)
    keys = q_k * scores + math.sqrt(q_k * gap) * rng.standard_normal(scores.shape)
    values = math.sqrt(q_v) * rng.standard_normal(scores.shape)
    y = values[np.arange(size), location] + math.sqrt(s2) * rng.standard_normal(size)
    # E e^{bχ²/2} over N(ω, V) is e^{bω²/2(1−bV)}/√(1−bV)
    b = task.signal / (1.0 + task.signal)
    bend = b / (1.0 - b * gap)
    log_ratio = bend * keys**2 / 2 - np.log((1.0 - b * gap) * (1.0 + task.signal)) / 2
    logs = log_ratio - (y[:, None] - values) ** 2 / (2 * s2) - math.log(2 * math.pi * s2) / 2
    log_z = special.logsumexp(logs, axis=1)
    p = np.exp(logs - log_z[:, None])
    key = ((p * bend * keys) ** 2).sum(axis=1)
    value = (p**2 * (y[:, None] - values) ** 2).sum(axis=1) / s2
    alone = special.softmax(log_ratio, axis=1)
    return key, value, log_z - math.log(length), 1.0 - (alone**2).sum(axis=1)


@pytest.mark.parametrize(("q_k", "q_v"), [(0.5, 0.4), (0.9, 0.8)])
def test_wide_channel_against_monte_carlo(q_k, q_v):
    task, q = Wide(3.0, 3, 0.4), BayesOverlaps.at(q_k, q_v)
    channel = TiltedChannel(task)
    moments = channel.moments(q)
    expected = (moments.key, moments.value, moments.log_z, channel.confusion(q))
    for sample, mean in zip(_wide_sample(task, q_k, q_v), expected, strict=True):
        assert abs(sample.mean() - mean) < 3.0 * sample.std() / math.sqrt(sample.size)


def test_wide_map_is_the_gradient_of_the_free_entropy():
    channel, h = TiltedChannel(Wide(3.0, 3, 0.4), 1.2), 1e-3
    moments = channel.moments(BayesOverlaps.at(0.5, 0.4))
    for k, v, half in ((h, 0.0, moments.key / 2), (0.0, h, moments.value / (0.6 + 0.16) / 2)):
        up, down = (channel.moments(BayesOverlaps.at(0.5 + n * k, 0.4 + n * v)) for n in (1, -1))
        assert (up.log_z - down.log_z) / (2 * h) == pytest.approx(half, rel=1e-5)


@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_keys_that_cannot_start_by_themselves(alpha, iterate):
    """A centred relevant score: ``q_k = 0`` is a fixed point, stable at small alpha alone."""
    task = Wide(1.0, 2, 0.5)
    channel = TiltedChannel(task, 0.7, accuracy=1e-6)
    assert channel.blind
    points = stable_points(Curve(channel), alpha)
    low, high = (
        iterate(channel, alpha, hats, steps=80, close=0.0).overlaps()
        for hats in (BayesConjugates(1e-3, 0.0), BayesConjugates(1e3, 1e3))
    )
    assert points[0].overlaps.q_v == pytest.approx(low.q_v, abs=1e-4)
    assert points[0].overlaps.q_k == pytest.approx(low.q_k, abs=1e-4)
    assert points[-1].overlaps.q_v == pytest.approx(high.q_v, abs=1e-4)
    assert points[-1].overlaps.q_k == pytest.approx(high.q_k, abs=1e-4)
    assert (points[-1].overlaps.q_k > 0.1) == (alpha > 1.0)


def test_thresholds_say_why_not():
    with pytest.raises(ValueError, match=r"relevant score of non-zero mean .* got Wide"):
        bayes_thresholds(Wide(2.0, 3))


# --- bad tasks ----------------------------------------------------------------------------------


@dataclass(frozen=True, init=False)
class Heavy(Wide):
    def log_ratio(self, scores):
        return super().log_ratio(scores) + 1.0


@dataclass(frozen=True, init=False)
class Falling(SelectionTask):
    def log_weight(self, scores):
        return -self.signal * scores


@dataclass(frozen=True, init=False)
class Undefined(SelectionTask):
    def log_weight(self, scores):
        return np.full_like(scores, math.nan)


class Neither(Task):
    def log_posterior(self, scores):
        return scores

    def sample_scores(self, rng, size, length):
        raise NotImplementedError

    def scores_from_uniforms(self, uniforms):
        raise NotImplementedError


@pytest.mark.parametrize(
    "function",
    [
        lambda task: bayes_optimal(task, alpha=1.0),
        bayes_thresholds,
        lambda task: amp_state_evolution(task, alpha=1.0, steps=2),
        lambda task: run_amp(task, alpha=1.0, dim=10, seeds=1),
    ],
)
@pytest.mark.parametrize(
    ("task", "error", "message"),
    [
        (Heavy(1.0, 2), ValueError, "log_ratio of Heavy must give a ratio of mean 1 .* 2.71828"),
        (Falling(1.0, 2), ValueError, "log_weight of Falling must be finite and .* decrease"),
        (Undefined(1.0, 2), ValueError, "log_weight of Undefined must be finite"),
        (Neither(1.0, 2), TypeError, "task must be a TiltedTask or a SelectionTask, got Neither"),
        ("spiked", TypeError, "task must be a TiltedTask or a SelectionTask, got 'spiked'"),
    ],
)
def test_bad_tasks(function, task, error, message):
    with pytest.raises(error, match=message) as caught:
        function(task)
    assert "\n" not in str(caught.value)
