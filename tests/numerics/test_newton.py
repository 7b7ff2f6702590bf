"""Newton's method with exact derivatives: order of convergence, saddles, minima at infinity."""

import numpy as np
import pytest

from slrlab.numerics.newton import descent_step, newton

TOLERANCES = {"gradient_tolerance": 1e-12, "step_tolerance": 1e-8, "longest_step": 10.0}


def logistic(x):
    return float(np.logaddexp(0.0, x).sum() - 0.3 * x.sum())


def logistic_derivatives(x):
    p = 1.0 / (1.0 + np.exp(-x))
    return p - 0.3, np.diag(p * (1.0 - p))


def test_the_error_is_squared_at_each_step():
    end = newton(logistic, logistic_derivatives, np.array([1.5, -2.0]), **TOLERANCES)
    assert end.converged
    np.testing.assert_allclose(end.point, np.log(0.3 / 0.7), atol=1e-12)
    norms = end.gradient_norms[end.gradient_norms > 1e-13]
    orders = np.diff(np.log(norms[1:])) / np.diff(np.log(norms[:-1]))
    assert orders[-1] == pytest.approx(2.0, abs=0.3)
    assert (np.diff(end.values) <= 1e-12).all()


def test_a_saddle_is_left():
    def function(x):
        return float(x[0] ** 4 / 4.0 - x[0] ** 2 / 2.0 + x[1] ** 2)

    def derivatives(x):
        gradient = np.array([x[0] ** 3 - x[0], 2.0 * x[1]])
        return gradient, np.diag([3.0 * x[0] ** 2 - 1.0, 2.0])

    end = newton(function, derivatives, np.array([0.1, 1.0]), **TOLERANCES)
    assert end.converged
    assert abs(end.point[0]) == pytest.approx(1.0)
    assert end.value == pytest.approx(-0.25)


def test_a_minimum_at_infinity_is_told_from_one_that_is_reached():
    """The gradient of e^{−x} vanishes, the step does not."""

    def derivatives(x):
        return -np.exp(-x), np.diag(np.exp(-x))

    end = newton(lambda x: float(np.exp(-x).sum()), derivatives, np.zeros(1), **TOLERANCES)
    assert end.at_infinity
    assert not end.converged
    assert end.gradient_norms[-1] < 1e-12


def test_steps_are_bounded_and_watched():
    seen = []
    end = newton(
        logistic,
        logistic_derivatives,
        np.array([20.0]),
        **TOLERANCES | {"longest_step": 1.0},
        watch=lambda x, number: bool(seen.append(float(x[0])) or number == 2),
    )
    assert end.stopped
    assert end.steps == 2
    assert max(np.abs(np.diff(seen)) / (1.0 + np.abs(seen[:-1]))) <= 1.0 + 1e-12
    short = newton(logistic, logistic_derivatives, np.array([9.0]), max_steps=1, **TOLERANCES)
    assert (short.converged, short.stopped, short.at_infinity) == (False, False, False)


@pytest.mark.parametrize("hessian", [np.diag([2.0, -3.0]), np.zeros((2, 2)), np.diag([1.0, 0.0])])
def test_every_step_descends(hessian):
    gradient = np.array([1.0, 1.0])
    assert gradient @ descent_step(gradient, hessian) < 0.0
