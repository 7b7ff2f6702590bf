"""The capacity test over pairs and seeds, beside the published single runs.

Training is in `slrlab.retrieval.capacity`; this module spreads it over processes and the store,
and compares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from slrlab import _checks
from slrlab._result import Result, Status
from slrlab._types import Axes, DataFrame, Report
from slrlab.experiments.parallel import parallel_map
from slrlab.retrieval.capacity import capacity_floor, query_weights, train_capacity
from slrlab.retrieval.extra import import_torch
from slrlab.retrieval.feature_maps import FeatureMap

KEY_SIZE = 64
PUBLISHED: dict[str, dict[int, tuple[float, int]]] = {
    "softmax": {20: (6e-4, 200), 100: (2e-5, 200), 200: (9e-6, 200), 400: (3e-6, 400)},
    "elu+1": {
        20: (9e-4, 800),
        40: (8e-4, 600),
        60: (0.025, 4200),
        80: (0.110, 3600),
        100: (0.172, 1900),
        120: (0.232, 2800),
        140: (0.272, 2500),
        200: (0.343, 2400),
        300: (0.400, 2600),
    },
    "dpfp-1": {
        60: (4e-4, 200),
        100: (2e-4, 600),
        120: (0.009, 7000),
        140: (0.053, 5000),
        200: (0.175, 2500),
        300: (0.288, 4900),
    },
    "favor-64": {20: (0.130, 2900), 40: (0.298, 2700), 60: (0.493, 2900), 80: (0.500, 2700)},
}
"""Last loss and steps of the published runs, one seed each (logs of Schlag et al. 2021)."""

Point = tuple[str, int, int, int]
"""Feature map, pairs, seed and largest number of steps."""
_KEPT = (
    *("feature_map", "pairs", "key_size", "dimension", "seed", "ended", "steps", "loss"),
    *("best_loss", "mean_loss", "mean_loss_error", "floor", "drift", "seconds"),
)


def capacity_row(point: Point) -> dict[str, Any]:
    """Return the row of one training."""
    name, pairs, seed, max_steps = point
    run = train_capacity(name, pairs, key_size=KEY_SIZE, seed=seed, max_steps=max_steps)
    row = {name: getattr(run, name) for name in _KEPT}
    return row | {"max_steps": max_steps, "status": str(run.status)}
