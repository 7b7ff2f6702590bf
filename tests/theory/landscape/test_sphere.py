"""Gradient flow of directions: against projected descent step by step, and its symmetries."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from slrlab import FullOrderParameters, MarionSLR, Sphere, SpikedSLR, bayes_risk, sphere_flow
from slrlab.numerics.differences import central_differences
from slrlab.theory.landscape.sphere import random_directions
from slrlab.theory.population.closed_forms import erf_risk

TASK = MarionSLR(200.0, 10)  # d = 400 and γ² = ½, as in the paper
SMALL = MarionSLR(20.0, 4)  # d = 40: the gradient is ten times less steep


def projected_descent(start, sphere, rate, steps, keep):
    """Return overlaps along projected descent of the closed form: their algorithm, step by step."""
    k, v = start.vectors()
    rows = []
    for step in range(steps + 1):
        if step % keep == 0:
            rows.append([k[0], k[1], v[0], v[1], k @ v])
        scale = sphere.at(rate * step)

        def risk(x, scale=scale):
            key, value = scale * x[:4], x[4:]
            parts = (key[0], key[1], value[0], value[1], key @ key, key @ value, value @ value)
            return erf_risk(SMALL, FullOrderParameters(*map(float, parts)))

        gradient = central_differences(risk, np.concatenate([k, v]), 1e-6)
        moved = []
        for x, g in ((k, gradient[:4]), (v, gradient[4:])):
            x = x - rate * (g - x * (x @ g))
            moved.append(x / np.linalg.norm(x))
        k, v = moved
    return np.array(rows)


def unit_overlaps(flow, sphere):
    scale = sphere.at(flow.times)
    pairs = (flow.m_kk / scale, flow.m_kv / scale, flow.m_vk, flow.m_vv, flow.q_kv / scale)
    return np.array(pairs).T


@pytest.mark.parametrize(
    ("seed", "sphere", "end"),
    [
        pytest.param(1, Sphere(0.3), "matched", marks=pytest.mark.slow),
        pytest.param(5, Sphere(0.3), "mismatched", marks=pytest.mark.slow),
        (0, Sphere(0.6, 0.1), "matched"),
    ],
    ids=["matched", "mismatched", "falling"],
)
def test_the_flow_is_the_limit_of_projected_descent(seed, sphere, end):
    """From random starts in 40 dimensions; the difference is that of Euler steps, first order."""
    start, times = random_directions(40, seed), np.arange(11) * 1.5
    flow = sphere_flow(SMALL, sphere=sphere, start=start, time=15.0, times=times, tolerance=1e-12)
    assert flow.minimum == end
    gaps = []
    for rate, keep in ((0.03, 50), (0.015, 100)):
        path = projected_descent(start, sphere, rate, 10 * keep, keep)
        gaps.append(np.abs(path - unit_overlaps(flow, sphere)).max())
    assert gaps[1] < 0.01
    assert gaps[0] / gaps[1] == pytest.approx(2.0, rel=0.15)


def test_it_descends_on_the_sphere_and_stays_on_the_manifold():
    flow = sphere_flow(SMALL, sphere=Sphere(0.3), start="manifold", seed=3, time=50.0)
    assert (np.diff(flow.risk) < 1e-9).all()
    assert_allclose(flow.q_kk, 0.09, rtol=1e-12)
    assert_allclose(flow.q_vv, 1.0, rtol=1e-12)
    assert np.abs([flow.m_kv, flow.m_vk, flow.q_kv]).max() < 1e-9
    start = FullOrderParameters(0.2, 0.0, 0.0, -0.1, 1.0, 0.0, 1.0)
    there = sphere_flow(SMALL, sphere=Sphere(0.3), start=start, time=20.0, times=[10.0, 20.0])
    signs = [-0.2, 0.0, 0.0, 0.1, 1.0, 0.0, 1.0]
    mirrored = FullOrderParameters(*signs)
    back = sphere_flow(SMALL, sphere=Sphere(0.3), start=mirrored, time=20.0, times=[10.0, 20.0])
    assert_allclose(there.m_kk, -back.m_kk, atol=1e-7)  # erf is odd: (−k, −v) is the same predictor
    assert there.minimum == back.minimum


@pytest.mark.slow
def test_a_falling_scale_ends_at_the_teachers():
    sphere = Sphere(1.0, 0.025)  # the schedule of the paper: 1e-4 a step of 4e-3
    flow = sphere_flow(TASK, sphere=sphere, seed=1, time=480.0)
    assert flow.minimum == "matched"
    overlaps = np.abs(unit_overlaps(flow, sphere)[-1])
    assert_allclose(overlaps, [1.0, 0.0, 0.0, 1.0, 0.0], atol=1e-4)
    assert math.sqrt(flow.q_kk[-1]) == pytest.approx(sphere.at(480.0), rel=1e-5)


def test_softmax_on_the_sphere_of_its_best_keys_finds_them():
    task = MarionSLR(4.0, 3, relevant_std=1.0)
    flow = sphere_flow(task, "softmax", sphere=Sphere(2.0), start="manifold", dim=100, time=300.0)
    assert flow.minimum == "matched"
    assert flow.risk[-1] == pytest.approx(bayes_risk(SpikedSLR(4.0, 3)).risk, abs=1e-6)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"sphere": 0.1}, TypeError, r"^sphere must be a Sphere such as Sphere\(0.1\), got 0.1$"),
        ({"start": "informed"}, ValueError, r"^start must be one of random, manifold, got inform"),
        ({"start": ([0.0] * 4, [1.0] * 4)}, ValueError, r"^start must have vectors that are not 0"),
        ({"dim": 2}, ValueError, r"^dim must be a whole number >= 4, got 2$"),
        ({"dim": 9, "start": ([1.0] * 4, [1.0] * 4)}, ValueError, r"^dim must not be given with a"),
        ({"time": 0.0}, ValueError, r"^time must be a finite number > 0, got 0.0$"),
    ],
)
def test_bad_input_is_named(change, error, message):
    with pytest.raises(error, match=message):
        sphere_flow(TASK, **({"sphere": Sphere(0.1)} | change))


def test_lengths_of_a_sphere_are_checked():
    with pytest.raises(ValueError, match=r"^scale must be a finite number > 0, got 0.0$"):
        Sphere(0.0)
    with pytest.raises(ValueError, match=r"^decay must be a finite number >= 0, got -1.0$"):
        Sphere(1.0, -1.0)
