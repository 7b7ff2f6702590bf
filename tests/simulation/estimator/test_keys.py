"""Keys from labelled locations: derivatives, quadratic convergence, separable data, bad input."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from slrlab import (
    ConvergenceWarning,
    MaxSLR,
    SpikedSLR,
    TooLargeError,
    draw_dataset,
    fit_keys,
    fit_values,
)
from slrlab.simulation.estimator import location_loss
from slrlab.simulation.estimator.location_loss import LOSSES, LocationLoss

DIM = 12


def ragged(samples=300, dim=DIM, signal=4.0, seed=0):
    """Return a dataset and its sequences, of one to four tokens."""
    task = SpikedSLR(signal, "1,2,4")
    data = draw_dataset(task, dim=dim, samples=samples, seed=seed, dtype="float64")
    return data, [data.sequence(index) for index in range(samples)]


@pytest.fixture(scope="module")
def drawn():
    return ragged()


@pytest.mark.parametrize("kind", LOSSES)
def test_gradient_and_hessian_against_differences(drawn, kind, monkeypatch):
    monkeypatch.setattr("slrlab.simulation.estimator.location_loss._BLOCK", 500)  # several blocks
    weights = 0.5 + np.random.default_rng(0).random(300)
    loss = LocationLoss(drawn[0], kind, 0.3, weights)
    k, step = np.random.default_rng(1).standard_normal(DIM), 1e-5
    gradient, hessian = loss.derivatives(k)
    ends = [(k + step * unit, k - step * unit) for unit in np.eye(DIM)]
    slopes = [(loss.value(up) - loss.value(down)) / (2.0 * step) for up, down in ends]
    rows = [
        (loss.derivatives(up)[0] - loss.derivatives(down)[0]) / (2.0 * step) for up, down in ends
    ]
    np.testing.assert_allclose(gradient, slopes, atol=1e-7 * np.abs(gradient).max())
    np.testing.assert_allclose(hessian, rows, atol=1e-7 * np.abs(hessian).max())
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-12)


def test_the_loss_of_one_sequence_by_hand():
    tokens = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    data = draw_dataset(SpikedSLR(1.0, 3), dim=2, samples=1, dtype="float64")
    data = replace(data, tokens=tokens, locations=np.array([2]))
    k = np.array([0.4, -0.7])
    chi = tokens @ k / math.sqrt(2.0)
    sigma = np.exp(chi) / np.exp(chi).sum()
    for kind, expected in (
        ("cross entropy", -math.log(sigma[2])),
        ("least squares", 0.5 * ((sigma - [0.0, 0.0, 1.0]) ** 2).sum()),
    ):
        loss = LocationLoss(data, kind, 0.2, np.ones(1))
        assert loss.value(k) == pytest.approx(expected + 0.1 * (k @ k), rel=1e-14)
    assert loss.margins(k).tolist() == pytest.approx([chi[2] - max(chi[:2])])


@pytest.mark.parametrize(
    ("loss", "ridge"), [("cross entropy", 0.0), *((one, 0.1) for one in LOSSES)]
)
def test_newton_converges_quadratically(drawn, loss, ridge):
    data, sequences = drawn
    fit = fit_keys(sequences, data.locations, loss, ridge=ridge, tolerance=1e-12)
    assert fit.status == "converged"
    assert fit.separation == "none"
    assert fit.steps < 12
    norms = fit.gradient_norms[fit.gradient_norms > 1e-14]
    orders = np.diff(np.log(norms[1:])) / np.diff(np.log(norms[:-1]))
    assert orders[-2:].max() == pytest.approx(2.0, abs=0.4)
    assert fit.gradient_norm < 1e-12
    # no direction leads down
    problem = LocationLoss(data, loss, ridge, np.ones(data.samples))
    assert np.linalg.eigvalsh(problem.derivatives(fit.k)[1]).min() > 0.0


def test_cross_entropy_is_convex_and_the_start_does_not_matter(drawn):
    data, sequences = drawn
    start = 3.0 * np.random.default_rng(2).standard_normal(DIM)
    one, two = (
        fit_keys(sequences, data.locations, ridge=0.5, start=begin) for begin in (None, start)
    )
    np.testing.assert_allclose(one.k, two.k, atol=1e-7)


def test_an_array_a_list_and_weights(drawn):
    data = draw_dataset(SpikedSLR(4.0, 3), dim=DIM, samples=100)
    array = data.tokens.reshape(100, 3, DIM)
    one = fit_keys(array, data.locations, ridge=0.5)
    two = fit_keys(list(array), data.locations, ridge=0.5)
    np.testing.assert_allclose(one.k, two.k, atol=1e-10)
    twice = fit_keys(array, data.locations, ridge=0.5, sample_weight=np.where(np.arange(100), 1, 2))
    copied = fit_keys(
        np.concatenate([array, array[:1]]), [*data.locations, data.locations[0]], ridge=0.5
    )
    np.testing.assert_allclose(twice.k, copied.k, atol=1e-9)


@pytest.mark.parametrize("task", [SpikedSLR(4.0, 3), MaxSLR(3.0, 3)], ids=lambda task: task.name)
@pytest.mark.parametrize("loss", LOSSES)
def test_many_labels_give_the_keys_of_the_posterior(task, loss):
    """Both losses are proper: with infinite data ``k = c_ν k*``, the best keys of softmax."""
    data = draw_dataset(task, dim=4, samples=40_000, dtype="float64")
    fit = fit_keys(data.tokens.reshape(-1, 3, 4), data.locations, loss, ridge=1e-6)
    np.testing.assert_allclose(fit.k, task.posterior_scale * data.teacher.keys, atol=0.15)


def test_predictions_and_attention(drawn):
    data, sequences = drawn
    fit = fit_keys(sequences, data.locations, ridge=0.1)
    weights = fit.attention(sequences)
    assert [len(one) for one in weights] == data.lengths.tolist()
    assert all(one.sum() == pytest.approx(1.0) for one in weights)
    result = fit.predict(sequences)
    assert (result < data.lengths).all()
    assert fit.score(sequences, data.locations) == pytest.approx(fit.hit_rate)
    assert fit.hit_rate == pytest.approx((result == data.locations).mean())
    assert fit.plot().lines
    assert "cross entropy" in str(fit)
    assert len(fit.to_dict()["k"]) == DIM


@pytest.mark.parametrize("loss", LOSSES)
def test_separable_locations_are_reported(loss):
    """Fewer sequences than dimensions: some keys are right about all of them, longer ones more."""
    data = draw_dataset(SpikedSLR(4.0, 3), dim=60, samples=40)
    array = data.tokens.reshape(40, 3, 60)
    with pytest.warns(ConvergenceWarning, match=r"complete separation.*give a ridge > 0"):
        fit = fit_keys(array, data.locations, loss)
    assert (fit.status, fit.separation) == ("diverged", "complete")
    keys = fit_keys(array, data.locations, ridge=1e-3).k
    problem = LocationLoss(replace(data, tokens=data.tokens.astype(float)), loss, 0.0, np.ones(40))
    values = [problem.value(scale * keys) for scale in (1.0, 4.0, 100.0)]
    assert values[0] > values[1] > values[2]
    assert values[2] < 1e-4 * problem.value(np.zeros(60))
    with_ridge = fit_keys(array, data.locations, loss, ridge=0.1)
    assert (with_ridge.status, with_ridge.separation) == ("converged", "none")


def test_a_quasi_complete_separation_is_reported():
    """The second feature is never against the marked token, and for it in half the sequences."""
    array = np.zeros((8, 2, 2))
    array[:, :, 0] = np.random.default_rng(0).standard_normal((8, 2))
    array[:4, 0, 1] = 1.0
    with pytest.warns(ConvergenceWarning, match="quasi-complete separation"):
        fit = fit_keys(array, np.zeros(8, dtype=int))
    assert (fit.status, fit.separation) == ("diverged", "quasi-complete")
    array[0, 1, 1] = 2.0  # now it is against it once: a finite optimum
    assert fit_keys(array, np.zeros(8, dtype=int)).status == "converged"


def test_least_squares_without_a_ridge_may_have_no_minimum():
    """Its loss is bounded: a few wrong sequences cost less than all others gain at infinity."""
    data, sequences = ragged(samples=400, dim=30)
    with pytest.warns(ConvergenceWarning, match="least squares has no minimum at finite keys"):
        fit = fit_keys(sequences, data.locations, "least squares")
    assert (fit.status, fit.separation) == ("diverged", "none")


def test_a_feature_that_all_tokens_share_changes_nothing(drawn):
    data, sequences = drawn
    more = [np.column_stack([one, np.ones(len(one))]) for one in sequences]
    fit = fit_keys(more, data.locations)
    assert fit.status == "converged"
    alone = fit_keys(sequences, data.locations)
    # D is larger by 1, and so is the unit of the scores
    scale = math.sqrt((DIM + 1) / DIM)
    np.testing.assert_allclose(fit.k[:DIM], scale * alone.k, atol=1e-6)


def test_sequences_of_one_token_say_nothing():
    array = np.random.default_rng(0).standard_normal((5, 1, 3))
    fit = fit_keys(array, np.zeros(5, dtype=int))
    assert (fit.status, fit.steps, fit.hit_rate) == ("converged", 0, 1.0)
    np.testing.assert_array_equal(fit.k, 0.0)


def test_few_steps_are_not_enough(drawn):
    data, sequences = drawn
    with pytest.warns(ConvergenceWarning, match="raise max_steps, now 2"):
        fit = fit_keys(sequences, data.locations, max_steps=2)
    assert (fit.status, fit.steps) == ("not converged", 2)


def test_values_are_a_ridge_regression(drawn):
    data, sequences = drawn
    keys = 2.0 * data.teacher.keys
    v = fit_values(sequences, data.labels, keys, ridge=0.4)
    seen = []
    for one in sequences:
        chi = one @ keys / math.sqrt(DIM)
        sigma = np.exp(chi - chi.max())
        seen.append(sigma / sigma.sum() @ one / math.sqrt(DIM))
    seen = np.array(seen)
    exact = np.linalg.solve(seen.T @ seen + 0.4 * np.eye(DIM), seen.T @ data.labels)
    np.testing.assert_allclose(v, exact, atol=1e-8)


GOOD = np.zeros((4, 3, 2))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"locations": [0, 1, 2]},
            r"^locations must be 4 whole numbers, one a sequence, counted fr",
        ),
        ({"locations": [0, 1, 2, 3]}, r"^locations must be .*, got 3 for a sequence of 3 tokens$"),
        (
            {"locations": [0, 1, 2, -1]},
            r"^locations must be .*, got -1 for a sequence of 3 tokens$",
        ),
        ({"locations": [0.0, 1.0, 2.0, 0.5]}, r"^locations must be .*, got float64 of shape"),
        ({"loss": "hinge"}, r"^loss must be one of cross entropy, least squares, got hinge$"),
        ({"ridge": -1.0}, r"^ridge must be a finite number >= 0, got -1.0$"),
        ({"tolerance": 0.0}, r"^tolerance must be a finite number > 0, got 0.0$"),
        ({"max_steps": 0}, r"^max_steps must be a whole number >= 1, got 0$"),
        ({"start": [1.0]}, r"^start must be a vector of 2 finite numbers, got shape \(1,\)$"),
        ({"start": "here"}, r"^start must be a vector of 2 finite numbers, got str$"),
        ({"X": np.zeros((4, 3))}, r"^X must be an array of shape"),
        ({"X": np.full((4, 3, 2), np.nan)}, r"^X must hold finite numbers only"),
        ({"sample_weight": [1.0]}, r"^sample_weight must be 4 numbers >= 0"),
    ],
)
def test_bad_input_names_the_argument(given, message):
    with pytest.raises(ValueError, match=message):
        fit_keys(**{"X": GOOD, "locations": [0, 1, 2, 0]} | given)


def test_other_bad_input(drawn, monkeypatch):
    data, sequences = drawn
    fit = fit_keys(sequences, data.locations, ridge=1.0)
    with pytest.raises(ValueError, match=r"^X must have 12 features, as in the fit, got 2$"):
        fit.predict(GOOD)
    with pytest.raises(ValueError, match=r"^k must be a vector of 12 finite numbers"):
        fit_values(sequences, data.labels, [1.0], ridge=1.0)
    with pytest.raises(ValueError, match=r"^y must have shape"):
        fit_values(sequences, data.labels[1:], fit.k, ridge=1.0)
    monkeypatch.setattr(location_loss, "allowed_memory", lambda: 1000)
    with pytest.raises(TooLargeError, match=r"^X must have at most 5 features for Newton's method"):
        fit_keys(sequences, data.locations)


def test_nothing_is_warned_about_a_fit_that_converged(drawn):
    data, sequences = drawn
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_keys(sequences, data.locations, ridge=0.1)
