import numpy as np
import pytest
from scipy import special

from slrlab.numerics.graded import panels, running_matrix
from slrlab.numerics.selection import HardKernel, PanelKernel
from slrlab.numerics.threshold import inversion, threshold_rule


@pytest.mark.parametrize(
    ("transform", "value"),
    [
        (lambda t: 1.0 / t, 1.0),
        (lambda t: 1.0 / t**2, 1.0),
        (lambda t: 1.0 / (t + 1.0), np.exp(-1.0)),
        (lambda t: np.sqrt(np.pi) / 2.0 / t**1.5, 1.0),
    ],
    ids=["step", "ramp", "exponential", "root"],
)
def test_inverse_transform_of_smooth_functions(transform, value):
    t, series = inversion()
    assert (transform(t) @ series).real == pytest.approx(value, abs=3e-10)


def test_a_kink_near_one_spoils_the_inverse_transform():
    t, series = inversion()
    error = abs((np.exp(-0.5 * t) / t**2 @ series).real - 0.5)  # the ramp max(T − 1/2, 0) at 1
    assert error > 1e-8


def test_running_integral_of_a_panel():
    nodes, _ = panels(np.array([-1.0, 1.0]))
    integral = running_matrix() @ np.exp(nodes)
    np.testing.assert_allclose(integral, np.exp(nodes) - np.exp(-1.0), atol=1e-12)


def test_panel_kernel_of_the_argmax():
    edges = np.linspace(-9.0, 9.0, 25)
    nodes, _ = panels(edges)
    kernel = PanelKernel.build(edges, 1.0)
    ones = np.ones((nodes.size, 1))
    np.testing.assert_allclose(kernel.survive(ones)[:, 0], special.ndtr(nodes), atol=1e-12)
    assert float(kernel.weights @ kernel.pick(ones)[:, 0]) == pytest.approx(1.0, abs=1e-12)
    other = HardKernel.build(9.0, 0.05)
    smooth = np.tanh(nodes)[:, None], np.tanh(other.nodes)[:, None]
    whole = [
        float(one.weights @ (one.pick(m) * one.survive(m))[:, 0])
        for one, m in zip((kernel, other), smooth, strict=True)
    ]
    assert whole[0] == pytest.approx(whole[1], abs=1e-9)


@pytest.mark.parametrize("power", [1.0, 2.0, 5.0, 12.0])
def test_one_token_alone_has_weight_one(power):
    """The largest u have slopes beyond 1e9: no rounding may be multiplied by them."""
    width, step = 0.5, 0.1
    rule = threshold_rule(power, width, 10.0, 1.0)
    x = np.arange(-10.0, 5.0, step)
    law = np.exp(-((x[:, None] + rule.u) ** 2) / (2.0 * width**2)) * rule.weights
    law /= width * np.sqrt(2.0 * np.pi)
    for function in (rule.first, rule.second):  # the integrals of h' and (h²)' up to h = 1
        assert step * rule.moment(rule.average(law, function)) == pytest.approx(1.0, abs=1e-8)
