"""What the weights of every activation do: one row each, at its best keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from slrlab._types import Report
from slrlab.experiments.activations import Kind, portable
from slrlab.experiments.parallel import parallel_map
from slrlab.model.activations import ACTIVATIONS, make_activation
from slrlab.model.tasks import SpikedSLR, Task
from slrlab.theory.population.minimal import minimal_risk
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
_TASK = SpikedSLR(9.0, 10)


def atlas_weights(
    activations: Sequence[Kind] | None = None,
    *,
    task: Task = _TASK,
    workers: int | None = None,
    report: Report | None = None,
) -> pd.DataFrame:
    """Return one row for each activation: risk and what its weights do at the best keys.

    The columns are those of `slrlab.WeightStatistics`, each sampled number followed by its error.

    The arguments are those of `slrlab.experiments.atlas.atlas`, with one task in place of a panel.
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
