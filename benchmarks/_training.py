"""Common parts of the training benchmark: the setting, L-BFGS, and the training of slrlab."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from slrlab import Dataset, Weights, make_activation
from slrlab._types import FloatArray
from slrlab.simulation.training.objective import Objective
from slrlab.simulation.training.optimiser import TOLERANCE, train

LENGTH = 3
GOAL = TOLERANCE["float32"]
SOFTMAX = make_activation("softmax").with_bias(0.0)
Function = Callable[[FloatArray], tuple[float, FloatArray]]


@dataclass(frozen=True)
class Run:
    """End of one minimisation.

    ``passes`` counts reads of all tokens (or of the same number of values), ``outer`` the reads
    outside the inner solves.
    """

    theta: FloatArray
    steps: int
    passes: float
    outer: float
    seconds: float


def lbfgs(function: Function, start: FloatArray, reached: Callable[[], bool]) -> int:
    """Minimise with the options of `train` until ``reached``; return the number of steps."""
    steps = 0

    def look(_: FloatArray) -> None:
        nonlocal steps
        steps += 1
        if reached():
            raise StopIteration

    options = {"maxcor": 20, "ftol": 0.0, "gtol": 0.0, "maxiter": 2000, "maxfun": 200_000}
    minimize(function, start, jac=True, method="L-BFGS-B", callback=look, options=options)
    return steps


def joint(data: Dataset, ridges: tuple[float, float], start: Weights) -> Run:
    found = train(data, SOFTMAX, ridge_k=ridges[0], ridge_v=ridges[1], start=start)
    theta = found.weights.to_vector(learn_bias=False)
    return Run(theta, found.iterations, found.passes, found.passes, found.seconds)


def describe(data: Dataset, ridges: tuple[float, float], run: Run) -> str:
    value, gradient = Objective(data, SOFTMAX, *ridges)(run.theta)
    norm = np.linalg.norm(gradient) / np.linalg.norm(data.labels)
    return (
        f"F/D {value / data.dim:.6f}, |grad| {norm:.1e}, {run.steps:3} steps, "
        f"{run.passes:6.1f} passes, {run.seconds:6.2f} s"
    )
