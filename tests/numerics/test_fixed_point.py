import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slrlab.numerics.fixed_point import fixed_point


def test_the_cosine():
    result = fixed_point(np.cos, np.array([1.0]), tolerance=1e-12)
    assert result.converged
    assert not result.diverged
    assert not result.stalled
    assert result.point[0] == pytest.approx(0.7390851332151607, abs=1e-11)
    assert result.residual <= 1e-12
    assert result.steps < 15


@pytest.mark.parametrize("memory", [0, 1, 5])
@pytest.mark.parametrize("slope", [-1.0, -1.5, -5.0])
def test_a_two_cycle_is_damped_away(slope, memory):
    """Undamped, ``x → slope·x + 1`` cycles or runs away; the solution is ``1/(1 − slope)``."""
    result = fixed_point(lambda x: slope * x + 1.0, np.array([3.0]), memory=memory)
    assert result.converged
    assert result.point[0] == pytest.approx(1.0 / (1.0 - slope), abs=1e-7)


def test_a_smooth_two_cycle():
    """The logistic map at 3.3 has a stable cycle around its unstable fixed point."""
    result = fixed_point(lambda x: 3.3 * x * (1.0 - x), np.array([0.5]), memory=0, damping=0.0)
    assert result.converged
    assert result.point[0] == pytest.approx(1.0 - 1.0 / 3.3, abs=1e-7)
    assert result.damping > 0.0


def test_a_step_out_of_the_domain_is_taken_back():
    visited = []

    def function(x):
        visited.append(float(x[0]))
        return np.where(x > 0.0, x - 3.0 * np.log(np.where(x > 0.0, x, 1.0)), np.nan)

    result = fixed_point(function, np.array([2.8]), damping=0.0, longest_step=10.0)
    assert min(visited) < 0.0
    assert result.converged
    assert result.point[0] == pytest.approx(1.0, abs=1e-7)


def test_a_map_undefined_everywhere_diverges_at_once():
    result = fixed_point(lambda x: np.full(x.shape, math.nan), np.zeros(2))
    assert result.diverged
    assert not result.converged
    assert result.steps == 1


@pytest.mark.parametrize(
    "function", [lambda x: 2.0 * x + 1.0, lambda x: x + 1.0], ids=["2x", "x+1"]
)
def test_divergence_is_reported(function):
    result = fixed_point(function, np.array([1.0]), memory=0, longest_step=1e6, max_steps=400)
    assert result.diverged
    assert not result.converged
    assert np.isfinite(result.point).all()


def test_the_plain_iteration_never_steps_over_a_solution_of_a_monotone_map():
    """From above it must stop at the first fixed point, 1, and not reach the next ones."""
    visited = []

    def function(x):
        visited.append(float(x[0]))
        return x - 0.3 * np.sin(np.pi * x) ** 2 - 1e-3 * (x - 1.0)

    result = fixed_point(function, np.array([1.5]), memory=0, max_steps=5000, tolerance=1e-7)
    assert result.converged
    assert result.point[0] == pytest.approx(1.0, abs=1e-3)
    assert min(visited) >= 1.0 - 1e-9
    assert (np.diff(visited) <= 0.0).all()


def test_patience_gives_up_early_and_says_so():
    def slow(x):
        return x + 1e-3 / (1.0 + x**2)

    result = fixed_point(slow, np.array([0.0]), memory=0, patience=10)
    assert result.stalled
    assert not result.converged
    assert result.steps <= 12
    assert fixed_point(slow, np.array([0.0]), memory=0, max_steps=50).steps == 50


def test_steps_are_cut_and_the_start_is_not_changed():
    seen = []

    def function(x):
        seen.append(x.copy())
        return np.full(2, 100.0)

    start = np.zeros(2)
    result = fixed_point(function, start, longest_step=0.5, memory=0, max_steps=20)
    assert np.abs(np.diff(seen, axis=0)).max() <= 0.5 + 1e-12
    assert not result.converged
    np.testing.assert_array_equal(start, 0.0)


@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 8),
    radius=st.floats(0.0, 0.95),
    memory=st.integers(0, 6),
)
def test_contractive_linear_maps_converge(seed, size, radius, memory):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((size, size))
    matrix *= radius / np.linalg.norm(matrix, 2)
    shift = rng.standard_normal(size)
    solution = np.linalg.solve(np.eye(size) - matrix, shift)
    result = fixed_point(
        lambda x: matrix @ x + shift,
        np.zeros(size),
        memory=memory,
        max_steps=3000,
        longest_step=100.0,
    )
    assert result.converged
    # |F(x) − x| ≥ (1 − radius)|x − x*|
    np.testing.assert_allclose(result.point, solution, atol=math.sqrt(size) * 1e-8 / (1 - radius))
