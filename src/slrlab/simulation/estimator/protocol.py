"""The estimator protocol of scikit-learn, without a dependency on it: parameters, tags, state.

A class that follows the protocol works in the pipelines and searches of scikit-learn. Independent
of attention.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Self

import numpy as np

from slrlab._errors import NotFittedError


class Estimator:
    """An estimator whose parameters are the arguments of ``__init__``, stored as they are given."""

    n_features_in_: int

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Return the parameters with their defaults, in order."""
        _, *parameters = inspect.signature(cls.__init__).parameters.values()
        return {item.name: item.default for item in parameters}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; ``deep`` has no effect."""
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name.

        Raises
        ------
        ValueError
            If a name is not a parameter; then nothing is set.
        """
        known = self._defaults()
        for name in params:
            if name not in known:
                raise ValueError(f"parameter must be one of {', '.join(known)}, got {name}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        # texts are compared because == fails for arrays and nan
        given = [
            f"{name}={getattr(self, name)!r}"
            for name, default in self._defaults().items()
            if repr(getattr(self, name)) != repr(default)
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            input_tags=InputTags(two_d_array=False, three_d_array=True),
        )

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise not_fitted_error()(
                f"this {type(self).__name__} is not fitted yet: call fit first"
            )

    def _check_features(self, dim: int) -> None:
        """Raise a ValueError unless tokens have as many features as those of ``fit``."""
        if dim != self.n_features_in_:
            raise ValueError(f"X must have {self.n_features_in_} features, as in fit, got {dim}")


class Regressor(Estimator):
    """An estimator that predicts numbers."""

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import RegressorTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        tags.target_tags.required = True
        return tags


class Transformer(Estimator):
    """An estimator that turns sequences into sequences."""

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.transformer_tags = "transformer", TransformerTags()
        return tags


@functools.cache
def not_fitted_error() -> type[NotFittedError]:
    """Return the error of an unfitted estimator, derived from scikit-learn's if installed."""
    try:
        from sklearn.exceptions import NotFittedError as Theirs
    except ImportError:
        return NotFittedError
    return type("NotFittedError", (NotFittedError, Theirs), {"__doc__": NotFittedError.__doc__})


def r_squared(labels: Any, answers: Any, weights: Any = None) -> float:
    """Return ``1 − Σw(y − f)²/Σw(y − mean)²``; constant labels give 1 if predicted exactly, else 0.

    >>> r_squared([0.0, 1.0, 2.0], [0.0, 1.0, 1.0])
    0.5
    """
    y, f = np.asarray(labels, dtype=float), np.asarray(answers, dtype=float)
    w = np.ones(y.size) if weights is None else np.asarray(weights, dtype=float)
    loss, total = float(w @ (y - f) ** 2), float(w @ (y - np.average(y, weights=w)) ** 2)
    if total == 0.0:
        return 1.0 if loss == 0.0 else 0.0
    return 1.0 - loss / total
