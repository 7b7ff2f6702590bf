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


@pytest.mark.parametrize("bend", [0.0, -1.0, 0.3])
def test_a_kink_is_rounded_over_one_cell_to_either_side(bend):
    """The slope turns from 0 to 2; the map gains ``Jh/6`` there and ``Jh²/12`` in total."""
    phi = ScalarMap(
        lambda x: 2.0 * np.maximum(x - bend, 0.0),
        lambda x: 2.0 * (x > bend),
        np.zeros_like,
        bends=(bend,),
    )
    code = activation_code(Elementwise("hinge", phi=phi))
    low, step = code.numbers[4:]
    x = bend + np.linspace(-3.0, 3.0, 6001) * step
    value, first, second = weights_reference._table(x, code.table, low, step)
    gain = value - phi.value(x)
    if bend == 0.3:  # between two nodes: smooth, but not the cubic
        assert np.abs(gain).max() < 0.5 * step
    else:
        assert gain[3000] == pytest.approx(2.0 * step / 6.0, rel=1e-9)
        assert np.abs(gain[np.abs(x - bend) >= step]).max() < 1e-14
        assert gain.mean() * 6.0 * step == pytest.approx(2.0 * step**2 / 12.0, rel=1e-3)
        assert (second >= -1e-9).all()
        assert ((first >= -1e-12) & (first <= 2.0 + 1e-12)).all()
    far = np.array([-5.0, 5.0])
    np.testing.assert_allclose(
        weights_reference._table(far, code.table, low, step)[1], [0.0, 2.0], atol=1e-12
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
    with pytest.raises(TypeError, match=r"^activation must be Elementwise, Normalised, Proj"):
        activation_code("softmax")


def test_rounded_kinks_are_those_of_weights_with_a_kink():
    kinks = {"relu", "relu-over-length", "sparsemax", "budget-2", "normmax-2", "softpick"}
    smooth = {"softmax", "elu1", "relu2", "entmax15", "entmax1.2", "as-entmax", "cosine"}
    rounded = {name for name in kinks | smooth if activation_code(make_activation(name)).rounded}
    assert rounded == kinks
