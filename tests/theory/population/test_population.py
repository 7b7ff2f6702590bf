import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special

from slrlab import (
    ComputationError,
    Elementwise,
    Estimate,
    MaxSLR,
    Normalised,
    OrderParameters,
    ScalarMap,
    SpikedSLR,
    bayes_risk,
    make_activation,
    make_task,
    minimal_risk,
    risk_at,
    risk_profile,
)
from slrlab._result import Status
from slrlab.simulation.data.monte_carlo import monte_carlo_risk
from slrlab.theory.population.closed_forms import best_elementwise_risk, linear_risk

PAPER = ["softmax", "linear", "erf", "softplus"]
ALL = [*PAPER, "sparsemax", "entmax15"]
LENGTHS = ["1", "2", "10", "1,2,3", "1:0.2,2:0.3,5:0.5", "poisson(4)", "geometric(5)"]
TASKS = [("spiked", 3.0), ("max", 2.5), ("max", math.inf)]


@pytest.mark.parametrize("index", range(13))
def test_reference_numbers(population_reference, index):
    assert len(population_reference) == 13
    case = population_reference[index]
    task = make_task(case["task"], signal=float(case["nu"]), length=case["L"])
    result = minimal_risk(task, case["act"])
    assert result.risk == pytest.approx(case["risk"], abs=1e-9)
    # at a minimum an error of 1e-9 in the risk is one of the order of 1e-5 in the location
    assert result.m_k == pytest.approx(case.get("m", result.m_k), abs=1e-5)
    assert result.bias == pytest.approx(case.get("c", result.bias), abs=1e-5)


def _product_grid(signal, length, scale):
    """Normalised softplus on spiked-SLR by summing over every combination of tokens."""
    step = {2: 0.05, 3: 0.1}[length]
    x = np.arange(-9.0, 9.0 + step / 2, step)
    p = np.exp(-(x**2) / 2) * step / math.sqrt(2 * math.pi)
    relevant = np.logaddexp(0, scale * (x + math.sqrt(signal)))
    other = np.logaddexp(0, scale * x)
    if length == 2:
        total, weight = relevant[:, None] + other, p[:, None] * p
        squares = relevant[:, None] ** 2 + other**2
        first = relevant[:, None]
    else:
        total = relevant[:, None, None] + other[:, None] + other
        weight = p[:, None, None] * p[:, None] * p
        squares = relevant[:, None, None] ** 2 + 2 * other[:, None] ** 2
        first = relevant[:, None, None]
    target, energy = (weight * first / total).sum(), (weight * squares / total**2).sum()
    return 1 - target**2 / energy


@pytest.mark.parametrize(("signal", "length"), [(2.0, 3), (5.0, 2)])
def test_softplus_against_every_combination_of_tokens(signal, length):
    """A cut-off of log t on the left would drop a tail that falls only like e^u."""
    result = minimal_risk(SpikedSLR(signal, length), "softplus")
    assert _product_grid(signal, length, result.m_k) == pytest.approx(result.risk, abs=1e-11)
    for factor in (0.98, 1.02):
        assert _product_grid(signal, length, factor * result.m_k) > result.risk


def _simulated():
    """Every pair of task, activation and length: a Latin square gives each pair its third."""
    for (row, activation), (column, length) in itertools.product(
        enumerate(ALL), enumerate(LENGTHS)
    ):
        name, signal = TASKS[(row + column) % len(TASKS)]
        # samples of projections over many lengths are slow
        marks = [pytest.mark.slow] * (activation not in PAPER and "(" in length)
        label = f"{name}-{signal}-{activation}-{length}"
        yield pytest.param(name, signal, activation, length, marks=marks, id=label)


def test_every_pair_is_simulated():
    cases = [((name, signal), *rest) for name, signal, *rest in (c.values for c in _simulated())]
    for one, two in itertools.combinations((TASKS, ALL, LENGTHS), 2):
        pairs = {pair for case in cases for pair in itertools.combinations(case, 2)}
        assert pairs >= set(itertools.product(one, two))


@pytest.mark.parametrize(("name", "signal", "activation", "length"), list(_simulated()))
def test_agrees_with_monte_carlo(name, signal, activation, length):
    """Theory against plain simulation, off the optimum, with residual norms and noise."""
    task = make_task(name, signal=signal, length=length, noise=0.3)
    chosen = make_activation(activation)
    chosen = chosen.with_bias(-0.4) if chosen.bias is None else chosen
    order = OrderParameters(m_k=1.1, m_v=0.8, R_k=0.3, R_v=0.1)
    theory = risk_at(task, chosen, order)
    seed = sum(map(ord, f"{name}{signal}{activation}{length}"))
    sample = monte_carlo_risk(task, chosen, order, samples=60_000, seed=seed)
    exact = theory.error if theory.status is Status.SAMPLED else 0.0
    assert abs(sample.value - theory.risk) <= 3 * math.hypot(sample.error, exact)
    assert theory.status in (Status.CONVERGED, Status.SAMPLED)


@pytest.mark.parametrize("length", ["2", "10", "1,2,3", "geometric(5)", "1000000"])
@pytest.mark.parametrize(("name", "signal"), [("spiked", 2.0), ("spiked", 40.0), ("max", 3.0)])
def test_softmax_reaches_bayes_for_every_length_law(name, signal, length):
    task = make_task(name, signal=signal, length=length)
    result = minimal_risk(task, "softmax")
    assert result.risk == pytest.approx(result.bayes_risk, rel=1e-9)
    assert result.m_k == pytest.approx(
        task.posterior_scale, rel=2e-2 if length == "1000000" else 1e-4
    )


@pytest.mark.parametrize("length", LENGTHS[1:])
@pytest.mark.parametrize(("name", "signal"), [*TASKS, ("spiked", 0.0), ("max", 40.0)], ids=str)
def test_linear_closed_form(name, signal, length):
    task = make_task(name, signal=signal, length=length, noise=0.2)
    assert minimal_risk(task, "linear").risk == pytest.approx(linear_risk(task), abs=1e-10)


def test_linear_rate_is_the_mean_length_by_simulation():
    """L̄/ν, not L/(L−1)/ν: the two differ by a factor 4 at L = 5."""
    task = SpikedSLR(400.0, 5)
    best = minimal_risk(task, "linear")
    sample = monte_carlo_risk(task, "linear", OrderParameters(best.m_k, best.m_v), seed=3)
    assert abs(sample.z_score(best.risk)) < 3
    assert abs(sample.value * 400.0 - 5.0) < 0.2
    assert abs(sample.value * 400.0 - 1.25) > 1.0


@given(
    name=st.sampled_from(["spiked", "max"]),
    signal=st.floats(0.05, 12.0),
    length=st.sampled_from(["2", "5", "1,2,3"]),
    activation=st.sampled_from(PAPER[:3]),
)
def test_no_activation_beats_bayes_and_noise_only_adds(name, signal, length, activation):
    clean = minimal_risk(make_task(name, signal=signal, length=length), activation)
    noisy = minimal_risk(make_task(name, signal=signal, length=length, noise=0.7), activation)
    assert clean.risk >= clean.bayes_risk * (1 - 1e-9)
    assert clean.risk <= 1.0 + 1e-12
    assert noisy.risk - clean.risk == pytest.approx(0.49, abs=1e-9)


@pytest.mark.parametrize("activation", PAPER)
@pytest.mark.parametrize(("name", "signal"), TASKS, ids=str)
def test_the_optimum_is_stationary_and_aligned(name, signal, activation):
    task = make_task(name, signal=signal, length="1,2,3")
    best = minimal_risk(task, activation)
    if best.status in (Status.LIMIT, Status.BOUNDARY):
        assert math.isinf(signal)
        return
    chosen = make_activation(activation).with_bias(best.bias)
    at = lambda m_k, m_v, R_k=0.0, R_v=0.0: (
        risk_at(task, chosen, OrderParameters(m_k, m_v, R_k, R_v)).risk
    )
    h = 1e-3
    for m_k, m_v in ((best.m_k + h, best.m_v), (best.m_k - h, best.m_v)):
        assert best.risk - 1e-12 <= at(m_k, m_v) < best.risk + 1e-4
    assert at(best.m_k, best.m_v + h) > best.risk
    assert at(best.m_k, best.m_v, R_k=h) > best.risk
    assert at(best.m_k, best.m_v, R_v=h) == pytest.approx(best.risk + h * best.B, rel=1e-9)
    assert at(best.m_k, best.m_v) == pytest.approx(best.risk, abs=1e-12)


@pytest.mark.parametrize("length", [2, 10])
def test_the_best_elementwise_map_is_a_logistic_below_erf_above_bayes(length):
    task = SpikedSLR(9.0, length)
    floor = best_elementwise_risk(task)
    assert bayes_risk(task).risk < floor < minimal_risk(task, "erf").risk
    logistic = make_activation("elementwise: sigmoid(x)", bias="optimal")
    result = minimal_risk(task, logistic)
    assert result.risk == pytest.approx(floor, abs=1e-9)
    assert result.m_k == pytest.approx(3.0, abs=1e-3)
    assert result.bias == pytest.approx(-4.5 - math.log(length - 1), abs=1e-3)


def _simulated_excess(task, activation, m_k):
    """``E‖p‖² sin²∠(σ, p)`` by plain simulation: the mean of ``|p − cσ|²`` at the best ``c``."""
    length = task.length.longest
    scores, _ = task.sample_scores(np.random.default_rng(0), 200_000, length)
    p, sigma = task.posterior(scores), activation.weights(m_k * scores)
    scale = (p * sigma).sum() / (sigma * sigma).sum()
    return Estimate.of(((p - scale * sigma) ** 2).sum(axis=1))


@pytest.mark.parametrize(
    ("signal", "length", "activation"),
    [
        (3.0, 4, "softplus"),
        (9.0, 10, "sparsemax"),
        (9.0, 10, "entmax15"),
        (5.0, 2, Normalised("softmax1", sink=1.0, exponential="everywhere")),
    ],
    ids=["softplus", "sparsemax", "entmax15", "softmax1"],
)
def test_excess_is_an_angle(signal, length, activation):
    """``E_σ − E_Bayes = E‖p‖² sin²∠(σ, p)``, and no other keys have a smaller angle."""
    task = SpikedSLR(signal, length)
    best = minimal_risk(task, activation)
    fixed = make_activation(activation).with_bias(best.bias)
    here = _simulated_excess(task, fixed, best.m_k)
    assert best.status is Status.CONVERGED
    assert abs(best.excess - here.value) < 3.5 * here.error
    for factor in (0.8, 1.25):  # on the same sample
        assert _simulated_excess(task, fixed, factor * best.m_k).value > here.value


@pytest.mark.parametrize("activation", PAPER)
def test_a_million_tokens(activation):
    result = minimal_risk(SpikedSLR(16.0, 10**6), activation)
    assert result.bayes_risk < result.risk * (1 + 1e-9)
    assert result.error < 1e-9
    if math.isinf(result.m_k):  # a limit: any long keys are near it
        result = replace(result, m_k=1e3)
    sample = monte_carlo_risk(
        SpikedSLR(16.0, 10**4),
        make_activation(activation).with_bias(result.bias),
        OrderParameters(result.m_k, result.m_v),
        samples=400,
        seed=5,
    )
    other = risk_at(
        SpikedSLR(16.0, 10**4),
        make_activation(activation).with_bias(result.bias),
        OrderParameters(result.m_k, result.m_v),
    )
    assert abs(sample.z_score(other.risk)) < 3


def test_certain_places():
    """Infinite signal: exact for maps that separate, a computed limit for bounded ones."""
    for activation in PAPER:
        result = minimal_risk(SpikedSLR(math.inf, "2,5", noise=0.1), activation)
        assert result.risk == pytest.approx(0.01)
        assert result.status is Status.LIMIT
    fixed = minimal_risk(SpikedSLR(math.inf, 5), make_activation("erf", bias=0.0))
    near = minimal_risk(SpikedSLR(1e6, 5), make_activation("erf", bias=0.0))
    # φ = 2 on the relevant token, φ(0) = 1 on the four others: 1 − 4/(4+4)
    assert fixed.risk == pytest.approx(0.5, abs=1e-6)
    assert near.risk == pytest.approx(0.5, abs=1e-2)


def test_profile_and_pictures():
    task = SpikedSLR(2.0, 3)
    profile = risk_profile(task, "softmax", np.linspace(-1, 3, 9))
    assert profile.risk.argmin() == 5
    assert list(profile.to_frame().columns) == ["m_k", "risk", "error", "m_v"]
    assert profile.error.max() < 1e-12
    axes = profile.plot()
    assert axes.get_xlabel()
    assert len(axes.lines) == 2
    erf = risk_profile(task, "erf", [0.6])
    assert erf.risk[0] == pytest.approx(minimal_risk(task, "erf").risk, abs=1e-5)


def test_results_print_and_convert():
    result = minimal_risk(MaxSLR(math.inf, 3), "softmax")
    assert result.to_dict()["m_k"] == "inf"
    assert result.to_dict()["length"] == "3"
    assert "softmax on max" in str(result)
    assert result.to_frame().shape[0] == 1
    assert "<table>" in result._repr_html_()


HIDDEN = Normalised(  # a kink that no one declared
    "hidden",
    phi=ScalarMap(lambda x: np.maximum(x, 0.0), lambda x: 1.0 * (x > 0.0), np.zeros_like),
)


def test_a_kink_is_exact_if_it_is_known_and_else_says_how_inaccurate_it_is():
    task, order = SpikedSLR(9.0, 3), OrderParameters(1.0, 1.0)
    exact = risk_at(task, "normalised: relu(x)", order)
    assert exact.status is Status.CONVERGED
    result = risk_at(task, HIDDEN, order)
    assert result.status is Status.INACCURATE
    assert 1e-9 < result.error < 1e-2
    assert abs(result.risk - exact.risk) < result.error
    assert risk_at(task, HIDDEN, order, tolerance=1e-3).status is Status.CONVERGED


def test_failures_are_a_status_or_an_error_when_asked():
    bad = make_activation("elementwise: exp(x**2)")
    with np.errstate(all="ignore"):
        result = risk_at(SpikedSLR(1.0, 2), bad, OrderParameters(30.0, 1.0))
        assert result.status is Status.FAILED
        with pytest.raises(ComputationError, match="status failed"):
            risk_at(SpikedSLR(1.0, 2), bad, OrderParameters(30.0, 1.0), strict=True)


def test_a_free_bias_needs_a_number_at_given_order_parameters():
    with pytest.raises(ValueError, match="bias of erf must be a number"):
        risk_at(SpikedSLR(1.0, 2), "erf", OrderParameters(1.0, 1.0))


@pytest.mark.parametrize("signal", [2.0, math.inf])
def test_weights_that_vanish_count_as_a_miss(signal):
    """ReLU leaves no weight when all scores are negative: 0/0 is 0, on every path."""
    relu = make_activation("normalised: relu(x)")
    order = OrderParameters(1.0, 0.9)
    for task in (MaxSLR(signal, 2), SpikedSLR(2.0, "1,3")):
        result = risk_at(task, relu, order)
        sample = monte_carlo_risk(task, relu, order, samples=100_000, seed=8)
        assert result.status is Status.CONVERGED
        assert abs(result.risk - sample.value) <= result.error + 3 * sample.error
        assert result.risk > result.bayes_risk


def _bump(w, mean, variance):
    """``E φ`` and ``E φ²`` of ``φ(x) = e^{−wx²}`` for a normal ``x``."""
    both = [1.0 + 2.0 * c * variance for c in (w, 2.0 * w)]
    return [
        math.exp(-c * mean**2 / b) / math.sqrt(b) for c, b in zip((w, 2.0 * w), both, strict=True)
    ]


def _wave(w, mean, variance):
    """``E φ`` and ``E φ²`` of ``φ(x) = 1 + sin(wx)`` for a normal ``x``."""
    sine = math.exp(-(w**2) * variance / 2.0) * math.sin(w * mean)
    cosine = math.exp(-2.0 * w**2 * variance) * math.cos(2.0 * w * mean)
    return 1.0 + sine, 1.5 + 2.0 * sine - 0.5 * cosine


@pytest.mark.parametrize("w", [1, 3, 10, 30, 100, 300, 1000, 3000, 10000])
@pytest.mark.parametrize(
    ("moments", "phi"),
    [
        (_bump, lambda w, x: np.exp(-w * x**2)),
        (_wave, lambda w, x: 1.0 + np.sin(w * x)),
    ],
    ids=["bump", "wave"],
)
def test_an_integral_that_went_wrong_is_never_called_converged(moments, phi, w):
    """Maps ever steeper than the grid, with closed forms: the error covers what is wrong."""
    order, length, signal = OrderParameters(1.1, 0.7), 3, 2.0
    A, square = moments(w, order.m_k * math.sqrt(signal), order.m_k**2)
    B = square + (length - 1) * moments(w, 0.0, order.m_k**2)[1]
    exact = 1.0 - 2.0 * order.m_v * A + order.m_v**2 * B
    # a function, not an expression: nobody tells where its narrow features are
    phi = ScalarMap(partial(phi, w), np.zeros_like, np.zeros_like)
    result = risk_at(SpikedSLR(signal, length), Elementwise("steep", phi=phi), order)
    wrong = abs(result.risk - exact)
    assert wrong <= result.error + 1e-14
    assert wrong < 1e-9 or result.status is Status.INACCURATE
    if w < 10:
        assert result.status is Status.CONVERGED
    if moments is _bump and w >= 30:
        assert wrong > 1e-6  # the grid is too coarse here, and the test can see it


@pytest.mark.parametrize("m_k", [1e4, 1e6])
def test_keys_of_any_length_come_to_the_largest_score(m_k):
    """As ``m_k → ∞`` softmax takes the largest score: the risk is 2(1 − P(it is relevant))."""
    result = risk_at(SpikedSLR(2.0, 3), "softmax", OrderParameters(m_k, 1.0))
    hit = lambda x: math.exp(-((x - math.sqrt(2.0)) ** 2) / 2.0) * special.ndtr(x) ** 2
    relevant = integrate.quad(hit, -12.0, 14.0, epsabs=1e-13)[0] / math.sqrt(2.0 * math.pi)
    assert result.risk == pytest.approx(2.0 * (1.0 - relevant), abs=1.0 / m_k)
    assert result.status is Status.CONVERGED
    assert result.error < 1e-9


def test_an_optimum_beyond_the_search_is_bounded_by_bayes():
    slow = make_activation("normalised: exp(x/100)")
    result = minimal_risk(MaxSLR(5.0, 3), slow)
    assert result.status is Status.BOUNDARY
    assert result.risk - result.error <= result.bayes_risk + 1e-9
    assert minimal_risk(MaxSLR(math.inf, 3), "normalised: 2*exp(x)").status is Status.LIMIT


def test_the_profile_carries_errors_and_the_worst_status():
    profile = risk_profile(SpikedSLR(9.0, 3), HIDDEN, [1.0, 2.0])
    assert profile.status is Status.INACCURATE
    assert (profile.error > 0).all()
    phi = ScalarMap(np.log, np.reciprocal, np.square)
    with np.errstate(invalid="ignore", divide="ignore"):
        failed = risk_profile(SpikedSLR(2.0, 3), Elementwise("log", phi=phi), [1.0])
    assert failed.status is Status.FAILED


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: minimal_risk("spiked", "softmax"), "task must be a Task"),
        (lambda: minimal_risk(SpikedSLR(1.0, 2), 3), "activation must be an Activation"),
        (lambda: risk_at(SpikedSLR(1.0, 2), "softmax", (1, 1)), "order must be OrderParameters"),
        (lambda: minimal_risk(SpikedSLR(1.0, 2), "softmax", tolerance=-1), "tolerance must be"),
        (lambda: risk_profile(SpikedSLR(1.0, 2), "softmax", "12"), "m_k must be a sequence"),
        (lambda: risk_profile(SpikedSLR(math.inf, 2), "erf", [1.0]), "bias must be a number"),
        (lambda: SpikedSLR(1.0, 2, 1e200), "noise must be at most"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
