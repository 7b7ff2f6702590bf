"""The sampled landscape of several heads and its flow."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from slrlab import (
    HeadsOverlaps,
    MultiHeadSLR,
    SpikedSLR,
    Status,
    heads_flow,
    heads_risk,
    make_activation,
    risk_and_gradient,
)
from slrlab.model.activation_code import activation_code
from slrlab.model.activations import SOFTMAX
from slrlab.numerics.differences import central_differences
from slrlab.theory.heads import sample_kernel, sample_reference
from slrlab.theory.heads.landscape import HeadsLandscape

TASK = MultiHeadSLR([2.0, 4.0], "2,3", 0.3, probabilities=[0.6, 0.4])
by_attention = pytest.mark.parametrize("name", ["softmax", "softmax-1", "erf", "sparsemax", None])


@by_attention
def test_the_kernel_equals_its_reference(name):
    rng, activation = np.random.default_rng(0), SOFTMAX if name is None else make_activation(name)
    code = activation_code(activation)
    fields, labels = rng.standard_normal((2, 30, 4, 6)), rng.standard_normal((2, 30))
    given = (fields, labels, rng.standard_normal(3), name is None, code.numbers, code.table)
    for ours, theirs in zip(
        sample_kernel.heads_rates(*given), sample_reference.heads_rates(*given), strict=True
    ):
        assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


@by_attention
def test_the_gradient_is_the_slope_of_the_risk_on_the_same_sample(name):
    activation = None if name is None else make_activation(name).with_bias(0.2)
    landscape = HeadsLandscape.draw(TASK, activation, heads=2, samples=256)
    rng = np.random.default_rng(1)
    vectors, biases = 0.5 * rng.standard_normal((4, 8)), 0.3 * rng.standard_normal(2)
    slope = landscape(vectors, biases)
    numeric = central_differences(
        lambda x: landscape(x.reshape(4, 8), biases).risk, vectors.ravel(), 1e-5
    )
    assert_allclose(slope.vectors.ravel(), numeric, atol=1e-7)
    if name is not None:
        numeric = central_differences(lambda b: landscape(vectors, b).risk, biases, 1e-5)
        assert_allclose(slope.biases, numeric, atol=1e-7)
    assert_allclose(slope.noise, slope.noise.T)
    assert (np.linalg.eigvalsh(slope.noise) > -1e-10).all()


def test_one_head_has_the_landscape_of_one_head():
    k, v = np.array([0.8, -0.3, 0.4, 0.2]), np.array([0.3, 0.9, -0.2, 0.5])
    one = HeadsLandscape.draw(MultiHeadSLR([2.0], 3), SOFTMAX, heads=1, samples=1 << 15)
    slope = one(np.array([k, v]), np.zeros(1))
    exact = risk_and_gradient(SpikedSLR(2.0, 3), "softmax", (k, v))
    assert slope.risk == pytest.approx(exact.risk, abs=5.0 * slope.error)
    assert_allclose(slope.vectors, [exact.gradient_k, exact.gradient_v], atol=0.03)


@pytest.mark.parametrize("name", ["softmax", "bayes-softmax"])
def test_aligned_heads_have_the_aligned_risk(name):
    task = MultiHeadSLR(5.0, 4, directions=3)
    best = heads_risk(task, name)
    activation = None if name == "bayes-softmax" else make_activation(name)
    landscape = HeadsLandscape.draw(task, activation, heads=3, free=0, samples=1 << 15)
    vectors = np.zeros((6, 6))
    for row, head in enumerate(best.heads):
        vectors[row, head.direction] = head.m_k
        vectors[3 + row, 3 + head.direction] = head.m_v
    slope = landscape(vectors, np.zeros(3))
    assert slope.risk == pytest.approx(best.risk, abs=4.0 * slope.error)
    if name == "bayes-softmax":  # the optimum of all predictors is flat in every direction
        assert np.abs(slope.vectors).max() < 0.05


def test_a_flow_descends_and_stays_where_it_belongs():
    start = HeadsOverlaps(np.diag([0.4, 0.3, 0.2, 0.25]), 0.2 * np.eye(4))
    task = MultiHeadSLR([6.0, 3.0], 3)
    path = heads_flow(task, "softmax", start=start, time=3.0, samples=1 << 10)
    assert path.status is Status.SAMPLED
    assert path.keys.shape == path.values.shape == (61, 2, 2)
    assert (np.diff(path.risk) < 1e-6).all()
    assert_allclose(path.q[0], 0.2 * np.eye(4), atol=1e-12)
    noisy = heads_flow(task, "softmax", start=start, time=3.0, rate=0.3, samples=1 << 10)
    assert noisy.q[-1].trace() > path.q[-1].trace()  # the noise of the steps adds up
    assert noisy.to_frame().shape == (61 * 4, 9)
    assert noisy.to_dict()["method"] == "flow of online sgd"


def test_free_biases_are_learned():
    start = HeadsOverlaps(np.diag([1.0, 1.0, 0.5, 0.5]), np.diag([1.0, 1.0, 0.25, 0.25]))
    activation = make_activation("softmax-1", bias="optimal")
    path = heads_flow(
        MultiHeadSLR(9.0, 3, directions=2), activation, start=start, time=6.0, samples=1 << 9
    )
    assert (np.diff(path.bias, axis=0) < 0.0).all()  # the weights of idle heads shrink
    assert (path.bias[-1] < -0.1).all()


def test_the_noise_of_the_steps_raises_the_risk_in_proportion_to_the_rate():
    """The pages say so of a longer flow on larger samples."""
    start = HeadsOverlaps(0.3 * np.eye(4), 0.1 * np.eye(4))
    task = MultiHeadSLR([16.0, 6.0], 3, probabilities=[0.6, 0.4])
    given = {"start": start, "time": 8.0, "times": [0.0, 8.0], "samples": 512, "seed": 1}
    none, half, whole = (
        heads_flow(task, "bayes-softmax", rate=rate, **given).risk[-1] for rate in (0.0, 0.05, 0.1)
    )
    assert none + 1e-3 < half
    assert whole - none == pytest.approx(2.0 * (half - none), rel=0.2)


def test_too_large_rates_diverge():
    start = HeadsOverlaps(np.diag([0.5, 0.5]), np.diag([0.5, 0.5]))
    path = heads_flow(
        MultiHeadSLR([4.0], 3), "linear", start=start, rate=2.0, time=50.0, samples=1 << 10
    )
    assert path.status is Status.DIVERGED


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": HeadsOverlaps(np.zeros((3, 4)), np.zeros((3, 3)))}, r"^start must be finite ov"),
        ({"start": HeadsOverlaps(np.zeros((4, 3)), np.zeros((4, 4)))}, r"^start must be finite ov"),
        ({"rate": -1.0}, r"^rate must be a finite number >= 0, got -1.0$"),
        ({"time": 0.0}, r"^time must be a finite number > 0, got 0.0$"),
        ({"samples": 8}, r"^samples must be a whole number >= 64, got 8$"),
        ({"samples": 1 << 27}, r"^samples must be at most \d+ for these heads and lengths, got"),
    ],
)
def test_bad_input_is_named(change, message):
    start = HeadsOverlaps(np.zeros((4, 4)), np.eye(4))
    with pytest.raises(ValueError, match=message):
        heads_flow(TASK, "softmax", **({"start": start} | change))
