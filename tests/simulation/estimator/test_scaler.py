"""Sequences scaled feature by feature, ragged or not, alone and in pipelines."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks, get_tags

from slrlab import NotFittedError, SequenceScaler, SingleLocationAttention, SpikedSLR, draw_dataset

RNG = np.random.default_rng(0)
UNITS = np.array([1e-3, 1.0, 40.0, 1e4])
RAGGED = [UNITS * (RNG.standard_normal((n, 4)) + 3.0) for n in RNG.integers(1, 6, 50)]
CUBE = UNITS * (RNG.standard_normal((30, 3, 4)) - 2.0)


@pytest.mark.parametrize("given", [{}, {"with_mean": False}, {"with_std": False}])
def test_it_is_the_standard_scaler_of_all_tokens(given):
    theirs = StandardScaler(**given).fit(np.concatenate(RAGGED))
    ours = SequenceScaler(**given).fit(RAGGED)
    scaled = ours.transform(RAGGED)
    assert [part.shape for part in scaled] == [part.shape for part in RAGGED]
    assert_allclose(np.concatenate(scaled), theirs.transform(np.concatenate(RAGGED)), atol=1e-9)
    for back, part in zip(ours.inverse_transform(scaled), RAGGED, strict=True):
        assert_allclose(back, part, rtol=1e-12)


def test_an_array_stays_an_array_and_equals_its_list():
    scaler = SequenceScaler()
    scaled = scaler.fit_transform(CUBE)
    assert isinstance(scaled, np.ndarray)
    assert scaled.shape == CUBE.shape
    assert_allclose(scaled.mean(axis=(0, 1)), 0.0, atol=1e-12)
    assert_allclose(scaled.std(axis=(0, 1)), 1.0, rtol=1e-12)
    assert_array_equal(np.stack(SequenceScaler().fit_transform(list(CUBE))), scaled)
    assert_allclose(scaler.inverse_transform(scaled), CUBE, rtol=1e-12)
    assert scaler.transform(CUBE.astype(np.float32)).dtype == np.float32
    before = CUBE.copy()
    scaler.transform(CUBE)
    assert_array_equal(CUBE, before)
    assert_array_equal(scaler.transform([[[0.0, 0.0, 0.0, 1]]])[0].shape, (1, 4))


def test_constant_features_and_weights():
    X = np.concatenate([CUBE, np.full((30, 3, 1), 0.1)], axis=2)
    scaler = SequenceScaler().fit(X)
    assert scaler.scale_[-1] == 1.0
    assert_allclose(scaler.transform(X)[..., -1], 0.0, atol=1e-15)
    counts = RNG.integers(1, 4, len(RAGGED))
    copies = [part for part, count in zip(RAGGED, counts, strict=True) for _ in range(count)]
    weighted, copied = SequenceScaler().fit(RAGGED, None, counts), SequenceScaler().fit(copies)
    assert_allclose(weighted.mean_, copied.mean_, rtol=1e-12)
    assert_allclose(weighted.scale_, copied.scale_, rtol=1e-12)


@pytest.mark.parametrize("as_list", [False, True])
def test_a_pipeline_undoes_units(as_list):
    drawn = draw_dataset(SpikedSLR(6.0, 3), dim=8, samples=200, seed=1, dtype="float64")
    X, y = drawn.tokens.reshape(200, 3, 8), drawn.labels
    strange = X * np.geomspace(1e-3, 1e3, 8) + 5.0
    given = list(strange) if as_list else strange
    attention = SingleLocationAttention(ridge_k=0.3, ridge_v=0.3, restarts=2)
    pipeline = make_pipeline(SequenceScaler(), attention)
    assert pipeline.fit(given, y).score(given, y) > 0.8
    assert pipeline.score(given, y) > attention.fit(given, y).score(given, y) + 0.1
    grid = {"singlelocationattention__ridge_v": [0.3, 1e4], "sequencescaler__with_mean": [True]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(given, y)
    assert search.best_params_["singlelocationattention__ridge_v"] == 0.3


def test_it_is_a_transformer_to_scikit_learn():
    scaler = SequenceScaler(with_mean=False)
    assert repr(clone(scaler)) == "SequenceScaler(with_mean=False)"
    tags = get_tags(scaler)
    assert (tags.estimator_type, tags.target_tags.required) == ("transformer", False)
    fitted = scaler.fit(RAGGED)
    assert_array_equal(pickle.loads(pickle.dumps(fitted)).scale_, fitted.scale_)
    for name in ("check_estimator_cloneable", "check_get_params_invariance", "check_set_params"):
        getattr(estimator_checks, name)("SequenceScaler", SequenceScaler())


def test_bad_input_is_named():
    with pytest.raises(NotFittedError, match=r"^this SequenceScaler is not fitted yet"):
        SequenceScaler().transform(CUBE)
    fitted = SequenceScaler().fit(CUBE)
    with pytest.raises(ValueError, match=r"^X must have 4 features, as in fit, got 2$"):
        fitted.transform(CUBE[..., :2])
    with pytest.raises(ValueError, match=r"^X must be an array of shape"):
        fitted.transform(CUBE[0])
    with pytest.raises(ValueError, match=r"^sample_weight must be 30 numbers"):
        SequenceScaler().fit(CUBE, None, np.ones(3))
