"""The flow of online SGD against simulated steps: every overlap along the path."""

import math

import numpy as np
import pytest

from slrlab import MaxSLR, SpikedSLR, Weights, online_sgd, sgd_flow
from slrlab._result import Estimate, Status
from slrlab.simulation.data.dataset import Teacher

K, V = np.array([0.3, 0.1, 0.4, 0.1]), np.array([0.1, 0.3, -0.2, 0.4])
DIM, SEEDS, TIME, STOPS = 500, 8, 1.0, 6
OVERLAPS = ("m_kk", "m_kv", "m_vk", "m_vv", "q_kk", "q_kv", "q_vv")
SPIKED, MAX = SpikedSLR(signal=3.0, length=3, noise=0.2), MaxSLR(signal=3.0, length="2,3")
HARD = MaxSLR(signal=math.inf, length=3)


def simulated(task, activation, rate, batch, seed):
    """Overlaps along a path whose start has exactly the overlaps of ``K, V``."""
    teacher = Teacher.draw(DIM, seed=seed)
    free = np.random.default_rng((seed, 7)).standard_normal((2, DIM))
    basis = np.linalg.qr(np.vstack([teacher.keys, teacher.values, free]).T)[0].T * math.sqrt(DIM)
    basis[:2] = teacher.keys, teacher.values
    path = online_sgd(
        task,
        activation,
        dim=DIM,
        rate=rate,
        time=TIME,
        batch=batch,
        start=Weights(K @ basis, V @ basis),
        teacher=teacher,
        record=STOPS,
        seed=seed,
        test_samples=2,
    )
    assert path.status is Status.SAMPLED
    return np.array([getattr(path, name) for name in (*OVERLAPS, "bias")])


@pytest.mark.parametrize(
    ("task", "activation", "rate", "batch"),
    [
        (SPIKED, "softmax", 0.1, 1),
        (MAX, "linear", 0.08, 1),
        pytest.param(SPIKED, "softmax", 0.5, 1, marks=pytest.mark.slow),
        pytest.param(HARD, "softmax", 0.3, 1, marks=pytest.mark.slow),
        pytest.param(SPIKED, "linear", 0.08, 1, marks=pytest.mark.slow),
        pytest.param(MAX, "softmax", 1.5, 5, marks=pytest.mark.slow),
        pytest.param(SPIKED, "softmax", 0.05, 1, marks=pytest.mark.slow),
        pytest.param(SPIKED, "erf", 0.1, 1, marks=pytest.mark.slow),
        pytest.param(SPIKED, "entmax15", 0.3, 1, marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_all_overlaps_follow_the_flow(task, activation, rate, batch):
    times = np.linspace(0.0, TIME, STOPS)
    given = {"rate": rate, "batch": batch, "start": (K, V), "time": TIME, "times": times}
    flow = sgd_flow(task, activation, samples=1 << 15, **given)
    paths = np.array([simulated(task, activation, rate, batch, seed) for seed in range(SEEDS)])
    for index, name in enumerate((*OVERLAPS, "bias")):
        expected = getattr(flow, name)
        assert paths[:, index, 0] == pytest.approx(expected[0], abs=1e-9)
        for stop in range(1, STOPS):
            mean = Estimate.of(paths[:, index, stop])
            # at finite D the mean is off by O(1/D) too, measured to be up to 2/D
            scale = math.hypot(mean.error, 2.0 / DIM)
            assert abs(mean.value - expected[stop]) < 4.5 * scale, (name, stop)
            assert scale < 5.0 / math.sqrt(DIM * SEEDS)


def test_without_its_noise_the_flow_would_be_seen_to_be_wrong():
    paths = np.array([simulated(SPIKED, "softmax", 0.5, 1, seed) for seed in range(SEEDS)])
    wrong = sgd_flow(SPIKED, "softmax", rate=1e-6, start=(K, V), time=TIME)
    q_kk = Estimate.of(paths[:, OVERLAPS.index("q_kk"), -1])
    assert abs(q_kk.z_score(wrong.q_kk[-1])) > 10.0


def test_both_sides_diverge_at_a_large_rate():
    flow = sgd_flow(SPIKED, "linear", rate=0.4, start=(K, V), time=2.0, samples=1 << 12)
    path = online_sgd(SPIKED, "linear", dim=DIM, rate=0.4, time=2.0, start=same_size(), seed=1)
    assert flow.status is path.status is Status.DIVERGED


def same_size():
    """Vectors of the size of ``K, V`` in ``DIM`` dimensions."""
    rng = np.random.default_rng(3)
    return Weights(*(np.linalg.norm(x) * rng.standard_normal(DIM) for x in (K, V)))
