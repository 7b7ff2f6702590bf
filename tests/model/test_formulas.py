"""Formulas: values, derivatives by differences, and logarithms beyond overflow."""

import numpy as np
import pytest

from slrlab.model.expressions import _features
from slrlab.model.formulas import FUNCTIONS, Formula

POINTS = np.array([-1.3, -0.4, 0.31, 1.7])
TEXTS = [f"{name}(x**2/3 + 0.2)" for name in FUNCTIONS] + [
    "tanh(x) * sin(2*x) - x/(2 + x**2)",
    "-x**3 + pi*exp(-x)",
    "(1 + x**2)**-0.5",
    "log(1 + exp(x)) * sigmoid(-x)",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("log", [False, True])
def test_derivatives_by_differences(text, log):
    formula = Formula.read(f"3 + ({text})**2" if log else text)
    function = formula.log if log else formula
    h = 1e-4
    left, middle, right = (function(POINTS + shift) for shift in (-h, 0.0, h))
    slope = (right.value - left.value) / (2.0 * h)
    curve = (right.gradient - left.gradient)[:, 0] / (2.0 * h)
    np.testing.assert_allclose(middle.gradient[:, 0], slope, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(middle.hessian[:, 0, 0], curve, rtol=1e-6, atol=1e-6)
    plain = function(POINTS, derivatives=False).value
    np.testing.assert_allclose(plain, middle.value, rtol=1e-14)


@pytest.mark.parametrize("text", ["exp(x)", "3 + x**2", "sigmoid(x)", "softplus(x)", "sqrt(x*x)"])
def test_logarithms(text):
    formula = Formula.read(text)
    np.testing.assert_allclose(formula.log(POINTS).value, np.log(formula(POINTS).value), atol=1e-13)


def test_logarithms_do_not_overflow():
    x = np.array([-2000.0, 2000.0])
    for text, expected in (
        ("exp(x) * 2", x + np.log(2.0)),
        ("(exp(x) + 1)**2", [0.0, 4000.0]),
        ("exp(x)/(1 + exp(x))", [-2000.0, 0.0]),
        ("softplus(x)", [-2000.0, np.log(2000.0)]),
    ):
        np.testing.assert_allclose(Formula.read(text).log(x).value, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("text", "bends"),
    [
        ("1 + tanh(x)", ()),
        ("relu(x - 2) + abs(x + 1)", (-1.0, 2.0)),
        ("exp(-1e4*(x - 0.25)**2)", (0.25,)),
        ("1/(1 + 1e6*(x + 3)**2)", (-3.0,)),
        ("tanh(100*(x - 0.5))", (0.5,)),
        ("abs(x**2 - 4)", (-2.0, 2.0)),
    ],
)
def test_kinks_and_narrow_features_are_found(text, bends):
    with np.errstate(all="ignore"):
        result, width = _features(Formula.read(text))
    assert set(bends) <= set(np.round(result, 9))
    assert (width < 0.5) == any(c in text for c in ("1e4", "1e6", "100"))
