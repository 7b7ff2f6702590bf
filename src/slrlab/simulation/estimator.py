r"""One head of attention as a regressor on sequences, in the manner of scikit-learn.

A thin layer over training for data of the user's own. This module must not know about tasks or
teachers.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab._errors import ConvergenceWarning
from slrlab._result import Status
from slrlab.model.activations import Activation, make_activation
from slrlab.model.lengths import FloatArray
from slrlab.simulation.dataset import Dataset
from slrlab.simulation.erm import SMALL, trainable
from slrlab.simulation.estimator_protocol import Regressor, r_squared
from slrlab.simulation.objective import Weights, predict, token_weights
from slrlab.simulation.training import Trained, check_training, train

Sequences = npt.NDArray[Any] | Sequence[npt.ArrayLike]


class SingleLocationAttention(Regressor):
    r"""Regression on sequences by one head of attention, ``f(X) = σ(Xk/√D)ᵀ Xv/√D``.

    Minimises ``½Σ(y − f(X))² + ½ r_k|k|² + ½ r_v|v|²`` over ``k, v`` in ``R^D``. There is no
    intercept and no use of the order of the tokens. Centre the labels, and scale the features to
    about unit variance: ridges of order 1 then suit ``N`` of order ``D``.

    Parameters
    ----------
    activation
        A name, an expression or an `slrlab.Activation`.
    ridge_k, ridge_v
        Ridge penalties ``>= 0`` of keys and values. Without them there may be no minimum.
    init
        ``"random"`` for small random vectors, or a pair ``(k, v)`` to start from.
    bias
        Number added to all scores, ``"optimal"`` to learn it, None for the activation's own rule
        (erf learns it).
    restarts
        Trainings from different random vectors; the one of lowest objective is kept.
    tolerance
        Training stops at ``|∇F| <= tolerance·|y|``; default 3e-4 for float32, 1e-6 for float64.
    max_steps
        Quasi-Newton steps of each training at most.
    dtype
        ``"float32"`` or ``"float64"``: what the tokens are converted to.
    random_state
        Whole number ``>= 0`` that fixes the random vectors.

    Attributes
    ----------
    k_, v_, bias_
        What was learned.
    status_
        ``converged``, ``not converged`` or ``diverged``; a `slrlab.ConvergenceWarning` says so
        unless converged.
    objective_, objectives_
        The value of the objective that is kept, and those of all restarts.
    train_mse_, gradient_norm_
        Mean squared residual, and ``|∇F|/|y|`` at the end, in units in which tokens and labels
        have mean square 1; the tolerance speaks of the same.
    n_iter_, n_features_in_
        Quasi-Newton steps of the training that is kept, and ``D``.
    activation_
        The activation that was trained.

    Examples
    --------
    >>> from slrlab import SingleLocationAttention, SpikedSLR, draw_dataset
    >>> data = draw_dataset(SpikedSLR(signal=6.0, length=3), dim=30, samples=600)
    >>> X, y = data.tokens.reshape(600, 3, 30), data.labels
    >>> model = SingleLocationAttention(ridge_k=0.1, ridge_v=0.1).fit(X[:500], y[:500])
    >>> model.status_, model.score(X[500:], y[500:]) > 0.7
    (<Status.CONVERGED: 'converged'>, True)
    """

    k_: FloatArray
    v_: FloatArray
    bias_: float
    status_: Status
    objective_: float
    objectives_: FloatArray
    train_mse_: float
    gradient_norm_: float
    n_iter_: int
    n_features_in_: int
    activation_: str | Activation

    def __init__(
        self,
        activation: str | Activation = "softmax",
        ridge_k: float = 1.0,
        ridge_v: float = 1.0,
        *,
        init: str | tuple[npt.ArrayLike, npt.ArrayLike] = "random",
        bias: float | str | None = None,
        restarts: int = 4,
        tolerance: float | None = None,
        max_steps: int = 2000,
        dtype: str = "float32",
        random_state: int = 0,
    ) -> None:
        self.activation = activation
        self.ridge_k = ridge_k
        self.ridge_v = ridge_v
        self.init = init
        self.bias = bias
        self.restarts = restarts
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.dtype = dtype
        self.random_state = random_state

    def fit(self, X: Sequences, y: npt.ArrayLike) -> Self:
        """Train on sequences ``(N, L, D)``, or a list of ``(L_i, D)``, with one label each.

        Raises
        ------
        ValueError, TypeError
            If a parameter, a shape or a number is wrong; the message names it.
        """
        chosen = trainable(make_activation(self.activation, bias=self.bias))
        training = self._checked_training()
        if isinstance(self.init, str):
            _checks.choice(self.init, "init", ["random"])
        if y is None:
            raise ValueError(
                "y must be one number a sequence, got None "
                f"({type(self).__name__} requires y to be passed, but the target y is None)"
            )
        data = Dataset.from_sequences(X, y, dtype=self.dtype)
        units = _Units.of(data)
        data = units.apply(data)
        training["ridge_k"] /= (units.label * units.token) ** 2
        training["ridge_v"] /= units.token**2
        starts = self._starts(data.dim, chosen.bias or 0.0, units)
        runs = [train(data, chosen, start=start, **training) for start in starts]
        best = _best(runs)
        self._keep(best, data.dim, units)
        self.objectives_ = units.label**2 * np.array([run.objective for run in runs])
        # kept as it was given: built-in activations hold functions that cannot be pickled
        self.activation_ = self.activation
        if best.status is not Status.CONVERGED:
            warnings.warn(
                f"training {_ENDS[best.status]} (gradient {best.gradient_norm:.1e})",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def predict(self, X: Sequences) -> FloatArray:
        """Return the answer to each sequence, shape ``(N,)``."""
        return predict(*self._model(X))

    def attention(self, X: Sequences) -> list[FloatArray]:
        """Return where it looks: for each sequence the weights ``σ`` of its tokens."""
        data, activation, weights = self._model(X)
        sigma, _ = token_weights(data, activation, weights)
        return np.split(sigma, data.offsets[1:-1])

    def score(self, X: Sequences, y: npt.ArrayLike) -> float:
        """Return ``R²``, one minus the squared error over that of the mean label."""
        self._check_fitted()
        labels = Dataset.from_sequences(X, y, dtype=self.dtype).labels
        return r_squared(labels, self.predict(X))

    def _checked_training(self) -> dict[str, Any]:
        """Return the arguments of a training, each checked before any work."""
        _checks.integer(self.restarts, "restarts")
        _checks.integer(self.random_state, "random_state", low=0)
        names = ("ridge_k", "ridge_v", "tolerance", "max_steps")
        given = check_training(self.ridge_k, self.ridge_v, self.tolerance, self.max_steps)
        return dict(zip(names, given, strict=True))

    def _starts(self, dim: int, bias: float, units: _Units) -> list[Weights]:
        """Return where the trainings begin, for data in units of their own."""
        if not isinstance(self.init, str):
            k, v = _pair(self.init, dim)
            return [Weights(k * units.token, v * units.token / units.label, bias)]
        rng = np.random.default_rng(self.random_state)
        draws = rng.normal(scale=SMALL, size=(self.restarts, 2, dim))
        return [Weights(k, v, bias) for k, v in draws]

    def _keep(self, best: Trained, dim: int, units: _Units) -> None:
        self.k_ = best.weights.k / units.token
        self.v_ = best.weights.v * units.label / units.token
        self.bias_ = best.weights.bias
        self.status_ = best.status
        self.objective_ = best.objective * units.label**2
        self.train_mse_ = best.train_mse * units.label**2
        self.gradient_norm_, self.n_iter_ = best.gradient_norm, best.iterations
        self.n_features_in_ = dim

    def _model(self, X: Sequences) -> tuple[Dataset, Activation, Weights]:
        """Return the sequences packed, and what was learned, ready to answer."""
        self._check_fitted()
        data = Dataset.from_sequences(X, dtype=self.dtype)
        if data.dim != self.n_features_in_:
            raise ValueError(
                f"X must have {self.n_features_in_} features, as in fit, got {data.dim}"
            )
        return data, make_activation(self.activation_), Weights(self.k_, self.v_, self.bias_)


_ENDS = {
    Status.NOT_CONVERGED: "did not converge: raise max_steps or tolerance, or use float64",
    Status.DIVERGED: "diverged: there is no minimum at finite vectors, raise the ridges",
}


@dataclass(frozen=True)
class _Units:
    """Root mean squares of tokens and labels: training takes them for 1, users need not."""

    token: float
    label: float

    @classmethod
    def of(cls, data: Dataset) -> _Units:
        tokens = data.tokens
        square = float(np.einsum("td,td->", tokens, tokens, dtype=float)) / tokens.size
        return cls(math.sqrt(square) or 1.0, float(np.sqrt(np.mean(data.labels**2))) or 1.0)

    def apply(self, data: Dataset) -> Dataset:
        tokens = data.tokens / data.tokens.dtype.type(self.token)
        return Dataset(tokens, data.offsets, data.labels / self.label)


def _best(runs: Sequence[Trained]) -> Trained:
    """Return the training of lowest objective that found a minimum, if any did."""
    usable = [run for run in runs if run.status is not Status.DIVERGED] or runs
    lowest = min(run.objective for run in usable)
    # restarts that met in one minimum differ by rounding: then the smallest gradient decides
    same = [run for run in usable if run.objective <= lowest + 1e-6 * abs(lowest)]
    return min(same, key=lambda run: run.gradient_norm)


def _pair(init: tuple[npt.ArrayLike, npt.ArrayLike], dim: int) -> tuple[FloatArray, FloatArray]:
    """Return given vectors ``(k, v)``, checked."""
    try:
        k, v = (np.array(part, dtype=float) for part in init)
    except (TypeError, ValueError):
        raise ValueError(f"init must be random or a pair of vectors (k, v), got {init!r}") from None
    for part in (k, v):
        if part.shape != (dim,) or not np.isfinite(part).all():
            raise ValueError(
                f"init must be random or two vectors of {dim} finite numbers, "
                f"got one of shape {part.shape}"
            )
    return k, v
