"""The sampled landscape: kernel, reference, quadrature and steps in many dimensions agree."""

import math
import subprocess
import sys

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernel_activations import ALL, MAPS, OTHERS, PROJECTIONS, SEES_LENGTH, by_name
from slrlab import MarionSLR, MaxSLR, SpikedSLR, make_activation
from slrlab._result import Estimate, Status
from slrlab.model.activation_code import activation_code
from slrlab.model.order_parameters import OrderParameters
from slrlab.model.tasks import TiltedTask
from slrlab.numerics.differences import central_differences
from slrlab.theory.landscape import sample_kernel, sample_reference
from slrlab.theory.landscape.risk import make_landscape, risk_and_gradient
from slrlab.theory.landscape.sampled import BLOCKS, SampledLandscape, sampled_slope
from slrlab.theory.population.minimal import risk_at

K, V = np.array([0.8, -0.3, 0.4, 0.2]), np.array([0.3, 0.9, -0.2, 0.5])
BIAS = 0.3
TASKS = [
    SpikedSLR(signal=2.0, length=3, noise=0.4),
    MaxSLR(signal=1.5, length="1,2,4"),
    MaxSLR(signal=math.inf, length=3),
    MarionSLR(signal=2.0, length=3, relevant_std=1.3),
]


@by_name(ALL)
@pytest.mark.parametrize("length", [1, 2, 5])
def test_the_kernel_equals_its_reference(activation, length):
    rng = np.random.default_rng(length)
    tokens, labels = rng.standard_normal((3, 40, length, 4)), rng.standard_normal((3, 40))
    code = activation_code(activation)
    given = (tokens, labels, 0.6, K, V, BIAS, code.numbers, code.table)
    ours, theirs = sample_kernel.sample_means(*given), sample_reference.sample_means(*given)
    assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


@by_name([*ALL, SEES_LENGTH])
@pytest.mark.parametrize("task", TASKS, ids=lambda t: f"{t.name}{t.signal:g}")
def test_the_gradient_is_the_slope_of_the_risk_on_the_same_sample(task, activation):
    landscape = SampledLandscape.draw(task, activation, samples=512)
    point = np.array([*K, *V, BIAS])
    numeric = central_differences(lambda x: landscape(x[:4], x[4:8], x[8]).risk, point, 1e-5)
    # no sequence of these few meets a kink of sparsemax within the step
    assert_allclose(numeric, landscape(K, V, BIAS).row[1:], rtol=0.0, atol=2e-7)


@by_name(MAPS)
@pytest.mark.parametrize("task", TASKS, ids=lambda t: f"{t.name}{t.signal:g}")
def test_samples_agree_with_the_quadrature_off_the_manifold(task, activation):
    exact = make_landscape(task, activation, resolution=1.0)(K, V, BIAS).row
    # many short blocks: the mean of their means is Gaussian though a linear risk is heavy-tailed
    drawn = [
        SampledLandscape.draw(task, activation, samples=1 << 11, seed=seed) for seed in range(16)
    ]
    rows = np.concatenate([landscape.blocks(K, V, BIAS) for landscape in drawn])[:, :10]
    for column, value in zip(rows.T, exact, strict=True):
        sampled = Estimate.of(column)
        assert abs(sampled.z_score(value)) < 4.5 or abs(sampled.value - value) < 1e-12


@by_name([OTHERS[0], OTHERS[2], SEES_LENGTH])
def test_samples_agree_with_the_population_theory_on_the_manifold(activation):
    """Stick-breaking is an average over the location, the others over the length."""
    task = SpikedSLR(signal=2.0, length="1,3", noise=0.4)
    shown = activation.with_bias(BIAS)
    order = OrderParameters(m_k=0.8, m_v=0.9, R_k=0.16, R_v=0.19)
    exact = risk_at(task, shown, order, tolerance=1e-6).risk
    k, v = np.array([0.8, 0.0, 0.4, 0.0]), np.array([0.0, 0.9, 0.0, math.sqrt(0.19)])
    rows = SampledLandscape.draw(task, shown, samples=1 << 15).blocks(k, v, BIAS)
    sampled = Estimate.of(rows[:, 0])
    assert sampled.error < 3e-3
    assert abs(sampled.z_score(exact)) < 4.5


@by_name([MAPS[0], MAPS[2], *PROJECTIONS])
def test_the_best_values_leave_no_gradient(activation):
    landscape = SampledLandscape.draw(TASKS[1], activation, samples=1 << 10)
    v, slope = landscape.at_best_values(K, BIAS)
    assert_allclose(slope.v, 0.0, atol=1e-10)
    assert slope.risk <= landscape(K, v + 0.01, BIAS).risk
    assert not landscape.at_best_values(K * math.nan, BIAS)[1].finite


class TwoBumps(TiltedTask):
    """A task whose relevant score is not Gaussian."""

    name = "bumps"

    def log_ratio(self, scores):
        return np.log(np.cosh(self.signal * scores)) - self.signal**2 / 2.0

    @property
    def relevant_interval(self):
        return -9.0 - self.signal, 9.0 + self.signal

    def sample_relevant(self, rng, size):
        return rng.standard_normal(size) + self.signal * rng.choice([-1.0, 1.0], size)


def test_a_task_of_the_user_is_sampled_too():
    task, softmax = TwoBumps(signal=1.5, length=2), make_activation("softmax")
    exact = make_landscape(task, softmax, resolution=1.0)(K, V, 0.0)
    rows = SampledLandscape.draw(task, softmax, samples=1 << 16).blocks(K, V, 0.0)
    assert abs(Estimate.of(rows[:, 0]).z_score(exact.risk)) < 4.5


def steps_in_many_dimensions(task, name, dim, count, rng):
    """Squares of the steps ``∂ρ²/∂(k, v)`` per free dimension, from textbook formulas."""
    length, root = task.length.longest, math.sqrt(dim)
    basis = np.linalg.qr(rng.standard_normal((dim, 4)))[0].T * root
    k, v = K @ basis, V @ basis
    rows = []
    for _ in range(count):
        x = rng.standard_normal((length, dim))
        scores, location = task.sample_scores(rng, 1, length)
        x += np.outer(scores[0] - x @ basis[0] / root, basis[0]) / root
        y = x[location[0]] @ basis[1] / root + task.noise * rng.standard_normal()
        chi, z = x @ k / root, x @ v / root
        if name == "softmax":
            sigma = np.exp(chi) / np.exp(chi).sum()
            g = sigma * (z - sigma @ z)
        else:
            sigma, g = 1.0 + chi, z
        rho = y - sigma @ z
        steps = np.stack([g, sigma]) @ x * (-2.0 * rho / root)
        # along the basis a step is not large: what is left has dim − 4 alike components
        steps -= steps @ basis.T @ basis / dim
        rows.append(steps @ steps.T * (dim / (dim - 4.0)))
    return np.array(rows)


@pytest.mark.parametrize("name", ["softmax", "linear"])
@pytest.mark.parametrize("task", [SpikedSLR(2.0, 3, noise=0.5), MaxSLR(2.0, 3)], ids=["s", "m"])
def test_noise_moments_are_the_squared_steps_in_many_dimensions(task, name):
    steps = steps_in_many_dimensions(task, name, 300, 5000, np.random.default_rng(5))
    landscape = SampledLandscape.draw(task, make_activation(name), samples=1 << 15)
    rows = landscape.blocks(K, V, 0.0)[:, 10:]
    assert_allclose(landscape.slope_and_noise(K, V, 0.0)[1], rows.mean(axis=0), rtol=1e-12)
    for column, pair in zip(rows.T, [(0, 0), (0, 1), (1, 1)], strict=True):
        assert abs(Estimate.of(column).z_score(Estimate.of(steps[:, *pair]))) < 4.0


def test_results_do_not_depend_on_the_number_of_threads():
    landscape = SampledLandscape.draw(TASKS[1], make_activation("entmax15"), samples=1 << 12)
    many = landscape.blocks(K, V, 0.0)
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        assert_array_equal(landscape.blocks(K, V, 0.0), many)
    finally:
        numba.set_num_threads(before)


def test_a_projection_has_risk_gradient_and_honest_errors():
    task, matched = SpikedSLR(signal=3.0, length=3), (np.eye(4)[0] * 1.2, np.eye(4)[1])
    here = risk_and_gradient(task, "entmax15", matched)
    assert here.status == Status.SAMPLED
    assert 0.0 < here.error <= 1e-4 < here.gradient_error < 0.01
    others = [
        sampled_slope(task, make_activation("entmax15"), (*matched, 0.0), 1e-3, seed)[0].risk
        for seed in range(1, 5)
    ]
    assert abs(Estimate.of(others).z_score(Estimate(here.risk, here.error))) < 5.0
    # on M the gradient stays on M
    off = [*here.gradient_k[1:], here.gradient_v[0], *here.gradient_v[2:]]
    assert np.abs(off).max() < 5.0 * here.gradient_error


def test_what_is_not_finite_is_a_status_or_nan():
    landscape = SampledLandscape.draw(TASKS[0], make_activation("sparsemax"), samples=64)
    assert not landscape(K * math.nan, V, 0.0).finite
    quickly = make_activation("elementwise: exp(x)")
    *_, status = sampled_slope(TASKS[0], quickly, (K * 1e200, V, 0.0), 1e-3)
    assert status == Status.FAILED


@pytest.mark.slow
def test_long_sequences_are_sampled_within_memory():
    landscape = SampledLandscape.draw(
        SpikedSLR(2.0, 4096), make_activation("sparsemax"), samples=1 << 20
    )
    assert BLOCKS * 8 <= landscape.size <= 1 << 12
    task, softmax = SpikedSLR(9.0, 4096), make_activation("softmax")
    _, errors, status = sampled_slope(task, softmax, (K, V, 0.0), 1e-6)
    assert status == Status.SAMPLED
    assert errors[0] > 1e-6


@pytest.mark.parametrize(
    ("task", "change", "message"),
    [
        (SpikedSLR(2.0, 5000), {}, "length must be at most 4096"),
        (SpikedSLR(2.0, "geometric(300)"), {}, "length must be at most 4096 and take few values"),
        (SpikedSLR(math.inf, 3), {}, "signal must be finite to sample task spiked, got inf"),
        (SpikedSLR(2.0, 3), {"samples": 10}, "samples must be a whole number >= 64, got 10"),
        (SpikedSLR(2.0, 3), {"seed": -1}, "seed must be a whole number >= 0, got -1"),
    ],
)
def test_bad_input(task, change, message):
    with pytest.raises(ValueError, match=message):
        SampledLandscape.draw(task, make_activation("sparsemax"), **({"samples": 1024} | change))


def test_importing_it_compiles_nothing():
    code = "import sys, slrlab.theory.landscape.sampled; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
