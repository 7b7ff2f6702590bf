"""Attention maps in PyTorch against those of the atlas in NumPy."""

import math

import numpy as np
import pytest

from slrlab import make_activation
from slrlab.retrieval.attention_maps import MAPS

pytestmark = pytest.mark.extra
LENGTH = 7


def atlas_weights(name, scores, scalar):
    """Return the weights of one row of scores by the activation of that name."""
    if name == "ssmax":  # a factor on the scores, which the theory counts to the keys
        return make_activation("softmax").weights(scalar * math.log(len(scores)) * scores)
    if scalar is None:
        return make_activation(name).weights(scores)
    return make_activation(name, bias=-scalar if name == "softmax-sink" else scalar).weights(scores)


def weights(torch, name, scores, scalar):
    """Return the weights of all queries of a sequence, each of which sees what is before it."""
    at = torch.arange(scores.shape[-1])
    seen = at <= at[:, None]
    number = torch.tensor(0.0 if scalar is None else scalar, dtype=scores.dtype)
    return MAPS[name].weights(scores, seen, (at + 1.0)[:, None].to(scores.dtype), number)


@pytest.mark.parametrize("name", MAPS)
def test_a_query_gets_the_weights_of_the_atlas_on_what_it_sees(name):
    import torch

    rng = np.random.default_rng(0)
    scalar = None if MAPS[name].start is None else MAPS[name].start + 0.3
    for scale in (0.5, 3.0):
        scores = scale * rng.standard_normal((LENGTH, LENGTH))
        given = weights(torch, name, torch.from_numpy(scores), scalar).numpy()
        for row in range(LENGTH):
            expected = atlas_weights(name, scores[row, : row + 1], scalar)
            assert given[row, : row + 1] == pytest.approx(expected, rel=1e-9, abs=1e-12)
            assert (given[row, row + 1 :] == 0.0).all()


@pytest.mark.parametrize("name", MAPS)
def test_gradients_agree_with_differences(name):
    import torch

    rng = np.random.default_rng(1)
    scores = torch.from_numpy(2.0 * rng.standard_normal((LENGTH, LENGTH))).requires_grad_(True)
    start = 0.4 if MAPS[name].start is None else MAPS[name].start + 0.4
    scalar = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    at = torch.arange(LENGTH)
    seen, count = at <= at[:, None], (at + 1.0)[:, None].double()

    def read(scores, scalar):
        return MAPS[name].weights(scores, seen, count, scalar)

    assert torch.autograd.gradcheck(read, (scores, scalar))


@pytest.mark.parametrize("name", MAPS)
def test_large_scores_give_finite_weights_and_gradients(name):
    import torch

    scores = torch.tensor([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4], [50.0, 50.0, -50.0]])
    scores.requires_grad_(True)
    seen = torch.ones(3, 3, dtype=torch.bool)
    scalar = torch.tensor(0.0 if MAPS[name].start is None else MAPS[name].start)
    given = MAPS[name].weights(scores, seen, torch.full((3, 1), 3.0), scalar)
    assert torch.isfinite(given).all()
    (gradient,) = torch.autograd.grad((given * torch.arange(3.0)).sum(), scores)
    assert torch.isfinite(gradient).all()
