"""Trained attention at the best ridge, length 3: the curves that Figure 3 shows and C10 judges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from slrlab._types import Report
from slrlab.experiments.parallel import parallel_map
from slrlab.model.tasks import Task, make_task
from slrlab.theory.erm import ErmTheory, optimal_ridge
from slrlab.theory.population.minimal import minimal_risk

TASKS = (("spiked", 1.0), ("spiked", 2.0), ("spiked", 5.0), ("max", 3.0), ("max", math.inf))
ACTIVATIONS = ("softmax", "linear")
LENGTH = 3
ALPHAS = (0.5, 1.0, 4.0, 16.0, 100.0)
TOLERANCE = 5e-3

Curve = tuple[str, float, str]
"""A task, its signal and an activation."""

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
    found = parallel_map(_curve_rows, items, label=label, report=report)
    return [row for rows in found for row in rows]


def _curve_rows(item: tuple[Curve, tuple[float, ...], float]) -> list[dict[str, Any]]:
    """Return the rows of one curve, each optimum continued from the last.

    From many samples to few, as the theory is simplest with many; but at an infinite signal the
    best keys grow with ``alpha`` without bound, and nothing is to be continued from there.
    """
    (name, signal, activation), alphas, tolerance = item
    task = curve_task(name, signal)
    limit = minimal_risk(task, activation).risk
    rows: list[dict[str, Any]] = []
    near: ErmTheory | None = None
    for alpha in sorted(alphas, reverse=math.isfinite(signal)):
        best = optimal_ridge(task, activation, alpha=alpha, tolerance=tolerance, start=near)
        if near is not None and not best.status.usable:
            best = optimal_ridge(task, activation, alpha=alpha, tolerance=tolerance)
        near = best if best.status.usable else near
        rows.append(
            {
                "task": name,
                "signal": signal,
                "curve": activation,
                "alpha": alpha,
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
        )
    return rows
