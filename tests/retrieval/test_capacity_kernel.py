import numpy as np
import pytest

from slrlab.retrieval import capacity_kernel, capacity_reference
from slrlab.retrieval.feature_maps import FeatureMap

MAPS = ("softmax", "elu+1", "dpfp-1", "dpfp-3", "favor-3", "favor-7")
F32 = np.float32


@pytest.fixture(params=MAPS)
def arguments(request):
    """A small problem whose entries stay away from the kinks of the maps."""
    rng, chosen = np.random.default_rng(3), FeatureMap.of(request.param)
    B, Q, N, d = 2, 3, 6, 4
    table, offsets = (rng.uniform(0.1, 0.6, (N, d)) * s for s in (rng.choice([-1, 1], (N, d)), 0.1))
    queries = rng.uniform(0.1, 0.6, (B, Q, d)) * rng.choice([-1, 1], (B, Q, d))
    values = rng.permuted(np.tile(np.arange(N), (B, 1)), axis=1)
    asked = rng.integers(N, size=(B, Q))
    arrays = [x.astype(F32) for x in (table, offsets, queries)]
    given = (chosen.code, chosen.number, chosen.directions(d, rng), *arrays[:2], values, arrays[2])
    return *given, asked


def gradients(arguments, dtype=F32):
    return tuple(np.zeros(arguments[i].shape, dtype) for i in (3, 4, 6))


def test_losses_are_those_of_the_reference(arguments):
    none = tuple(np.zeros_like(x[:0]) for x in gradients(arguments))
    compiled = capacity_kernel.capacity_losses(*arguments, none)
    # single precision: six digits of numbers of order one
    assert compiled == pytest.approx(capacity_reference.capacity_losses(*arguments, none), abs=1e-5)


def test_gradients_are_differences_of_the_loss(arguments):
    exact, expected = gradients(arguments), gradients(arguments, float)
    capacity_kernel.capacity_losses(*arguments, exact)
    capacity_reference.capacity_losses(*arguments, expected)
    for own, other in zip(exact, expected, strict=True):
        assert np.abs(other).max() > 1e-3
        assert own == pytest.approx(other, abs=2e-5 * max(1.0, np.abs(other).max()))


def test_the_kernel_adds_to_the_gradients(arguments):
    once, twice = gradients(arguments), gradients(arguments)
    for grads in (once, twice, twice):
        capacity_kernel.capacity_losses(*arguments, grads)
    for one, two in zip(once, twice, strict=True):
        assert two == pytest.approx(2.0 * one, abs=1e-5)


def test_vanishing_products_give_no_weights():
    """The constant in the denominator is larger than all products: the answer is zero."""
    chosen, rng = FeatureMap.of("favor-4"), np.random.default_rng(0)
    far = np.full((3, 4), 9.0, F32)
    given = (chosen.code, chosen.number, chosen.directions(4, rng), far, 0 * far)
    none = (far[:0], far[:0], far[None, :0])
    values, asked = np.arange(3)[None], np.zeros((1, 1), dtype=int)
    losses = capacity_kernel.capacity_losses(*given, values, -far[None, :1], asked, none)
    assert losses == pytest.approx(np.array([[0.5]]), abs=1e-6)


def test_a_step_of_adam_is_that_of_the_reference():
    rng = np.random.default_rng(1)
    values, slopes, first = (rng.standard_normal(50).astype(F32) for _ in range(3))
    second = rng.uniform(0.1, 1.0, 50).astype(F32)
    other = [x.astype(float) for x in (values, slopes, first, second)]
    for step in (1, 2, 30):
        capacity_kernel.adam_step(values, slopes, first, second, step, 0.01)
        capacity_reference.adam_step(*other, step, 0.01)
    for own, expected in zip((values, slopes, first, second), other, strict=True):
        assert own == pytest.approx(expected, abs=1e-5)
