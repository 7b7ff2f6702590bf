import math
from dataclasses import astuple

import numpy as np
import pytest

from slrlab import LengthLaw
from slrlab.numerics.minimise import newton_minimum
from slrlab.numerics.simplex import LaplaceGrid, independent_moments, window


def _nodes(step, shift=1.2, edge=9.3):
    x = np.arange(-edge, shift + edge, step)
    density = step / math.sqrt(2 * math.pi)
    return x, np.exp(-((x - shift) ** 2) / 2) * density, np.exp(-(x**2) / 2) * density


def _direct(log_phi, relevant, others, sink=0.0):
    """Two tokens, every pair of nodes."""
    phi = np.exp(log_phi)
    total = phi[:, None] + phi[None, :] + sink
    weight = relevant[:, None] * others[None, :]
    sigma, other = phi[:, None] / total, phi[None, :] / total
    return (
        (weight * sigma).sum(),
        (weight * sigma**2).sum(),
        (weight * (1 - sigma)).sum(),
        (weight * (1 - sigma) ** 2).sum(),
        (weight * other**2).sum(),
    )


@pytest.mark.parametrize("sink", [0.0, 0.7])
@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("shape", [lambda x: x, lambda x: np.log(np.logaddexp(0, x))])
def test_two_tokens_against_every_pair_of_nodes(scale, shape, sink):
    x, relevant, others = _nodes(0.05)
    log_phi = shape(scale * x)
    moments = independent_moments(
        log_phi, relevant, others, LengthLaw.of(2).generating, sink=sink, grid=LaplaceGrid(0.25)
    )
    expected = _direct(log_phi, relevant, others, sink)
    np.testing.assert_allclose(astuple(moments), expected, rtol=1e-11)


def test_the_trapezoid_converges_geometrically():
    """Halving the step squares the error: log10(error) falls like 1/step."""
    x, relevant, others = _nodes(0.1)
    law = LengthLaw.of(3).generating
    run = lambda step: independent_moments(x, relevant, others, law, grid=LaplaceGrid(step))
    exact = run(0.15).target
    errors = [abs(run(step).target - exact) for step in (1.6, 0.8, 0.4)]
    assert errors[0] > errors[1] > errors[2]
    # predicted e^{−π²/h}: exponents 6.2, 12.3, 24.7
    assert errors[1] < 30 * errors[0] ** 2
    assert errors[2] < 30 * errors[1] ** 2 + 1e-14


def test_a_kink_defeats_the_geometric_rate():
    """For ReLU the rule must not claim more than algebraic convergence."""
    errors = []
    for step in (0.2, 0.1, 0.05, 0.0125):
        x, relevant, others = _nodes(step)
        with np.errstate(divide="ignore"):
            log_phi = np.log(np.maximum(x - 0.011, 0.0))
        moments = independent_moments(log_phi, relevant, others, LengthLaw.of(2).generating)
        errors.append(moments.target)
    gaps = np.abs(np.array(errors[:-1]) - errors[-1])
    assert (gaps > 1e-6).all()
    assert (gaps < 1e-2).all()


def test_a_stretched_grid_gives_the_same_integral():
    x, relevant, others = _nodes(0.01)
    log_phi = np.where(8 * x < -30, 8 * x, np.log(np.logaddexp(0, np.maximum(8 * x, -30))))
    law = LengthLaw.of(2).generating
    plain = independent_moments(log_phi, relevant, others, law, grid=LaplaceGrid(0.3))
    wide = independent_moments(log_phi, relevant, others, law, grid=LaplaceGrid(0.3, stretch=6.0))
    assert wide.target == pytest.approx(plain.target, rel=1e-12)
    assert wide.shortfall_square == pytest.approx(plain.shortfall_square, rel=1e-11)


def test_nodes_of_a_stretched_grid_cover_the_interval():
    for ends in ([-40.0, -10.0], [-20.0, 500.0], [50.0, 900.0]):
        nodes, weights = LaplaceGrid(0.3, stretch=17.0).nodes(np.array(ends))
        assert nodes[0] == pytest.approx(ends[0], abs=1e-6)
        assert nodes[-1] >= ends[1] - 1e-6
        assert weights.sum() == pytest.approx(nodes[-1] - nodes[0], rel=0.2)


def test_the_window_finds_a_peak_far_from_the_middle():
    log_phi = np.linspace(-3000.0, 2.0, 5000)
    rows = lambda u, *_: np.exp(-((u - 7.0) ** 2))[None, :] + np.exp(np.minimum(u - 60.0, 0))[None]
    low, high = window(rows, log_phi, np.ones(5000) / 5000)
    assert low < 2.0
    assert high > 12.0


def test_newton_finds_minima_of_two_variables():
    bowl = lambda p: math.cosh(p[0] - 1.0) + 2 * math.cosh(p[1] + 0.5) + 0.1 * p[0] * p[1]
    minimum = newton_minimum(bowl, np.array([4.0, -4.0]))
    assert minimum.settled
    grid = np.meshgrid(np.linspace(0.8, 1.2, 81), np.linspace(-0.7, -0.3, 81))
    lowest = min(bowl(p) for p in zip(*(g.ravel() for g in grid), strict=True))
    assert minimum.value <= lowest + 1e-9
