r"""Training attention on a dataset: quasi-Newton steps on keys and values together.

L-BFGS on ``(k, v)`` jointly. Eliminating ``v`` (for given ``k`` it is a ridge regression) takes
fewer steps, but each needs an inner solve; `benchmarks/training.py` measures that it is slower.
Independent of tasks.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slrlab import _checks
from slrlab._result import Status
from slrlab._types import FloatArray
from slrlab.model.activations import Activation
from slrlab.numerics.blas import one_blas_thread
from slrlab.simulation.data.dataset import Dataset
from slrlab.simulation.training.objective import Objective, Weights

Watch = Callable[[int, float, float], None]
TOLERANCE = {"float32": 3e-4, "float64": 1e-6}  # rounding of the loss stops float32 near 1e-4
_PAIRS = 20
_POLISH = 5  # most Newton steps after L-BFGS stalled; one or two are enough
_STALLED = 30.0  # gradient, in roots of the rounding unit, below which rounding explains a stall
_RUNAWAY = 1e6  # |k|²/D or |v|²/D above which training counts as diverged
_AWAY = (2.0, 10.0, 100.0)  # factors on a vector that reveal a minimum at infinity


@dataclass(frozen=True)
class Trained:
    """Attention after training.

    Attributes
    ----------
    status
        ``converged``: the gradient is below the tolerance. ``not converged``: the steps ended, or
        rounding hides further progress. ``diverged``: there is no minimum at finite vectors.
    weights
        The trained vectors.
    objective, train_mse
        ``F`` and the mean of ``ρ²`` at the end.
    gradient_norm
        ``|∇F|/|y|``, which the tolerance bounds.
    iterations, passes
        Quasi-Newton steps, and how often the tokens were read.
    seconds
        Wall time.
    """

    status: Status
    weights: Weights
    objective: float
    train_mse: float
    gradient_norm: float
    iterations: int
    passes: int
    seconds: float


def train(
    data: Dataset,
    activation: Activation,
    *,
    ridge_k: float,
    ridge_v: float,
    start: Weights,
    tolerance: float | None = None,
    max_steps: int = 2000,
    fit_intercept: bool = False,
    sample_weight: FloatArray | None = None,
    watch: Watch | None = None,
) -> Trained:
    """Minimise ``½Σw(y − b − σᵀz)² + ½r_k|k|² + ½r_v|v|²`` from given vectors.

    Parameters
    ----------
    data, activation
        Sequences and labels, and the attention; a free bias is learned, without penalty.
    ridge_k, ridge_v
        Penalties ``>= 0``.
    start
        First vectors.
    tolerance
        Stop when ``|∇F| <= tolerance·|y|``; 3e-4 for float32 tokens, 1e-6 for float64. Where
        rounding of the loss hides further progress, Newton steps on the gradient follow.
    max_steps
        Largest number of quasi-Newton steps.
    fit_intercept
        Whether ``b`` is learned too, without penalty; else it is 0.
    sample_weight
        The weights ``w >= 0``, by default 1; the mean of ``ρ²`` and ``|y|`` are weighted, too.
    watch
        Called as ``watch(step, F, |∇F|/|y|)`` after each step.
    """
    from scipy.optimize import minimize

    began = time.perf_counter()
    ridge_k, ridge_v, tolerance, max_steps = check_training(ridge_k, ridge_v, tolerance, max_steps)
    goal = TOLERANCE[data.tokens.dtype.name] if tolerance is None else tolerance
    weights = np.empty(0) if sample_weight is None else sample_weight
    objective = Objective(data, activation, ridge_k, ridge_v, bool(fit_intercept), weights)
    path = _Path(objective, goal, watch)
    first = start.to_vector(
        learn_bias=objective.learns_bias, learn_intercept=objective.learns_intercept
    )
    # the short products of L-BFGS would leave BLAS threads spinning on the cores of the kernel
    with one_blas_thread, contextlib.suppress(FloatingPointError, StopIteration, _AtGoal):
        minimize(
            path.evaluate,
            path.scaled(first),
            jac=True,
            method="L-BFGS-B",
            callback=path.after_step,
            options={
                "maxcor": _PAIRS,
                "ftol": 0.0,
                "gtol": 0.0,
                "maxiter": max_steps,
                "maxfun": 100 * max_steps,
            },
        )
        if path.stalled and path.steps < max_steps:
            path.polish(min(_POLISH, max_steps - path.steps))
    status = Status.CONVERGED if path.gradient_norm <= goal else Status.NOT_CONVERGED
    if path.ran_away or path.growing() or lower_at_infinity(objective, path.best):
        status = Status.DIVERGED
    return Trained(
        status=status,
        weights=objective.weights(path.best),
        objective=path.value,
        train_mse=2.0 * path.loss / (float(weights.sum()) or data.samples),
        gradient_norm=path.gradient_norm,
        iterations=path.steps,
        passes=objective.passes,
        seconds=time.perf_counter() - began,
    )


def check_training(
    ridge_k: float, ridge_v: float, tolerance: float | None, max_steps: int
) -> tuple[float, float, float | None, int]:
    """Return the numbers that control a training, checked."""
    return (
        _checks.non_negative(ridge_k, "ridge_k"),
        _checks.non_negative(ridge_v, "ridge_v"),
        None if tolerance is None else _checks.positive(tolerance, "tolerance"),
        _checks.integer(max_steps, "max_steps"),
    )


class _AtGoal(Exception):  # noqa: N818 (no error: the start is a minimum already)
    pass


class _Path:
    """The objective in scaled variables, as L-BFGS needs it, with the best point so far."""

    def __init__(self, objective: Objective, goal: float, watch: Watch | None) -> None:
        self.objective = objective
        self.goal = goal
        self.rounding = float(np.finfo(objective.data.tokens.dtype).eps)
        self.watch = watch
        # all sequences contribute to the curvature in the bias: the scale makes it that of k and v
        vectors = 2 * objective.data.dim
        size = vectors + objective.learns_bias + objective.learns_intercept
        self.scale = np.ones(size)
        self.scale[vectors:] = 1.0 / math.sqrt(objective.data.dim)
        labels, weights = objective.data.labels, objective.sample_weight
        self.unit = float(np.linalg.norm(np.sqrt(weights) * labels if weights.size else labels))
        self.unit = self.unit or 1.0
        self.value, self.loss, self.gradient_norm = math.inf, math.inf, math.inf
        self.best = np.zeros(size)
        self.steps = 0
        self.sizes: list[tuple[float, float]] = []
        self.ran_away = False

    def scaled(self, theta: FloatArray) -> FloatArray:
        return np.asarray(theta / self.scale)

    def evaluate(self, scaled: FloatArray) -> tuple[float, FloatArray]:
        theta = scaled * self.scale
        with np.errstate(over="ignore", invalid="ignore"):  # the value shows an overflow
            value, gradient = self.objective(theta)
        if not math.isfinite(value):
            self.ran_away = True
            raise FloatingPointError
        norm = float(np.linalg.norm(gradient)) / self.unit
        # where values differ by rounding only, the point of smaller gradient is the better one
        rise = value - self.value
        if rise < 0.0 or (rise <= 1e-7 * abs(value) and norm < self.gradient_norm):
            self.value, self.loss, self.gradient_norm = value, self.objective.loss, norm
            self.best = theta
        if self.objective.passes == 1 and norm <= self.goal:
            raise _AtGoal
        return value, gradient * self.scale

    def after_step(self, xk: FloatArray) -> None:
        self.steps += 1
        if self.watch is not None:
            self.watch(self.steps, self.value, self.gradient_norm)
        dim = self.objective.data.dim
        k, v = self.best[:dim], self.best[dim : 2 * dim]
        self.sizes.append((float(k @ k) / dim, float(v @ v) / dim))
        self.ran_away = self.ran_away or max(self.sizes[-1]) > _RUNAWAY
        if self.done:
            raise StopIteration

    @property
    def done(self) -> bool:
        """Whether the goal is reached or cannot be reached."""
        return self.ran_away or self.gradient_norm <= self.goal

    @property
    def stalled(self) -> bool:
        """Whether L-BFGS ended where the loss falls by less than it is rounded."""
        return not self.done and self.gradient_norm < _STALLED * math.sqrt(self.rounding)

    def polish(self, max_steps: int) -> None:
        """Solve ``∇F = 0`` from the best point: gradients are rounded less than changes of F."""
        from scipy.optimize import root

        def slope(scaled: FloatArray) -> FloatArray:
            with np.errstate(over="ignore", invalid="ignore"):
                value, gradient = self.objective(scaled * self.scale)
            if not math.isfinite(value):
                raise FloatingPointError
            return np.asarray(gradient * self.scale)

        def kept(scaled: FloatArray, _: FloatArray) -> None:
            self.evaluate(scaled)
            self.after_step(scaled)

        root(  # type: ignore[call-overload]  # the stubs do not know that tol_norm is a function
            slope,
            self.scaled(self.best),
            method="krylov",
            callback=kept,
            options={
                "maxiter": max_steps,
                "fatol": self.goal * self.unit,
                "tol_norm": lambda gradient: np.linalg.norm(gradient / self.scale),
                "jac_options": {"rdiff": math.sqrt(self.rounding)},
            },
        )

    def growing(self) -> bool:
        """Return whether a vector without ridge kept growing in the second half of the steps.

        On the way to infinity the gradient falls below any tolerance, so trainings that reached
        the tolerance are checked, too.
        """
        if self.steps < 50:
            return False
        half, tenth, last = (self.sizes[at] for at in (self.steps // 2, -self.steps // 10, -1))
        # at a minimum far out the growth ends
        least = 1.01 if self.gradient_norm <= self.goal else 0.0
        return any(
            ridge == 0.0 and last[i] > 1.2 * half[i] and last[i] > least * tenth[i]
            for i, ridge in enumerate((self.objective.ridge_k, self.objective.ridge_v))
        )


def lower_at_infinity(objective: Objective, theta: FloatArray) -> bool:
    """Return whether the objective falls all the way as a vector without ridge is made longer.

    Tries ``k → s·k``, alone and with ``v → v/s`` (likewise for ``v``), at growing ``s``.
    """
    fixed_k, fixed_v = objective.ridge_k > 0.0, objective.ridge_v > 0.0
    if fixed_k and fixed_v:
        return False
    dim = objective.data.dim
    here, _ = objective(theta)
    for power_k, power_v in ((1, 0), (1, -1), (0, 1), (-1, 1)):
        if (power_k > 0 and fixed_k) or (power_v > 0 and fixed_v):
            continue
        last = here
        for factor in _AWAY:
            far = theta.copy()
            far[:dim] *= factor**power_k
            far[dim : 2 * dim] *= factor**power_v
            value, _ = objective(far)
            if not value < last - 1e-6 * abs(here):
                break
            last = value
        else:
            return True
    return False
