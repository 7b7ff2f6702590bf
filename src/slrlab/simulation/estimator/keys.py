r"""Keys from labelled locations: softmax regression by Newton's method.

The location of the relevant token of each sequence is given; no label ``y`` is needed. Without a
ridge there may be no finite optimum: if some keys put every marked token first, longer keys are
always better. This is detected and reported. Independent of tasks and teachers.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab._errors import ConvergenceWarning
from slrlab._plot import axes_of
from slrlab._result import Result, Status
from slrlab._types import Axes, FloatArray
from slrlab.model.activations import SOFTMAX, Activation, make_activation
from slrlab.numerics.newton import NewtonEnd, newton
from slrlab.simulation.data.dataset import Dataset
from slrlab.simulation.data.packing import Sequences, checked_labels, checked_weights
from slrlab.simulation.estimator.location_loss import LOSSES, LocationLoss, check_newton_memory
from slrlab.simulation.training.objective import Weights, token_weights

_STEP = 1e-4  # converged if the next step changes the scores by less than this
_LONGEST = 4.0  # largest range of the scores of a step from 0
_FLAT = 1e-9  # margins below this times the largest count as 0


@dataclass(frozen=True)
class KeyFit(Result):
    """Keys fitted to labelled locations.

    Attributes
    ----------
    k
        The keys, in the units of `slrlab.SingleLocationAttention`: scores are ``Xk/√D``.
    objective
        Loss plus ridge at the end.
    gradient_norm
        Norm of its gradient over that at ``k = 0``; the tolerance bounds it.
    separation
        ``none``; ``complete`` if some keys put every marked token first; ``quasi-complete`` if some
        keys put none of them behind another token, and at least one ahead of another. With either
        and without a ridge no finite keys are optimal: the status is ``diverged``. Least
        squares without a ridge may diverge without a separation too, as its loss is bounded.
    hit_rate
        Fraction of the sequences whose largest score is that of the marked token.
    gradient_norms, objectives
        Of all points of the iteration.
    loss, ridge
        As given.
    """

    k: FloatArray
    objective: float
    gradient_norm: float
    separation: str
    hit_rate: float
    gradient_norms: FloatArray
    objectives: FloatArray
    loss: str
    ridge: float

    @property
    def steps(self) -> int:
        """Number of Newton steps."""
        return self.gradient_norms.size - 1

    def attention(self, X: Sequences) -> list[FloatArray]:
        """Return ``softmax(Xk/√D)`` of each sequence."""
        data = _packed(X, self.k.size)
        weights = Weights(self.k, np.zeros_like(self.k))
        sigma, _ = token_weights(data, SOFTMAX, weights)
        return np.split(sigma, data.offsets[1:-1])

    def predict(self, X: Sequences) -> npt.NDArray[np.int64]:
        """Return the location of the largest score of each sequence."""
        return np.array([int(np.argmax(sigma)) for sigma in self.attention(X)], dtype=np.int64)

    def score(self, X: Sequences, locations: npt.ArrayLike) -> float:
        """Return the hit rate on sequences with known locations."""
        data = _packed(X, self.k.size)
        return float(np.mean(self.predict(X) == _checked_locations(locations, data)))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the norm of the gradient against the steps; convergence is quadratic at the end."""
        axes = axes_of(ax)
        axes.semilogy(np.arange(self.gradient_norms.size), self.gradient_norms, "o-")
        axes.set(xlabel="Newton step", ylabel="gradient, relative to $k=0$")
        return axes

    def __str__(self) -> str:
        return (
            f"keys by {self.loss}, ridge {self.ridge:g}: {self.steps} steps, hit rate "
            f"{self.hit_rate:.3f}, {self.status}"
        )


def fit_keys(
    X: Sequences,
    locations: npt.ArrayLike,
    loss: str = "cross entropy",
    *,
    ridge: float = 0.0,
    sample_weight: npt.ArrayLike | None = None,
    start: npt.ArrayLike | None = None,
    tolerance: float = 1e-9,
    max_steps: int = 100,
) -> KeyFit:
    r"""Fit keys to labelled locations by Newton's method.

    Minimises ``Σ w·loss(softmax(Xk/√D), ε) + ½ r|k|²`` over ``k`` in ``R^D``.

    Parameters
    ----------
    X
        Sequences ``(N, L, D)``, or a list of ``(L_i, D)``.
    locations
        The marked token of each sequence, counted from 0.
    loss
        ``"cross entropy"``, ``−log σ_ε``, which is convex, or ``"least squares"``, ``½‖σ − b‖²``
        with ``b`` the unit vector of the location (Gao, Song and Xie, arXiv 2307.02419), which is
        bounded and not convex.
    ridge
        ``r >= 0``. Without it separable locations have no finite optimum.
    sample_weight
        Weight ``w`` of each sequence.
    start
        Keys to start from; 0 by default.
    tolerance
        Norm of the gradient to reach, relative to that at ``k = 0``.
    max_steps
        Largest number of steps.

    Returns
    -------
    KeyFit
        The keys, and how the iteration ended.

    Raises
    ------
    ValueError
        If a shape or a number is wrong; the message names it.

    Warns
    -----
    ConvergenceWarning
        If the iteration does not converge; the text says what to change.

    Examples
    --------
    >>> from slrlab import SpikedSLR, draw_dataset, fit_keys
    >>> data = draw_dataset(SpikedSLR(signal=4.0, length=3), dim=20, samples=500)
    >>> X = data.tokens.reshape(500, 3, 20)
    >>> fit = fit_keys(X[:400], data.locations[:400])
    >>> print(fit.status, fit.steps < 10, fit.score(X[400:], data.locations[400:]) > 0.8)
    converged True True
    """
    _checks.choice(loss, "loss", LOSSES)
    ridge = _checks.non_negative(ridge, "ridge")
    _checks.positive(tolerance, "tolerance")
    max_steps = _checks.integer(max_steps, "max_steps")
    data = Dataset.from_sequences(X, dtype="float64")
    data = replace(data, locations=_checked_locations(locations, data))
    weights = checked_weights(sample_weight, data.samples)
    check_newton_memory(data.dim)
    problem = LocationLoss(data, loss, ridge, np.ones(data.samples) if weights is None else weights)
    k = np.zeros(data.dim) if start is None else _vector(start, data.dim, "start")
    unit = float(np.linalg.norm(problem.derivatives(np.zeros(data.dim))[0])) or 1.0
    end = _minimise(problem, k, tolerance * unit, max_steps)
    separation = _separation(problem, end, tolerance * unit, max_steps)
    fit = _fitted(problem, end, unit, separation)
    if fit.status is not Status.CONVERGED:
        warnings.warn(_advice(fit, max_steps), ConvergenceWarning, stacklevel=2)
    return fit


def fit_values(
    X: Sequences,
    y: npt.ArrayLike,
    k: npt.ArrayLike,
    *,
    ridge: float,
    activation: Activation | str = "softmax",
) -> FloatArray:
    r"""Return the values that are best for given keys: a ridge regression in closed form.

    Minimises ``½Σ(y − σ(Xk/√D)ᵀXv/√D)² + ½ r|v|²`` over ``v``.

    Parameters
    ----------
    X
        Sequences of tokens, each of shape ``(length, dim)``.
    y
        One label for each sequence.
    k
        Keys, of shape ``(dim,)``.
    ridge
        Ridge of the values.
    activation
        What turns scores into weights.

    Returns
    -------
    ndarray of shape (dim,)
        The values ``v``.

    Raises
    ------
    ValueError
        If a shape or a number is wrong; the message names it.

    Examples
    --------
    >>> from slrlab import SpikedSLR, draw_dataset, fit_keys, fit_values
    >>> data = draw_dataset(SpikedSLR(signal=9.0, length=3), dim=20, samples=500)
    >>> X = data.tokens.reshape(500, 3, 20)
    >>> keys = fit_keys(X, data.locations, ridge=0.1).k
    >>> v = fit_values(X, data.labels, keys, ridge=0.1)
    >>> bool(abs(v @ data.teacher.values / 20 - 1.0) < 0.1)
    True
    """
    data = Dataset.from_sequences(X, dtype="float64")
    labels = checked_labels(y, data.samples)
    ridge = _checks.non_negative(ridge, "ridge")
    weights = Weights(_vector(k, data.dim, "k"), np.zeros(data.dim))
    sigma, _ = token_weights(data, make_activation(activation), weights)
    seen = np.add.reduceat(sigma[:, None] * data.tokens, data.offsets[:-1]) / math.sqrt(data.dim)
    gram = seen.T @ seen + ridge * np.eye(data.dim)
    return np.asarray(np.linalg.lstsq(gram, seen.T @ labels, rcond=None)[0])


def _minimise(
    problem: LocationLoss, start: FloatArray, tolerance: float, max_steps: int
) -> NewtonEnd:
    """Run Newton's method; without a ridge, keys that separate the locations end it."""
    return newton(
        problem.value,
        problem.derivatives,
        start,
        gradient_tolerance=tolerance,
        step_tolerance=_STEP,
        longest_step=_LONGEST,
        step_size=problem.score_range,
        max_steps=max_steps,
        watch=lambda point, number: problem.ridge == 0.0 and _separates(problem, point),
    )


def _separation(problem: LocationLoss, end: NewtonEnd, tolerance: float, max_steps: int) -> str:
    """Return the kind of separation of the locations, given how the iteration ended.

    Cross entropy has no finite optimum if and only if there is one (Albert and Anderson 1984), and
    being convex it cannot end elsewhere: it decides for least squares too.
    """
    if problem.ridge > 0.0 or end.converged:
        return "none"
    if problem.kind != "cross entropy" and not end.stopped:
        problem = replace(problem, kind="cross entropy")
        end = _minimise(problem, np.zeros(problem.data.dim), tolerance, max_steps)
    if end.stopped:
        return "complete"
    return "quasi-complete" if end.at_infinity else "none"


def _fitted(problem: LocationLoss, end: NewtonEnd, unit: float, separation: str) -> KeyFit:
    status = Status.CONVERGED if end.converged else Status.NOT_CONVERGED
    if separation != "none" or end.at_infinity:
        status = Status.DIVERGED
    margins = problem.margins(end.point)
    alone = problem.data.samples - margins.size  # sequences of one token are always right
    return KeyFit(
        status=status,
        k=end.point,
        objective=end.value,
        gradient_norm=float(end.gradient_norms[-1]) / unit,
        separation=separation,
        hit_rate=float((np.sum(margins > 0.0) + alone) / problem.data.samples),
        gradient_norms=end.gradient_norms / unit,
        objectives=end.values,
        loss=problem.kind,
        ridge=problem.ridge,
    )


def _separates(problem: LocationLoss, k: FloatArray) -> bool:
    """Return whether keys put every marked token strictly first."""
    margins = problem.margins(k)
    if margins.size == 0:
        return False
    return bool(margins.min() > _FLAT * max(float(np.abs(margins).max()), 1e-300))


def _advice(fit: KeyFit, max_steps: int) -> str:
    """Return how a fit ended that did not converge, and what to change."""
    if fit.separation != "none":
        return (
            f"the locations have a {fit.separation} separation: no finite keys are optimal, give a "
            "ridge > 0"
        )
    if fit.status is Status.DIVERGED:
        return f"{fit.loss} has no minimum at finite keys here: give a ridge > 0"
    if fit.steps >= max_steps:
        return f"did not converge: raise max_steps, now {max_steps}"
    return f"did not converge: raise tolerance above {1.1 * fit.gradient_norm:.1e}"


def _packed(X: Sequences, dim: int) -> Dataset:
    data = Dataset.from_sequences(X, dtype="float64")
    if data.dim != dim:
        raise ValueError(f"X must have {dim} features, as in the fit, got {data.dim}")
    return data


def _checked_locations(given: Any, data: Dataset) -> npt.NDArray[np.int64]:
    """Return locations as whole numbers, one for each sequence and inside it."""
    accepted = f"locations must be {data.samples} whole numbers, one a sequence, counted from 0"
    values = np.asarray(given)
    if values.shape != (data.samples,) or values.dtype.kind not in "iu":
        raise ValueError(f"{accepted}, got {values.dtype} of shape {values.shape}")
    outside = np.flatnonzero((values < 0) | (values >= data.lengths))
    if outside.size:
        first = int(outside[0])
        length = int(data.lengths[first])
        raise ValueError(f"{accepted}, got {values[first]} for a sequence of {length} tokens")
    return np.array(values, dtype=np.int64)


def _vector(given: npt.ArrayLike, dim: int, name: str) -> FloatArray:
    """Return a vector of ``dim`` finite numbers."""
    try:
        values = np.array(given, dtype=float)
    except (TypeError, ValueError):
        _checks.fail(name, f"a vector of {dim} finite numbers", type(given).__name__)
    if values.shape != (dim,) or not np.isfinite(values).all():
        _checks.fail(name, f"a vector of {dim} finite numbers", f"shape {values.shape}")
    return values
