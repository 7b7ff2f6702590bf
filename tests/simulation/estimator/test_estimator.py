"""Attention as a regressor: what it learns, what it refuses, and that scikit-learn takes it."""

import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError as TheirNotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from slrlab import (
    ConvergenceWarning,
    MaxSLR,
    Normalised,
    NotFittedError,
    SingleLocationAttention,
    SpikedSLR,
    Status,
    draw_dataset,
    make_activation,
)
from slrlab.simulation.estimator import protocol as estimator_protocol

N, L, D = 200, 3, 8
RAGGED = draw_dataset(SpikedSLR(4.0, "1,2,5"), dim=10, samples=150, seed=2)


def regressor(**changes):
    return SingleLocationAttention(**({"ridge_k": 0.3, "ridge_v": 0.3, "restarts": 2} | changes))


@pytest.fixture(scope="module")
def data():
    drawn = draw_dataset(SpikedSLR(6.0, L), dim=D, samples=N, seed=1, dtype="float64")
    return drawn.tokens.reshape(N, L, D), drawn.labels


@pytest.fixture(scope="module")
def fitted(data):
    return regressor().fit(*data)


def sequences(drawn):
    return [drawn.sequence(index) for index in range(drawn.samples)]


@pytest.mark.parametrize("task", [SpikedSLR(9.0, 3), MaxSLR(8.0, "2,3")], ids=lambda t: t.name)
def test_a_planted_task_is_learned(task):
    """Close to the best answers there are: the posterior weights with the teacher's values."""
    train, test = (
        draw_dataset(task, dim=30, samples=n, seed=3, stream=s) for s, n in enumerate((1200, 2000))
    )
    model = regressor(ridge_k=0.1, ridge_v=0.1).fit(sequences(train), train.labels)
    assert model.status_ is Status.CONVERGED
    overlap = model.k_ @ test.teacher.keys, model.v_ @ test.teacher.values
    lengths = np.linalg.norm(model.k_), np.linalg.norm(model.v_)
    assert np.all(np.array(overlap) / lengths / np.sqrt(30) > 0.9)
    ideal = []
    for tokens in sequences(test):
        scores = tokens @ test.teacher.keys / np.sqrt(30)
        ideal.append(task.posterior(scores) @ tokens @ test.teacher.values / np.sqrt(30))
    best = r2_score(test.labels, ideal)
    assert best - 0.06 < model.score(sequences(test), test.labels) < best + 0.01
    looked = [weights.argmax() for weights in model.attention(sequences(test))]
    assert np.mean(looked == test.locations) > 0.8


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("activation", ["softmax", "erf", "entmax15", "elementwise: 1 + tanh(x)"])
def test_predictions_are_the_formula(data, activation, intercept):
    X, y = data
    model = regressor(activation=activation, fit_intercept=intercept, dtype="float64").fit(X, y)
    assert (model.intercept_ != 0.0) is intercept
    shown = make_activation(activation).with_bias(model.bias_)
    weights = shown.weights(X @ model.k_ / np.sqrt(D))
    assert_allclose(model.attention(X), weights, atol=1e-12)
    by_hand = np.einsum("nl,nl->n", weights, X @ model.v_ / np.sqrt(D)) + model.intercept_
    assert_allclose(model.predict(X), by_hand, atol=1e-12)
    assert model.score(X, y) == pytest.approx(r2_score(y, by_hand))
    assert model.train_mse_ == pytest.approx(np.mean((y - by_hand) ** 2))
    penalty = 0.3 * (model.k_ @ model.k_ + model.v_ @ model.v_)
    assert model.objective_ == pytest.approx(0.5 * (np.sum((y - by_hand) ** 2) + penalty))


def test_the_order_of_tokens_and_copies_of_sequences_make_no_difference(data):
    X, y = data
    rng = np.random.default_rng(0)
    mixed = np.stack([rng.permutation(tokens) for tokens in X])
    model, other = regressor(dtype="float64").fit(X, y), regressor(dtype="float64").fit(mixed, y)
    assert_allclose(model.predict(mixed), model.predict(X), atol=1e-12)
    assert_allclose(other.predict(X), model.predict(X), atol=1e-5)
    # every sequence twice is the same problem as twice the ridge; |∇F|/|y| grows by √2
    given = {"ridge_k": 0.6, "ridge_v": 0.6, "init": (model.k_, model.v_), "tolerance": 1.5e-6}
    twice = regressor(dtype="float64", **given)
    twice.fit(np.concatenate([X, X]), np.concatenate([y, y]))
    assert twice.n_iter_ == 0
    assert twice.objective_ == pytest.approx(2.0 * model.objective_)


def test_lists_equal_arrays_and_lengths_may_differ(data, fitted):
    X, y = data
    again = regressor().fit(list(X), list(y))
    assert_array_equal(again.k_, fitted.k_)
    assert_array_equal(again.predict([tokens.tolist() for tokens in X]), fitted.predict(X))
    ragged = regressor().fit(sequences(RAGGED), RAGGED.labels)
    assert [w.size for w in ragged.attention(sequences(RAGGED))] == RAGGED.lengths.tolist()
    alone = [ragged.predict([tokens])[0] for tokens in sequences(RAGGED)]
    assert_allclose(alone, ragged.predict(sequences(RAGGED)), atol=1e-5)


def test_fit_leaves_its_input_and_parameters_alone(data):
    X, y = (part.copy() for part in data)
    for kind in ("float32", "float64"):
        given = X.astype(kind)
        given.setflags(write=False)
        model = regressor(dtype=kind)
        before = model.get_params()
        assert model.fit(given, y) is model
        model.predict(given)
        assert model.get_params() == before
    assert_array_equal(y, data[1])


def test_random_state_fixes_the_result_and_fit_forgets(data, fitted):
    X, y = data
    again = regressor().fit(X[:50], y[:50]).fit(X, y)
    assert_array_equal(again.k_, fitted.k_)
    assert_array_equal(again.predict(X), fitted.predict(X))
    other = regressor(random_state=5).fit(X, y)
    assert not np.array_equal(other.k_, fitted.k_)
    assert_allclose(other.predict(X), fitted.predict(X), atol=0.01)


def test_restarts_keep_the_lowest_objective():
    task = draw_dataset(SpikedSLR(4.0, 10), dim=40, samples=120, seed=7)
    model = regressor(ridge_k=0.5, ridge_v=0.5, restarts=4, fit_intercept=False)
    model.fit(sequences(task), task.labels)
    assert model.objectives_.shape == (4,)
    assert np.ptp(model.objectives_) > 0.1
    assert model.objective_ == pytest.approx(model.objectives_.min(), rel=1e-6)


def test_units_of_the_data_do_not_matter(data):
    X, y = data
    one = regressor(dtype="float64").fit(X, y)
    other = regressor(dtype="float64", ridge_k=0.3e-6 * 1e4, ridge_v=0.3e-6).fit(1e-3 * X, 100 * y)
    assert_allclose(other.predict(1e-3 * X), 100 * one.predict(X), atol=1e-2)


def test_given_vectors_and_bias(data, fitted):
    X, y = data
    warm = regressor(init=(fitted.k_, fitted.v_)).fit(X, y)
    assert (warm.n_iter_, warm.objectives_.size) == (0, 1)
    erf = regressor(activation="erf", bias=0.5, dtype="float64").fit(X, y)
    free = regressor(activation="erf", bias="optimal", dtype="float64").fit(X, y)
    assert erf.bias_ == 0.5
    assert free.bias_ != 0.5
    assert free.objective_ < erf.objective_
    sink = regressor(activation=Normalised("sink", sink=0.5)).fit(X, y)
    assert all(weights.sum() < 1.0 for weights in sink.attention(X))


def test_labels_all_alike(data):
    X, y = data
    zero = regressor().fit(X, np.zeros(N))
    assert np.abs(zero.predict(X)).max() < 1e-3
    assert zero.score(X, np.zeros(N)) == r2_score(np.zeros(N), zero.predict(X))
    assert zero.score(X, zero.predict(X)) == 1.0
    assert regressor().fit(X[:1], y[:1]).predict(X[:1]).shape == (1,)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"max_steps": 2}, Status.NOT_CONVERGED),
        ({"activation": "linear", "ridge_k": 0.0, "ridge_v": 1.0}, Status.DIVERGED),
    ],
)
def test_failed_training_warns_and_says_so(data, changes, status):
    X = data[0][:, :1]
    y = X[:, 0, 0] * X[:, 0, 1]  # (1 + sx)(x'/s) fits it ever better as s grows
    with pytest.warns(ConvergenceWarning, match=f"^training (did not|{status})"):
        model = regressor(**changes).fit(X, y)
    assert model.status_ is status
    assert np.isfinite(model.predict(X)).all()


def test_an_intercept_takes_the_mean_of_the_labels(data):
    X, y = data
    plain, shifted = (regressor(dtype="float64").fit(X, y + shift) for shift in (0.0, 5.0))
    assert shifted.score(X, y + 5.0) == pytest.approx(plain.score(X, y), abs=1e-6)
    assert shifted.score(X, y + 5.0) > 0.8
    assert shifted.intercept_ == pytest.approx(plain.intercept_ + 5.0, abs=1e-5)
    assert_allclose(shifted.k_, plain.k_, atol=1e-4)
    without = regressor(fit_intercept=False).fit(X, y + 5.0)
    assert without.intercept_ == 0.0
    assert without.score(X, y + 5.0) < 0.0
    # at the minimum residuals have mean 0: the intercept is not penalised
    assert np.mean(y - plain.predict(X)) == pytest.approx(0.0, abs=1e-6)
    assert plain.objective_ < regressor(dtype="float64", fit_intercept=False).fit(X, y).objective_
    # the intercept is found anew: the gradient is that of the end, up to its own tolerance
    warm = regressor(init=(plain.k_, plain.v_), dtype="float64", tolerance=2e-6).fit(X, y)
    assert warm.n_iter_ == 0


@pytest.mark.parametrize("activation", ["softmax", "linear", "erf"])
def test_a_whole_weight_is_so_many_copies(data, activation):
    X, y = data[0], data[1] + 1.0
    counts = np.random.default_rng(3).integers(0, 4, N)
    copied = np.repeat(X, counts, axis=0), np.repeat(y, counts)
    one = regressor(activation=activation, dtype="float64").fit(X, y, sample_weight=counts)
    two = regressor(activation=activation, dtype="float64").fit(*copied)
    for name in ("k_", "v_", "intercept_", "bias_", "objective_", "train_mse_"):
        assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-4, atol=1e-4)
    assert one.score(X, y, sample_weight=counts) == pytest.approx(two.score(*copied), abs=1e-5)
    assert abs(one.objective_ / regressor(activation=activation).fit(X, y).objective_ - 1.0) > 0.01


def test_weights_of_any_size(data):
    X, y = data
    ones = regressor().fit(X, y, sample_weight=np.ones(N))
    assert_allclose(ones.predict(X), regressor().fit(X, y).predict(X), atol=1e-4)
    # only the weights relative to the ridges matter
    scaled = regressor(ridge_k=3.0, ridge_v=3.0, dtype="float64").fit(X, y, sample_weight=10.0)
    assert_allclose(scaled.k_, regressor(dtype="float64").fit(X, y).k_, atol=1e-4)
    # a sequence without weight might as well be missing
    spoilt, weight = y.copy(), np.ones(N)
    spoilt[:20], weight[:20] = 1e3, 0.0
    kept = regressor(dtype="float64").fit(X[20:], y[20:])
    ignoring = regressor(dtype="float64").fit(X, spoilt, sample_weight=weight)
    assert_allclose(ignoring.k_, kept.k_, atol=1e-4)
    for bad in (-np.ones(N), np.zeros(N), np.ones(3), np.full(N, np.nan), ["a"] * N):
        with pytest.raises(ValueError, match=r"^sample_weight must be 200 numbers >= 0, one a seq"):
            regressor().fit(X, y, sample_weight=bad)


HARD = {
    "large labels": (SpikedSLR(9.0, 10), 20, 100, lambda X, y: (X, 100.0 * y)),
    "large features": (SpikedSLR(9.0, 10), 20, 100, lambda X, y: (10.0 * X, y)),
    "small labels": (MaxSLR(3.0, 4), 50, 200, lambda X, y: (X, 0.01 * y)),
    "labels with a mean": (SpikedSLR(1.0, 5), 10, 2000, lambda X, y: (X, y + 5.0)),
    "plain": (SpikedSLR(6.0, 3), 30, 600, lambda X, y: (X, y)),
}


def hard_data(name):
    task, dim, samples, change = HARD[name]
    drawn = draw_dataset(task, dim=dim, samples=samples)
    return change(drawn.tokens.reshape(samples, -1, dim), drawn.labels)


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("activation", ["softmax", "linear", "entmax15", "sparsemax"])
def test_training_converges_at_defaults(activation, name):
    model = SingleLocationAttention(activation).fit(*hard_data(name))  # a warning is an error
    assert model.status_ is Status.CONVERGED
    assert model.gradient_norm_ <= 1e-3


def warning_of(activation, X, y, **given):
    with pytest.warns(ConvergenceWarning, match="^training did not converge: ") as caught:
        model = SingleLocationAttention(activation, **given).fit(X, y)
    assert model.status_ is Status.NOT_CONVERGED
    return str(caught[0].message)


def test_warnings_name_a_remedy_that_works():
    """The second fit of each pair has the remedy, and would fail the test if it warned."""
    X, y = hard_data("plain")
    exact = {"activation": "linear", "dtype": "float64", "restarts": 1}
    assert "raise max_steps, now 20, or raise" in warning_of(X=X, y=y, **exact, max_steps=20)
    SingleLocationAttention(**exact, max_steps=2000).fit(X, y)
    for data, given in (
        (hard_data("large labels"), {}),  # out of steps
        (hard_data("plain"), {"tolerance": 1e-16}),  # below rounding
    ):
        message = warning_of("linear", *data, dtype="float64", restarts=1, **given)
        (named,) = re.findall(r"raise tolerance above (\S+) ", message)
        SingleLocationAttention(**exact, tolerance=float(named)).fit(*data)


def test_unfitted_is_an_error_of_both_packages(data, monkeypatch):
    for call in ("predict", "attention", "score"):
        for kind in (NotFittedError, TheirNotFittedError):
            with pytest.raises(kind, match="is not fitted yet"):
                getattr(regressor(), call)(*(data if call == "score" else data[:1]))
    monkeypatch.setitem(sys.modules, "sklearn.exceptions", None)
    plain = estimator_protocol.not_fitted_error.__wrapped__()
    assert plain is NotFittedError
    assert issubclass(plain, ValueError)
    assert issubclass(plain, AttributeError)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"ridge_k": -1.0}, ValueError, "ridge_k must be a finite number >= 0, got -1.0"),
        ({"ridge_v": np.nan}, ValueError, "ridge_v must be a finite number >= 0, got nan"),
        ({"restarts": 0}, ValueError, "restarts must be a whole number >= 1, got 0"),
        ({"tolerance": 0.0}, ValueError, "tolerance must be a finite number > 0, got 0.0"),
        ({"max_steps": 0}, ValueError, "max_steps must be a whole number >= 1, got 0"),
        ({"dtype": "float16"}, ValueError, "dtype must be one of float32, float64, got float16"),
        ({"random_state": -1}, ValueError, "random_state must be a whole number >= 0, got -1"),
        ({"random_state": None}, TypeError, "random_state must be a whole number >= 0, got None"),
        ({"init": "informed"}, ValueError, "init must be one of random, got informed"),
        ({"init": 3}, ValueError, "init must be random or a pair of vectors"),
        ({"init": (np.ones(2), np.ones(D))}, ValueError, "init must be random or two vectors of 8"),
        ({"bias": "free"}, TypeError, "bias must be a finite number or optimal, got free"),
        ({"activation": "soft"}, ValueError, "activation must be a name or an expression"),
        ({"activation": 3}, TypeError, "activation must be an Activation, a name or an exp"),
    ],
)
def test_parameters_are_checked_in_fit(data, changes, kind, message):
    model = regressor(**changes)  # never in __init__
    with pytest.raises(kind, match=f"^{message}"):
        model.fit(*data)
    assert not hasattr(model, "k_")


def broken(array, value):
    array = array.copy()
    array.flat[3] = value
    return array


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X[:, 0], y), "X must be an array of shape"),
        (lambda X, y: (broken(X, np.nan), y), "X must hold finite numbers only"),
        (lambda X, y: (X * 1e300, y), "X must hold finite numbers only .as float32."),
        (lambda X, y: (X, broken(y, np.inf)), "y must hold finite numbers only, got nan or inf"),
        (lambda X, y: (X, y[:-1]), r"y must have shape \(200,\), one label a sequence"),
        (lambda X, y: (X, y[:, None]), r"y must have shape \(200,\)"),
        (lambda X, y: (X, None), "y must be one number a sequence, got None"),
        (lambda X, y: (X, ["a"] * N), "y must hold real numbers only, got an array of <U1"),
        (lambda X, y: ([], []), "X must hold at least one sequence, got none"),
        (lambda X, y: ([X[0], X[1, :, :5]], y[:2]), r"X must have one dimension D .* got D in \["),
    ],
)
def test_data_are_checked_in_fit(data, change, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        regressor().fit(*change(*data))


def test_features_must_be_those_of_fit(data, fitted):
    X, y = data
    assert fitted.n_features_in_ == D
    for call in (fitted.predict, fitted.attention, lambda X: fitted.score(X, y)):
        with pytest.raises(ValueError, match=r"^X must have 8 features, as in fit, got 5$"):
            call(X[..., :5])
    with pytest.raises(ValueError, match=r"^y must have shape"):
        fitted.score(X, y[:3])


def test_parameters_come_and_go(fitted):
    model = SingleLocationAttention()
    assert list(model.get_params())[:3] == ["activation", "ridge_k", "ridge_v"]
    assert repr(model.set_params(ridge_k=2.0, init="random")) == (
        "SingleLocationAttention(ridge_k=2.0)"
    )
    with pytest.raises(ValueError, match=r"^parameter must be one of activation.*, got ridge$"):
        model.set_params(ridge_v=5.0, ridge=1.0)
    assert model.ridge_v == 1.0
    copied = clone(fitted)
    assert copied.get_params() == fitted.get_params()
    assert not hasattr(copied, "k_")
    assert "array" in repr(SingleLocationAttention(init=(np.ones(2), np.ones(2))))
    assert is_regressor(fitted)
    check_is_fitted(fitted)


def test_pickles_answer_alike(data, fitted):
    for model in (fitted, regressor(activation="erf").fit(*data)):
        assert_array_equal(
            pickle.loads(pickle.dumps(model)).predict(data[0]), model.predict(data[0])
        )


@pytest.mark.parametrize("as_list", [False, True])
def test_searches_and_pipelines_take_it(data, as_list):
    X, y = data
    X = list(X) if as_list else X
    grid = {"ridge_v": [0.3, 1e4], "ridge_k": [0.3, 1e4]}
    search = GridSearchCV(regressor(restarts=1, dtype="float64"), grid, cv=2).fit(X, y)
    assert search.best_params_ == {"ridge_k": 0.3, "ridge_v": 0.3}
    assert search.score(X, y) > 0.7
    scores = cross_val_score(regressor(restarts=1), X, y, cv=3)
    assert scores.shape == (3,)
    assert scores.min() > 0.5
    weighted = GridSearchCV(regressor(restarts=1), {"ridge_k": [0.3]}, cv=2)
    weighted.fit(X, y, sample_weight=np.ones(N))
    assert weighted.best_estimator_.status_ is Status.CONVERGED
    half = make_pipeline(FunctionTransformer(_halves), regressor(restarts=1)).fit(X, y)
    direct = regressor(restarts=1).fit(_halves(X), y)
    assert_array_equal(half.predict(X), direct.predict(_halves(X)))
    assert half.set_params(singlelocationattention__ridge_k=2.0)[-1].ridge_k == 2.0


def _halves(X):
    return [tokens / 2 for tokens in X] if isinstance(X, list) else X / 2


def test_importing_slrlab_needs_no_scikit_learn():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import numpy as np, slrlab\n"
        "loaded = {'numba', 'pandas', 'matplotlib', 'scipy.optimize', 'scipy.stats'}\n"
        "assert not loaded & set(sys.modules), loaded & set(sys.modules)\n"
        "model = slrlab.SingleLocationAttention()\n"
        "try: model.predict(np.ones((1, 2, 3)))\n"
        "except slrlab.NotFittedError as error: print(type(error).__module__)\n"
        "print(model.fit(np.ones((4, 2, 3)), np.ones(4)).status_)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["slrlab._errors", "converged"], done.stderr
