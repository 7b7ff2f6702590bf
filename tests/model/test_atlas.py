"""One protocol for every registered activation: limits, ties, derivatives, kernels, cards.

Its last step, theory against simulated training, is
`tests/experiments/comparison/test_training_protocol.py`.
"""

import math
import pickle

import numpy as np
import pytest

from slrlab import Elementwise, Normalised, Projection, make_activation
from slrlab.model.activation_code import activation_code
from slrlab.model.activations import ACTIVATIONS
from slrlab.model.cards import ABSENT, CARDS
from slrlab.model.families import (
    CosineReweighted,
    LengthScaled,
    NormMax,
    Ratio,
    TopK,
)
from slrlab.model.weights_kernel import residual
from slrlab.model.weights_reference import CodedWeights
from slrlab.model.weights_rows import ALL_ROWS, FORCE, SIGMA, TRIAL, VALUE

ALL = [a if a.bias is not None else a.with_bias(-0.3) for a in ACTIVATIONS.values()]
EXCHANGEABLE = [a for a in ALL if a.family != "ordered"]
TRAINABLE = [a for a in ALL if not isinstance(a, TopK)]
CELL = 1.0 / 128.0  # of the tables, within which a kink is rounded
SUM_TO_ONE = [
    a
    for a in ALL
    if isinstance(a, NormMax | CosineReweighted | TopK)
    or (isinstance(a, Projection) and a.budget == 1)
    or (isinstance(a, Normalised) and a.sink == 0.0)
    or (isinstance(a, LengthScaled) and a.base.family in ("normalised", "projection"))
]


def by_name(activations):
    return pytest.mark.parametrize("activation", activations, ids=lambda a: a.name)


def test_at_least_thirty_published_activations_have_a_card():
    assert set(ACTIVATIONS) <= set(CARDS)
    assert len(CARDS) >= 30
    for card in CARDS.values():
        assert card.formula
        assert card.source
    assert not {one.name for one in ABSENT} & set(ACTIVATIONS)


@by_name(ALL)
def test_weights_are_finite_at_every_score(activation):
    for scores in ([0.3], [1e4, -1e4, 0.0], [-1e4, -1e4], [0.0, 0.0, 0.0], [1e4, 1e4]):
        if activation.name == "consmax" and max(scores) > 700.0:
            continue  # an exponential without a sum below overflows, as its card says
        with np.errstate(over="ignore"):
            assert np.isfinite(activation.weights(np.array(scores))).all()


ZERO_OVER_ZERO = {  # s + c of every token, whose maps are all 0
    **dict.fromkeys(("relu", "relu2", "relu-over-length"), (-2.0, -0.5)),
    **dict.fromkeys(("relu-normalised", "relu2-normalised", "cosformer"), (-2.0, 0.0)),
    **dict.fromkeys(("spherical-2", "spherical-4", "cosine", "periodic"), (0.0, 0.0)),
    "softpick": (0.0, 0.0),
    "l1-linear": (-1.0, -1.0),
}


@pytest.mark.parametrize("name", ZERO_OVER_ZERO)
def test_weights_are_zero_where_all_maps_are(name):
    activation = next(one for one in ALL if one.name == name)
    scores = np.array(ZERO_OVER_ZERO[name]) - activation.bias
    np.testing.assert_array_equal(activation.weights(scores), 0.0)
    np.testing.assert_array_equal(activation.weights(scores[:1]), 0.0)


def test_all_activations_that_can_be_zero_over_zero_are_tested():
    """Maps that vanish somewhere on a fine grid that contains 0 and −1."""
    grid = np.arange(-200, 201)[:, None] / 50.0
    zero = {one.name for one in ALL if (one.weights(grid - one.bias) == 0.0).any()}
    assert zero == {*ZERO_OVER_ZERO, "linear", "cubic"}  # these two have no sum below


@by_name(ALL)
def test_a_score_of_minus_infinity_is_a_token_that_is_not_there(activation):
    rng = np.random.default_rng(4)
    scores = rng.standard_normal((40, 5))
    masked = rng.random((40, 5)) < 0.5
    masked[0], masked[1] = True, [False, *4 * [True]]
    weights = activation.weights(np.where(masked, -np.inf, scores))
    np.testing.assert_array_equal(weights[masked], 0.0)
    for row, hidden, sigma in zip(scores, masked, weights, strict=True):
        if not hidden.all():
            close = {"rtol": 1e-12, "atol": 1e-12}  # thresholds are solved for to 1e-14
            np.testing.assert_allclose(sigma[~hidden], activation.weights(row[~hidden]), **close)
            single = activation.weights(np.where(hidden, -np.inf, row))
            np.testing.assert_allclose(single, sigma, **close)
    np.testing.assert_array_equal(activation.weights(np.full(3, -np.inf)), 0.0)


@by_name(ALL)
def test_a_score_of_nan_is_refused(activation):
    for other in (0.0, -np.inf, np.inf):
        with pytest.raises(ValueError, match=r"^scores must be numbers, .*, got nan$"):
            activation.weights(np.array([[0.0, other], [np.nan, 1.0]]))


@by_name(EXCHANGEABLE)
def test_weights_follow_permutations_and_equal_scores_share(activation):
    scores = np.array([0.7, -1.1, 2.3, 0.2])
    weights = activation.weights(scores)
    np.testing.assert_allclose(activation.weights(scores[::-1]), weights[::-1], atol=1e-12)
    if not isinstance(activation, TopK):  # there the first of equal scores count
        equal = activation.weights(np.array([0.4, 0.4, 0.4]))
        np.testing.assert_allclose(equal, equal[0], atol=1e-12)


@by_name(SUM_TO_ONE)
def test_normalised_weights_sum_to_one_and_a_single_token_gets_all(activation):
    rng = np.random.default_rng(0)
    scores = 3.0 * rng.normal(size=(50, 5)) + 1.0
    positive = activation.weights(scores).sum(axis=-1)
    # where every map is 0 the weights are 0, by definition
    np.testing.assert_allclose(positive[positive > 0.0], 1.0, atol=1e-12)
    np.testing.assert_allclose(activation.weights(np.array([0.9])), 1.0)


def test_order_matters_for_stick_breaking_and_what_is_left_is_not_negative():
    stick = ACTIVATIONS["stick-breaking"].with_bias(0.0)
    weights = stick.weights(np.array([0.0, 0.0, 0.0]))
    np.testing.assert_allclose(weights, [1 / 8, 1 / 4, 1 / 2])
    rng = np.random.default_rng(0)
    total = stick.weights(5.0 * rng.normal(size=(100, 6))).sum(axis=-1)
    assert (total <= 1.0 + 1e-12).all()


def test_golden_values_of_projections():
    """Values of the README of deep-spin/entmax."""
    scores = np.array([-2.0, 0.0, 0.5])
    for name, value in {
        "softmax": [0.0486, 0.3592, 0.5922],
        "sparsemax": [0.0, 0.25, 0.75],
        "entmax15": [0.0, 0.3260, 0.6740],
        "normmax-2": [0.0, 0.3110, 0.6890],
        "budget-2": [0.0, 1.0, 1.0],
    }.items():
        np.testing.assert_allclose(ACTIVATIONS[name].weights(scores), value, atol=5e-5)


def test_a_budget_is_spent_and_cut_at_one():
    budget = ACTIVATIONS["budget-2"]
    scores = 2.0 * np.random.default_rng(0).standard_normal((200, 5))
    weights = budget.weights(scores)
    np.testing.assert_allclose(weights.sum(axis=-1), 2.0, atol=1e-12)
    assert weights.min() == 0.0
    assert weights.max() == 1.0
    for few in ([0.3], [1e4, -1e4], [0.0, 0.0]):
        np.testing.assert_array_equal(budget.weights(np.array(few)), 1.0)
    np.testing.assert_allclose(budget.weights(np.zeros(4)), 0.5)
    np.testing.assert_allclose(budget.weights(np.array([1e4, -1e4, 0.0])), [1.0, 0.0, 1.0])
    # with a budget of 1 the cut is never reached: it is the projection on the simplex
    cut = np.minimum(ACTIVATIONS["sparsemax"].weights(scores), 1.0)
    np.testing.assert_allclose(Projection("one", budget=1).weights(scores), cut)


@pytest.mark.parametrize("alpha", [1.3, 2.0, 3.0])
def test_normmax_maximises_its_objective(alpha):
    activation = NormMax("normmax", alpha=alpha)
    rng = np.random.default_rng(1)
    scores = rng.standard_normal(4)
    best = activation.weights(scores)

    def objective(p):
        return p @ scores - (p**alpha).sum(axis=-1) ** (1.0 / alpha)

    others = rng.dirichlet(np.ones(4), 2000)
    near = 0.99 * best + 0.01 * others
    assert (objective(others) <= objective(best)).all()
    assert (objective(near) <= objective(best) + 1e-15).all()


def test_later_tokens_count_more_in_cosformer():
    cosformer = ACTIVATIONS["cosformer"].with_bias(0.0)
    weights = cosformer.weights(np.ones(3))
    factors = np.cos(np.pi * np.array([2.0, 1.0, 0.0]) / 6.0)
    np.testing.assert_allclose(weights, factors / factors.sum())
    np.testing.assert_array_equal(cosformer.weights(-np.ones(3)), 0.0)
    np.testing.assert_allclose(cosformer.weights(np.array([0.9])), 1.0)


def test_activations_that_see_the_length():
    scores = np.array([0.5, -0.2, 1.0])
    relu = ACTIVATIONS["relu"].with_bias(0.1).weights(scores)
    over = ACTIVATIONS["relu-over-length"].with_bias(0.1).weights(scores)
    np.testing.assert_allclose(over, relu / 3.0)
    soft = ACTIVATIONS["softmax"].weights(math.log(3.0) * scores)
    np.testing.assert_allclose(ACTIVATIONS["ssmax"].weights(scores), soft)
    sigmoid = ACTIVATIONS["sigmoid"].with_bias(-math.log(3.0)).weights(scores)
    np.testing.assert_allclose(ACTIVATIONS["sigmoid-log-length"].weights(scores), sigmoid)


def test_ratios_by_hand():
    scores = np.array([0.5, -0.2, 1.0])
    exp = np.exp(scores)
    l2 = ACTIVATIONS["l2-softmax"].weights(scores)
    np.testing.assert_allclose(l2, exp / np.sqrt((exp**2).sum()))
    pick = np.maximum(exp - 1.0, 0.0) / np.abs(exp - 1.0).sum()
    np.testing.assert_allclose(ACTIVATIONS["softpick"].weights(scores), pick)
    cosine = ACTIVATIONS["cosine"].weights(scores)
    np.testing.assert_allclose(cosine, scores / np.linalg.norm(scores))
    np.testing.assert_array_equal(ACTIVATIONS["softpick"].weights(-np.ones(3)), 0.0)


def test_softmax_over_the_largest():
    scores = np.array([-2.0, 0.0, 0.5])
    np.testing.assert_array_equal(ACTIVATIONS["hardmax"].weights(scores), [0.0, 0.0, 1.0])
    kept = np.exp(scores[1:]) / np.exp(scores[1:]).sum()
    np.testing.assert_allclose(ACTIVATIONS["top2-softmax"].weights(scores), [0.0, *kept])
    np.testing.assert_array_equal(ACTIVATIONS["hardmax"].weights(np.zeros(3)), [1.0, 0.0, 0.0])


@by_name(list(ACTIVATIONS.values()))
def test_activations_travel_to_other_processes_by_name(activation):
    assert pickle.loads(pickle.dumps(activation)) == activation


# what happens at the bends of a map: it is 0 there, or its slope or curvature jumps; else "zero"
BENDS = {
    "relu": {"zero", "slope"},
    "relu-normalised": {"zero", "slope"},
    "relu2": {"zero", "curvature"},
    "relu2-normalised": {"zero", "curvature"},
    "elu1": {"curvature"},
    "elu1-biased": {"curvature"},
    "softpick": {"zero", "slope", "curvature"},
}


@by_name([a for a in ALL if a.bends and isinstance(a, Elementwise | Normalised | Ratio)])
def test_bends_are_kinks_or_zeros(activation):
    for bend in activation.bends:
        near = bend + np.array([-1e-6, 0.0, 1e-6])
        slope, curvature = activation.phi.first(near), activation.phi.second(near)
        kinds = {
            "zero": abs(activation.phi.value(near)[1]) < 1e-9,
            "slope": abs(slope[2] - slope[0]) > 0.1,
            "curvature": abs(curvature[2] - curvature[0]) > 0.1,
        }
        wanted = BENDS.get(activation.name, {"zero"})
        assert {kind for kind, there in kinds.items() if there} == wanted


def coded(activation, chi):
    """Return the scores that the code of an activation is given, the code, and a last factor."""
    code = activation_code(activation, chi.shape[-1])
    score, shift, factor = code.scale(chi.shape[-1])
    return score * chi + activation.bias + shift, code, factor


def kernel(activation, chi, values):
    """Return ``σ`` and ``Jᵀz`` of the compiled kernel; the activation has a bias."""
    x, code, factor = coded(activation, chi)
    work = np.zeros((ALL_ROWS, chi.size))
    work[TRIAL], work[VALUE] = x, values
    answer = -residual(work, 0.0, code.numbers, code.table)
    np.testing.assert_allclose(answer, work[SIGMA] @ values, rtol=1e-12, atol=1e-12)
    score, _, _ = code.scale(chi.size)
    return factor * work[SIGMA], factor * score * work[FORCE]


def smooth_points(activation, count, length, seed=0):
    """Return scores at which the weights have derivatives: away from kinks and edges."""
    chi = 1.5 * np.random.default_rng(seed).standard_normal((count, length))
    x, _, _ = coded(activation, chi)
    base = activation.base if isinstance(activation, LengthScaled) else activation
    keep = np.ones(count, dtype=bool)
    for bend in base.bends:
        keep &= np.abs(x - bend).min(axis=1) > 2.0 * CELL
    if base.family == "projection":
        patterns = [pattern(base, x + 2.0 * CELL * side) for side in (0.0, *np.eye(length))]
        patterns += [pattern(base, x - 2.0 * CELL * side) for side in np.eye(length)]
        keep &= np.all([(one == patterns[0]).all(axis=1) for one in patterns], axis=0)
    return chi[keep]


def pattern(activation, x):
    """Return −1, 0 or 1 for each weight: it is 0, between 0 and its largest value, or that one."""
    sigma = activation.with_bias(0.0).weights(x)
    return np.where(sigma <= 1e-4, -1, np.where(sigma >= 1.0 - 1e-4, 1, 0))


@by_name(TRAINABLE)
def test_slopes_of_the_weights_are_differences(activation):
    """The compiled ``Jᵀz`` against differences of the exact weights, the table not involved."""
    chi, step = smooth_points(activation, 40, 4), 1e-6
    assert len(chi) > 10
    values = np.array([0.7, -1.2, 0.4, 1.1])
    # a rounded kink adds to the integral that sets the threshold of normmax, at any distance
    moved = CELL**2 if isinstance(activation, NormMax) else 1e-9
    for scores in chi:
        sigma, force = kernel(activation, scores, values)
        np.testing.assert_allclose(sigma, activation.weights(scores), rtol=1e-9, atol=moved)
        ends = [scores + side * step * np.eye(4) for side in (1.0, -1.0)]
        slope = (activation.weights(ends[0]) - activation.weights(ends[1])) @ values / (2.0 * step)
        # differences lose digits to rounding and to the curvature of the steepest maps
        least = 2e-7 * (1.0 + abs(slope).max()) + 5.0 * (moved - 1e-9)
        np.testing.assert_allclose(force, slope, rtol=2e-6, atol=least)


@by_name(TRAINABLE)
def test_second_derivatives_are_differences_of_the_first(activation):
    x, code, _ = coded(activation, smooth_points(activation, 40, 4, seed=1))
    c, step = np.random.default_rng(2).standard_normal(x.shape), 1e-5
    for numbers in code.locations(4):
        weights = CodedWeights(numbers, code.table)
        _, _, bend = weights.derivatives(x, c)
        for i in range(4):
            ahead, behind = (
                np.einsum("njl,nj->nl", weights.derivatives(x + e, c)[1], c)
                for e in (step * np.eye(4)[i], -step * np.eye(4)[i])
            )
            scale = 1.0 + np.abs(bend).max(axis=(1, 2), keepdims=True)[:, :, 0]
            assert (np.abs(bend[:, i] - (ahead - behind) / (2.0 * step)) / scale).max() < 2e-5


@by_name(TRAINABLE)
def test_the_kernel_is_its_reference_in_the_limits(activation):
    """One token, ties, all scores low, scores of 1e4 and scores of 0: finite, as in NumPy."""
    zero = np.full(3, -activation.bias)
    low = np.full(3, -30.0)
    for scores in ([0.3], [0.4, 0.4, 0.4], low, zero, [1e4, -1e4, 0.0], [-1e4, -1e4], [1e4, 1e4]):
        chi = np.array(scores)
        values = np.arange(1.0, 1.0 + chi.size)
        sigma, force = kernel(activation, chi, values)
        x, code, factor = coded(activation, chi)
        twin, jacobian, _ = CodedWeights(code.numbers, code.table).derivatives(
            x[None], np.zeros((1, chi.size))
        )
        slope = factor * code.scale(chi.size)[0] * jacobian[0].T @ values
        assert np.isfinite(sigma).all()
        np.testing.assert_allclose(sigma, factor * twin[0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(force, slope, rtol=1e-6, atol=1e-6 * (1.0 + abs(slope).max()))
        if np.abs(chi).max() <= 40.0 and not any(abs(x[0] - b) < CELL for b in bends(activation)):
            np.testing.assert_allclose(sigma, activation.weights(chi), rtol=1e-9, atol=1e-9)


def bends(activation):
    base = activation.base if isinstance(activation, LengthScaled) else activation
    return base.bends


@by_name([a for a in ALL if isinstance(a, TopK)])
def test_weights_that_jump_have_no_gradient_to_train_with(activation):
    with pytest.raises(ValueError, match=r"^activation must be continuous to be trained, got"):
        activation_code(activation)


def test_scales_of_nested_activations_that_see_the_length():
    inner = LengthScaled("i", base=make_activation("erf"), score=math.sqrt, shift=math.log)
    outer = LengthScaled("o", base=inner, score=lambda n: n, factor=lambda n: 1.0 / n)
    chi = np.array([0.3, -0.2, 0.5])
    sigma, _ = kernel(outer.with_bias(0.1), chi, np.ones(3))
    np.testing.assert_allclose(sigma, outer.with_bias(0.1).weights(chi))
