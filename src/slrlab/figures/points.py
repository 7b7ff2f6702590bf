"""Rows of the tables of figures: minimal risks, and simulated training."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from slrlab._types import Report
from slrlab.experiments.comparison.training import order_risk
from slrlab.experiments.running.parallel import parallel_map
from slrlab.model.setting import Setting
from slrlab.model.task_registry import make_task
from slrlab.simulation.training.erm import simulate_erm, training_bytes
from slrlab.theory.population.minimal import minimal_risk

ACTIVATIONS = ("softmax", "linear", "erf", "softplus")
"""What the figures of infinite data compare, in the order of their legends."""

_KEPT = ("risk", "bayes_risk", "m_k", "m_v", "bias", "error", "status")
_TRAINED = ("m_k", "m_v", "q_k", "q_v", "train_mse", "iterations")

Row = dict[str, Any]
Simulated = tuple[Setting, int, int, str]
"""Setting, dimensions, seeds and start of a simulated training."""


def sorted_table(rows: Iterable[Row], *columns: str) -> pd.DataFrame:
    """Return rows as a table that is sorted by ``columns``."""
    return pd.DataFrame(rows).sort_values(list(columns), ignore_index=True)


def minimal_risk_row(setting: tuple[str, float, str | int, str]) -> Row:
    """Return the row for ``(task, signal, length, activation)``."""
    name, signal, length, activation = setting
    risk = minimal_risk(make_task(name, signal=signal, length=length), activation).to_dict()
    row = {"task": name, "signal": signal, "length": length, "activation": activation}
    return row | {key: risk[key] for key in _KEPT}


def simulated_rows(
    points: Sequence[Simulated], *, label: str, report: Report | None = None
) -> list[Row]:
    """Return `simulated_row` of each point, with no more processes than memory allows."""
    sizes = [training_bytes(setting.task, dim, setting.alpha) for setting, dim, *_ in points]
    size = max(sizes, default=0)
    return parallel_map(simulated_row, points, label=label, report=report, size=size)


def data_seed(setting: Setting) -> int:
    """Return the first seed of a setting: its own data, so that neighbours err independently."""
    return 100 * (zlib.crc32(repr(setting).encode()) % 1_000_000)


def simulated_row(point: Simulated) -> Row:
    """Return simulated test risk (from the trained order parameters) and overlaps, with errors."""
    setting, dim, seeds, start = point
    trained = simulate_erm(
        **setting.arguments,
        dim=dim,
        seeds=seeds,
        seed=data_seed(setting),
        start=start,
        test_samples=0,
        max_steps=1000,
    )
    risk = order_risk(trained)
    row = {"simulated_risk": risk.value, "simulated_error": risk.error}
    row |= {f"simulated_{name}": getattr(trained, name) for name in _TRAINED}
    return row | {"dim": dim, "seeds": seeds, "simulated_status": str(trained.status)}


def size_dim(size: float, alpha: float) -> int:
    """Return the dimension ``D`` at which ``√(ND)`` is about ``size``."""
    return max(2, round(size / math.sqrt(alpha)))
