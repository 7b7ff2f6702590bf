"""The flow of online SGD: its limits, where it rests, and what it refuses."""

import math
from dataclasses import astuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

from slrlab import (
    ComputationError,
    MaxSLR,
    SpikedSLR,
    gradient_flow,
    make_activation,
    minimal_risk,
    sgd_flow,
)
from slrlab._result import Status
from slrlab.model.order_parameters import OVERLAPS, FullOrderParameters
from slrlab.theory.landscape.risk import make_landscape, overlaps_of
from slrlab.theory.landscape.sampled import SampledLandscape
from slrlab.theory.landscape.stochastic import vectors_of

TASK = SpikedSLR(signal=3.0, length=3)
START = ([0.3, 0.1, 0.4, 0.1], [0.1, 0.3, -0.2, 0.4])


@pytest.mark.parametrize("activation", ["softmax", "linear", "erf"])
def test_a_small_rate_is_the_gradient_flow(activation):
    given = {"start": START, "time": 3.0, "times": np.linspace(0.0, 3.0, 5)}
    quiet = sgd_flow(TASK, activation, rate=1e-9, samples=1 << 10, **given)
    exact = gradient_flow(TASK, activation, **given)
    for name in (*OVERLAPS, "bias", "risk"):
        assert_allclose(getattr(quiet, name), getattr(exact, name), rtol=0.0, atol=2e-3)


def test_only_the_rate_over_the_batch_matters():
    given = {"start": START, "time": 1.0, "samples": 1 << 10}
    one, many = (
        sgd_flow(TASK, "softmax", rate=rate, batch=batch, **given)
        for rate, batch in ((0.1, 1), (0.4, 4))
    )
    assert_allclose(one.q_kk, many.q_kk, rtol=1e-12)
    assert one.method != many.method


def test_at_rest_drift_and_noise_balance_above_the_minimum():
    task, activation = MaxSLR(signal=2.0, length=3), make_activation("linear")
    flow = sgd_flow(task, activation, rate=0.05, start="matched", seed=2)
    assert flow.status is Status.CONVERGED
    assert flow.minimum == "matched"
    assert flow.risk[-1] > minimal_risk(task, activation).risk + 0.01
    # the balance, written with vectors instead of overlaps
    slope = make_landscape(task, activation, resolution=1.0)(flow.k, flow.v, 0.0)
    sample = SampledLandscape.draw(task, activation, samples=1 << 15, seed=2)
    kk, kv, vv = 0.05 * sample.slope_and_noise(flow.k, flow.v, 0.0)[1]
    k, v, to_k, to_v = flow.k[2:], flow.v[2:], slope.k[2:], slope.v[2:]
    left = [kk - 2 * k @ to_k, kv - k @ to_v - v @ to_k, vv - 2 * v @ to_v]
    assert_allclose([*left, *slope.k[:2], *slope.v[:2]], 0.0, atol=2e-5)


@pytest.mark.slow
def test_the_excess_risk_grows_with_the_rate_until_there_is_no_rest():
    least, excess = minimal_risk(TASK, "linear").risk, []
    for rate in (0.0005, 0.001, 0.002, 0.03, 0.1):
        flow = sgd_flow(TASK, "linear", rate=rate, start=START, samples=1 << 12)
        assert flow.status is Status.CONVERGED
        excess.append(flow.risk[-1] - least)
    assert excess == sorted(excess)
    # linear in a small rate: ratios approach 2, and the next order is gone after extrapolation
    first, second = excess[1] / excess[0], excess[2] / excess[1]
    assert abs(2.0 - first) < 0.7 * abs(2.0 - second)
    assert 2.0 * first - second == pytest.approx(2.0, abs=0.01)
    gone = sgd_flow(TASK, "linear", rate=1.0, start=START, samples=1 << 12)
    assert gone.status is Status.DIVERGED
    assert gone.minimum == "none"
    assert gone.times[-1] < 1.0


@pytest.mark.parametrize("activation", ["sparsemax", "entmax15"])
def test_projections_flow_on_their_sample(activation):
    flow = sgd_flow(TASK, activation, rate=0.2, start=START, time=3.0, samples=1 << 12)
    assert flow.status is Status.SAMPLED
    assert flow.risk[-1] < 0.8 * flow.risk[0]
    assert flow.q_kk[-1] > flow.m_kk[-1] ** 2


def test_overlaps_become_vectors_and_rounding_is_cut():
    order = FullOrderParameters(0.4, -0.2, 0.1, 0.9, 1.0, 0.2, 1.5)
    state = np.array([0.4, -0.2, 0.1, 0.9, *order.residuals, 0.0])
    recovered = overlaps_of(*vectors_of(state))
    assert astuple(recovered) == pytest.approx(astuple(order), rel=1e-12)
    k, v = vectors_of(np.array([1.0, 0.0, 0.0, 1.0, -1e-9, 1e-7, 1e-9, 0.0]))
    assert np.isfinite([*k, *v]).all()


def test_strict_raises_where_the_rate_is_too_large():
    with pytest.raises(ComputationError, match="diverged"):
        sgd_flow(TASK, "linear", rate=5.0, start=START, samples=1 << 10, strict=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate": 0.0}, "rate must be a finite number > 0, got 0.0"),
        ({"batch": 0}, "batch must be a whole number >= 1, got 0"),
        ({"time": -1.0}, "time must be a finite number > 0, got -1.0"),
        ({"times": [0.0, 200.0]}, "times must increase within"),
        ({"samples": 3}, "samples must be a whole number >= 64, got 3"),
        ({"start": "nowhere"}, "start must be one of random, matched, mismatched, got nowhere"),
        ({"start": ([1.0], [1.0])}, r"start must have vectors of shape \(4,\)"),
        ({"task": SpikedSLR(math.inf, 3)}, "signal must be finite"),
        ({"task": SpikedSLR(2.0, 5000)}, "length must be at most 4096"),
    ],
)
def test_bad_input(change, message):
    given = {"task": TASK, "activation": "softmax", "rate": 0.1} | change
    with pytest.raises(ValueError, match=message):
        sgd_flow(**given)
