r"""Training attention on a dataset: quasi-Newton steps on keys and values together.

L-BFGS on ``(k, v)`` jointly. Eliminating ``v`` (for given ``k`` it is a ridge regression) takes
fewer steps but each then costs an inner solve; `benchmarks/training.py` measures that it loses.
This module must not know about tasks.
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
from slrlab.simulation.data.dataset import Dataset
from slrlab.simulation.training.objective import Objective, Weights

Watch = Callable[[int, float, float], None]
TOLERANCE = {"float32": 3e-4, "float64": 1e-6}  # rounding of the loss stops float32 near 1e-4
_PAIRS = 20
_POLISH = 5  # Newton steps at most after L-BFGS stalled; one or two are enough
_STALLED = 30.0  # gradient, in roots of the rounding unit, below which rounding explains a stall
_RUNAWAY = 1e6  # |k|²/D or |v|²/D beyond which there is no minimum to find
_AWAY = (2.0, 10.0, 100.0)  # how far a minimum at infinity is looked for


@dataclass(frozen=True)
class Trained:
    """Attention after training.

    Attributes
    ----------
    status
        ``converged``: the gradient is as small as asked. ``not converged``: out of steps, or
        rounding hides further progress. ``diverged``: there is no minimum at finite vectors.
    weights
        The trained vectors.
    objective, train_mse
        ``F`` and the mean of ``ρ²`` at the end.
    gradient_norm
        ``|∇F|/|y|``, what the tolerance speaks of.
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
    data
        Sequences and labels.
    activation
        Attention weights; a free bias is learned, without penalty.
    ridge_k, ridge_v
        Penalties ``>= 0``.
    start
        Where to begin.
    tolerance
        Stop when ``|∇F| <= tolerance·|y|``; 3e-4 for float32 tokens, 1e-6 for float64. Where
        rounding of the loss hides further progress, Newton steps on the gradient go on.
    max_steps
        Quasi-Newton steps at most.
    fit_intercept
        Whether ``b`` is learned too, without penalty; else it is 0.
    sample_weight
        The weights ``w >= 0``, by default 1; the mean of ``ρ²`` and ``|y|`` are weighted, too.
    watch
        Called as ``watch(step, F, |∇F|/|y|)`` after each step.
    """
    from scipy.optimize import minimize
    from threadpoolctl import threadpool_limits

    began = time.perf_counter()
    r_k, r_v, asked, steps = check_training(ridge_k, ridge_v, tolerance, max_steps)
    goal = asked if asked is not None else TOLERANCE[data.tokens.dtype.name]
    weights = np.empty(0) if sample_weight is None else sample_weight
    objective = Objective(data, activation, r_k, r_v, bool(fit_intercept), weights)
    path = _Path(objective, goal, watch)
    # the short products of L-BFGS would leave BLAS threads spinning on the cores of the kernel
    quiet = threadpool_limits(limits=1, user_api="blas")
    # overflow: the path knows
    with quiet, contextlib.suppress(FloatingPointError, StopIteration, _AtGoal):
        minimize(
            path.evaluate,
            path.scaled(
                start.to_vector(
                    learn_bias=objective.learns_bias, learn_intercept=objective.learns_intercept
                )
            ),
            jac=True,
            method="L-BFGS-B",
            callback=path.look,
            options={
                "maxcor": _PAIRS,
                "ftol": 0.0,
                "gtol": 0.0,
                "maxiter": steps,
                "maxfun": 100 * steps,
            },
        )
        if path.stalled and path.steps < steps:
            path.polish(min(_POLISH, steps - path.steps))
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
    """Return what steers a training, checked; for callers with much to do before they train."""
    return (
        _checks.non_negative(ridge_k, "ridge_k"),
        _checks.non_negative(ridge_v, "ridge_v"),
        None if tolerance is None else _checks.positive(tolerance, "tolerance"),
        _checks.integer(max_steps, "max_steps"),
    )


class _AtGoal(Exception):  # noqa: N818 (no error: the start is a minimum already)
    pass


class _Path:
    """What L-BFGS sees: the objective in scaled variables, remembering the best point met."""

    def __init__(self, objective: Objective, goal: float, watch: Watch | None) -> None:
        self.objective = objective
        self.goal = goal
        self.rounding = float(np.finfo(objective.data.tokens.dtype).eps)
        self.watch = watch
        # every sequence pulls at the bias, but few at one entry of a vector: equal curvatures
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
        with np.errstate(over="ignore", invalid="ignore"):  # seen in the value, below
            value, gradient = self.objective(theta)
        if not math.isfinite(value):
            self.ran_away = True
            raise FloatingPointError
        norm = float(np.linalg.norm(gradient)) / self.unit
        # near the end values differ by rounding only, and the smaller gradient is the better point
        gap = value - self.value
        if gap < 0.0 or (gap <= 1e-7 * abs(value) and norm < self.gradient_norm):
            self.value, self.loss, self.gradient_norm = value, self.objective.loss, norm
            self.best = theta
        if self.objective.passes == 1 and norm <= self.goal:
            raise _AtGoal
        return value, gradient * self.scale

    def look(self, xk: FloatArray) -> None:
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
        """Whether the goal is reached, or out of reach."""
        return self.ran_away or self.gradient_norm <= self.goal

    @property
    def stalled(self) -> bool:
        """Whether L-BFGS ended where the loss falls by less than it is rounded."""
        return not self.done and self.gradient_norm < _STALLED * math.sqrt(self.rounding)

    def polish(self, most: int) -> None:
        """Solve ``∇F = 0`` from the best point: rounding spares gradients, not differences of F."""
        from scipy.optimize import root

        def slope(scaled: FloatArray) -> FloatArray:
            with np.errstate(over="ignore", invalid="ignore"):
                value, gradient = self.objective(scaled * self.scale)
            if not math.isfinite(value):
                raise FloatingPointError
            return np.asarray(gradient * self.scale)

        def kept(scaled: FloatArray, _: FloatArray) -> None:
            self.evaluate(scaled)
            self.look(scaled)

        root(  # type: ignore[call-overload]  # the stubs do not know that tol_norm is a function
            slope,
            self.scaled(self.best),
            method="krylov",
            callback=kept,
            options={
                "maxiter": most,
                "fatol": self.goal * self.unit,
                "tol_norm": lambda found: np.linalg.norm(found / self.scale),
                "jac_options": {"rdiff": math.sqrt(self.rounding)},
            },
        )

    @property
    def free(self) -> tuple[bool, bool]:
        """Whether keys and values are without ridge."""
        return self.objective.ridge_k == 0.0, self.objective.ridge_v == 0.0

    def growing(self) -> bool:
        """Return whether a vector without ridge kept growing in the second half of the steps.

        On the way to infinity the gradient falls below any tolerance, so it is asked of trainings
        that ended well, too.
        """
        if self.steps < 50:
            return False
        half, tenth, last = (self.sizes[at] for at in (self.steps // 2, -self.steps // 10, -1))
        # a minimum that was found far out shows as an end of the growth
        least = 1.01 if self.gradient_norm <= self.goal else 0.0
        return any(
            without and last[i] > 1.2 * half[i] and last[i] > least * tenth[i]
            for i, without in enumerate(self.free)
        )


def lower_at_infinity(objective: Objective, theta: FloatArray) -> bool:
    """Return whether a vector without ridge, made ever longer, lowers the objective for good.

    Tries ``k → s·k``, alone and with ``v → v/s`` (and the like for ``v``), at growing ``s``: a
    minimum at infinity shows as a value that falls at every one.
    """
    free_k, free_v = objective.ridge_k == 0.0, objective.ridge_v == 0.0
    if not (free_k or free_v):
        return False
    dim = objective.data.dim
    here, _ = objective(theta)
    for power_k, power_v in ((1, 0), (1, -1), (0, 1), (-1, 1)):
        if (power_k > 0 and not free_k) or (power_v > 0 and not free_v):
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
