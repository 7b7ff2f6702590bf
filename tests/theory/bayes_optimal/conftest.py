"""State evolution by plain iteration, without the curve; a check of the integrals."""

import math

import pytest

from slrlab.theory.bayes_optimal.overlaps import BayesConjugates


def _iterate(channel, alpha, hats=BayesConjugates(0.0, 0.0), steps=4000, close=1e-10):
    """Return the conjugates after at most ``steps`` steps, or when ``log q̂_v`` has settled."""
    for _ in range(steps):
        q = hats.overlaps()
        moments = channel.moments(q)
        variance = q.variance_v + channel.task.noise**2
        new = BayesConjugates(alpha * moments.key, alpha * moments.value / variance)
        done = abs(math.log(new.v / hats.v)) < close if hats.v > 0 else False
        hats = new
        if done or hats.v > 1e13:
            break
    return hats


def _location_defect(channel, overlaps):
    """Return ``|E P_ε + E(1 − P_ε) − 1|``, two different integrals: a check of both."""
    std = math.sqrt(overlaps.variance_v + channel.task.noise**2)
    sums = channel._integrals(channel._law(overlaps), overlaps, std)
    return abs(sums.location + sums.rest - 1.0)


@pytest.fixture(scope="session")
def iterate():
    return _iterate


@pytest.fixture(scope="session")
def location_defect():
    return _location_defect
