import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate

from slrlab.numerics.lognormal import LognormalTable


def _exact(x, width):
    """The three averages by adaptive integration over n, around where each lives."""
    parts = (lambda t: -math.expm1(-t), lambda t: t * math.exp(-t), lambda t: t**2 * math.exp(-t))
    averages = []
    for part in parts:

        def integrand(n, part=part):
            t = math.exp(min(x + width * n, 600.0))
            return part(t) * math.exp(-(n**2) / 2) / math.sqrt(2 * math.pi)

        turn = -x / width if width else 0.0
        points = sorted({min(max(p, -11.0), 11.0 + width) for p in (turn, width, 0.0)})
        edges = [-12.0, *points, 12.0 + width]
        pieces = pairwise(edges)
        averages.append(math.fsum(integrate.quad(integrand, *p, epsabs=1e-14)[0] for p in pieces))
    return averages


@pytest.mark.parametrize("width", [0.0, 0.1, 0.29, 0.31, 1.0, 3.0, 9.0])
def test_against_adaptive_integration(width):
    table = LognormalTable.build(width, -60.0, 10.0)
    for x in (-20.3, -4.117, -0.7, 0.0, 1.234, 5.011):
        tabulated = [float(value[0]) for value in table(np.array([x]))]
        expected = _exact(x, width) if width else _exact(x, 1e-12)
        np.testing.assert_allclose(tabulated, expected, rtol=1e-7, atol=2e-9)
        assert tabulated[0] == pytest.approx(
            expected[0], rel=1e-9
        )  # the complement keeps its digits


@pytest.mark.parametrize("width", [0.2, 2.0])
def test_a_finer_table_agrees(width):
    x = np.random.default_rng(0).uniform(-30.0, 5.0, 500)
    coarse = LognormalTable.build(width, -40.0, 6.0)(x)
    fine = LognormalTable.build(width, -40.0, 6.0, resolution=2.0)(x)
    for ours, finer in zip(coarse, fine, strict=True):
        np.testing.assert_allclose(ours, finer, atol=1e-9)


def test_derivatives_are_the_next_averages():
    table = LognormalTable.build(1.3, -20.0, 5.0)
    x, h = np.linspace(-8.0, 3.0, 40), 1e-3
    gone, one, two = table(x)
    up, down = table(x + h), table(x - h)
    np.testing.assert_allclose((up[0] - down[0]) / (2 * h), one, atol=1e-6)
    np.testing.assert_allclose((up[1] - down[1]) / (2 * h), one - two, atol=1e-6)
    assert (gone >= 0.0).all()
