"""scikit-learn's own estimator checks.

They draw tables of shape (n, D), so for an estimator of sequences all but one stand aside. Those
that need no data run as they are. The others see the estimator through `OnTables`, which turns a
row into a sequence of two tokens and leaves the rest, parameters, state, training, to the class
under test.
"""

import warnings

import numpy as np
import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.validation import validate_data

from slrlab import SingleLocationAttention

WITHOUT_DATA = [
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_mixin_order",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
]


class OnTables(SingleLocationAttention):
    """Rows of a table as sequences of two tokens, the row and half of it."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = False
        return tags

    def fit(self, X, y, sample_weight=None):
        X, y = validate_data(self, X, y, y_numeric=True)
        return super().fit(self._tokens(X), y, sample_weight)

    def predict(self, X):
        self._check_fitted()
        return super().predict(self._tokens(validate_data(self, X, reset=False)))

    def attention(self, X):
        self._check_fitted()
        return super().attention(self._tokens(validate_data(self, X, reset=False)))

    def score(self, X, y, sample_weight=None):
        return estimator_checks.RegressorMixin.score(self, X, y, sample_weight)

    @staticmethod
    def _tokens(X):
        return np.stack([X, 0.5 * X], axis=1)


def checks_of(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the class does not derive from theirs is meant
        return list(estimator_checks.estimator_checks_generator(estimator))


def name_of(check):
    return check.func.__name__


@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_checks_without_data(name):
    getattr(estimator_checks, name)("SingleLocationAttention", SingleLocationAttention())


def test_scikit_learn_knows_that_tables_are_not_for_it():
    assert [name_of(check) for _, check in checks_of(SingleLocationAttention())] == [
        "check_estimator_cloneable"
    ]


@pytest.mark.parametrize(
    ("estimator", "check"),
    checks_of(OnTables(ridge_k=0.5, ridge_v=0.5, restarts=1, dtype="float64")),
    ids=lambda item: name_of(item) if hasattr(item, "func") else "",
)
def test_checks_on_tables(estimator, check):
    check(estimator)
