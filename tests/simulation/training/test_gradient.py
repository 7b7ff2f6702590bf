"""The compiled passes against NumPy, and NumPy against finite differences."""

import itertools
import math

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernel_activations import ALL, SEES_LENGTH, SMOOTH, by_name
from slrlab import Dataset, make_activation
from slrlab.model.activation_code import activation_code
from slrlab.simulation.training import gradient_kernel, gradient_reference
from slrlab.simulation.training.objective import (
    Objective,
    Weights,
    chunks_of,
    predict,
    token_weights,
)

PRECISIONS = [("float32", 1e-5), ("float64", 1e-12)]
LENGTHS = [[1], [2], [3], [4], [5], [7], [1, 2, 3, 4, 5, 7]]
DIM, BIAS = 37, 0.3


def problem(lengths, dtype="float64", count=150, seed=0):
    """Arguments of a pass up to the bias: random tokens, labels and vectors."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.choice(lengths, count))]).astype(np.int64)
    tokens = rng.standard_normal((offsets[-1], DIM)).astype(dtype)
    k, v = (rng.standard_normal((2, DIM)) / math.sqrt(DIM)).astype(dtype)
    return tokens, offsets, rng.standard_normal(count), k, v


def run(module, given, activation, bias=BIAS, chunks=4):
    tokens, offsets, labels, k, v = given
    code = activation_code(activation, int(np.diff(offsets).max()))
    return module.loss_and_gradient(
        *(tokens, offsets, labels, np.empty(0), k, v, bias),
        *(code.numbers, code.table, code.scales, chunks),
    )


def close(ours, theirs, most):
    for got, wanted in zip(ours, theirs, strict=True):
        # forces cancel in the bias: rounding is relative to the size of what is summed
        assert np.abs(got - wanted).max() <= most * (1.0 + np.abs(wanted).max())


@by_name(ALL)
@pytest.mark.parametrize(("dtype", "most"), PRECISIONS)
def test_the_kernel_equals_its_reference(activation, dtype, most):
    for lengths in LENGTHS:
        given = problem(lengths, dtype)
        close(
            run(gradient_kernel, given, activation),
            run(gradient_reference, given, activation),
            most,
        )


@by_name(ALL)
@pytest.mark.parametrize(("dtype", "most"), PRECISIONS)
def test_weights_count_as_copies_in_kernel_and_reference(activation, dtype, most):
    tokens, offsets, labels, k, v = problem([1, 3, 4], dtype, count=60)
    code = activation_code(activation)
    rest = (k, v, BIAS, code.numbers, code.table, code.scales, 3)
    rng = np.random.default_rng(7)
    weights = rng.uniform(0.0, 3.0, 60)
    given = (tokens, offsets, labels, weights)
    ours = gradient_kernel.loss_and_gradient(*given, *rest)
    close(ours, gradient_reference.loss_and_gradient(*given, *rest), most)
    counts = rng.integers(0, 4, 60)
    indices = np.repeat(np.arange(60), counts)
    copied = np.concatenate([tokens[offsets[i] : offsets[i + 1]] for i in indices])
    starts = np.concatenate([[0], np.cumsum(np.diff(offsets)[indices])])
    once = (tokens, offsets, labels, counts.astype(float))
    repeated = (copied, starts, labels[indices], np.empty(0))
    close(
        gradient_kernel.loss_and_gradient(*once, *rest),
        gradient_kernel.loss_and_gradient(*repeated, *rest),
        most,
    )


@by_name(SMOOTH)
def test_the_reference_is_the_slope_of_the_loss(activation):
    tokens, offsets, labels, k, v = problem([1, 2, 4], count=20)
    _, gradient, push, _ = run(gradient_reference, (tokens, offsets, labels, k, v), activation)
    shown, step = activation.with_bias(0.0), 1e-5

    def loss(k, v, bias):  # nothing shared with the reference but the weights of an activation
        answers = [
            shown.weights(tokens[i:j] @ k + bias) @ (tokens[i:j] @ v)
            for i, j in itertools.pairwise(offsets)
        ]
        return 0.5 * np.sum((labels - answers) ** 2)

    rng = np.random.default_rng(1)
    for _ in range(4):
        a, b = rng.standard_normal((2, DIM)) / math.sqrt(DIM)
        c = rng.standard_normal()
        ends = [loss(k + s * a, v + s * b, BIAS + s * c) for s in (step, -step)]
        slope = (ends[0] - ends[1]) / (2.0 * step)
        assert slope == pytest.approx(gradient[0] @ a + gradient[1] @ b + push * c, rel=1e-6)


def test_an_activation_that_sees_the_length_has_the_slope_it_says():
    given = tokens, offsets, labels, k, v = problem([1, 2, 5], count=30)
    ours = run(gradient_kernel, given, SEES_LENGTH)
    close(ours, run(gradient_reference, given, SEES_LENGTH), 1e-12)

    def loss(k, v, bias):
        shown = SEES_LENGTH.with_bias(bias)
        pairs = itertools.pairwise(offsets)
        answers = [shown.weights(tokens[i:j] @ k) @ (tokens[i:j] @ v) for i, j in pairs]
        return 0.5 * np.sum((labels - answers) ** 2)

    assert ours[0] == pytest.approx(loss(k, v, BIAS), rel=1e-12)
    a, b = np.random.default_rng(1).standard_normal((2, DIM)) / math.sqrt(DIM)
    ends = [loss(k + s * a, v + s * b, BIAS + s) for s in (1e-5, -1e-5)]
    slope = (ends[0] - ends[1]) / 2e-5
    assert slope == pytest.approx(ours[1][0] @ a + ours[1][1] @ b + ours[2], rel=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_threads_change_nothing_and_chunks_only_rounding(dtype):
    given, activation = problem([1, 3, 4], dtype, count=400), make_activation("softmax")
    tokens, *_, k, v = given
    a, b = np.random.default_rng(2).standard_normal((2, len(tokens))).astype(dtype)
    all_threads, results = numba.config.NUMBA_NUM_THREADS, []
    for threads in sorted({1, min(2, all_threads), all_threads}):
        numba.set_num_threads(threads)
        results.append(
            (
                *run(gradient_kernel, given, activation, chunks=7),
                gradient_kernel.project(tokens, k, v, 7),
                gradient_kernel.combine(tokens, a, b, 7),
            )
        )
    numba.set_num_threads(all_threads)
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            assert_array_equal(one, two)
    for chunks in (1, 2, 32):
        close(run(gradient_kernel, given, activation, chunks=chunks), results[0][:4], 2e-6)


@pytest.mark.parametrize(("dtype", "most"), PRECISIONS)
@pytest.mark.parametrize("chunks", [1, 3])
@pytest.mark.parametrize("rows", [1, 2, 5, 700])
def test_projections_and_combinations_are_matrix_products(dtype, most, chunks, rows):
    rng = np.random.default_rng(3)
    tokens = rng.standard_normal((rows, DIM)).astype(dtype)
    k, v = rng.standard_normal((2, DIM)).astype(dtype)
    a, b = rng.standard_normal((2, rows)).astype(dtype)
    fine = tokens.astype(float)
    close(gradient_kernel.project(tokens, k, v, chunks), (fine @ k, fine @ v), most)
    close(gradient_kernel.combine(tokens, a, b, chunks), (a @ fine, b @ fine), most)


@pytest.mark.parametrize("shrink", [(1.0, 1.0), (0.99, 0.98)])
@pytest.mark.parametrize("name", ["softmax", "erf"])
def test_stochastic_descent_equals_a_plain_loop(name, shrink):
    tokens, offsets, labels, k, v = problem([1, 3], count=60)
    activation, rate = make_activation(name), (0.005, 0.003, 0.001)
    code = activation_code(activation)
    order = np.random.default_rng(4).permutation(60)
    slow_k, slow_v, bias, squares = k.copy(), v.copy(), BIAS, 0.0
    for i in order:
        rows = tokens[offsets[i] : offsets[i + 1]]
        one = (rows, np.array([0, len(rows)]), labels[i : i + 1], slow_k, slow_v)
        loss, (by_k, by_v), push, _ = run(gradient_reference, one, activation, bias=bias)
        squares += 2.0 * loss
        slow_k = shrink[0] * slow_k - rate[0] * by_k
        slow_v = shrink[1] * slow_v - rate[1] * by_v
        bias -= rate[2] * push
    total, last = gradient_kernel.descend(
        *(tokens, offsets, labels, order, k, v, BIAS, rate, shrink),
        *(code.numbers, code.table, code.scales),
    )
    assert_allclose([total, last], [squares, bias], rtol=1e-12)
    assert_allclose(k, slow_k, atol=1e-13)
    assert_allclose(v, slow_v, atol=1e-13)


def test_nan_goes_through_and_huge_scores_do_not_overflow():
    tokens, offsets, labels, k, v = problem([3], count=10)
    loss, gradient, *_ = run(
        gradient_kernel, (tokens, offsets, labels, 1e6 * k, v), make_activation("softmax")
    )
    assert math.isfinite(loss)
    assert np.isfinite(gradient).all()
    tokens[0, 0] = np.nan
    loss, *_ = run(gradient_kernel, (tokens, offsets, labels, k, v), make_activation("softmax"))
    assert math.isnan(loss)


@by_name(ALL)
def test_the_objective_is_the_formula(activation):
    tokens, offsets, labels, k, v = problem([1, 2, 5])
    data = Dataset(tokens, offsets, labels)
    root = math.sqrt(DIM)
    objective = Objective(data, activation.with_bias(None), 0.4, 0.7)
    weights = Weights(k * root, v * root, BIAS)
    value, gradient = objective(weights.to_vector(learn_bias=True))
    loss, rows, push, _ = run(gradient_reference, (tokens, offsets, labels, k, v), activation)
    assert value == pytest.approx(loss + 0.5 * DIM * (0.4 * k @ k + 0.7 * v @ v), rel=1e-12)
    wanted = [rows[0] / root + 0.4 * root * k, rows[1] / root + 0.7 * root * v, [push]]
    assert_allclose(gradient, np.concatenate(wanted), rtol=1e-9, atol=1e-11)
    assert (objective.passes, objective.loss) == (1, pytest.approx(loss))
    answers = predict(data, activation, weights)
    # predictions have the exact weights, also where training rounds the kinks of a projection
    rounded = activation.family == "projection" and activation_code(activation).numbers[-1] > 0.0
    rel = 1e-4 if rounded else 1e-9
    assert 0.5 * np.sum((labels - answers) ** 2) == pytest.approx(loss, rel=rel)
    sigma, z = token_weights(data, activation, weights)
    assert_allclose(z, tokens @ v, atol=1e-12)
    if activation.family == "projection" or activation.name == "softmax":
        totals = np.minimum(getattr(activation, "budget", 1), np.diff(offsets))
        assert_allclose(np.add.reduceat(sigma, offsets[:-1]), totals)


def test_the_objective_with_weights_and_an_intercept_has_the_slope_it_says():
    tokens, offsets, labels, k, v = problem([1, 2, 5], count=40)
    weights = np.random.default_rng(8).uniform(0.0, 2.0, 40)
    erf = make_activation("erf")
    objective = Objective(Dataset(tokens, offsets, labels), erf, 0.4, 0.7, True, weights)
    root = math.sqrt(DIM)
    here = Weights(k * root, v * root, BIAS, 0.6)
    theta = here.to_vector(learn_bias=True, learn_intercept=True)
    again = objective.weights(theta)
    assert (again.bias, again.intercept) == (BIAS, 0.6)
    value, gradient = objective(theta)
    rho = labels - predict(objective.data, erf, here)
    penalty = 0.4 * here.k @ here.k + 0.7 * here.v @ here.v
    assert value == pytest.approx(0.5 * (weights @ rho**2 + penalty), rel=1e-12)
    for index in (0, DIM + 1, 2 * DIM, 2 * DIM + 1):
        step = 1e-5 * np.eye(theta.size)[index]
        slope = (objective(theta + step)[0] - objective(theta - step)[0]) / 2e-5
        assert gradient[index] == pytest.approx(slope, rel=1e-6, abs=1e-6)


def test_chunks_follow_from_the_size_alone():
    def data(rows, dim, samples):
        tokens = np.broadcast_to(np.float32(0.0), (rows, dim))
        return Dataset(tokens, np.zeros(samples + 1, dtype=np.int64), np.zeros(samples))

    assert chunks_of(data(300, 100, 100)) == 1
    assert chunks_of(data(1 << 20, 2, 1000)) == 8
    assert chunks_of(data(1 << 25, 100, 1000)) == 32
    assert chunks_of(data(1 << 25, 100, 3)) == 3
