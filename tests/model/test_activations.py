import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slrlab import Elementwise, Normalised, Projection, make_activation
from slrlab.model.activations import ACTIVATIONS

SCALAR = [a for a in ACTIVATIONS.values() if isinstance(a, Elementwise | Normalised)]
EXPRESSIONS = ["elementwise: 1 + tanh(x)", "normalised: 1 + x + x**2/2", "normalised: (1+x)**2"]
SUMMING = [
    a.with_bias(a.bias or 0.0)
    for a in ACTIVATIONS.values()
    if isinstance(a, Projection) or (isinstance(a, Normalised) and a.sink == 0.0)
]


@pytest.mark.parametrize(
    "activation", SCALAR + EXPRESSIONS, ids=lambda value: getattr(value, "name", str(value))
)
def test_derivatives_against_differences(activation):
    phi = make_activation(activation).phi
    x = np.linspace(-3.0, 3.0, 24)  # no node at a kink, 0 or −1
    h = 1e-5
    first = (phi.value(x + h) - phi.value(x - h)) / (2 * h)
    second = (phi.first(x + h) - phi.first(x - h)) / (2 * h)
    np.testing.assert_allclose(phi.first(x), first, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(phi.second(x), second, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", ["softmax", "softplus", *EXPRESSIONS[1:]])
def test_log_form_is_the_log_of_the_value(name):
    phi = make_activation(name).phi
    x = np.linspace(-20.0, 20.0, 82)
    np.testing.assert_allclose(phi.log_value(x), np.log(phi.value(x)), rtol=1e-9, atol=1e-12)


def test_log_forms_survive_underflow_and_overflow():
    x = np.array([-2000.0, 2000.0])
    np.testing.assert_allclose(make_activation("softmax").phi.log_value(x), x)
    np.testing.assert_allclose(make_activation("normalised: exp(x)").phi.log_value(x), x)
    np.testing.assert_allclose(
        make_activation("softplus").phi.log_value(x), [-2000, math.log(2000)]
    )


@pytest.mark.parametrize("activation", SUMMING, ids=lambda a: a.name)
@given(scores=st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=9))
def test_weights_are_a_distribution_that_follows_permutations(activation, scores):
    x = np.array(scores)
    weights = activation.weights(x)
    assert weights.min() >= 0.0
    # where the map vanishes at every score there is no weight
    empty = isinstance(activation, Normalised) and np.isneginf(activation.log_phi(x)).all()
    total = min(getattr(activation, "budget", 1), x.size)
    assert weights.sum() == pytest.approx(0.0 if empty else total, abs=1e-12)
    np.testing.assert_allclose(activation.weights(x[::-1]), weights[::-1], atol=1e-12)


def test_published_values_of_the_projections():
    x = np.array([-2.0, 0.0, 0.5])
    np.testing.assert_allclose(make_activation("sparsemax").weights(x), [0, 0.25, 0.75], atol=1e-12)
    np.testing.assert_allclose(
        make_activation("entmax15").weights(x), [0.0, 0.3260, 0.6740], atol=5e-5
    )
    np.testing.assert_allclose(
        make_activation("softmax").weights(x), [0.0486, 0.3592, 0.5922], atol=5e-5
    )


def test_a_projection_of_large_power_tends_to_softmax():
    x = np.array([-1.0, 0.3, 0.7])
    near = Projection("entmax1.01", power=100.0).weights(x)
    np.testing.assert_allclose(near, make_activation("softmax").weights(x), atol=5e-3)


@pytest.mark.parametrize("power", [0.5, 1.0, 1.5, 2.0, 7.0])
def test_projection_threshold_solves_its_equation(power):
    x = np.random.default_rng(0).normal(size=(50, 6)) * 3
    sigma = Projection("p", power=power).weights(x)
    root = sigma ** (1 / power)
    tau = (x / power - root)[sigma > 0]
    ranges = [np.ptp((x[i] / power - root[i])[sigma[i] > 0]) for i in range(50)]
    assert max(ranges) < 1e-7
    assert np.isfinite(tau).all()


def test_softmax_one_through_the_sink():
    soft1 = Normalised("softmax1", sink=1.0, exponential="everywhere")
    x = np.array([-800.0, 2.0, 800.0])
    np.testing.assert_allclose(soft1.weights(x[:1]), [0.0])
    np.testing.assert_allclose(soft1.weights(x[1:2]), [math.exp(2) / (1 + math.exp(2))])
    np.testing.assert_allclose(soft1.weights(x), [0.0, 0.0, 1.0])


def test_vanishing_weights_are_zero_not_nan():
    relu = make_activation("normalised: relu(x)")
    np.testing.assert_array_equal(relu.weights(np.array([-1.0, -2.0])), [0.0, 0.0])


def test_bias_is_given_free_or_default():
    assert make_activation("erf").bias is None
    assert make_activation("erf", bias=0.5).bias == 0.5
    assert make_activation("softplus").bias == 0.0
    assert make_activation("softplus", bias="optimal").bias is None
    with pytest.raises(ValueError, match="bias of erf must be a number"):
        make_activation("erf").weights(np.zeros(2))
    with pytest.raises(ValueError, match="bias must be a finite number or optimal, got nan"):
        make_activation("erf", bias=math.nan)


@pytest.mark.parametrize(
    "text",
    ["sofmax", "__import__('os')", "1 + y", "x**100", "3", "family: x", "exp(", "x.real", "x**x"]
    + ["exp(x, x)", "[x]", "lambda: x", "1/0 + x"],
)
def test_unreadable_expressions_are_refused_with_the_choices(text):
    with pytest.raises(ValueError, match=r"^activation must be a name or an expression"):
        make_activation(text)


def test_the_reason_of_a_refusal_is_before_the_names():
    with pytest.raises(ValueError) as refusal:
        make_activation("normalised: y")
    told, _, names = str(refusal.value).partition("; the names are ")
    assert told.endswith("got 'normalised: y' (the name y is not x)")
    assert len(told) < 200
    assert names.split(", ") == list(ACTIVATIONS)


def test_a_negative_map_cannot_be_normalised():
    with pytest.raises(ValueError, match="must be non-negative to be normalised"):
        make_activation("normalised: x")
