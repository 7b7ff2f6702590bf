"""Minimal risks of all registered activations: closed forms, published values, Monte Carlo."""

import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from slrlab import MaxSLR, SpikedSLR, hit_rate, make_activation, minimal_risk
from slrlab.model.activations import ACTIVATIONS
from slrlab.theory.moments import attention_moments
from slrlab.theory.moments.infinite_keys import infinite_keys

# excess times 1000 at signal 9, lengths 10 and uniform(1,10), from an independent Monte Carlo
# whose noise is about 0.3
PUBLISHED = {
    "linear": (355, 268),
    "erf": (112, 113),
    "laplace": (128, 119),
    "sigmoid": (112, 113),
    "sigmoid-log-length": (258, 218),
    "softplus": (204, 127),
    "relu-over-length": (147, 440),
    "relu": (147, 152),
    "relu-normalised": (45, 39),
    "relu2": (191, 195),
    "relu2-normalised": (20, 17),
    "sparsemax": (2.6, 1.4),
    "entmax15": (1.1, 0.6),
    "entmax1.2": (0.2, 0.1),
    "top2-softmax": (5.4, 2.1),
    "hardmax": (43, 26),
    "ssmax": (0, 2.2),
    "softcap-5": (60, 38),
    "softpick": (0.1, 0.4),
    "sigsoftmax": (0, 0.1),
    "consmax": (300, 283),
    "l2-softmax": (15, 9),
    "taylor2-normalised": (130, 89),
    "taylor2": (209, 205),
    "spherical-2": (121, 81),
    "spherical-4": (24, 16),
    "elu1": (204, 127),
    "cosine": (None, 252),  # 376 at length 10 is off: see the test of cosine
    "l1-linear": (338, 230),
    "stick-breaking": (111, 111),
    "periodic": (122, 81),
    "cosformer": (64, 53),
    "softmax-1": (0, 0.2),
}
# its search over scale and bias missed the optimum of these by up to 1 %
BEATEN = ("laplace", "relu2", "consmax", "taylor2")
CASES = [(name, n) for name, pair in PUBLISHED.items() for n in (0, 1) if pair[n] is not None]
DISGUISES = ("softmax", "softplus-biased", "softmax-sink", "elu1-biased", "hedgehog")


@pytest.mark.parametrize(("name", "which"), CASES)
def test_excess_against_independent_values(name, which):
    result = minimal_risk(SpikedSLR(9.0, (10, "uniform(1,10)")[which]), name)
    value = PUBLISHED[name][which]
    assert result.status.usable
    above = 1000.0 * result.excess - value
    tolerance = min(1.0, 0.5 + 0.01 * value)
    assert -(0.01 * value if name in BEATEN else tolerance) < above < tolerance


def test_excess_of_the_logistic_with_a_free_constant_beside_the_log_of_the_length():
    free = make_activation("sigmoid-log-length").with_bias(None)
    excess = 1000.0 * minimal_risk(SpikedSLR(9.0, "uniform(1,10)"), free).excess
    assert excess == pytest.approx(96.0, abs=0.5)


@pytest.mark.parametrize(("name", "value", "digit"), [("softmax-1", 3.5, 0.1), ("softpick", 9, 1)])
def test_excess_of_two_tokens_against_independent_values(name, value, digit):
    excess = 1000.0 * minimal_risk(SpikedSLR(5.0, 2), name).excess
    assert excess == pytest.approx(value, abs=0.3 + digit / 2.0)  # its noise and its last digit


def test_excess_of_cosine_against_plain_monte_carlo():
    """The published 376 is too low: 2,000,000 sequences give 379.17 ± 0.15.

    No parameter is left to optimise: the squares of the weights sum to 1, and a positive factor on
    the scores changes nothing.
    """
    task, rng = SpikedSLR(9.0, 10), np.random.default_rng(0)
    shares = []
    for _ in range(5):
        scores, location = task.sample_scores(rng, 200_000, 10)
        shares.append(scores[np.arange(len(scores)), location] / np.linalg.norm(scores, axis=1))
    share = np.concatenate(shares)
    error = 2.0 * share.mean() * share.std() / math.sqrt(share.size)
    result = minimal_risk(task, "cosine")
    assert abs(1.0 - share.mean() ** 2 - result.risk) < 3.0 * error
    assert result.excess - 0.376 > 10.0 * error


@pytest.mark.parametrize("task", [SpikedSLR(9.0, 10, noise=0.3), MaxSLR(2.0, "1,4")])
@pytest.mark.parametrize("name", DISGUISES)
def test_activations_that_contain_softmax_as_a_limit(name, task):
    result = minimal_risk(task, name)
    assert abs(result.excess) < 1e-12
    if name == "softmax":
        return
    # the limit is approached: a larger bias comes closer
    sign = math.copysign(1.0, result.bias)
    assert math.isinf(result.bias)
    excesses = [
        minimal_risk(task, make_activation(name, bias=sign * size)).excess for size in (2.0, 6.0)
    ]
    assert 0.0 < excesses[1] < 0.2 * excesses[0]


def test_every_entry_that_is_not_softmax_has_an_excess_above_its_error():
    for name in PUBLISHED:
        task = SpikedSLR(9.0, "uniform(1,10)" if name == "ssmax" else 10)
        result = minimal_risk(task, name)
        assert result.excess > result.error, name


def test_small_keys_of_the_periodic_map_are_its_second_power():
    """``sin²(s/2)`` of ever smaller scores is ``s²/4``: the infimum is that of spherical-2."""
    for task in (SpikedSLR(9.0, "uniform(1,10)"), SpikedSLR(4.0, 3)):
        result, limit = (minimal_risk(task, name) for name in ("periodic", "spherical-2"))
        assert result.status == "boundary"
        assert 0.0 <= result.risk - limit.risk < 2.0 * result.error + 1e-12
        assert result.error < 1e-6


def test_infinitely_long_keys_make_a_bounded_map_a_step():
    task = MaxSLR(3.0, 2)
    limit = minimal_risk(task, "laplace")
    assert limit.status == "limit"
    activation = make_activation("laplace")
    risks = [attention_moments(task, activation, m_k).best_risk for m_k in (1e3, 1e5)]
    gaps = np.array(risks) - limit.risk
    assert (gaps > 0.0).all()
    assert gaps[1] < 0.02 * gaps[0]


def best_exponential(length: float, signal: float) -> float:
    """Return the least risk of ``e^s`` without a sum below, by its closed form."""
    m = np.linspace(0.0, 3.0, 300_001)
    share = np.exp(-(m**2)) / (1.0 + (length - 1.0) * np.exp(-2.0 * m * math.sqrt(signal)))
    return float(1.0 - share.max())


def test_closed_form_of_the_plain_exponential():
    result = minimal_risk(SpikedSLR(9.0, 10), "consmax").risk
    assert result == pytest.approx(best_exponential(10, 9.0), abs=1e-9)


def test_closed_form_of_hardmax():
    def density(x: float) -> float:
        return stats.norm.pdf(x - 3.0) * special.ndtr(x) ** 9

    hit = integrate.quad(density, -6.0, 15.0, epsabs=1e-13)[0]
    assert minimal_risk(SpikedSLR(9.0, 10), "hardmax").risk == pytest.approx(1 - hit**2, abs=1e-9)
    two = special.ndtr(math.sqrt(4.5))
    for signal in (1e3, 1e5, 1e7, 1e12):  # the relevant score is far above the others
        far = minimal_risk(SpikedSLR(signal, 10), "hardmax")
        assert far.status.usable
        assert abs(far.risk) < 1e-12
    assert minimal_risk(SpikedSLR(9.0, 2), "hardmax").risk == pytest.approx(1 - two**2, abs=1e-9)


@pytest.mark.parametrize(
    "task", [SpikedSLR(2.0, 4), MaxSLR(2.0, 4), MaxSLR(30.0, "1,3"), MaxSLR(math.inf, 3)]
)
def test_hit_rate_against_plain_monte_carlo(task):
    rng = np.random.default_rng(3)
    hits = []
    for length, share in task.length.pairs():
        scores, location = task.sample_scores(rng, round(100_000 * share), length)
        hits.append(scores.argmax(axis=1) == location)
    hits = np.concatenate(hits)
    rate = hit_rate(task)
    assert abs(hits.mean() - rate) < 4.0 * math.sqrt(rate * (1.0 - rate) / hits.size) + 1e-12
    assert minimal_risk(task, "hardmax").risk == pytest.approx(1.0 - rate**2, abs=1e-9)


def test_hit_rate_of_two_tokens():
    assert hit_rate(SpikedSLR(9.0, 2)) == pytest.approx(special.ndtr(3.0 / math.sqrt(2.0)))
    assert hit_rate(SpikedSLR(math.inf, 9)) == 1.0
    assert hit_rate(MaxSLR(0.0, 4)) == pytest.approx(0.25)
    with pytest.raises(TypeError, match="task must be"):
        hit_rate("spiked")


@pytest.mark.parametrize("m_k", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("signal", [0.5, 4.0])
def test_sparsemax_of_two_tokens_is_one_integral(m_k, signal):
    # the weights are ½ ± d/2 cut at 0 and 1, d the difference of the scores
    def mean(function) -> float:
        law = stats.norm(m_k * math.sqrt(signal), math.sqrt(2.0) * m_k)
        inside = integrate.quad(
            lambda d: function((1.0 + d) / 2.0) * law.pdf(d), -1.0, 1.0, epsabs=1e-13
        )[0]
        return inside + function(1.0) * law.sf(1.0) + function(0.0) * law.cdf(-1.0)

    moments = attention_moments(SpikedSLR(signal, 2), make_activation("sparsemax"), m_k)
    assert moments.target == pytest.approx(mean(lambda w: w), abs=2e-9)
    assert moments.energy == pytest.approx(mean(lambda w: w**2 + (1.0 - w) ** 2), abs=2e-9)


TASKS = [SpikedSLR(4.0, 5), SpikedSLR(2.0, "1,2,6"), MaxSLR(3.0, 5), MaxSLR(math.inf, 5)]
RULED = [name for name in ACTIVATIONS if name not in ("softmax", "linear", "erf", "softplus")]


@pytest.mark.parametrize("name", RULED)
@pytest.mark.parametrize("task", TASKS, ids=["spiked", "random", "max", "argmax"])
def test_moments_against_plain_monte_carlo(name, task):
    activation = make_activation(name)
    activation = activation.with_bias(-0.4 if activation.bias is None else activation.bias)
    rng = np.random.default_rng(7)
    firsts, squares = [], []
    for length, share in task.length.pairs():
        size = round(60_000 * share)
        scores, location = task.sample_scores(rng, size, length)
        sigma = activation.weights(1.1 * scores)
        firsts.append(sigma[np.arange(size), location])
        squares.append((sigma**2).sum(axis=1))
    moments = attention_moments(task, activation, 1.1)
    for sample, value in ((firsts, moments.target), (squares, moments.energy)):
        values = np.concatenate(sample)
        error = values.std() / math.sqrt(values.size)
        assert abs(values.mean() - value) < 3.0 * math.hypot(error, moments.sampled_error) + 1e-12


@pytest.mark.parametrize("task", [SpikedSLR(1.0, 2), SpikedSLR(9.0, 10), MaxSLR(3.0, 4)])
@pytest.mark.parametrize("name", ["softplus", "elu1"])
def test_long_keys_approach_their_limit(task, name):
    activation = make_activation(name)
    limit = infinite_keys(task, activation, 1.0)
    gaps = [
        abs(attention_moments(task, activation, m_k).best_risk - limit.best_risk)
        for m_k in (32.0, 64.0)
    ]
    assert gaps[1] < 0.6 * gaps[0]
    assert gaps[1] < 0.02


def test_an_optimum_at_infinity_is_a_limit():
    result = minimal_risk(SpikedSLR(9.0, 10_000), "softplus")
    assert result.status == "limit"
    assert result.m_k == math.inf
    assert result.error < 1e-9


LEFT_POWERS = ["x**2", "1", "0.01", "5", "1e-30", "0.1*x**2"]
LEFT_POWERS = [f"normalised: exp(x) + {power}" for power in LEFT_POWERS]


@pytest.mark.parametrize("task", [MaxSLR(3.0, "1,2,6"), MaxSLR(math.inf, 5), SpikedSLR(1.0, 3)])
@pytest.mark.parametrize("text", LEFT_POWERS)
def test_long_keys_of_an_exponential_beside_a_power(text, task):
    """The largest positive score gets all weight; without one, the power shares it."""
    limit = infinite_keys(task, make_activation(text), 1.0)
    rng = np.random.default_rng(5)
    firsts, squares = [], []
    for length, share in task.length.pairs():
        scores, location = task.sample_scores(rng, round(60_000 * share), length)
        sigma = make_activation(text).weights(1e7 * scores)
        firsts.append(sigma[np.arange(len(sigma)), location])
        squares.append((sigma**2).sum(axis=1))
    for sample, value in ((firsts, limit.target), (squares, limit.energy)):
        values = np.concatenate(sample)
        assert abs(values.mean() - value) < 3.0 * values.std() / math.sqrt(values.size)


@pytest.mark.parametrize("constant", [0.01, 5.0])
def test_a_constant_beside_an_exponential_has_its_limit(constant):
    task, text = MaxSLR(math.inf, 10), f"normalised: exp(x) + {constant}"
    result = minimal_risk(task, text)
    assert (result.status, result.m_k) == ("limit", math.inf)
    rng = np.random.default_rng(3)
    scores, location = task.sample_scores(rng, 100_000, 10)
    sigma = make_activation(text).weights(1e5 * scores)
    first = sigma[np.arange(len(sigma)), location]
    errors = 1.0 - 2.0 * result.m_v * first + result.m_v**2 * (sigma**2).sum(axis=1)
    assert abs(errors.mean() - result.risk) < 3.0 * errors.std() / math.sqrt(errors.size)


@pytest.mark.parametrize("signal", [30.0, math.inf])
@pytest.mark.parametrize(("text", "m_k"), [("exp(x) + 1e-30", 40.0), ("exp(-x) + 1e-30", -40.0)])
def test_panels_resolve_an_exponential_that_is_not_declared(signal, text, m_k):
    task = MaxSLR(signal, 10)
    wanted = attention_moments(task, make_activation("softmax"), 40.0).best_risk
    found = attention_moments(task, make_activation(f"normalised: {text}"), m_k).best_risk
    assert found == pytest.approx(wanted, rel=1e-8)


def test_infinitely_long_keys_are_found_beyond_a_local_minimum():
    task = MaxSLR(3.0, "uniform(1,10)")
    for text in ("normalised: exp(x) + x**2", "normalised: exp(x) + abs(x)**3"):
        result = minimal_risk(task, text)
        assert (result.status, result.m_k) == ("limit", math.inf)
        assert result.error < 1e-9
        risks = [attention_moments(task, make_activation(text), m).best_risk for m in (1.0, 30.0)]
        assert result.risk < min(risks)
    # the best keys are inside where the limit is worse
    assert minimal_risk(SpikedSLR(9.0, 10), LEFT_POWERS[0]).status == "converged"
