"""What the weights do: closed forms, identities and plain Monte Carlo written here."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy import integrate, special, stats

from slrlab import (
    MaxSLR,
    OrderParameters,
    SpikedSLR,
    TiltedTask,
    erm_theory,
    hit_rate,
    make_activation,
    minimal_risk,
    weight_statistics,
)
from slrlab.theory.moments.largest import noisy_is_largest
from slrlab.theory.population.closed_forms import best_elementwise_risk

TASK = SpikedSLR(9.0, 10)
NOISY = OrderParameters(m_k=1.3, m_v=1.0, R_k=0.7)
FEW = {"samples": 20_000}


@dataclass(frozen=True, init=False)
class NarrowSLR(TiltedTask):
    """A task without a Gaussian shift: the relevant token has half the variance."""

    name: ClassVar[str] = "narrow"

    def log_ratio(self, scores):
        return scores**2 / 2.0 - (scores - 1.5) ** 2 + math.log(2.0) / 2.0

    @property
    def relevant_interval(self):
        return 1.5 - 6.4, 1.5 + 6.4

    def sample_relevant(self, rng, size):
        return 1.5 + rng.standard_normal(size) / math.sqrt(2.0)


def drawn(task, order, size, seed=11):
    """Yield the scores of the predictor, those of the teacher and the location, by length."""
    rng = np.random.default_rng(seed)
    for length, share in task.length.pairs():
        keys, location = task.sample_scores(rng, round(size * share), length)
        noise = rng.standard_normal(keys.shape)
        yield order.m_k * keys + math.sqrt(order.R_k) * noise, keys, location


def z_score(values, expected, error=0.0):
    values = np.asarray(values, dtype=float)
    return (values.mean() - expected) / math.hypot(values.std() / math.sqrt(values.size), error)


TASKS = [
    SpikedSLR(9.0, 10),
    SpikedSLR(2.0, "1,2,6"),
    NarrowSLR(1.0, "2,5"),
    MaxSLR(2.0, "1,4"),
    MaxSLR(math.inf, 4),
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.name}-{task.length}")
@pytest.mark.parametrize("m_k", [1.3, -0.8])
def test_hit_rate_of_trained_keys_against_plain_monte_carlo(task, m_k):
    order = OrderParameters(m_k, 1.0, R_k=0.7)
    hits = [scores.argmax(axis=1) == where for scores, _, where in drawn(task, order, 100_000)]
    rate = hit_rate(task, order)
    assert abs(z_score(np.concatenate(hits), rate)) < 3.5
    assert noisy_is_largest(task, m_k, 0.7, resolution=1.4) == pytest.approx(rate, abs=1e-10)


def test_trained_keys_on_spiked_slr_act_as_a_smaller_signal():
    q_k = NOISY.q_k
    assert hit_rate(TASK, NOISY) == pytest.approx(
        hit_rate(SpikedSLR(9.0 * NOISY.m_k**2 / q_k, 10)), abs=1e-12
    )
    two = special.ndtr(3.0 * NOISY.m_k / math.sqrt(2.0 * q_k))
    assert hit_rate(SpikedSLR(9.0, 2), NOISY) == pytest.approx(two, abs=1e-12)


@pytest.mark.parametrize("task", [TASK, MaxSLR(2.0, "1,4"), MaxSLR(math.inf, 4)])
def test_hit_rate_without_and_with_little_noise(task):
    little = hit_rate(task, OrderParameters(1.0, 1.0, R_k=0.01))
    assert hit_rate(task, OrderParameters(7.0, 1.0)) == hit_rate(task)
    assert 0.0 < hit_rate(task) - little < 0.06
    equal = sum(p / n for n, p in task.length.pairs())
    assert hit_rate(task, OrderParameters(0.0, 1.0, R_k=1.0)) == pytest.approx(equal)


@pytest.mark.parametrize("name", ["sparsemax", "sigmoid", "relu-normalised", "stick-breaking"])
@pytest.mark.parametrize("task", [TASKS[1], TASKS[3]], ids=["spiked", "max"])
def test_all_numbers_against_plain_monte_carlo_with_the_location(name, task):
    activation = make_activation(name)
    activation = activation.with_bias(-0.4 if activation.bias is None else activation.bias)
    hits, firsts, totals, entropies, distances, gaps = ([] for _ in range(6))
    statistics = weight_statistics(task, activation, NOISY, samples=30_000)
    for scores, keys, location in drawn(task, NOISY, 30_000):
        sigma, at = activation.weights(scores), np.arange(len(scores))
        top = sigma == sigma.max(axis=1, keepdims=True)
        hits.append((top[at, location]) / top.sum(axis=1))
        firsts.append(sigma[at, location])
        totals.append(sigma.sum(axis=1))
        p = task.posterior(keys)
        distances.append(((sigma - p) ** 2).sum(axis=1))
        gaps.append(((statistics.scale * sigma - p) ** 2).sum(axis=1))
        whole = sigma.sum(axis=1, keepdims=True)
        shares = np.where(whole > 0.0, sigma / np.where(whole > 0.0, whole, 1.0), 1.0)
        logs = np.log(np.where(shares > 0.0, shares, 1.0))
        none = (whole[:, 0] == 0.0) * math.log(sigma.shape[1])
        entropies.append(none - (shares * logs).sum(axis=1))
    pairs = {
        "hit_rate": np.concatenate(hits),
        "mean_weight": np.concatenate(firsts),
        "total": np.concatenate(totals),
        "entropy": np.concatenate(entropies),
        "distance": np.concatenate(distances),
        "scaled_distance": np.concatenate(gaps),
    }
    assert statistics.status == "sampled"
    for number, values in pairs.items():
        if np.ptp(values) > 1e-9:
            assert (
                abs(z_score(values, getattr(statistics, number), statistics.errors[number])) < 3.5
            ), number
        else:
            assert getattr(statistics, number) == pytest.approx(values[0], abs=1e-9)


def test_bins_hold_the_frequency_of_the_relevant_token():
    activation = make_activation("softplus")
    statistics = weight_statistics(TASK, activation, NOISY, bins=8, **FEW)
    ((scores, _, location),) = drawn(TASK, NOISY, 200_000)
    sigma = activation.weights(scores)
    relevant = np.zeros(sigma.shape, dtype=bool)
    relevant[np.arange(len(sigma)), location] = True
    assert statistics.bin_tokens.sum() == pytest.approx(10.0)
    assert statistics.bin_tokens @ statistics.bin_posterior == pytest.approx(1.0)
    # near the mean weight of a bin, the relevant token is as frequent as the bin says
    for weight, posterior in list(
        zip(statistics.bin_weight, statistics.bin_posterior, strict=True)
    )[2:-1]:
        near = np.abs(sigma - weight) < 0.01
        assert relevant[near].mean() == pytest.approx(posterior, abs=0.03)


@pytest.mark.parametrize("task", [TASK, MaxSLR(3.0, "1,4"), SpikedSLR(2.0, 3, noise=0.5)])
def test_softmax_is_calibrated(task):
    statistics = weight_statistics(task, "softmax", **FEW)
    assert statistics.distance < 1e-12
    assert statistics.scaled_distance < 1e-12
    assert statistics.miscalibration < 1e-20
    assert np.allclose(statistics.bin_weight, statistics.bin_posterior, atol=1e-12)
    assert statistics.scale == pytest.approx(1.0)
    for name in ("softplus-biased", "softmax-sink"):  # softmax as a limit of the bias
        limit = weight_statistics(task, name, **FEW)
        assert math.isinf(limit.bias)
        assert limit.distance < 1e-12


def test_hardmax_in_closed_form():
    result, rate = weight_statistics(TASK, "hardmax", **FEW), hit_rate(TASK)
    certainty = 1.0 - minimal_risk(TASK, "softmax").risk
    assert result.hit_rate == pytest.approx(rate, abs=1e-12)
    assert result.mean_weight == pytest.approx(rate, abs=1e-9)
    assert (result.total, result.entropy) == (1.0, 0.0)
    assert result.scale == pytest.approx(rate, abs=1e-9)
    assert result.distance == pytest.approx(1.0 - 2.0 * rate + certainty, abs=1e-9)
    assert result.scaled_distance == pytest.approx(certainty - rate**2, abs=1e-9)
    assert result.bin_weight.tolist() == [0.0, 1.0]
    z = (result.bin_posterior - [(1.0 - rate) / 9.0, rate]) / result.bin_posterior_error
    assert np.abs(z).max() < 3.5
    # the weight 1 is calibrated by its factor, the weight 0 is not
    exact = (1.0 - rate) ** 2 / 9.0
    assert abs(result.miscalibration - exact) < 3.5 * result.errors["miscalibration"]


def test_one_token():
    statistics = weight_statistics(SpikedSLR(2.0, 1), "sigmoid", **FEW)
    assert (statistics.hit_rate, statistics.entropy) == (1.0, 0.0)
    assert statistics.scaled_distance == pytest.approx(0.0, abs=1e-12)


def test_the_scaled_distance_is_the_excess_risk():
    for name in ("linear", "erf", "sparsemax", "relu-normalised", "cubic"):
        best = minimal_risk(TASK, name)
        statistics = weight_statistics(TASK, name, best, samples=200)
        assert statistics.scaled_distance == pytest.approx(best.excess, abs=1e-8), name
        assert statistics.scale == pytest.approx(best.m_v), name
        assert statistics.mean_weight == pytest.approx(best.A), name


def test_increasing_activations_find_the_same_tokens():
    names = ("softmax", "linear", "sigmoid", "softplus", "sparsemax", "l2-softmax", "cubic")
    rates = {weight_statistics(TASK, name, samples=200).hit_rate for name in names}
    assert max(rates) - min(rates) < 1e-12
    assert weight_statistics(TASK, "taylor2", samples=2000).hit_rate < min(rates)


def test_a_single_weight_of_an_elementwise_map_knows_as_much_as_its_score():
    lost = best_elementwise_risk(TASK) - minimal_risk(TASK, "softmax").risk
    for name in ("linear", "consmax", "sigmoid"):
        statistics = weight_statistics(TASK, name, samples=100_000, bins=200)
        rest = statistics.scaled_distance - statistics.miscalibration
        error = statistics.errors["miscalibration"]
        # bins of finite width hide a little of the miscalibration
        assert -4.0 * error < rest - lost < 4.0 * error + 0.03 * statistics.scaled_distance, name
    assert statistics.miscalibration < 1e-4  # the sigmoid with the best bias is calibrated


def test_longer_keys_than_the_posterior_are_too_sure():
    """On spiked-SLR the relevant token has the odds of ``softmax(χ/T)``, ``T = q_k/(m_k√ν)``."""
    direction = OrderParameters(1.0, 1.0, R_k=0.4)
    temperature = direction.q_k / 3.0
    for factor, sign in ((0.5, 1.0), (1.0, 0.0), (2.0, -1.0)):
        size = factor / temperature
        order = OrderParameters(size, 1.0, R_k=size**2 * direction.R_k)
        statistics = weight_statistics(TASK, "softmax", order, bins=6, **FEW)
        gap, error = (
            statistics.bin_posterior[-1] - statistics.bin_weight[-1],
            statistics.bin_posterior_error[-1],
        )
        if sign:
            assert sign * gap > 5.0 * error
        else:
            assert abs(gap) < 3.5 * error


def test_keys_of_a_trained_result():
    task = SpikedSLR(2.0, 2)
    trained = erm_theory(task, "linear", alpha=4.0, ridge_k=1.0, ridge_v=1.0, tolerance=0.05)
    statistics = weight_statistics(task, "linear", trained, samples=200)
    assert statistics.m_k == trained.m_k
    assert statistics.R_k == pytest.approx(trained.q_k - trained.m_k**2)
    assert statistics.hit_rate == hit_rate(task, trained)
    # the excess of trained attention: wrong weights, a wrong factor, and noise in the values
    B = statistics.mean_weight / statistics.scale
    parts = B * (trained.m_v - statistics.scale) ** 2 + B * (trained.q_v - trained.m_v**2)
    excess = trained.test_risk - minimal_risk(task, "softmax").risk
    assert statistics.scaled_distance + parts == pytest.approx(
        excess, abs=5 * trained.test_risk_error
    )


def test_infinite_keys_have_the_weights_of_the_limit():
    for name in ("softmax", "softplus-biased"):
        statistics = weight_statistics(MaxSLR(math.inf, 4), name, samples=1000)
        assert statistics.m_k == math.inf
        assert (statistics.hit_rate, statistics.mean_weight, statistics.entropy) == (1.0, 1.0, 0.0)
    long = weight_statistics(SpikedSLR(9.0, 10_000), "softplus", samples=100)
    assert long.m_k == math.inf
    assert long.mean_weight == pytest.approx(minimal_risk(SpikedSLR(9.0, 10_000), "softplus").A)


def test_a_reliability_diagram():
    statistics = weight_statistics(TASK, "sparsemax", samples=1000)
    axes = statistics.plot()
    assert len(axes.lines) >= 2
    frame = statistics.to_frame()
    assert (frame["bin_tokens"] > 0.0).all()
    # the relevant score is N(3, 1), nine others are below it
    exact, _ = integrate.quad(lambda x: stats.norm.pdf(x, 3.0) * stats.norm.cdf(x) ** 9, -6.0, 12.0)
    assert f"hit rate {exact:.7f}" in str(statistics)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((SpikedSLR(math.inf, 3), "softmax"), {}, ValueError, "signal must be finite"),
        ((TASK, "erf", NOISY), {}, ValueError, "bias of erf must be a number at given keys"),
        ((TASK, "softmax", 1.0), {}, TypeError, r"order must be OrderParameters\(m_k, m_v\) or"),
        ((TASK, "softmax"), {"samples": 3}, ValueError, "samples must be a whole number >= 100"),
        ((TASK, "softmax"), {"bins": 0}, ValueError, "bins must be a whole number >= 1"),
        (("spiked", "softmax"), {}, TypeError, "task must be"),
    ],
)
def test_bad_arguments(arguments, options, error, message):
    with pytest.raises(error, match=message):
        weight_statistics(*arguments, **options)
