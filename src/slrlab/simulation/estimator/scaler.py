"""Scaling of sequences to features of mean 0 and variance 1, as in scikit-learn.

Independent of attention.
"""

from __future__ import annotations

from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from slrlab._types import FloatArray
from slrlab.simulation.data.packing import Sequences, checked_weights, pack
from slrlab.simulation.estimator.protocol import Transformer

_S = TypeVar("_S", bound=Sequences)


class SequenceScaler(Transformer):
    """Shift and scale each feature to mean 0 and variance 1 over all tokens of all sequences.

    An array ``(N, L, D)`` gives an array, a list of ``(L_i, D)`` arrays of any lengths a list. The
    class works in pipelines of scikit-learn but does not need scikit-learn.

    Parameters
    ----------
    with_mean, with_std
        Whether to shift, and whether to scale.

    Attributes
    ----------
    mean_, scale_
        Mean that is subtracted from each feature, and its divisor: the standard deviation, or 1 for
        a constant feature.
    n_features_in_
        ``D``.

    Examples
    --------
    >>> import numpy as np
    >>> from slrlab import SequenceScaler
    >>> X = [np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([[5.0, 5.0]])]
    >>> scaler = SequenceScaler().fit(X)
    >>> scaler.mean_.tolist(), scaler.transform(X)[1].round(4).tolist()
    ([3.0, 5.0], [[1.2247, 0.0]])
    """

    mean_: FloatArray
    scale_: FloatArray

    def __init__(self, *, with_mean: bool = True, with_std: bool = True) -> None:
        self.with_mean = with_mean
        self.with_std = with_std

    def fit(
        self, X: Sequences, y: object = None, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Measure the features; ``y`` is not used.

        ``sample_weight`` weighs the tokens of each sequence.

        Raises
        ------
        ValueError
            If a shape or a number is wrong; the message names it.
        """
        tokens, offsets = pack(X, np.dtype(np.float64))
        weights = checked_weights(sample_weight, offsets.size - 1)
        each = None if weights is None else np.repeat(weights, np.diff(offsets))
        mean = np.average(tokens, axis=0, weights=each)
        std = np.sqrt(np.average((tokens - mean) ** 2, axis=0, weights=each))
        # rounding may give a constant feature a small standard deviation
        constant = std <= 1e-14 * np.abs(mean)
        self.mean_ = mean if self.with_mean else np.zeros_like(mean)
        self.scale_ = np.where(constant | (not self.with_std), 1.0, std)
        self.n_features_in_ = int(mean.size)
        return self

    def transform(self, X: _S) -> _S:
        """Return the sequences scaled, an array as an array and a list as a list."""
        return self._map(X, inverse=False)

    def inverse_transform(self, X: _S) -> _S:
        """Return scaled sequences in their original units."""
        return self._map(X, inverse=True)

    def fit_transform(
        self, X: _S, y: object = None, sample_weight: npt.ArrayLike | None = None
    ) -> _S:
        """Measure the features and return the sequences scaled."""
        return self.fit(X, y, sample_weight).transform(X)

    def _map(self, X: _S, *, inverse: bool) -> _S:
        self._check_fitted()
        given = np.dtype(np.float64)
        if isinstance(X, np.ndarray) and X.dtype == np.float32:
            given = X.dtype
        tokens, offsets = pack(X, given)
        self._check_features(tokens.shape[1])
        if inverse:
            changed = tokens * self.scale_ + self.mean_
        else:
            changed = (tokens - self.mean_) / self.scale_
        changed = changed.astype(given, copy=False)
        if isinstance(X, np.ndarray) and X.ndim == 3:
            return changed.reshape(X.shape)  # type: ignore[return-value]  # an array as X is
        return np.split(changed, offsets[1:-1])  # type: ignore[return-value]
