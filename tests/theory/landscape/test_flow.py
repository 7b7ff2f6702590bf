import math

import numpy as np
import pytest

from slrlab import (
    ComputationError,
    FullOrderParameters,
    MaxSLR,
    SpikedSLR,
    gradient_flow,
    make_activation,
    minimal_risk,
    tabulate,
)
from slrlab._result import Status
from slrlab.model.order_parameters import OVERLAPS
from slrlab.numerics.differences import central_differences
from slrlab.theory.landscape.path import start_vectors
from slrlab.theory.landscape.risk import make_landscape

TASK = SpikedSLR(2.0, 3)


@pytest.mark.parametrize("name", ["softmax", "linear", "erf"])
def test_a_small_random_start_reaches_the_population_optimum(name):
    flow = gradient_flow(TASK, name, seed=2)
    best = minimal_risk(TASK, name)
    assert flow.status is Status.CONVERGED
    assert flow.minimum == "matched"
    assert flow.risk[-1] == pytest.approx(best.risk, abs=1e-7)
    assert flow.m_kk[-1] == pytest.approx(best.m_k, abs=1e-3)
    assert flow.bias[-1] == pytest.approx(best.bias, abs=1e-3)
    assert np.abs([flow.m_kv[-1], flow.m_vk[-1], *flow.residuals[:, -1]]).max() < 1e-4
    assert (np.diff(flow.risk) < 1e-9).all()
    assert flow.gradient_norm <= 1e-6
    assert flow.times[0] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("task", [TASK, MaxSLR(1.5, 3)], ids=lambda task: task.name)
def test_the_path_is_that_of_small_explicit_steps(task):
    """Euler in R⁴ with a step a thousandth of a unit: no solver, the same path."""
    activation = make_activation("linear")
    k, v = start_vectors("random", 0.5, 4)
    times = np.arange(1, 11) * 0.5
    flow = gradient_flow(task, activation, start=(k, v), time=5.0, times=times)
    landscape = make_landscape(task, activation)
    rows, step = [], 0.002
    for count in range(1, 2501):
        slope = landscape(k, v, 0.0)
        k, v = k - step * slope.k, v - step * slope.v
        if count % 250 == 0:
            rows.append([k[0], k[1], v[0], v[1], k @ k, k @ v, v @ v])
    path = np.array([getattr(flow, name) for name in OVERLAPS]).T
    assert path == pytest.approx(np.array(rows), abs=5e-3)


def test_starts_on_the_manifold_stay_there():
    start = FullOrderParameters(0.2, 0.0, 0.0, 0.1, 0.3, 0.0, 0.2)
    flow = gradient_flow(TASK, "softmax", start=start)
    assert np.abs([flow.m_kv, flow.m_vk, flow.q_kv]).max() < 1e-8
    assert flow.minimum == "matched"


def test_the_mismatched_start_stays_mismatched(simulated_risk):
    task = SpikedSLR(2.0, 10)
    flow = gradient_flow(task, "softmax", start="mismatched")
    assert flow.minimum == "mismatched"
    assert flow.status is Status.CONVERGED
    simulated = simulated_risk(task, "softmax", flow.k, flow.v)
    assert simulated.error < 2e-3
    assert abs(simulated.z_score(flow.risk[-1])) < 3.5
    assert flow.destination.risk == pytest.approx(flow.risk[-1], abs=1e-6)


def test_a_flow_to_infinity_says_so():
    flow = gradient_flow(SpikedSLR(2.0, 10), "linear", start="mismatched", time=200.0)
    assert flow.status is Status.DIVERGED
    assert flow.minimum == "mismatched"
    assert flow.destination.at_infinity
    assert flow.destination.risk == pytest.approx(1.0 - 2.0 / 12.0, abs=1e-3)
    assert np.isfinite(flow.risk).all()
    with pytest.raises(ComputationError, match="diverged"):
        gradient_flow(SpikedSLR(2.0, 10), "linear", start="mismatched", time=20.0, strict=True)


def test_time_may_run_out():
    flow = gradient_flow(TASK, "softmax", seed=1, time=0.5)
    assert flow.status is Status.NOT_CONVERGED
    assert flow.times[-1] == pytest.approx(0.5)
    assert flow.minimum == "matched"
    assert flow.destination.risk < flow.risk[-1]
    assert math.isnan(flow.time_to(0.99))


def test_times_kept_and_time_to():
    times = [0.0, 1.0, 2.0, 4.0]
    flow = gradient_flow(TASK, "softmax", seed=1, time=4.0, times=times)
    assert flow.times.tolist() == times
    whole = gradient_flow(TASK, "softmax", seed=1)
    half, most = whole.time_to(0.5), whole.time_to(0.99)
    assert 0.0 < half < most < whole.times[-1]
    assert whole.time_to(0.5, whole.destination.risk) == half
    assert math.isnan(whole.time_to(0.99, 0.5 * whole.destination.risk))  # never so low
    wanted = 0.5 * (whole.risk[0] + whole.destination.risk)
    dense = gradient_flow(TASK, "softmax", seed=1, time=half + 1.0, times=[half])
    assert dense.risk[0] == pytest.approx(wanted, abs=5e-3)
    frame = whole.to_frame()
    assert list(frame.columns[:3]) == ["times", "m_kk", "m_kv"]
    assert len(frame) == whole.times.size
    assert "matched" in str(whole)


def test_a_flow_ends_at_its_goal_on_the_same_path():
    task = SpikedSLR(signal=2.0, length=3)
    whole = gradient_flow(task, "softmax", seed=1)
    least = whole.destination.risk
    goal = whole.risk[0] + 0.8 * (least - whole.risk[0])
    part = gradient_flow(task, "softmax", seed=1, goal=goal)
    assert part.status is Status.CONVERGED
    assert part.minimum == "none"
    assert part.destination is None
    assert part.risk[-1] == pytest.approx(goal, abs=1e-4)
    assert part.times[-1] < whole.times[-1]
    assert part.time_to(0.7, least) == pytest.approx(whole.time_to(0.7), rel=1e-3)
    assert math.isnan(part.time_to(0.7))  # no minimum to measure from
    assert math.isnan(part.time_to(0.9, least))  # beyond the end


def test_a_start_at_rest_has_converged():
    flow = gradient_flow(TASK, "softmax", start=([2**0.5, 0, 0, 0], [0, 1, 0, 0]))
    assert flow.status is Status.CONVERGED
    assert flow.minimum == "matched"


def test_times_beyond_the_end_and_before_it():
    late = gradient_flow(TASK, "softmax", seed=1, times=[1e4, 2e4])
    assert late.status is Status.CONVERGED
    assert late.times.size == 1  # it came to rest before
    assert late.risk[0] == pytest.approx(late.destination.risk, abs=1e-6)
    early = gradient_flow(TASK, "softmax", seed=1, times=[0.0, 1.0])
    assert early.times.tolist() == [0.0, 1.0]
    assert early.status is Status.CONVERGED  # of the whole flow
    assert early.gradient_norm <= 1e-6
    assert early.risk[-1] > early.destination.risk + 1e-3


def test_a_table_gives_the_same_path():
    table = tabulate(TASK, "softmax", m=(-0.5, 2.0), std=0.6)
    assert table.error < 1e-6
    times = np.geomspace(0.1, 30.0, 20)
    one = gradient_flow(TASK, "softmax", seed=5, time=30.0, times=times)
    two = gradient_flow(TASK, "softmax", seed=5, time=30.0, times=times, landscape=table)
    for name in (*OVERLAPS, "risk"):
        assert getattr(one, name) == pytest.approx(getattr(two, name), abs=1e-6)


def test_a_table_is_a_gradient_and_hands_over_outside():
    table = tabulate(TASK, "softmax", m=(-0.5, 1.5), std=0.8)
    exact = make_landscape(TASK, make_activation("softmax"), resolution=1.0)
    k, v = np.array([0.9, -0.3, 0.2, 0.1]), np.array([0.3, 0.7, -0.2, 0.4])
    here = table(k, v, 0.0)
    numeric = central_differences(lambda x: table(x, v, 0.0).risk, k, 1e-5)
    assert here.k == pytest.approx(numeric, abs=1e-9)
    assert here.risk == pytest.approx(exact(k, v, 0.0).risk, abs=1e-7)
    assert table.at_best_values(k, 0.0)[0] == pytest.approx(
        exact.at_best_values(k, 0.0)[0], abs=1e-5
    )
    for far in (k + [5.0, 0, 0, 0], k + [0, 2.0, 0, 0]):
        assert table(far, v, 0.0).risk == pytest.approx(exact(far, v, 0.0).risk, abs=1e-12)
        there = table.at_best_values(far, 0.0)[1].risk
        assert there == pytest.approx(exact.at_best_values(far, 0.0)[1].risk, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start": "nowhere"}, "start must be one of random, matched, mismatched, got nowhere"),
        ({"start": ([math.nan] * 4, [0.0] * 4)}, "start must hold finite numbers only"),
        ({"start": ([1.0] * 3, [0.0] * 3)}, r"start must have vectors of shape \(4,\)"),
        ({"start": ([1e3, 0, 0, 0], [0.0] * 4)}, r"start must have \|k\| and \|v\| of at most 50"),
        ({"start": ([1.0] * 4, [0.0] * 4), "size": 1.0}, "size must not be given"),
        ({"size": -1.0}, "size must be a finite number > 0, got -1.0"),
        ({"size": math.nan}, "size must be a finite number > 0, got nan"),
        ({"time": 0.0}, "time must be a finite number > 0, got 0.0"),
        ({"times": [2.0, 1.0]}, "times must increase"),
        ({"times": [1.0, 1e9]}, "times must increase within"),
        ({"tolerance": -1.0}, "tolerance must be a finite number > 0"),
        ({"goal": math.nan}, "goal must be a finite number, got nan"),
        ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
        ({"bias": math.inf}, "bias must be a finite number, got inf"),
    ],
)
def test_bad_input(options, words):
    with pytest.raises(ValueError, match=words):
        gradient_flow(TASK, "softmax", **options)


@pytest.mark.parametrize(("task", "most"), [(SpikedSLR, "10000"), (MaxSLR, "100")])
def test_signals_beyond_the_reach_of_the_landscape_are_refused(task, most):
    for signal in (1.01 * float(most), 1e300):
        with pytest.raises(ValueError, match=f"signal must be at most {most} for the landscape"):
            gradient_flow(task(signal, 3), "softmax")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"m": (1.0, 0.0), "std": 1.0}, "m must be an interval"),
        ({"m": (0.0, 1.0), "std": 0.0}, "std must be a finite number > 0"),
    ],
)
def test_bad_tables(options, words):
    with pytest.raises(ValueError, match=words):
        tabulate(TASK, "softmax", **options)
    fixed = tabulate(TASK, "erf", m=(0.0, 1.0), std=1.0, bias=-0.5, tolerance=0.1)
    with pytest.raises(ValueError, match="bias of erf must be a number on a table, got free"):
        gradient_flow(TASK, "erf", landscape=fixed)
    with pytest.raises(ValueError, match="bias of erf must be a number for a table, got free"):
        tabulate(TASK, "erf", m=(0.0, 1.0), std=1.0)
