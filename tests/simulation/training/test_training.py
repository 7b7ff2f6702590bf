"""Training: closed forms, the gradient at the end, and what each status stands for."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from slrlab import (
    Dataset,
    MaxSLR,
    Normalised,
    SpikedSLR,
    Status,
    draw_dataset,
    make_activation,
    simulate_erm,
)
from slrlab.simulation.training.objective import Objective, Weights
from slrlab.simulation.training.optimiser import TOLERANCE, train

DIM = 30


def start(dim=DIM, seed=0, bias=0.0):
    return Weights(*np.random.default_rng(seed).normal(scale=0.1, size=(2, dim)), bias)


def run(data, name="softmax", ridge_k=0.5, ridge_v=0.5, begin=None, **options):
    activation = name if not isinstance(name, str) else make_activation(name)
    begin = start(data.dim) if begin is None else begin
    return train(data, activation, ridge_k=ridge_k, ridge_v=ridge_v, start=begin, **options)


@pytest.fixture(scope="module")
def data():
    return draw_dataset(SpikedSLR(4.0, "1,2,3"), dim=DIM, samples=240, dtype="float64")


def gradient(data, activation, trained, ridge=0.5):
    objective = Objective(data, activation, ridge, ridge)
    theta = trained.weights.to_vector(learn_bias=objective.learns_bias)
    return objective(theta)[1] / np.linalg.norm(data.labels)


@pytest.mark.parametrize("name", ["softmax", "sparsemax"])
@pytest.mark.parametrize(("dtype", "most"), [("float32", 1e-3), ("float64", 1e-5)])
def test_one_token_is_ridge_regression(name, dtype, most):
    """The only token has weight 1: ``v`` solves the normal equations and ``k`` shrinks to 0."""
    data = draw_dataset(SpikedSLR(1.0, 1, noise=0.5), dim=DIM, samples=60, dtype=dtype)
    trained = run(data, name, ridge_v=0.8)
    x = data.tokens.astype(float) / math.sqrt(DIM)
    exact = np.linalg.solve(x.T @ x + 0.8 * np.eye(DIM), x.T @ data.labels)
    assert trained.status is Status.CONVERGED
    assert_allclose(trained.weights.v, exact, atol=10 * most)
    assert np.abs(trained.weights.k).max() < 10 * most
    rho = data.labels - x @ exact
    assert trained.train_mse == pytest.approx(np.mean(rho**2), rel=most)
    assert trained.objective == pytest.approx(0.5 * (rho @ rho + 0.8 * exact @ exact), rel=most)


@pytest.mark.parametrize("name", ["linear", "softmax", "erf"])
def test_an_endless_ridge_leaves_nothing(data, name):
    trained = run(data, name, ridge_k=1e6, ridge_v=1e6)
    assert np.abs(trained.weights.v).max() < 1e-4
    assert trained.objective == pytest.approx(0.5 * data.labels @ data.labels, rel=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["softmax", "linear", "softplus", "entmax15"])
def test_the_gradient_vanishes_and_a_minimum_is_left_alone(name, dtype):
    data = draw_dataset(MaxSLR(3.0, 3), dim=DIM, samples=240, dtype=dtype, seed=1)
    trained = run(data, name)
    assert trained.status is Status.CONVERGED
    slope = gradient(data, make_activation(name), trained)
    assert np.linalg.norm(slope) == pytest.approx(trained.gradient_norm, rel=1e-6)
    assert trained.gradient_norm <= TOLERANCE[dtype]
    again = run(data, name, begin=trained.weights)
    assert (again.status, again.iterations, again.passes) == (Status.CONVERGED, 0, 1)
    assert_array_equal(again.weights.k, trained.weights.k)
    assert again.objective == trained.objective


def test_a_smaller_tolerance_goes_further(data):
    loose, tight = run(data, tolerance=1e-2), run(data, tolerance=1e-8)
    assert loose.iterations < tight.iterations
    assert tight.gradient_norm <= 1e-8 < loose.gradient_norm <= 1e-2
    assert tight.objective < loose.objective


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [("float64", 1e-8), ("float64", 3e-11), ("float32", 1e-4), ("float32", 1e-5)],
)
@pytest.mark.parametrize("name", ["softmax", "linear", "erf", "softplus", "entmax15"])
def test_converged_means_that_the_tolerance_is_met(name, dtype, tolerance):
    """Also where differences of the loss drown in its rounding, and L-BFGS stalls."""
    data = draw_dataset(SpikedSLR(4.0, "1,2,3"), dim=DIM, samples=240, dtype=dtype)
    trained = run(data, name, tolerance=tolerance)
    assert trained.status is Status.CONVERGED
    assert trained.gradient_norm <= tolerance
    slope = gradient(data, make_activation(name), trained)
    assert np.linalg.norm(slope) == pytest.approx(trained.gradient_norm, rel=1e-3, abs=1e-15)


def test_what_rounding_forbids_has_not_converged(data):
    trained = run(data, tolerance=1e-18)
    assert trained.status is Status.NOT_CONVERGED
    assert 1e-18 < trained.gradient_norm < 1e-12
    few = run(data, tolerance=1e-8, max_steps=10)
    assert few.status is Status.NOT_CONVERGED
    assert few.iterations == 10


def test_a_scale_of_the_labels_is_a_scale_of_values_and_ridges(data):
    """``y → cy`` with ``r_k → c²r_k`` is solved by ``v → cv``."""
    scaled = Dataset(data.tokens, data.offsets, 3.0 * data.labels)
    one, other = run(data), run(scaled, ridge_k=4.5)
    assert_allclose(other.weights.k, one.weights.k, atol=1e-4)
    assert_allclose(other.weights.v, 3.0 * one.weights.v, atol=1e-4)
    assert other.objective == pytest.approx(9.0 * one.objective)


def test_labels_of_zero_give_zero(data):
    trained = run(Dataset(data.tokens, data.offsets, np.zeros(data.samples)))
    assert trained.status is Status.CONVERGED
    assert np.abs(trained.weights.v).max() < 1e-5
    nothing = Weights(np.zeros(DIM), np.zeros(DIM))
    assert run(data, "linear", begin=nothing, max_steps=50).status.usable


@pytest.mark.parametrize("name", ["erf", "softplus", "softmax1"])
def test_a_free_bias_is_learned(data, name):
    base = Normalised("softmax1", sink=1.0) if name == "softmax1" else make_activation(name)
    free = base.with_bias(None)
    trained = run(data, free)
    assert trained.status is Status.CONVERGED
    assert trained.weights.bias != 0.0
    slope = gradient(data, free, trained)
    assert slope.shape == (2 * DIM + 1,)
    assert abs(slope[-1]) <= 1e-6
    # the normalised ones come ever closer to softmax, a valley without an end: compare with 0
    for bias in (
        (trained.weights.bias - 0.1, trained.weights.bias + 0.1) if name == "erf" else (0.0,)
    ):
        fixed = run(data, base.with_bias(bias), begin=trained.weights)
        assert fixed.weights.bias == bias
        assert fixed.objective > trained.objective


def test_statuses_and_watch(data):
    seen = []
    short = run(data, max_steps=2, watch=lambda *state: seen.append(state))
    assert short.status is Status.NOT_CONVERGED
    assert [step for step, *_ in seen] == [1, 2]
    assert short.iterations == 2
    assert seen[-1][1:] == (short.objective, short.gradient_norm)
    assert (
        short.objective
        < Objective(data, make_activation("softmax"), 0.5, 0.5)(
            start().to_vector(learn_bias=False)
        )[0]
    )


def test_without_a_minimum_it_diverges():
    """Labels ``(a·x)(b·x)``: ``k = sa, v = b/s`` fits them ever better, at ever less penalty."""
    rng = np.random.default_rng(0)
    tokens, (a, b) = rng.standard_normal((200, 5)), rng.standard_normal((2, 5))
    data = Dataset(tokens, np.arange(201), (tokens @ a) * (tokens @ b) / 5.0)
    trained = run(data, "linear", ridge_k=0.0, ridge_v=1.0, tolerance=1e-9)
    assert trained.status is Status.DIVERGED
    assert run(data, "linear", ridge_k=0.1, ridge_v=1.0).status is Status.CONVERGED


def test_overflow_and_nan_end_as_diverged(data):
    huge = Weights(np.full(DIM, 1e200), np.full(DIM, 1e200))
    trained = run(data, "linear", begin=huge)
    assert trained.status is Status.DIVERGED
    tokens = data.tokens.copy()
    tokens[0, 0] = np.nan
    trained = run(Dataset(tokens, data.offsets, data.labels))
    assert trained.status is Status.DIVERGED
    assert not trained.status.usable


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ridge_k": -0.1}, "ridge_k must be a finite number >= 0, got -0.1"),
        ({"ridge_v": math.inf}, "ridge_v must be a finite number >= 0, got inf"),
        ({"tolerance": 0.0}, "tolerance must be a finite number > 0, got 0.0"),
        ({"max_steps": 0}, "max_steps must be a whole number >= 1, got 0"),
    ],
)
def test_bad_numbers_are_named(data, changes, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        run(data, **changes)


def test_a_sharp_minimum_without_ridge_is_a_minimum():
    """At signal 20 the best keys have ``|k|²/D`` near 400: long, but not endless."""
    task = MaxSLR(20.0, 2)
    given = {"alpha": 2000.0, "dim": 4, "ridge_k": 0.0, "ridge_v": 0.1, "dtype": "float64"}
    result = simulate_erm(task, "softmax", **given, seeds=1, test_samples=0)
    assert result.status is Status.SAMPLED
    assert result.q_k > 100.0


def test_keys_on_their_way_to_infinity_are_no_minimum():
    given = {"alpha": 2.0, "dim": 30, "ridge_k": 0.0, "ridge_v": 0.0, "dtype": "float64"}
    result = simulate_erm(SpikedSLR(2.0, 3), "softmax", **given, seeds=2, test_samples=0)
    assert result.status in (Status.DIVERGED, Status.NOT_CONVERGED)
