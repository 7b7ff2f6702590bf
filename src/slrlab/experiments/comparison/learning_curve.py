"""Trained attention at the best ridge, length 3: the curves that Figure 3 shows and C10 judges."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from slrlab._types import Report
from slrlab.experiments.running.parallel import parallel_map
from slrlab.model.activations import Activation
from slrlab.model.task_registry import make_task
from slrlab.model.tasks import Task
from slrlab.theory.erm import ErmTheory, optimal_ridge
from slrlab.theory.population.minimal import minimal_risk

TASKS = (("spiked", 1.0), ("spiked", 2.0), ("spiked", 5.0), ("max", 3.0), ("max", math.inf))
ACTIVATIONS = ("softmax", "linear")
LENGTH = 3
ALPHAS = (0.5, 1.0, 4.0, 16.0, 100.0)
TOLERANCE = 5e-3

Curve = tuple[str, float, str]
"""A task, its signal and an activation."""

_ROUNDING = 1e-6
_KEPT = ("m_k", "m_v", "q_k", "q_v", "replicon", "stable", "bistable_fraction", "trace_gap")


def curve_task(name: str, signal: float) -> Task:
    """Return the task of a curve."""
    return make_task(name, signal=signal, length=LENGTH)


def best_trained(
    curves: Sequence[tuple[Curve, tuple[float, ...]]],
    tolerance: float = TOLERANCE,
    *,
    label: str,
    report: Report | None = None,
) -> list[dict[str, Any]]:
    """Return the theory of training at the best ridge: the rows of each curve at its ``alpha``."""
    items = [(*curve, tolerance) for curve in curves]
    return list(chain(*parallel_map(_curve_rows, items, label=label, report=report)))


def trained_curve(
    task: Task, activation: Activation | str, alphas: Iterable[float], tolerance: float = TOLERANCE
) -> list[ErmTheory]:
    """Return trained attention at the best ridge for each ``alpha``, each continued from the last.

    ``alpha`` decreases, as the theory is simplest with many samples. At an infinite signal it
    increases: there the best keys grow with ``alpha`` without bound, so no optimum can be continued
    from a large ``alpha``. Where the search fails, or ends where nothing is learned, it starts once
    more without the neighbour; the lower risk counts.
    """
    curve: list[ErmTheory] = []
    last: ErmTheory | None = None
    for alpha in sorted(alphas, reverse=math.isfinite(task.signal)):
        best = optimal_ridge(task, activation, alpha=alpha, tolerance=tolerance, start=last)
        if last is not None and not _learned(best):
            fresh = optimal_ridge(task, activation, alpha=alpha, tolerance=tolerance)
            lower = fresh.status.usable and fresh.test_risk < best.test_risk
            best = fresh if lower or not best.status.usable else best
        last = best if best.status.usable else last
        curve.append(best)
    return curve


def _learned(theory: ErmTheory) -> bool:
    """Return whether a test risk is known and below that of the prediction 0."""
    return theory.status.usable and theory.test_risk < theory.setting.task.trivial_risk - _ROUNDING


def _curve_rows(item: tuple[Curve, tuple[float, ...], float]) -> list[dict[str, Any]]:
    """Return the rows of one curve."""
    (name, signal, activation), alphas, tolerance = item
    task = curve_task(name, signal)
    limit = minimal_risk(task, activation).risk
    return [
        {
            "task": name,
            "signal": signal,
            "curve": activation,
            "alpha": best.setting.alpha,
            "risk": best.test_risk,
            "error": best.test_risk_error,
            "risk_low": best.test_risk_low,
            "risk_high": best.test_risk_high,
            "population_risk": limit,
            "status": str(best.status),
            "tolerance": tolerance,
        }
        | best.setting.training
        | {key: getattr(best, key) for key in _KEPT}
        for best in trained_curve(task, activation, alphas, tolerance)
    ]
