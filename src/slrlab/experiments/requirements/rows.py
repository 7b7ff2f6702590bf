"""Rows of tables: one activation, or the best predictor, at one setting.

A table of risks has such rows in every view of the explorer, computed or stored. Independent of how
tables are drawn or kept.
"""

from __future__ import annotations

import math
from typing import Any

from slrlab._errors import ComputationError
from slrlab._plot import FINE_STATUSES
from slrlab._types import DataFrame
from slrlab.experiments.atlas.activations import STANDARD, Compared, Kind
from slrlab.experiments.requirements.demands import BAYES_NAME
from slrlab.model.activations import make_activation
from slrlab.model.tasks import Task
from slrlab.theory.bayes_optimal import bayes_optimal
from slrlab.theory.erm import erm_theory, optimal_ridge
from slrlab.theory.population.bayes_risk import bayes_risk
from slrlab.theory.population.hit_rate import hit_rate
from slrlab.theory.population.minimal import minimal_risk
from slrlab.theory.population.result import PopulationRisk
from slrlab.theory.population.weight_statistics import weight_statistics

Row = dict[str, Any]

_TOKENS, _FEWEST, _MOST = 200_000, 100, 2000  # tokens and sequences of the sample of a hit rate
_LONGEST = 10_000  # length up to which a hit rate is sampled


def rows_of(frame: DataFrame) -> list[Row]:
    """Return the rows of a table."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def setting_row(task: Task, activation: str) -> Row:
    """Return the columns that say what a row is about."""
    length = str(task.length)
    row: Row = {"task": task.name, "signal": task.signal, "length": length, "noise": task.noise}
    return row | {"activation": activation}


def population_row(task: Task, kind: Kind | None) -> Row:
    """Return risk, hit rate and mean scaled weight with infinite data; None: the best predictor.

    The hit rate is nan where it is not known: that of an activation which is not one of the
    paper's is sampled, up to a length of 10,000.
    """
    if kind is None:
        best = bayes_risk(task)
        row = setting_row(task, BAYES_NAME) | {"risk": best.risk, "error": best.error}
        row |= {"weight": best.posterior_weight, "hit_rate": hit_rate(task)}
        return row | {"status": str(best.status)}
    result = minimal_risk(task, kind)
    row = setting_row(task, make_activation(kind).name)
    row |= {"risk": result.risk, "error": result.error, "weight": result.scaled_weight}
    row |= {"hit_rate": _hit_rate(task, kind, result)}
    row |= {"m_k": result.m_k, "m_v": result.m_v, "bias": result.bias}
    return row | {"status": str(result.status)}


def _hit_rate(task: Task, kind: Kind, result: PopulationRisk) -> float:
    """Return the hit rate of an activation at its best keys."""
    if make_activation(kind).name in STANDARD:  # increasing, all of them
        return hit_rate(task)
    if task.length.longest > _LONGEST:
        return math.nan
    samples = min(max(_TOKENS // task.length.longest, _FEWEST), _MOST)
    try:
        return weight_statistics(task, kind, result, samples=samples).hit_rate
    except (ComputationError, ValueError):  # an infinite score
        return math.nan


def trained_row(
    task: Task,
    kind: Kind,
    alpha: float,
    ridges: tuple[float, float] | None = None,
    tolerance: float = 5e-3,
) -> Row:
    """Return the theory of training on ``alpha`` samples per dimension.

    ``ridges`` are those of keys and values; None for the best ones. ``low`` and ``high`` are the
    two forms of the theory, two standard errors further apart. ``trusted`` is `is_trusted`.
    """
    given: Row = {"alpha": alpha, "tolerance": tolerance}
    if ridges is None:
        result = optimal_ridge(task, kind, **given)
    else:
        result = erm_theory(task, kind, ridge_k=ridges[0], ridge_v=ridges[1], **given)
    known = Compared(result, None).to_dict()
    kept = ("alpha", "risk", "error", "ridge_k", "ridge_v", "status")
    row = setting_row(task, make_activation(kind).name) | {name: known[name] for name in kept}
    margin = 2.0 * result.test_risk_error
    row |= {"low": result.test_risk_low - margin, "high": result.test_risk_high + margin}
    row |= {"stable": result.stable}
    row |= {"trusted": is_trusted(row, tolerance)}
    return row | {"hit_rate": hit_rate(task, result) if result.status.usable else math.nan}


def is_trusted(row: Row, tolerance: float) -> bool:
    """Return whether the theory of a training holds, from its row.

    It does not where replica symmetry is unstable (the replicon or the trace gap is too large),
    where the equations are not solved to the tolerance, where the search for the best ridges ends
    at an edge, and where the two forms of the theory differ by more than the tolerance.
    """
    apart = row["high"] - row["low"] - 4.0 * row["error"]  # without the margins
    return bool(row["stable"]) and row["status"] in FINE_STATUSES and apart <= tolerance


def bayes_optimal_row(task: Task, alpha: float) -> Row:
    """Return the least risk with ``alpha`` samples per dimension, and that of message passing."""
    best = bayes_optimal(task, alpha=alpha)
    row = setting_row(task, BAYES_NAME) | {"alpha": alpha, "risk": best.risk_it}
    row |= {"error": best.error, "risk_amp": best.risk_amp, "hard": best.hard}
    return row | {"status": str(best.status), "stable": True}
