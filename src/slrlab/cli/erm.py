"""The command `erm`: the theory of attention trained on finite data."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from slrlab.cli.app import command
from slrlab.cli.console import Output, progress
from slrlab.cli.options import (
    ALPHA,
    POSITIVE,
    RIDGE_K,
    RIDGE_V,
    SEED,
    WEIGHTS,
    default,
    given,
    option,
)
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task
from slrlab.theory.erm import erm_theory, optimal_ridge
from slrlab.theory.population.weight_statistics import weight_statistics

_TOLERANCE = (
    f"Standard error of the test risk to reach; default {default(erm_theory, 'tolerance'):g}, with "
    f"--ridge optimal {default(optimal_ridge, 'tolerance'):g}."
)
_STIFFNESS = (
    "Form of V-hat in the equations: stein counts the jumps of the prox, trace does not. The "
    "result gives both risks as an interval."
)


@command(erm_theory)
def erm(
    *,
    task: Task,
    activation: Activation,
    alpha: Annotated[float, ALPHA],
    ridge_k: Annotated[float | None, RIDGE_K] = None,
    ridge_v: Annotated[float | None, RIDGE_V] = None,
    ridge: Annotated[
        str | None, option("optimal: the ridges of least test risk.", str, "optimal")
    ] = None,
    tolerance: Annotated[float | None, option(_TOLERANCE, POSITIVE, "t")] = None,
    stiffness: Annotated[Any, option(_STIFFNESS, str, "stein|trace")],
    weights: Annotated[bool, WEIGHTS] = False,
    seed: Annotated[int, SEED],
    output: Output,
) -> bool:
    """Attention trained on N = alpha·D samples: exact test error, and whether to trust it.

    Example: slrlab erm --alpha 8 --ridge-k 0.4 --ridge-v 0.8

    Example: slrlab erm --alpha 8 --ridge optimal --activation linear
    """
    ridges = given(ridge_k=ridge_k, ridge_v=ridge_v)
    if ridge is None:
        if len(ridges) < 2:
            name = "ridge_k" if ridge_k is None else "ridge_v"
            accepted = "a finite number >= 0 (or use --ridge optimal)"
            raise ValueError(f"{name} must be {accepted}, got nothing")
        solve: Any = partial(erm_theory, stiffness=stiffness, **ridges)
    else:
        _check_optimal(ridge, ridges, stiffness)
        solve = optimal_ridge
    with progress("trained attention" if ridge is None else "best ridge") as report:
        options = given(alpha=alpha, tolerance=tolerance, seed=seed)
        result = solve(task, activation, report=report, **options)
        statistics = weight_statistics(task, activation, result) if weights else None
    branches = "; ".join(
        f"{item.branch}: test risk {item.test_risk:.4g}, objective {item.objective:.6g}"
        for item in result.branches
    )
    errors = ", ".join(f"{name} {value:.2g}" for name, value in result.errors.items())
    special = {"test_risk": str(result.risk), "branches": branches, "errors": errors}
    return output.result("Trained attention", result, special, weights=statistics)


def _check_optimal(ridge: str, ridges: dict[str, float], stiffness: str) -> None:
    """Refuse what contradicts a search for the best ridge."""
    if ridge != "optimal":
        raise ValueError(f"ridge must be optimal (or give --ridge-k and --ridge-v), got {ridge}")
    if ridges:
        first = next(iter(ridges.values()))
        raise ValueError(f"ridge_k, ridge_v must not be given with --ridge optimal, got {first:g}")
    if stiffness != "stein":
        raise ValueError(f"stiffness must be stein with --ridge optimal, got {stiffness}")
