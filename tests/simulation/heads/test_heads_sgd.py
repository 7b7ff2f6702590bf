"""Descent of several heads in D dimensions, and the risk of given heads there."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from slrlab import Estimate, MultiHeadSLR, Status, heads_risk, heads_sgd, make_activation
from slrlab.model.activation_code import activation_code
from slrlab.model.activations import SOFTMAX
from slrlab.simulation.heads import sgd_kernel, sgd_reference
from slrlab.simulation.heads.sgd import (
    draw_heads_data,
    draw_teachers,
    heads_start,
    predict,
)

TASK = MultiHeadSLR([6.0, 3.0], "2,4", 0.3, probabilities=[0.7, 0.3])


@pytest.mark.parametrize("name", ["softmax", "softmax-1", "erf", None])
def test_the_kernel_equals_its_reference(name):
    rng, activation = np.random.default_rng(0), SOFTMAX if name is None else make_activation(name)
    code = activation_code(activation)
    teachers = draw_teachers(TASK, 8)
    data = draw_heads_data(TASK, teachers, 6, rng)
    vectors, biases = 0.4 * rng.standard_normal((4, 8)), 0.2 * rng.standard_normal(2)
    ends = []
    for descend in (sgd_kernel.descend_heads, sgd_reference.descend_heads):
        own, bias = vectors.copy(), biases.copy()
        size = 0.0 if name is None else 0.05
        given = (data.tokens, data.offsets, data.labels, own, bias, 0.1, size, name is None)
        descend(*given, code.numbers, code.table)
        ends.append((own, bias))
    assert_allclose(ends[0][0], ends[1][0], atol=1e-7)
    assert_allclose(ends[0][1], ends[1][1], atol=1e-7)
    assert np.abs(ends[0][0] - vectors).max() > 0.01


def test_teachers_and_data_have_the_law_of_the_task():
    teachers = draw_teachers(TASK, 50, seed=3)
    assert_allclose(teachers @ teachers.T / 50, np.eye(4), atol=1e-12)
    data = draw_heads_data(TASK, teachers, 20_000, np.random.default_rng(1))
    assert set(np.diff(data.offsets)) == {2, 4}
    assert data.labels.var() == pytest.approx(1.09, abs=0.04)
    scores = data.tokens @ teachers[:2].T.astype(np.float32) / math.sqrt(50.0)
    # of the tokens a third are relevant; their mean is √ν times the probability of the direction
    means = scores.sum(axis=0) / data.labels.size
    assert_allclose(means, [0.7 * math.sqrt(6.0), 0.3 * math.sqrt(3.0)], atol=0.06)


@pytest.mark.parametrize(
    "attention",
    ["softmax", make_activation("softmax-1", bias=-4.0), "bayes-softmax"],
    ids=["softmax", "sink", "bayes"],
)
def test_aligned_heads_in_many_dimensions_have_the_predicted_risk(attention):
    task = MultiHeadSLR(6.0, 5, directions=4)
    best = heads_risk(task, attention)
    teachers, count = draw_teachers(task, 60), 40_000
    data = draw_heads_data(task, teachers, count, np.random.default_rng(7))
    vectors, biases = np.zeros((8, 60)), np.zeros(4)
    for row, head in enumerate(best.heads):
        vectors[row] = head.m_k * teachers[head.direction]
        vectors[4 + row] = head.m_v * teachers[4 + head.direction]
        biases[row] = head.bias
    activation = None if attention == "bayes-softmax" else make_activation(attention)
    answers = predict(activation, vectors / math.sqrt(60.0), biases, data)
    risk = Estimate.of((data.labels - answers) ** 2)
    assert abs(risk.z_score(best.risk)) < 3.0


def test_a_seed_determines_the_path():
    given = {"heads": 2, "dim": 40, "rate": 0.2, "time": 2.0, "record": 5}
    first, again = (heads_sgd(TASK, "softmax", **given, seed=4) for _ in range(2))
    assert_array_equal(first.values, again.values)
    fine = heads_sgd(TASK, "softmax", **(given | {"record": 9}), seed=4)
    assert_allclose(fine.values[-1], first.values[-1])  # what is recorded changes nothing
    assert not np.array_equal(
        heads_sgd(TASK, "softmax", **given, seed=5).values[-1], first.values[-1]
    )
    assert first.times[-1] == pytest.approx(2.0)


def test_starts_have_the_overlaps_asked_for():
    teachers = draw_teachers(TASK, 30_000)
    start = heads_start(teachers, 20, size=0.1, overlap=0.5, seed=1)
    m = start @ teachers.T / 30_000
    assert m[:20, :2].std() == pytest.approx(0.5, rel=0.3)
    assert m[20:, 2:].std() == pytest.approx(0.5, rel=0.3)
    assert np.abs(m[:20, 2:]).max() < 0.01  # keys and v* have none


def test_a_learned_bias_and_a_runaway():
    free = make_activation("softmax-1", bias="optimal")
    path = heads_sgd(TASK, free, heads=2, dim=30, rate=0.2, time=3.0, record=4)
    assert np.ptp(path.bias[:, 0]) > 0.0
    wild = heads_sgd(TASK, "linear", heads=2, dim=30, rate=50.0, time=100.0, record=4)
    assert wild.status is Status.DIVERGED


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 0}, r"^heads must be a whole number >= 1, got 0$"),
        ({"dim": 3}, r"^dim must be a whole number >= 4, got 3$"),
        ({"rate": 0.0}, r"^rate must be a finite number > 0, got 0.0$"),
        ({"size": -1.0}, r"^size must be a finite number > 0, got -1.0$"),
        ({"overlap": -1.0}, r"^overlap must be a finite number >= 0, got -1.0$"),
        ({"start": np.zeros((3, 20))}, r"^start must be finite vectors of shape \(4, 20\), got"),
        ({"activation": "ssmax"}, r"^activation must be one that does not see the length"),
    ],
)
def test_bad_input_is_named(change, message):
    given = {"activation": "softmax", "heads": 2, "dim": 20, "rate": 0.1, "time": 1.0} | change
    with pytest.raises(ValueError, match=message):
        heads_sgd(TASK, **given)
    if change.get("dim") == 3:
        with pytest.raises(ValueError, match=r"^dim must be at least 6, two for each direction"):
            heads_sgd(MultiHeadSLR(1.0, 2, directions=3), **(given | {"dim": 5}))
