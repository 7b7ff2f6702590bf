r"""One head of attention as a regressor on sequences, as in scikit-learn.

A thin layer over training, for the user's own data. Independent of tasks and teachers.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab._errors import ConvergenceWarning
from slrlab._result import Status
from slrlab._types import FloatArray
from slrlab.model.activations import Activation, make_activation
from slrlab.simulation.data.dataset import Dataset
from slrlab.simulation.data.packing import Sequences, checked_weights
from slrlab.simulation.estimator.protocol import Regressor, r_squared
from slrlab.simulation.training.erm import SMALL, trainable
from slrlab.simulation.training.objective import Weights, predict, token_weights
from slrlab.simulation.training.optimiser import TOLERANCE, Trained, check_training, train


class SingleLocationAttention(Regressor):
    r"""Regression on sequences by one head of attention, ``f(X) = b + σ(Xk/√D)ᵀ Xv/√D``.

    Minimises ``½Σw(y − f(X))² + ½ r_k|k|² + ½ r_v|v|²`` over ``k, v`` in ``R^D`` and the intercept
    ``b``. The order of the tokens is not used. Scale the features to about unit variance
    (`slrlab.SequenceScaler`): ridges of order 1 then suit ``N`` of order ``D``.

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
    fit_intercept
        Whether the number ``b`` is learned, without penalty; else it is 0, as in the theory.
    restarts
        Number of trainings from different random vectors; that of lowest objective is kept.
    tolerance
        Training stops at ``|∇F| <= tolerance·|y|``; default 3e-4 for float32, 1e-6 for float64.
    max_steps
        Largest number of quasi-Newton steps of each training.
    dtype
        ``"float32"`` or ``"float64"``, the type of the tokens. A training that cannot reach its
        tolerance because of rounding in float32 is finished in float64.
    random_state
        Whole number ``>= 0`` that fixes the random vectors.

    Attributes
    ----------
    k_, v_, bias_, intercept_
        What was learned.
    status_
        ``converged``, ``not converged`` or ``diverged``; unless converged, a
        `slrlab.ConvergenceWarning` says what to change.
    objective_, objectives_
        The value of the objective that is kept, and those of all restarts.
    train_mse_, gradient_norm_
        Weighted mean squared residual, and ``|∇F|/|y|`` at the end, in units in which tokens and
        labels (minus their mean, if there is an intercept) have mean square 1; the tolerance bounds
        the latter.
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
    intercept_: float
    status_: Status
    objective_: float
    objectives_: FloatArray
    train_mse_: float
    gradient_norm_: float
    n_iter_: int
    activation_: str | Activation

    def __init__(
        self,
        activation: str | Activation = "softmax",
        ridge_k: float = 1.0,
        ridge_v: float = 1.0,
        *,
        init: str | tuple[npt.ArrayLike, npt.ArrayLike] = "random",
        bias: float | str | None = None,
        fit_intercept: bool = True,
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
        self.fit_intercept = fit_intercept
        self.restarts = restarts
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.dtype = dtype
        self.random_state = random_state

    def fit(
        self, X: Sequences, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Train on sequences ``(N, L, D)``, or a list of ``(L_i, D)``, with one label each.

        ``sample_weight`` multiplies the squared error of each sequence; a whole number ``n`` equals
        ``n`` copies of it.

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
        weights = checked_weights(sample_weight, data.samples)
        units = _Units.of(data, weights, centred=bool(self.fit_intercept))
        data = units.apply(data)
        training["ridge_k"] /= (units.label * units.token) ** 2
        training["ridge_v"] /= units.token**2
        training |= {"sample_weight": weights, "fit_intercept": bool(self.fit_intercept)}
        starts = self._starts(data.dim, chosen.bias or 0.0, units)
        if training["fit_intercept"]:
            starts = [_with_intercept(data, chosen, start, weights) for start in starts]
        runs = [_train(data, chosen, start, training) for start in starts]
        best = _best(runs)
        self._keep(best, data.dim, units)
        self.objectives_ = units.label**2 * np.array([run.objective for run in runs])
        # stored as given: built-in activations contain functions that cannot be pickled
        self.activation_ = self.activation
        if best.status is not Status.CONVERGED:
            advice = _advice(best, training["max_steps"])
            text = f"training {advice} (gradient {best.gradient_norm:.1e})"
            warnings.warn(text, ConvergenceWarning, stacklevel=2)
        return self

    def predict(self, X: Sequences) -> FloatArray:
        """Return the answer to each sequence, shape ``(N,)``."""
        return predict(*self._model(X))

    def attention(self, X: Sequences) -> list[FloatArray]:
        """Return the weights ``σ`` of the tokens of each sequence."""
        data, activation, weights = self._model(X)
        sigma, _ = token_weights(data, activation, weights)
        return np.split(sigma, data.offsets[1:-1])

    def score(
        self, X: Sequences, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> float:
        """Return ``R²``, one minus the squared error over that of the mean label."""
        self._check_fitted()
        labels = Dataset.from_sequences(X, y, dtype=self.dtype).labels
        return r_squared(labels, self.predict(X), checked_weights(sample_weight, labels.size))

    def _checked_training(self) -> dict[str, Any]:
        """Return the arguments of a training, each checked before any work."""
        _checks.integer(self.restarts, "restarts")
        _checks.integer(self.random_state, "random_state", low=0)
        names = ("ridge_k", "ridge_v", "tolerance", "max_steps")
        given = check_training(self.ridge_k, self.ridge_v, self.tolerance, self.max_steps)
        return dict(zip(names, given, strict=True))

    def _starts(self, dim: int, bias: float, units: _Units) -> list[Weights]:
        """Return the start of each training, for data scaled by their units."""
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
        self.intercept_ = units.mean + best.weights.intercept * units.label
        self.status_ = best.status
        self.objective_ = best.objective * units.label**2
        self.train_mse_ = best.train_mse * units.label**2
        self.gradient_norm_, self.n_iter_ = best.gradient_norm, best.iterations
        self.n_features_in_ = dim

    def _model(self, X: Sequences) -> tuple[Dataset, Activation, Weights]:
        """Return the packed sequences, the activation and the learned weights."""
        self._check_fitted()
        data = Dataset.from_sequences(X, dtype=self.dtype)
        self._check_features(data.dim)
        weights = Weights(self.k_, self.v_, self.bias_, self.intercept_)
        return data, make_activation(self.activation_), weights


def _with_intercept(
    data: Dataset, activation: Activation, start: Weights, weights: FloatArray | None
) -> Weights:
    """Return a start with the intercept that is best for its vectors."""
    residuals = data.labels - predict(data, activation, start)
    return replace(start, intercept=float(np.average(residuals, weights=weights)))


def _train(
    data: Dataset, activation: Activation, start: Weights, training: dict[str, Any]
) -> Trained:
    """Train; where rounding in float32 hides further progress, continue in float64."""
    run = train(data, activation, start=start, **training)
    left = training["max_steps"] - run.iterations
    single = data.tokens.dtype == np.float32
    if run.status is not Status.NOT_CONVERGED or not single or left < 1:
        return run
    fine = Dataset(data.tokens.astype(float), data.offsets, data.labels)
    goal = training["tolerance"] or TOLERANCE["float32"]
    options = training | {"tolerance": goal, "max_steps": left}
    again = train(fine, activation, start=run.weights, **options)
    return replace(again, iterations=run.iterations + again.iterations)


def _advice(run: Trained, max_steps: int) -> str:
    """Return how a training ended that did not converge, and what to change."""
    if run.status is Status.DIVERGED:
        return "diverged: there is no minimum at finite vectors, raise the ridges"
    tolerance = f"raise tolerance above {1.1 * run.gradient_norm:.1e}"
    if run.iterations >= max_steps:
        return f"did not converge: raise max_steps, now {max_steps}, or {tolerance}"
    return f"did not converge: {tolerance}"


@dataclass(frozen=True)
class _Units:
    """Size of tokens, size and mean of labels; data in these units have 1, 1 and 0."""

    token: float
    label: float
    mean: float

    @classmethod
    def of(cls, data: Dataset, weights: FloatArray | None, *, centred: bool) -> _Units:
        """Return the units of weighted data."""
        tokens, labels = data.tokens, data.labels
        if weights is None:
            square = float(np.einsum("td,td->", tokens, tokens, dtype=float)) / tokens.size
        else:
            each = np.repeat(weights, data.lengths)
            squares = np.einsum("td,td->t", tokens, tokens, dtype=float)
            square = float(np.average(squares, weights=each)) / data.dim
        mean = float(np.average(labels, weights=weights)) if centred else 0.0
        size = math.sqrt(float(np.average((labels - mean) ** 2, weights=weights)))
        return cls(math.sqrt(square) or 1.0, size or 1.0, mean)

    def apply(self, data: Dataset) -> Dataset:
        tokens = data.tokens / data.tokens.dtype.type(self.token)
        return Dataset(tokens, data.offsets, (data.labels - self.mean) / self.label)


def _best(runs: Sequence[Trained]) -> Trained:
    """Return the training of lowest objective; a diverged one only if all diverged."""
    usable = [run for run in runs if run.status is not Status.DIVERGED] or runs
    lowest = min(run.objective for run in usable)
    # restarts with the same minimum differ by rounding: the smallest gradient decides
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
