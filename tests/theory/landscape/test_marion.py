"""The risk of erf attention on the task of Marion et al.: three formulas and its gradient."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from scipy.special import erf, owens_t

from slrlab import (
    MarionSLR,
    Sphere,
    SpikedSLR,
    make_activation,
    minimal_risk,
    risk_and_gradient,
    sphere_flow,
)
from slrlab.experiments.descent.sphere import unit_overlaps
from slrlab.model.order_parameters import FullOrderParameters
from slrlab.numerics.differences import central_differences
from slrlab.theory.landscape.moments import landscape_moments
from slrlab.theory.landscape.risk import make_landscape, overlaps_of
from slrlab.theory.landscape.sphere import ERF_ATTENTION, random_directions
from slrlab.theory.population.closed_forms import erf_risk

STDS = [0.3, 0.7, 1.0, 1.4]


def zeta(t, s):
    """Return ``E erf²(t + s x)`` for a standard normal ``x``."""
    return 1.0 - 8.0 * owens_t(math.sqrt(2.0) * t / math.hypot(1.0, math.sqrt(2.0) * s), _leg(s))


def _leg(s):
    return 1.0 / math.sqrt(1.0 + 4.0 * s**2)


def _first(x):
    return 2.0 / math.sqrt(math.pi) * np.exp(-(x**2))


def published(overlaps, scale, std, shift, length, square=zeta):
    """Return the risk by the formula of the authors' code (arXiv 2410.01537), (L−1)ζ included.

    ``overlaps`` are κ = k·k*, η = k·v*, θ = v·k*, ν = v·v*, ρ = k·v of unit vectors; ``square`` is
    their ζ.
    """
    kappa, eta, theta, nu, rho = overlaps
    a, b = 1.0 + 2.0 * (scale * std) ** 2, 1.0 + 4.0 * (scale * std) ** 2
    at = scale * shift * kappa / math.sqrt(a)
    second = -2.0 * at * _first(at)
    label = std**2 * nu * erf(at) + scale * std**2 * shift * eta * theta * _first(at) / math.sqrt(a)
    label += scale**2 * std**4 * eta * rho * second / a
    own = (shift**2 * theta**2 + std**2) * square(scale * shift * kappa, scale * std)
    turn = theta * rho - (scale * std * rho) ** 2 * kappa / a
    own += 4.0 * scale * std**2 * shift * turn * erf(at / math.sqrt(b)) * _first(at) / math.sqrt(a)
    far = _first(math.sqrt(2.0) * scale * shift * kappa / math.sqrt(b))
    own += 4.0 / math.sqrt(math.pi) * (scale * std**2 * rho) ** 2 * far / (a * math.sqrt(b))
    c, d = 1.0 + 2.0 * scale**2, math.sqrt(1.0 + 4.0 * scale**2)
    others = zeta(0.0, scale) + 8.0 / math.pi * (scale * rho) ** 2 / (c * d)
    pairs = 4.0 * (scale * rho) ** 2 / (math.pi * c)
    mean = shift * theta * erf(at) + scale * std**2 * rho * _first(at) / math.sqrt(a)
    cross = 4.0 * scale * rho / math.sqrt(math.pi * c) * mean
    more = length - 1
    return std**2 - 2.0 * label + own + more * (others + (length - 2) * pairs + cross)


def unit_vectors(rng):
    k, v = rng.standard_normal((2, 4))
    return k / np.linalg.norm(k), v / np.linalg.norm(v)


def random_point(rng):
    scale, dim, length = rng.uniform(0.05, 2.0), rng.integers(4, 400), int(rng.integers(2, 30))
    return *unit_vectors(rng), float(scale), math.sqrt(dim / 2.0), length


@pytest.mark.parametrize("std", STDS)
def test_quadrature_and_closed_form_equal_the_published_formula(std):
    rng = np.random.default_rng(int(10 * std))
    for _ in range(20):
        k, v, scale, shift, length = random_point(rng)
        task = MarionSLR(shift**2, length, relevant_std=std)
        overlaps = (k[0], k[1], v[0], v[1], k @ v)
        expected = published(overlaps, scale, std, shift, length)
        ours = make_landscape(task, make_activation(ERF_ATTENTION), resolution=1.35)
        assert ours(scale * k, v, 0.0).risk == pytest.approx(expected, rel=1e-10)
        assert erf_risk(task, overlaps_of(scale * k, v)) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("std", STDS)
def test_on_the_manifold_two_functions_are_enough(std):
    rng = np.random.default_rng(int(10 * std))
    for _ in range(20):
        (kappa, nu), scale = rng.uniform(-1.0, 1.0, 2), rng.uniform(0.05, 2.0)
        shift, length = math.sqrt(rng.integers(4, 400) / 2.0), int(rng.integers(2, 30))
        k = scale * np.array([kappa, 0.0, math.sqrt(1.0 - kappa**2), 0.0])
        v = np.array([0.0, nu, 0.0, math.sqrt(1.0 - nu**2)])
        width = math.sqrt(1.0 + 2.0 * (scale * std) ** 2)
        expected = std**2 * (1.0 - 2.0 * nu * erf(scale * shift * kappa / width))
        expected += std**2 * zeta(scale * shift * kappa, scale * std)
        expected += (length - 1) * zeta(0.0, scale)
        task = MarionSLR(shift**2, length, relevant_std=std)
        result = risk_and_gradient(task, ERF_ATTENTION, (k, v), tolerance=1e-9)
        assert result.risk == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("std", STDS)
def test_each_derivative_is_that_of_the_closed_form(std):
    """A custom derivative with swapped arguments, in the authors' code, must not happen here."""
    rng = np.random.default_rng(3)
    task = MarionSLR(8.0, 4, relevant_std=std, noise=0.3)
    landscape = make_landscape(task, make_activation(ERF_ATTENTION), resolution=1.35)
    for _ in range(5):
        k, v = unit_vectors(rng)
        slope = landscape(0.8 * k, v, 0.0)
        numeric = central_differences(
            lambda x: erf_risk(task, overlaps_of(x[:4], x[4:])), np.array([*0.8 * k, *v]), 1e-5
        )
        assert_allclose([*slope.k, *slope.v], numeric, rtol=0.0, atol=1e-8)


def test_swapped_arguments_would_be_seen():
    k, v = unit_vectors(np.random.default_rng(3))
    overlaps, setting = (k[0], k[1], v[0], v[1], k @ v), (0.8, 0.7, math.sqrt(8.0), 4)
    swapped = published(overlaps, *setting, square=lambda t, s: zeta(s, t))
    task = MarionSLR(8.0, 4, relevant_std=0.7)
    right = erf_risk(task, overlaps_of(0.8 * k, v))
    assert published(overlaps, *setting) == pytest.approx(right, rel=1e-10)
    assert abs(swapped - right) > 0.01


def published_descent(starts, scale, std, dim, steps, keep, rate, length=10):
    """Return overlaps along projected gradient descent of the published formula, a row a record.

    All starts move at once. Vectors are ``(starts, 4)``; the teachers are the first two axes.
    """
    k, v = (np.array(side) for side in zip(*(start.vectors() for start in starts), strict=True))
    signs = 1e-5 * np.concatenate([np.eye(5), -np.eye(5)])[:, :, None]
    rows = []
    for step in range(steps + 1):
        overlaps = np.array([k[:, 0], k[:, 1], v[:, 0], v[:, 1], np.sum(k * v, axis=1)])
        if step % keep == 0:
            rows.append(overlaps)
        moved = np.moveaxis(overlaps + signs, 1, 0)  # overlap, difference, start
        risks = published(moved, scale, std, math.sqrt(dim / 2.0), length)
        kappa, eta, theta, nu, rho = (risks[:5] - risks[5:]) / 2e-5
        along_k, along_v = rho[:, None] * v, rho[:, None] * k
        along_k[:, 0] += kappa
        along_k[:, 1] += eta
        along_v[:, 0] += theta
        along_v[:, 1] += nu
        k, v = (_projected_step(x, g, rate) for x, g in ((k, along_k), (v, along_v)))
    return np.array(rows)


def _projected_step(x, gradient, rate):
    x = x - rate * (gradient - x * np.sum(x * gradient, axis=1, keepdims=True))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "time", "rate", "along", "end"),
    [(0.1, 80.0, 4e-3, 3e-3, 3e-4), (0.9, 8.0, 1e-3, 1e-2, 1e-2)],
)
def test_the_flow_has_the_paths_of_the_published_descent(scale, time, rate, along, end):
    """Projected descent of the authors at d = 400, start by start.

    Short keys have their step of 4e-3; with long ones such steps oscillate across the valley.
    """
    starts = [random_directions(400, seed) for seed in range(4)]
    starts += [random_directions(400, seed, on_manifold=True) for seed in range(2)]
    steps = round(time / rate)
    paths = published_descent(starts, scale, math.sqrt(0.5), 400, steps, steps // 40, rate)
    task, times, ends = MarionSLR(200.0, 10), np.linspace(0.0, time, 41), []
    for index, start in enumerate(starts):
        given = {"sphere": Sphere(scale), "time": time, "times": times, "tolerance": 1e-12}
        flow = sphere_flow(task, start=start, **given)
        kappa, nu, theta, eta, rho = unit_overlaps(flow).values()
        gap = np.abs(paths[..., index] - np.array([kappa, eta, theta, nu, rho]).T)
        assert gap.max() < along, index
        assert gap[-1].max() < end, index
        ends.append(flow.minimum)
    if scale < 0.5:  # some of each
        assert {"matched", "mismatched"} <= set(ends)


@pytest.mark.parametrize(
    ("dim", "lower"),
    [(80, "mismatched"), (200, "mismatched"), (300, "mismatched"), (400, "matched")],
)
def test_mismatched_ends_are_better_than_the_teachers_in_few_dimensions_only(dim, lower):
    """Short keys, ``k = v*`` and the best ``v·k*``: the risks of the page about this task."""
    task, scale = MarionSLR(dim / 2.0, 10), 0.1
    teachers = erf_risk(task, FullOrderParameters(scale, 0.0, 0.0, 1.0, scale**2, 0.0, 1.0))

    def crossed(theta):
        return erf_risk(task, FullOrderParameters(0.0, scale, theta, 0.0, scale**2, 0.0, 1.0))

    mismatched = minimize_scalar(crossed, bounds=(0.0, 1.0), method="bounded").fun
    expected = {80: (0.18353, 0.15753), 200: (0.12549, 0.11551), 300: (0.11611, 0.11551)}
    assert (teachers, mismatched) == pytest.approx(expected.get(dim, (0.11350, 0.11551)), abs=1e-5)
    assert (mismatched < teachers) == (lower == "mismatched")


@pytest.mark.parametrize("name", ["softmax", "softplus", "softmax-1", ERF_ATTENTION])
@pytest.mark.parametrize("std", [0.4, 1.7])
def test_gradients_are_the_slopes_of_the_risk(name, std):
    task, activation = MarionSLR(3.0, "1,2,5", relevant_std=std), make_activation(name)
    landscape = make_landscape(task, activation, resolution=1.35)
    k, v = np.random.default_rng(0).standard_normal((2, 4))
    numeric = central_differences(
        lambda x: landscape(x[:4], x[4:8], x[8]).risk, np.array([*k, *v, 0.1]), 1e-4
    )
    assert_allclose(landscape(k, v, 0.1).row[1:], numeric, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["softmax", "erf"])
def test_at_unit_variance_it_is_spiked_slr(name):
    activation = make_activation(name, bias=0.3)
    for m, S in ((0.7, 0.4), (-1.0, 0.0)):
        pair = (MarionSLR(2.0, 3, relevant_std=1.0), SpikedSLR(2.0, 3))
        ours, spiked = (np.array(landscape_moments(task, activation, m, S)) for task in pair)
        assert_allclose(ours, spiked, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["softmax", "softplus"])
def test_the_population_optimum_is_a_flat_point_of_the_landscape(name):
    task = MarionSLR(4.0, 3, relevant_std=0.6, noise=0.2)
    best = minimal_risk(task, name)
    here = risk_and_gradient(task, name, ([best.m_k, 0, 0, 0], [0, best.m_v, 0, 0]))
    assert here.risk == pytest.approx(best.risk, abs=1e-10)
    assert here.gradient_norm < 1e-6
    turned = risk_and_gradient(task, name, ([best.m_k, 0, 0.1, 0], [0, best.m_v, 0, 0.1]))
    assert turned.risk > best.risk  # keys and values along the teachers are best
