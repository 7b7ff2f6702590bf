"""Natural cubic splines and densities that are exponentials of them."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from slrlab.numerics.splines import natural_basis, spline_tilt

KNOTS = np.array([-1.0, 0.2, 0.9, 2.5])


def test_the_basis_spans_scipys_natural_splines():
    x = np.linspace(-6.0, 8.0, 300)
    design = np.column_stack([np.ones_like(x), natural_basis(x, KNOTS)])
    spline = CubicSpline(KNOTS, [0.3, -1.0, 2.0, 0.5], bc_type="natural")
    inside = (x >= KNOTS[0]) & (x <= KNOTS[-1])
    fit, *_ = np.linalg.lstsq(design[inside], spline(x[inside]), rcond=None)
    np.testing.assert_allclose(design[inside] @ fit, spline(x[inside]), atol=1e-10)
    # beyond the knots scipy continues the cubic; a natural spline is linear
    for outside in (x < KNOTS[0], x > KNOTS[-1]):
        np.testing.assert_allclose(np.diff(design[outside] @ fit, 2), 0.0, atol=1e-9)


def test_far_out_nothing_cancels():
    y = natural_basis(np.array([1e8, 1e8 + 1.0]), KNOTS) @ np.array([0.0, 1.0, -1.0])
    slope = (natural_basis(np.array([3.0, 4.0]), KNOTS) @ np.array([0.0, 1.0, -1.0])).tolist()
    assert y[1] - y[0] == pytest.approx(slope[1] - slope[0], abs=1e-6)


def test_a_linear_tilt_of_a_normal_is_a_shift():
    grid = np.linspace(-12.0, 12.0, 4001)
    law = np.exp(-(grid**2) / 2.0) / np.sqrt(2.0 * np.pi) * (grid[1] - grid[0])
    points = np.array([1.0, 2.5, 3.0, 0.7])
    slopes, log_mass, gain = spline_tilt(points, np.array([0.0, 1.0]), grid, law)
    mean = points.mean()
    assert slopes[0] == pytest.approx(mean, rel=1e-9)  # the maximum likelihood of N(m, 1)
    assert log_mass == pytest.approx(mean**2 / 2.0, rel=1e-8)
    assert gain == pytest.approx(mean**2 / 2.0, rel=1e-8)


def test_moments_of_the_fit_are_those_of_the_points():
    """At the maximum of an exponential family the expected basis is the mean of the data."""
    rng = np.random.default_rng(1)
    points = np.where(rng.random(400) < 0.3, 0.5, 3.0) + rng.standard_normal(400)
    grid = np.linspace(-15.0, 15.0, 6001)
    law = np.exp(-(grid**2) / 2.0) / np.sqrt(2.0 * np.pi) * (grid[1] - grid[0])
    knots = np.array([-0.5, 1.0, 2.5, 4.0])
    slopes, log_mass, _ = spline_tilt(points, knots, grid, law)
    density = law * np.exp(natural_basis(grid, knots) @ slopes - log_mass)
    assert density.sum() == pytest.approx(1.0, abs=1e-9)
    expected = natural_basis(grid, knots).T @ density
    np.testing.assert_allclose(expected, natural_basis(points, knots).mean(axis=0), rtol=1e-5)
