import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slrlab import (
    ComputationError,
    FullOrderParameters,
    MaxSLR,
    OrderParameters,
    SpikedSLR,
    make_activation,
    minimal_risk,
    risk_and_gradient,
    risk_at,
)
from slrlab._result import Status
from slrlab.model.tasks import TiltedTask
from slrlab.numerics.differences import central_differences
from slrlab.theory.landscape.laws import PAIRS, gaussian_laws, product_laws
from slrlab.theory.landscape.moments import landscape_moments
from slrlab.theory.landscape.risk import best_values, make_landscape
from slrlab.theory.moments.nodes import tilted_nodes

ACTIVATIONS = ["softmax", "linear", "erf", "softplus", "elementwise: 1 + tanh(x)"]
TASKS = [
    SpikedSLR(2.0, 3, 0.3),
    SpikedSLR(4.0, "1,2,5"),
    MaxSLR(2.0, 3),
    MaxSLR(1.5, "2,4", 0.2),
    MaxSLR(math.inf, 3),
]
K, V = np.array([0.9, -0.4, 0.5, 0.2]), np.array([0.3, 0.7, -0.2, 0.4])


def fixed(name):
    activation = make_activation(name)
    return activation if activation.bias is not None else activation.with_bias(-0.4)


def each_case():
    return pytest.mark.parametrize(
        ("task", "name"),
        [
            pytest.param(task, name, id=f"{task.name}-{task.signal:g}-{task.length}-{name}")
            for task in TASKS
            for name in ACTIVATIONS
        ],
    )


@each_case()
def test_risk_off_the_manifold_is_that_of_simulated_tokens(task, name):
    """Effective tokens drawn by plain Monte Carlo, with no formula of the theory."""
    rng, size = np.random.default_rng(7), 200_000
    activation = fixed(name)
    result = risk_and_gradient(task, activation, (K, V))
    mean, variance = 0.0, 0.0
    for length, weight in zip(task.length.lengths, task.length.probabilities, strict=True):
        scores, location = task.sample_scores(rng, size, length)
        tokens = np.concatenate([scores[..., None], rng.standard_normal((size, length, 3))], axis=2)
        labels = tokens[np.arange(size), location, 1] + task.noise * rng.standard_normal(size)
        squares = (labels - (activation.weights(tokens @ K) * (tokens @ V)).sum(axis=1)) ** 2
        mean += weight * squares.mean()
        variance += (weight * squares.std()) ** 2 / size
    assert abs(result.risk - mean) < 4.0 * math.sqrt(variance)
    assert result.status is Status.CONVERGED
    assert result.error < 1e-9


@each_case()
def test_on_the_manifold_it_is_the_population_theory(task, name):
    activation = fixed(name)
    for order in (OrderParameters(1.1, 0.7, 0.2, 0.3), OrderParameters(0.6, 0.4)):
        k = [order.m_k, 0.0, math.sqrt(order.R_k), 0.0]
        v = [0.0, order.m_v, 0.0, math.sqrt(order.R_v)]
        result = risk_and_gradient(task, activation, (k, v))
        assert result.risk == pytest.approx(risk_at(task, activation, order).risk, abs=2e-9)


@each_case()
def test_gradient_is_the_derivative_of_the_risk(task, name):
    activation = fixed(name)
    landscape = make_landscape(task, activation, resolution=1.0)
    point = np.concatenate([K, V, [activation.bias]])
    slope = landscape(K, V, activation.bias)
    numeric = central_differences(lambda y: landscape(y[:4], y[4:8], y[8]).risk, point, 1e-5)
    assert [*slope.k, *slope.v, slope.bias] == pytest.approx(numeric, abs=2e-7)


@pytest.mark.parametrize("name", ["softmax", "erf"])
@pytest.mark.parametrize("task", [TASKS[0], TASKS[2]], ids=lambda task: task.name)
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_symmetries(task, name, data):
    """A turn of the free directions, and (z*, y, z) → −(z*, y, z), leave the risk as it is."""
    numbers = st.floats(-1.5, 1.5, allow_subnormal=False)
    k, v = (np.array(data.draw(st.lists(numbers, min_size=4, max_size=4))) for _ in "kv")
    landscape = make_landscape(task, fixed(name))
    here = landscape(k, v, 0.1)
    angle = data.draw(st.floats(0.0, 6.3))
    turn = np.eye(4)
    turn[2:, 2:] = [
        [math.cos(angle), -math.sin(angle)],
        [math.sin(angle), math.cos(angle)],
    ]
    there = landscape(turn @ k, turn @ v, 0.1)
    assert there.risk == pytest.approx(here.risk, abs=1e-9)
    assert there.k == pytest.approx(turn @ here.k, abs=1e-7)
    # all directions but k* change sign, and so do labels and predictions
    image = landscape(np.array([1, -1, -1, -1]) * k, np.array([-1, 1, 1, 1]) * v, 0.1)
    assert image.risk == pytest.approx(here.risk, abs=1e-9)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("task", TASKS[:4], ids=lambda task: f"{task.name}-{task.length}")
def test_the_manifold_is_invariant(task, name):
    """On M the gradient has no part that leads off it."""
    slope = make_landscape(task, fixed(name))(
        np.array([0.8, 0.0, 0.5, 0.0]), np.array([0.0, 0.6, 0.0, 0.7]), 0.2
    )
    assert slope.k[[1, 3]] == pytest.approx(0.0, abs=1e-9)
    assert slope.v[[0, 2]] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("task", [SpikedSLR(3.0, 4), MaxSLR(2.0, 4)], ids=lambda task: task.name)
def test_softmax_at_the_posterior_is_stationary(task):
    """Prop. 4.2, off the manifold too."""
    k, v = task.posterior_scale * np.eye(4)[0], np.eye(4)[1]
    result = risk_and_gradient(task, "softmax", (k, v))
    assert result.gradient_norm < 1e-9
    # the least std of a score, 1e-5, is felt at its square
    assert result.risk == pytest.approx(minimal_risk(task, "softmax").bayes_risk, abs=1e-10)


def test_linear_attention_has_a_closed_form_everywhere():
    """Polynomials of Gaussians: the risk of linear attention on spiked-SLR, term by term."""
    nu, length = 2.5, 4
    rng = np.random.default_rng(3)
    for _ in range(5):
        k, v = rng.standard_normal((2, 4))
        # f = Σ (1 + x·k)(x·v) with x = n, but x = n + √ν e₁ for the relevant token
        a, b = math.sqrt(nu) * k[0], math.sqrt(nu) * v[0]
        kv, kk, vv = k @ v, k @ k, v @ v
        plain_mean, plain_square = kv, vv + kk * vv + 2.0 * kv**2
        # (1 + a + n·k)(b + n·v)
        mean = (1 + a) * b + kv
        square = (
            (1 + a) ** 2 * (b**2 + vv) + 2 * 2 * (1 + a) * b * kv + kk * b**2 + kk * vv + 2 * kv**2
        )
        others = length - 1
        second = square + others * plain_square + 2 * others * mean * plain_mean
        second += others * (others - 1) * plain_mean**2
        cross = (1 + a) * v[1] + b * k[1]  # E[n₂ (1 + a + n·k)(b + n·v)]
        expected = 1.0 - 2.0 * cross + second
        result = risk_and_gradient(SpikedSLR(nu, length), "linear", (k, v))
        assert result.risk == pytest.approx(expected, rel=1e-11)


def test_error_falls_geometrically_and_a_kink_that_is_not_declared_breaks_that():
    task = SpikedSLR(2.0, 5)

    def errors(activation):
        *rough, exact = (
            np.array(landscape_moments(task, activation, 0.7, 0.6, resolution=resolution))
            for resolution in (0.4, 0.6, 0.8, 2.0)
        )
        return [np.abs(moments - exact).max() for moments in rough]

    coarse, middle, fine = errors(fixed("softmax"))
    assert coarse > 20.0 * middle > 400.0 * fine
    assert fine < 1e-8
    declared = make_activation("elementwise: abs(x)")
    assert errors(declared)[2] < 1e-8
    unknown = replace(declared, name="kinked", phi=replace(declared.phi, bends=()))
    assert errors(unknown)[2] > 1e-4
    result = risk_and_gradient(task, unknown, (K, V))
    assert result.status is Status.INACCURATE
    with pytest.raises(ComputationError):
        risk_and_gradient(task, unknown, (K, V), strict=True)


@pytest.mark.parametrize("resolution", [0.8, 1.0])
@pytest.mark.parametrize("std", [0.3, 1e-3, 1e-5, 1e-7, 0.0])
@pytest.mark.parametrize("task", [TASKS[0], TASKS[2]], ids=lambda task: task.name)
def test_gradient_stays_accurate_as_keys_align(task, std, resolution):
    """Derivatives across a small std divide by its powers; what multiplies them makes up."""
    landscape = make_landscape(task, fixed("softmax"), resolution=resolution)
    k, v = np.array([1.0, 0.6 * std, 0.8 * std, 0.0]), V
    numeric = central_differences(lambda x: landscape(x, v, 0.0).risk, k, 1e-4)
    assert landscape(k, v, 0.0).k == pytest.approx(numeric, abs=3e-8)


@pytest.mark.parametrize("shift", [0.0, 1.3])
def test_laws_agree_and_hold_the_derivatives_of_known_functions(shift):
    """Gaussian and product laws are two ways to one table; on cos every entry is known."""
    m, std = 0.7, 0.5
    task = SpikedSLR(shift**2, 3)
    one = gaussian_laws(shift, m, std, 9.5, 1.2)
    two = product_laws(*tilted_nodes(task, m, 1.2), m, std, 1.2)
    for law, mean in (("relevant", shift), ("others", 0.0)):
        x = np.arange(-12.0, 12.0, 0.01)
        density = np.exp(-((x - mean) ** 2) / 2.0) * 0.01 / math.sqrt(2.0 * math.pi)
        for i, (a, n) in enumerate(PAIRS):
            # E over u of cos⁽ⁿ⁾(mx + su) = e^{−s²/2} cos(mx + nπ/2)
            damp = math.exp(-(std**2) / 2.0)
            exact = (density * x**a * damp * np.cos(m * x + n * math.pi / 2)).sum()
            for laws in (one, two):
                entry = getattr(laws, law)[i] @ np.cos(laws.scores)
                assert entry == pytest.approx(exact, abs=1e-9)


class Wedge(TiltedTask):
    """A task whose relevant score is not Gaussian: density ratio 1 + tanh(signal·x)."""

    name = "wedge"

    def log_ratio(self, scores):
        return np.log1p(np.tanh(self.signal * scores))

    @property
    def relevant_interval(self):
        return -9.0, 9.0

    def sample_relevant(self, rng, size):
        x = rng.standard_normal(size)
        keep = rng.uniform(size=size) < (1.0 + np.tanh(self.signal * x)) / 2.0
        return np.where(keep, x, -x)


@pytest.mark.parametrize("name", ["softmax", "linear"])
def test_a_users_task_needs_no_code_of_its_own(name):
    task = Wedge(2.0, 3)
    rng, size = np.random.default_rng(11), 400_000
    scores, location = task.sample_scores(rng, size, 3)
    tokens = np.concatenate([scores[..., None], rng.standard_normal((size, 3, 3))], axis=2)
    labels = tokens[np.arange(size), location, 1]
    activation = make_activation(name)
    squares = (labels - (activation.weights(tokens @ K) * (tokens @ V)).sum(axis=1)) ** 2
    result = risk_and_gradient(task, name, (K, V))
    assert abs(result.risk - squares.mean()) < 4.0 * squares.std() / math.sqrt(size)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_best_values_are_stationary(name):
    task = TASKS[1]
    activation = fixed(name)
    moments = landscape_moments(task, activation, K[0], float(K[1:] @ K[1:]), resolution=1.0)
    v = best_values(moments, K)
    slope = make_landscape(task, activation, resolution=1.0)(K, v, activation.bias)
    assert slope.v == pytest.approx(0.0, abs=1e-12)
    assert moments._fields == ("A", "B", "P", "Q", "X", "Y", "U")


def test_long_sequences_cost_nothing_extra():
    task = SpikedSLR(30.0, 100_000)
    order = OrderParameters(5.4, 1.0, 0.1, 0.0)
    result = risk_and_gradient(task, "softmax", ([5.4, 0, math.sqrt(0.1), 0], [0, 1.0, 0, 0]))
    assert result.risk == pytest.approx(risk_at(task, "softmax", order).risk, abs=1e-8)
    off = risk_and_gradient(task, "softmax", ([5.4, 0.3, 0.2, 0], [0.2, 0.9, 0.1, 0]))
    assert off.status is Status.CONVERGED


def test_points_as_overlaps_or_vectors():
    order = FullOrderParameters.of(*(2.0 * np.stack([K, V, *np.eye(4)[:2]])))
    one = risk_and_gradient(TASKS[0], "softmax", (K, V))
    assert one.order.q_kv == pytest.approx(order.q_kv)
    two = risk_and_gradient(TASKS[0], "softmax", order)
    assert two.risk == pytest.approx(one.risk, abs=1e-11)


@pytest.mark.parametrize(
    ("point", "words"),
    [
        (([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]), r"point must have vectors of shape \(4,\)"),
        (([math.nan, 0, 0, 0], [0, 1, 0, 0]), "point must hold finite numbers only"),
        (5.0, "point must be FullOrderParameters or two vectors"),
        (([1, 0, 0, 0],), "point must be FullOrderParameters or two vectors"),
        (FullOrderParameters(1.0, 0.0, 0.0, 1.0, 0.5, 0.0, 1.0), "order must have residuals"),
        (FullOrderParameters(1.0, 0.0, 0.0, math.inf, 0.5, 0.0, 1.0), "order must hold finite"),
    ],
)
def test_bad_points(point, words):
    with pytest.raises(ValueError, match=words):
        risk_and_gradient(TASKS[0], "softmax", point)


def test_an_infinite_shift_is_refused():
    with pytest.raises(ValueError, match="signal must be at most 10000"):
        risk_and_gradient(SpikedSLR(math.inf, 3), "softmax", (K, V))
    with pytest.raises(ValueError, match="tolerance must be a finite number > 0"):
        risk_and_gradient(TASKS[0], "softmax", (K, V), tolerance=0.0)


@pytest.mark.parametrize("name", ["relu", "relu-normalised", "spherical-4", "periodic"])
def test_maps_with_kinks_and_zeros_are_integrated(name):
    """Nodes shrink towards the bends: the risk is that of the population, to rounding."""
    task, activation = SpikedSLR(5.0, 3), make_activation(name, bias=0.4)
    order = OrderParameters(0.8, 0.7, 0.13, 0.2)
    k, v = [0.8, 0.0, math.sqrt(0.13), 0.0], [0.0, 0.7, 0.0, math.sqrt(0.2)]
    result = risk_and_gradient(task, activation, (k, v))
    assert result.status is Status.CONVERGED
    assert result.risk == pytest.approx(risk_at(task, activation, order).risk, abs=1e-9)
    landscape = make_landscape(task, activation)
    point = np.concatenate([K, V, [0.4]])
    slope = landscape(K, V, 0.4)
    numeric = central_differences(lambda y: landscape(y[:4], y[4:8], y[8]).risk, point, 1e-4)
    assert [*slope.k, *slope.v, slope.bias] == pytest.approx(numeric, rel=1e-6, abs=1e-6)


def test_weights_that_jump_are_not_sampled():
    with pytest.raises(ValueError, match=r"^activation must be without jumps .* got cosformer"):
        make_landscape(SpikedSLR(5.0, 3), make_activation("cosformer", bias=0.0))
