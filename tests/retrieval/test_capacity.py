"""The capacity test: its floor, its layer and its training, without the published numbers."""

import math

import numpy as np
import pytest

from slrlab import Status
from slrlab.retrieval import capacity_floor, capacity_kernel, capacity_reference, train_capacity
from slrlab.retrieval.capacity import Layer, query_weights
from slrlab.retrieval.feature_maps import FeatureMap


def loss_of(weights):
    """Return the mean loss of a matrix of attention weights, by its definition."""
    return 0.5 * ((np.eye(len(weights)) - weights) ** 2).sum() / len(weights)


@pytest.mark.parametrize(("pairs", "features"), [(6, 2), (9, 4), (12, 12)])
def test_groups_of_keys_reach_the_floor_and_no_matrix_of_that_rank_is_below(pairs, features):
    floor = capacity_floor(pairs, features)
    assert floor == pytest.approx(0.5 * (1.0 - features / pairs))
    groups = np.arange(pairs) % features
    weights = (groups[:, None] == groups) / np.bincount(groups)[groups][:, None]
    assert loss_of(weights) == pytest.approx(floor)
    rng = np.random.default_rng(0)
    for _ in range(200):
        left, right = rng.standard_normal((2, pairs, features))
        scale = 10.0 ** rng.uniform(-2.0, 0.0)
        assert loss_of(scale * left @ right.T) > floor - 1e-12


def test_the_floor_of_unequal_weights_and_of_softmax():
    weights = query_weights(100)
    assert weights.sum() == pytest.approx(1.0)
    # the 64 best queries are answered: the four of the last batch and 60 of the others
    assert capacity_floor(100, 64, weights) == pytest.approx(0.5 * 36 / 128)
    assert capacity_floor(100, 64, weights) < capacity_floor(100, 64)
    assert capacity_floor(50, math.inf) == capacity_floor(50, 64) == 0.0
    # of 400 keys only the first 200 are asked in an evaluation
    assert np.count_nonzero(query_weights(400)) == 200


@pytest.mark.parametrize("name", ["softmax", "elu+1", "dpfp-2", "favor-5"])
def test_the_gradient_of_the_layer_is_a_difference_of_its_loss(name):
    layer = Layer(FeatureMap.of(name), 5, 4, seed=2)
    values = layer.sequences(3)
    asked = np.array([[0], [3], [4]])
    state = layer._rng.bit_generator.state  # random projections are drawn at each call

    def loss():
        layer._rng.bit_generator.state = state
        return float(layer.losses(values, asked, slopes=True).mean())

    loss()
    rng = np.random.default_rng(1)
    for own, slopes in zip(layer.parameters, layer.gradients, strict=True):
        along = rng.standard_normal(own.shape).astype(np.float32)
        expected = float((slopes * along).sum())
        start, step = own.copy(), np.float32(1e-3)
        ends = []
        for sign in (1, -1):
            own[...] = start + sign * step * along
            ends.append(loss())
        own[...] = start
        # single precision, and the curvature over a step
        assert (ends[0] - ends[1]) / 2e-3 == pytest.approx(expected, rel=1e-2, abs=2e-3)


def test_softmax_solves_and_features_end_above_their_floor():
    solved = train_capacity("softmax", 20)
    assert (solved.ended, solved.status) == ("solved", Status.SAMPLED)
    assert solved.steps <= 400
    assert solved.loss <= 1e-3
    assert solved.floor == 0.0
    crowded = train_capacity("elu+1", 16, key_size=4, max_steps=1000)
    assert (crowded.ended, crowded.steps) == ("max_steps", 1000)
    assert crowded.floor == pytest.approx(0.375)
    assert crowded.floor < crowded.mean_loss < 0.45
    assert "floor 0.375" in str(crowded)


@pytest.mark.parametrize("name", ["softmax", "elu+1", "dpfp-1"])
def test_a_training_is_that_of_the_reference(name, monkeypatch):
    given = {"key_size": 2, "batch": 4, "max_steps": 100, "seed": 1}
    compiled = train_capacity(name, 3, **given)
    for function in ("capacity_losses", "adam_step"):
        monkeypatch.setattr(capacity_kernel, function, getattr(capacity_reference, function))
    expected = train_capacity(name, 3, **given)
    assert expected.losses != compiled.losses
    # Adam divides by the size of the gradient: where one is near 0, single precision decides the
    # sign of a step of 1e-3, a hundred times
    assert compiled.losses == pytest.approx(expected.losses, rel=1e-2)
    assert compiled.mean_loss == pytest.approx(expected.mean_loss, rel=1e-2)


def test_the_same_seed_gives_the_same_run_and_says_how_far_it_is():
    said = []
    given = {"max_steps": 200, "seed": 3}
    one = train_capacity("dpfp-1", 12, key_size=8, report=lambda *x: said.append(x), **given)
    two = train_capacity("dpfp-1", 12, key_size=8, **given)
    assert one.losses == two.losses
    assert said[0][:2] == (100, 200)
    assert "dpfp-1, 12 pairs" in said[0][2]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"feature_map": "cosine"}, "^feature_map must be softmax, elu"),
        ({"feature_map": "dpfp-0"}, "^feature_map must be"),
        ({"pairs": 1}, "^pairs must be a whole number >= 2"),
        ({"key_size": 1}, "^key_size must be"),
        ({"batch": 0}, "^batch must be"),
        ({"rate": 0.0}, "^rate must be"),
        ({"tolerance": -1.0}, "^tolerance must be"),
        ({"patience": -1}, "^patience must be"),
        ({"max_steps": 50}, "^max_steps must be"),
        ({"seed": -1}, "^seed must be"),
    ],
)
def test_bad_input_is_named(given, message):
    with pytest.raises(ValueError, match=message):
        train_capacity(**given)


def test_bad_floors_are_named():
    with pytest.raises(ValueError, match=r"^pairs must be"):
        capacity_floor(0, 4)
    with pytest.raises(ValueError, match=r"^dimension must be"):
        capacity_floor(4, 0)
    with pytest.raises(ValueError, match=r"^weights must be 3 numbers"):
        capacity_floor(3, 1, np.ones(2) / 2)
