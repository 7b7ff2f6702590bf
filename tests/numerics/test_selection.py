import math

import numpy as np
import pytest
from scipy import special

from slrlab import ComputationError, MaxSLR, Normalised, make_activation
from slrlab.numerics.selection import BandKernel, HardKernel, SoftKernel
from slrlab.theory.moments import attention_moments


@pytest.mark.parametrize("length", ["2", "10", "1,2,3"])
@pytest.mark.parametrize(("signal", "scale"), [(2.0, 6.0), (3.0, 1.0), (6.0, 6.0), (0.5, 3.0)])
def test_the_aligned_rule_equals_the_general_one(signal, scale, length):
    """Softmax told that it is exponential, against the same map treated as any other."""
    task = MaxSLR(signal, length)
    special_case = attention_moments(task, make_activation("softmax"), scale, resolution=1.35)
    general = attention_moments(task, Normalised("general"), scale, resolution=1.35)
    assert special_case.target == pytest.approx(general.target, abs=1e-12)
    assert special_case.shortfall == pytest.approx(general.shortfall, abs=1e-12)
    assert special_case.unexplained == pytest.approx(general.unexplained, abs=1e-12)


@pytest.mark.parametrize(("signal", "scale"), [(1.0, 0.7), (4.0, 9.0), (30.0, 30.0)])
def test_two_tokens_against_a_product_grid(signal, scale):
    """L = 2: p and σ depend on the difference alone, a one-dimensional integral."""
    difference = np.linspace(-14.0, 14.0, 200_001)
    step = difference[1] - difference[0]
    density = np.exp(-(difference**2) / 4.0) / math.sqrt(4.0 * math.pi) * step
    first = special.expit(signal * difference), special.expit(scale * difference)
    second = special.expit(-signal * difference), special.expit(-scale * difference)
    expected = density @ (first[0] * first[1] + second[0] * second[1])
    moments = attention_moments(MaxSLR(signal, 2), make_activation("softmax"), scale)
    assert moments.target == pytest.approx(expected, abs=1e-12)


def test_the_running_integral_of_the_hard_kernel():
    kernel = HardKernel.build(9.0, 0.2)
    constant = np.ones((kernel.nodes.size, 1))
    np.testing.assert_allclose(
        kernel.survive(constant)[:, 0], special.ndtr(kernel.values), atol=1e-14
    )
    np.testing.assert_allclose(kernel.missing, 1.0 - special.ndtr(kernel.values), atol=1e-15)
    assert (kernel.weights @ kernel.pick(constant))[0] == pytest.approx(1.0, abs=1e-14)


def test_a_soft_kernel_tends_to_the_hard_one():
    hard = attention_moments(MaxSLR(math.inf, 3), make_activation("softplus"), 1.5)
    errors = [
        abs(attention_moments(MaxSLR(nu, 3), make_activation("softplus"), 1.5).target - hard.target)
        for nu in (20.0, 40.0)
    ]
    assert errors[1] < 0.3 * errors[0]  # the correction falls as 1/ν²


@pytest.mark.parametrize("step", [0.3, 4.0])
@pytest.mark.parametrize("signal", [8.0, 40.0])
def test_the_band_kernel_equals_the_whole_matrix(signal, step):
    node = 0.3 / signal
    x = np.arange(-9.3, 9.3, node)
    law = np.exp(-(x**2) / 2.0) * node / math.sqrt(2.0 * math.pi)
    band = BandKernel.build(x, law, signal, np.array([-9.5 * signal - 40.0, 9.0077 * signal]), step)
    stride = round(band.weights[0] / (signal * node))
    first = math.floor((-9.0077 - x[0]) / node)
    values = x[0] + node * (first + stride * np.arange(band.weights.size))
    whole = SoftKernel.build(-signal * values, band.weights, signal * x, law)
    matrix = np.stack([np.cos(x), np.exp(-(x**2))], axis=1)
    np.testing.assert_allclose(band.survive(matrix), whole.survive(matrix), atol=1e-13)
    np.testing.assert_allclose(band.pick(matrix), whole.pick(matrix), atol=1e-13)
    np.testing.assert_allclose(band.missing, whole.missing, atol=1e-14)


def test_a_grid_too_large_for_memory_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr("slrlab.theory.moments.selected._MOST_ENTRIES", 1000)
    with pytest.raises(ComputationError, match="too large for memory"):
        attention_moments(MaxSLR(3.0, 3), make_activation("softplus"), 1.0)
