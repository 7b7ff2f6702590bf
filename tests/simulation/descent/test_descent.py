"""Descents on data: one flow, one time, whatever the method and the dimension."""

import math
from dataclasses import astuple

import numpy as np
import pytest

from slrlab import (
    Dataset,
    MaxSLR,
    OrderParameters,
    SpikedSLR,
    Status,
    Teacher,
    Weights,
    draw_dataset,
    gradient_descent,
    make_activation,
    online_sgd,
    risk_at,
    sgd,
)
from slrlab.model.activation_code import activation_code
from slrlab.simulation.descent.trajectory import RUNAWAY
from slrlab.simulation.training.gradient_kernel import descend
from slrlab.simulation.training.gradient_reference import loss_and_gradient

TASK = SpikedSLR(signal=4.0, length=2)
NAMES = ("m_kk", "m_kv", "m_vk", "m_vv", "q_kk", "q_kv", "q_vv")


def near(teacher, share=0.4):
    return Weights(share * teacher.keys, share * teacher.values)


def path_of(trajectory):
    return np.stack([getattr(trajectory, name) for name in NAMES])


def large_dataset(dim, samples, seed=0):
    return draw_dataset(TASK, dim=dim, samples=samples, seed=seed)


@pytest.mark.parametrize("activation", ["softmax", "linear", "erf"])
def test_the_loss_falls_at_every_step(activation):
    data = draw_dataset(MaxSLR(3.0, "1,2,3"), dim=80, samples=400)
    path = gradient_descent(data, activation, rate=0.05, steps=60, start="informed", record=61)
    assert (np.diff(path.loss) < 0.0).all()
    assert path.status is Status.SAMPLED
    assert path.times == pytest.approx(0.05 * np.arange(61))
    assert (np.ptp(path.bias) > 0.0) == (activation == "erf")


def test_a_step_is_the_gradient_of_the_mean_loss_times_the_dimension():
    data = draw_dataset(MaxSLR(2.0, "1,3"), dim=30, samples=70, dtype="float64")
    start, rate = near(data.teacher), 0.1
    path = gradient_descent(data, "erf", rate=rate, steps=1, start=start, ridge_k=0.5, ridge_v=2.0)

    def mean_loss(k, v, bias):
        chosen = make_activation("erf", bias=bias)
        total = 0.5 * k @ k + 2.0 * v @ v
        for i in range(70):
            x = data.sequence(i) / math.sqrt(30)
            total += (data.labels[i] - chosen.weights(x @ k) @ (x @ v)) ** 2
        return total / 70

    h = 1e-5
    unit = np.eye(30)[4] * h
    slopes = [
        (mean_loss(start.k + a, start.v + b, c) - mean_loss(start.k - a, start.v - b, -c)) / (2 * h)
        for a, b, c in ((unit, 0.0, 0.0), (0.0, unit, 0.0), (0.0, 0.0, h))
    ]
    assert path.weights.k[4] == pytest.approx(start.k[4] - rate * 30 * slopes[0], abs=1e-8)
    assert path.weights.v[4] == pytest.approx(start.v[4] - rate * 30 * slopes[1], abs=1e-8)
    assert path.weights.bias == pytest.approx(-rate * slopes[2], abs=1e-8)


def test_the_time_does_not_depend_on_the_dimension():
    """Order parameters move by O(1), and alike, in 100 and in 400 dimensions."""
    paths = []
    for dim in (100, 400):
        data = large_dataset(dim, 24 * dim)
        start = near(data.teacher)
        path = gradient_descent(data, "softmax", rate=0.1, steps=20, start=start, record=21)
        paths.append(path_of(path))
    assert np.abs(paths[0][3, -1] - paths[0][3, 0]) > 0.2
    assert np.abs(paths[0] - paths[1]).max() < 0.04


def test_the_speed_is_the_slope_of_the_population_risk():
    """On M without residuals ``dm/dt = −dE/dm``: the time is that of theory, without a factor."""
    data = large_dataset(200, 40_000)
    path = gradient_descent(data, "softmax", rate=1e-3, steps=1, start=near(data.teacher))
    h = 1e-4
    for name, speed in (("m_k", path.m_kk), ("m_v", path.m_vv)):
        up, down = (
            risk_at(TASK, "softmax", OrderParameters(**{"m_k": 0.4, "m_v": 0.4} | {name: m})).risk
            for m in (0.4 + h, 0.4 - h)
        )
        assert np.diff(speed)[0] / 1e-3 == pytest.approx((down - up) / (2 * h), abs=0.03)


@pytest.mark.parametrize("batch", [1, 16])
def test_online_descent_with_small_steps_follows_the_flow(batch):
    data = large_dataset(200, 16_000)
    teacher, start = data.teacher, near(data.teacher)
    flow = gradient_descent(data, "softmax", rate=0.05, steps=40, start=start, record=21)
    walk = online_sgd(
        TASK,
        "softmax",
        dim=200,
        rate=0.03 if batch == 1 else 0.2,
        time=2.0,
        batch=batch,
        start=start,
        teacher=teacher,
        record=21,
        seed=5,
    )
    assert walk.times[-1] == pytest.approx(2.0, rel=1e-3)
    assert np.abs(path_of(flow) - path_of(walk)).max() < 0.05
    assert abs(walk.loss[-1] - flow.loss[-1]) < 4.0 * walk.loss_error[-1] + 0.02


def test_many_passes_with_small_steps_follow_descent_on_the_same_data():
    data = large_dataset(100, 300)
    start = near(data.teacher)
    given = {"start": start, "ridge_k": 0.5, "ridge_v": 1.0}
    flow = gradient_descent(data, "softmax", rate=0.01, steps=300, record=11, **given)
    walk = sgd(data, "softmax", rate=0.02, epochs=50, record=11, **given)
    assert walk.times[-1] == pytest.approx(flow.times[-1])
    assert np.abs(path_of(flow) - path_of(walk)).max() < 0.03
    assert walk.loss == pytest.approx(flow.loss, abs=0.02)


def test_single_tokens_are_a_ridge_regression():
    """With L = 1 the keys only shrink, by 1 − 2ηr_k/α a step, and the values solve a ridge."""
    data = draw_dataset(SpikedSLR(1.0, 1, noise=0.3), dim=40, samples=120, dtype="float64")
    path = gradient_descent(
        data,
        "softmax",
        rate=0.1,
        steps=3000,
        start="informed",
        ridge_k=0.05,
        ridge_v=0.7,
        tolerance=1e-10,
    )
    x = data.tokens / math.sqrt(40)
    exact = np.linalg.solve(x.T @ x + 0.7 * np.eye(40), x.T @ data.labels)
    assert np.abs(path.weights.v - exact).max() < 1e-4
    shrunk = (1.0 - 2.0 * 0.1 * 0.05 / 3.0) ** path.steps
    assert path.q_kk == pytest.approx(shrunk**2, rel=1e-9)
    assert path.status is Status.NOT_CONVERGED  # the keys are still on their way to zero
    values = gradient_descent(
        data,
        "softmax",
        rate=0.1,
        steps=3000,
        start=Weights(np.zeros(40), np.zeros(40)),
        ridge_v=0.7,
        tolerance=1e-8,
    )
    assert values.status is Status.CONVERGED
    assert values.steps[-1] < 3000
    assert np.abs(values.weights.v - exact).max() < 1e-7


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_the_compiled_steps_are_those_of_the_reference(kind):
    data = draw_dataset(MaxSLR(2.0, "1,2,5"), dim=20, samples=40)
    coded = activation_code(make_activation("erf"))
    code = coded.numbers, coded.table, coded.scales
    k, v = (0.1 * np.stack([data.teacher.keys, data.teacher.values])).astype(kind)
    slow_k, slow_v, slow_bias = k.astype(float), v.astype(float), 0.1
    order = np.random.default_rng(0).permutation(40)
    rate, shrink = (0.02, 0.03, 0.01), (0.999, 0.99)
    given = (data.tokens, data.offsets, data.labels, order)
    squares, bias = descend(*given, k, v, 0.1, rate, shrink, *code)
    total = 0.0
    for i in order:
        first, last = data.offsets[i : i + 2]
        one = (data.tokens[first:last], np.array([0, last - first]), data.labels[i : i + 1])
        state = (np.empty(0), slow_k, slow_v, slow_bias)
        loss, gradient, push, _ = loss_and_gradient(*one, *state, *code, 1)
        total += 2.0 * loss
        slow_k = shrink[0] * slow_k - rate[0] * gradient[0]
        slow_v = shrink[1] * slow_v - rate[1] * gradient[1]
        slow_bias -= rate[2] * push
    assert squares == pytest.approx(total, rel=1e-5)
    assert bias == pytest.approx(slow_bias, rel=1e-5)
    assert np.abs(k - slow_k).max() < 1e-5
    assert np.abs(v - slow_v).max() < 1e-5


def test_a_runaway_is_a_status():
    data = large_dataset(50, 200)
    runs = [
        gradient_descent(data, "linear", rate=50.0, steps=200),
        gradient_descent(data, "linear", rate=1e200, steps=5),
        sgd(data, "linear", rate=500.0, epochs=3),
        sgd(data, "linear", rate=1e30, epochs=3, batch=20),
        online_sgd(TASK, "linear", dim=50, rate=500.0, steps=400),
    ]
    for path in runs:
        assert path.status is Status.DIVERGED, path.method
        assert np.isfinite(path.to_frame().to_numpy()).all()
        assert path.q_vv[-1] < RUNAWAY


def test_a_seed_repeats_whatever_is_recorded():
    given = {"dim": 60, "rate": 0.3, "steps": 500, "test_samples": 100}
    first, again, coarse, other = (
        online_sgd(TASK, "softmax", seed=seed, record=record, **given)
        for seed, record in ((1, 50), (1, 50), (1, 3), (2, 50))
    )
    assert first.to_dict() == again.to_dict()
    assert (first.weights.k == coarse.weights.k).all()
    assert coarse.steps.tolist() == [0, 250, 500]
    assert (first.weights.k != other.weights.k).any()
    data = large_dataset(60, 100)
    one, two, three = (sgd(data, "softmax", rate=0.3, epochs=2, seed=s) for s in (0, 0, 1))
    assert one.to_dict() == two.to_dict()
    assert one.loss[-1] != three.loss[-1]


def test_what_a_path_tells():
    seen = []
    data = large_dataset(40, 80)
    path = sgd(
        data, "softmax", rate=0.1, epochs=2, record=5, report=lambda *state: seen.append(state)
    )
    assert [state[:2] for state in seen] == [(step, 160) for step in (0, 40, 80, 120, 160)]
    frame = path.to_frame()
    assert len(frame) == 5
    assert {"times", "loss", *NAMES} <= set(frame.columns)
    given = astuple(path.weights.overlaps(data.teacher))
    assert astuple(path.overlaps()) == pytest.approx(given, rel=1e-12)
    assert "weights" not in path.to_dict()
    assert "sgd of softmax, D 40" in str(path)
    unknown = Dataset.from_sequences(data.tokens.reshape(80, 2, 40), data.labels)
    blind = gradient_descent(unknown, "softmax", rate=0.1, steps=3)
    assert np.isnan(blind.m_kk).all()
    assert np.isfinite(blind.q_kk).all()


def test_bad_input_is_named():
    data = large_dataset(10, 20)
    good = Weights(np.ones(10), np.ones(10))
    wrong = [
        ({"rate": 0.0}, "rate must be a finite number > 0, got 0.0"),
        ({"rate": math.nan}, "rate must be a finite number > 0, got nan"),
        ({"steps": 0}, "steps must be a whole number >= 1, got 0"),
        ({"ridge_k": -1.0}, "ridge_k must be a finite number >= 0, got -1.0"),
        ({"record": 1}, "record must be a whole number >= 2, got 1"),
        ({"tolerance": 0.0}, "tolerance must be a finite number > 0, got 0.0"),
        ({"start": "warm"}, "start must be one of informed, random, got warm"),
        ({"start": Weights(np.ones(9), np.ones(10))}, r"start must have vectors of shape \(10,\)"),
        ({"start": Weights(np.full(10, math.nan), np.ones(10))}, "start must hold finite"),
        ({"start": Weights(np.full(10, 1e4), np.ones(10))}, "start must have .* below 1e"),
    ]
    for change, message in wrong:
        with pytest.raises(ValueError, match=message):
            gradient_descent(data, "softmax", **{"rate": 0.1, "steps": 2, "start": good} | change)
    with pytest.raises(ValueError, match="batch must be at most the 20 sequences, got 21"):
        sgd(data, "softmax", rate=0.1, epochs=1, batch=21)
    with pytest.raises(ValueError, match="time or steps must be given, one of the two"):
        online_sgd(TASK, "softmax", dim=10, rate=0.1)
    with pytest.raises(ValueError, match="teacher must have dimension 12, got 10"):
        online_sgd(TASK, "softmax", dim=12, rate=0.1, steps=1, teacher=Teacher.draw(10))
    bare = Dataset.from_sequences(np.ones((2, 1, 3)), [0.0, 1.0])
    with pytest.raises(ValueError, match="start must be vectors or random without a teacher"):
        gradient_descent(bare, "softmax", rate=0.1, steps=1, start="informed")
