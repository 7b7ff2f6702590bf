"""Descent in D dimensions against the flow in four: no formula is shared."""

import json

import numpy as np
import pytest

from slrlab import Estimate, MaxSLR, SpikedSLR, Status, Teacher, gradient_flow, online_sgd
from slrlab.experiments.descent.flows import (
    FlowComparison,
    compare_descent,
    compare_sgd,
    place_start,
)
from slrlab.theory.landscape.path import OVERLAPS

TASK = SpikedSLR(2.0, 3)
OFF = ([0.5, 0.3, 0.3, 0.0], [0.1, 0.2, 0.1, 0.2])
ON = ([0.5, 0.0, 0.3, 0.0], [0.0, 0.2, 0.0, 0.2])
SMALL = (OFF[0], [0.03, 0.06, 0.03, 0.06])  # weights of linear attention sum to 3


@pytest.mark.parametrize(
    ("task", "activation", "start", "rate"),
    [
        (TASK, "softmax", OFF, 0.01),
        pytest.param(TASK, "softmax", ON, 0.01, marks=pytest.mark.slow),
        pytest.param(TASK, "linear", SMALL, 0.004, marks=pytest.mark.slow),
        pytest.param(MaxSLR(2.0, 3), "softmax", OFF, 0.01, marks=pytest.mark.slow),
    ],
    ids=["spiked-softmax", "on-M", "spiked-linear", "max-softmax"],
)
def test_descent_follows_the_flow(task, activation, start, rate):
    # overlaps fluctuate by √(rate/D) times a few: 0.02 at D = 300; 0.01 is reached at D = 2000
    comparison = compare_descent(
        task, activation, dim=300, time=3.0, rate=rate, batch=300, start=start, record=16
    )
    assert comparison.status is Status.SAMPLED
    assert set(comparison.gaps) == set(OVERLAPS)
    assert comparison.worst < 0.06, comparison.gaps
    # it went somewhere: the gap is small beside the way
    way = max(float(np.ptp(getattr(comparison.flow, name))) for name in OVERLAPS)
    assert way > 0.2
    assert np.ptp(comparison.flow.risk) > 0.1
    last = comparison.runs[0]
    assert abs(last.loss[-1] - comparison.flow.risk[-1]) < 4.0 * last.loss_error[-1] + 0.02


def test_the_gap_closes_with_the_dimension():
    """√D times the gap of the fluctuating overlaps stays: nothing else separates the two."""
    small, large = (
        compare_descent(TASK, "softmax", dim=dim, time=2.0, rate=0.02, start=OFF, record=9, seeds=n)
        for dim, n in ((50, 6), (450, 2))
    )
    scatter = [
        np.sqrt(np.mean([(run.m_vv - comparison.flow.m_vv) ** 2 for run in comparison.runs]))
        for comparison in (small, large)
    ]
    assert 1.5 < scatter[0] / scatter[1] < 6.0  # 3 = √(450/50)


@pytest.mark.slow
def test_sgd_follows_the_flow_with_its_noise():
    comparison = compare_sgd(
        TASK, "softmax", dim=200, rate=0.5, time=2.0, start=OFF, record=9, seeds=6
    )
    quiet = gradient_flow(TASK, "softmax", start=OFF, time=2.0, times=comparison.times)
    for name in ("q_kk", "q_vv"):
        runs = Estimate.of([getattr(run, name)[-1] for run in comparison.runs])
        predicted = float(getattr(comparison.flow, name)[-1])
        # Student's t of six runs, and a term of order 1/D
        assert abs(runs.value - predicted) < 4.0 * runs.error + 0.02
        assert predicted - getattr(quiet, name)[-1] > 0.2  # noise adds that much
        assert runs.value - getattr(quiet, name)[-1] > 0.1
    assert comparison.batch == 1
    assert comparison.rate == 0.5


def test_both_sides_begin_at_the_same_overlaps():
    teacher = Teacher.draw(80, seed=3)
    weights = place_start(np.array(OFF[0]), np.array(OFF[1]), teacher, seed=3)
    flow = gradient_flow(TASK, "softmax", start=OFF, times=[0.0], time=1e-3)
    begun, wanted = weights.overlaps(teacher), flow.overlaps(0)
    for name in OVERLAPS:
        assert getattr(begun, name) == pytest.approx(getattr(wanted, name), abs=1e-12)
    other = place_start(np.array(OFF[0]), np.array(OFF[1]), teacher, seed=4)
    assert np.abs(other.k - weights.k).max() > 0.1


def test_mirror_images_leave_the_mean_and_take_the_noise():
    """At the start of a path ``q_vv`` drifts by noise/batch; pairs of images drift far less."""
    teacher = Teacher.draw(100)
    start = place_start(np.array([1.0, 0, 0, 0]), np.array([0, 0.5, 0, 0]), teacher)
    runs = [
        online_sgd(
            TASK,
            "softmax",
            dim=100,
            rate=2.0,
            batch=20,
            time=1.0,
            start=start,
            teacher=teacher,
            record=5,
            mirrored=mirrored,
            test_samples=10,
        )
        for mirrored in (False, True)
    ]
    plain, paired = ((run.q_vv - run.m_vv**2 - run.m_vk**2)[-1] for run in runs)
    assert plain > 0.02
    assert paired < 0.1 * plain
    assert runs[1].m_vv == pytest.approx(runs[0].m_vv, abs=0.1)
    with pytest.raises(ValueError, match="batch must be even if mirrored, got 3"):
        online_sgd(TASK, "softmax", dim=10, rate=0.1, steps=1, batch=3, mirrored=True)


def test_a_free_bias_flows_on_both_sides():
    given = {"dim": 200, "time": 1.0, "rate": 0.01, "start": SMALL, "record": 6}
    comparison = compare_descent(TASK, "erf", **given)
    assert set(comparison.gaps) == {*OVERLAPS, "bias"}
    assert comparison.worst < 0.08, comparison.gaps
    fixed = compare_descent(TASK, "softplus", bias=0.5, **given)
    assert set(fixed.gaps) == set(OVERLAPS)
    assert (fixed.runs[0].bias == 0.5).all()
    assert fixed.worst < 0.06, fixed.gaps


def test_what_a_comparison_tells():
    seen = []
    comparison = compare_descent(
        TASK,
        "softmax",
        dim=30,
        time=0.2,
        rate=0.02,
        start="random",
        size=0.3,
        seeds=2,
        seed=5,
        record=3,
        report=lambda *state: seen.append(state),
    )
    assert isinstance(comparison, FlowComparison)
    frame = comparison.to_frame()
    assert len(frame) == 6
    assert {"run", "times", "risk", "risk_flow", *OVERLAPS} <= set(frame.columns)
    assert (frame.loc[frame["times"] == 0.0, "q_kk"] - comparison.flow.q_kk[0]).abs().max() < 1e-12
    assert comparison.times.tolist() == comparison.flow.times.tolist()
    again = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert again["worst"] == comparison.worst
    assert "largest gap to the flow" in str(comparison)
    assert seen


def test_a_runaway_is_a_status():
    comparison = compare_descent(
        TASK, "linear", dim=20, time=40.0, rate=4.0, batch=20, start=OFF, record=5
    )
    assert comparison.status is Status.DIVERGED
    assert np.isfinite(comparison.worst)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 3}, "dim must be a whole number >= 4, got 3"),
        ({"rate": 0.0}, "rate must be a finite number > 0, got 0.0"),
        ({"time": -1.0}, "time must be a finite number > 0, got -1.0"),
        ({"batch": 5}, "batch must be even if mirrored, got 5"),
        ({"seeds": 0}, "seeds must be a whole number >= 1, got 0"),
        ({"start": "warm"}, "start must be one of random, matched, mismatched, got warm"),
        ({"start": ([0.0] * 3, [0.0] * 4)}, r"start must have vectors of shape \(4,\)"),
        ({"record": 1}, "record must be a whole number >= 2, got 1"),
    ],
)
def test_bad_input_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        compare_descent(TASK, "softmax", **{"dim": 10, "time": 0.1, "start": ON} | change)
