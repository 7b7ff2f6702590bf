"""Activations as codes: tables interpolate, the shipped maps keep their closed forms."""

import numpy as np
import pytest

from slrlab import Elementwise, Normalised, ScalarMap, make_activation
from slrlab.model import activation_code as codes
from slrlab.model import weights_kernel, weights_reference
from slrlab.model.activation_code import activation_code


@pytest.mark.parametrize(
    "name", ["normalised: 1 + x + x**2/2", "elementwise: 1 + tanh(x)", "elementwise: exp(-x**2)"]
)
def test_tables_interpolate_the_map_and_its_derivatives(name):
    activation = make_activation(name)
    code = activation_code(activation)
    assert code.numbers[1] == codes.TABULATED
    low, step = code.numbers[4:]
    x = np.concatenate([np.random.default_rng(0).uniform(-40, 40, 4000), [-40.0, 0.0, 40.0]])
    ours = np.array([weights_kernel._table(value, code.table, low, step) for value in x]).T
    reference = weights_reference._table(x, code.table, *code.numbers[4:])
    phi = activation.phi
    exacts, tolerances = (phi.value, phi.first, phi.second), (1e-12, 1e-11, 5e-10)
    for got, twin, exact, most in zip(ours, reference, exacts, tolerances, strict=True):
        scale = 1.0 + np.abs(exact(x))
        assert (np.abs(got - exact(x)) / scale).max() < most
        assert (np.abs(got - twin) / scale).max() < 1e-10


def test_tables_go_on_as_a_parabola():
    code = activation_code(make_activation("normalised: 1 + x + x**2/2"))
    x = np.array([-300.0, -40.5, 41.0, 1e3])
    ours = np.array([weights_kernel._table(value, code.table, *code.numbers[4:]) for value in x]).T
    np.testing.assert_allclose(ours, [1 + x + x**2 / 2, 1 + x, np.ones(4)], rtol=1e-9)
    np.testing.assert_allclose(
        ours, weights_reference._table(x, code.table, *code.numbers[4:]), rtol=1e-9
    )


def test_codes_of_activations_and_their_errors():
    for name, family, kind in [
        ("softmax", codes.NORMALISED, codes.EXPONENTIAL),
        ("linear", codes.ELEMENTWISE, codes.LINEAR),
        ("erf", codes.ELEMENTWISE, codes.SHIFTED_ERF),
        ("softplus", codes.NORMALISED, codes.SOFTPLUS),
        ("elementwise: exp(x)", codes.ELEMENTWISE, codes.TABULATED),
    ]:
        assert activation_code(make_activation(name)).numbers[:2] == (family, kind)
    assert activation_code(Normalised("s", sink=0.5)).numbers[2] == 0.5
    assert activation_code(make_activation("entmax15")).numbers[3] == 2.0
    broken = Elementwise("broken", phi=ScalarMap(np.log, np.reciprocal, lambda x: -(x**-2.0)))
    with pytest.raises(ValueError, match=r"^activation broken must be finite with two derivatives"):
        activation_code(broken)
    with pytest.raises(TypeError, match=r"^activation must be Elementwise, Normalised or Proj"):
        activation_code("softmax")
