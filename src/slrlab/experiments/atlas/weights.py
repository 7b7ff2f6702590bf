"""What the weights of every activation do: one row each, at its best keys."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from slrlab._errors import ComputationError
from slrlab._types import Report
from slrlab.experiments.atlas.activations import Kind, portable
from slrlab.experiments.running.parallel import parallel_map
from slrlab.model.activations import ACTIVATIONS, make_activation
from slrlab.model.order_parameters import OrderParameters
from slrlab.model.tasks import SpikedSLR, Task
from slrlab.theory.population.minimal import PopulationRisk, minimal_risk
from slrlab.theory.population.weight_statistics import weight_statistics

NUMBERS = (
    "hit_rate",
    "mean_weight",
    "total",
    "entropy",
    "distance",
    "scaled_distance",
    "miscalibration",
)
TRAINED = ("hit_rate", "mean_weight", "entropy", "miscalibration")
"""Columns of `trained_weights`."""
_TASK = SpikedSLR(9.0, 10)
_SAMPLES = 65536  # sequences behind what trained weights do: three digits


def atlas_weights(
    activations: Sequence[Kind] | None = None,
    *,
    task: Task = _TASK,
    workers: int | None = None,
    report: Report | None = None,
) -> pd.DataFrame:
    """Return one row for each activation: risk and what its weights do at the best keys.

    The columns are those of `slrlab.WeightStatistics`, each sampled number followed by its error.

    The arguments are those of `slrlab.experiments.atlas.panel.atlas`, with one task in place of a
    panel.
    """
    kinds = list(ACTIVATIONS) if activations is None else list(activations)
    items = [(task, portable(kind, workers)) for kind in kinds]
    rows = parallel_map(weights_row, items, label="weights", report=report, workers=workers)
    return pd.DataFrame(rows)


def weights_row(item: tuple[Task, Kind]) -> dict[str, Any]:
    """Return the row of one task and activation."""
    task, activation = item[0], make_activation(item[1])
    best = minimal_risk(task, activation)
    statistics = weight_statistics(task, activation, best)
    row: dict[str, Any] = {"activation": activation.name, "family": activation.family}
    row |= {"risk": best.risk, "excess": best.excess, "m_k": best.m_k, "bias": best.bias}
    for name in NUMBERS:
        row |= {name: getattr(statistics, name), f"{name}_error": statistics.errors[name]}
    return row | {"scale": statistics.scale, "status": str(statistics.status)}


def trained_weights(
    task: Task, kind: Kind, order: Mapping[str, float] | PopulationRisk
) -> dict[str, float]:
    """Return what the weights do at given keys: ``m_k``, ``q_k`` and ``bias`` of a row.

    With infinite data the keys are those of `slrlab.minimal_risk`. Numbers that cannot be computed
    are nan.
    """
    activation = make_activation(kind)
    given: OrderParameters | PopulationRisk
    if isinstance(order, PopulationRisk):
        given = order
    else:
        m_k, q_k = order["m_k"], order["q_k"]
        given = OrderParameters(m_k, order["m_v"], R_k=max(0.0, q_k - m_k**2))
        if activation.bias is None:
            activation = activation.with_bias(order["bias"])
    try:
        statistics = weight_statistics(task, activation, given, samples=_SAMPLES)
    except (ComputationError, ValueError):
        return dict.fromkeys(TRAINED, math.nan)
    return {name: getattr(statistics, name) for name in TRAINED}
