"""Tables that are computed beforehand and come with the package, and the rows in them.

A row is that of `slrlab.experiments.requirements.rows` at noise 0, for the activations of the
paper. It saves a view of the explorer the seconds that a risk may take. ``make tables`` computes
all of them again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from slrlab._types import Report
from slrlab.experiments.atlas.activations import STANDARD, Kind
from slrlab.experiments.atlas.panel import atlas
from slrlab.experiments.requirements.demands import BAYES_NAME
from slrlab.experiments.requirements.rows import (
    Row,
    bayes_optimal_row,
    population_row,
    rows_of,
    trained_row,
)
from slrlab.experiments.running.parallel import parallel_map
from slrlab.model.activations import make_activation
from slrlab.model.task_registry import make_task
from slrlab.model.tasks import Task
from slrlab.theory.bayes_optimal import bayes_thresholds

_TENTHS = (1.0, 1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.4, 8.0)  # ten steps to a factor of ten
_DECADES = (0.1, 1.0, 10.0)
_ALL = (*(float(f"{x * ten:.3g}") for ten in _DECADES for x in _TENTHS), 100.0)
SIGNALS: dict[str, tuple[float, ...]] = {
    "spiked": _ALL,
    "max": tuple(signal for signal in _ALL if signal <= 10.0),
}
LENGTHS = (
    *(2, 3, 4, 5, 7, 10, 14, 20, 30, 50, 70, 100, 200, 300, 500),
    *(1000, 2000, 5000, 10_000, 100_000, 1_000_000),
)
"""Signals of each task, and lengths, of the table of infinite data."""

TRAINED_TASK, TRAINED_LENGTH = "spiked", 3
TRAINED_SIGNALS = (1.0, 2.0, 4.0, 8.0, 16.0)
ALPHAS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
TOLERANCE = 5e-3
"""Settings of the table of trained attention, at the best ridges; at length 10 it takes hours."""

_FINE = tuple(float(f"{2.0**power:.4g}") for power in (x / 4.0 for x in range(-4, 29)))
_DIGITS = 9
_NUMBERS = ("signal", "alpha")
_FOLDER = Path(__file__).parent


def bayes_alphas(task: Task) -> list[float]:
    """Return where the Bayes-optimal risk is computed; on either side of a jump, so that it shows.

    Beside a grid these are the thresholds of the task, which bound its hard phase.
    """
    thresholds = bayes_thresholds(task)
    jumps = {thresholds.alpha_it, thresholds.alpha_alg}
    edges = [jump * side for jump in jumps if math.isfinite(jump) for side in (1 - 1e-6, 1 + 1e-6)]
    return sorted({*_FINE, *edges})


@cache
def table(name: str) -> pd.DataFrame:
    """Return a stored table: ``population``, ``trained``, ``bayes`` or ``atlas``.

    ``retrieval``, ``retrieval-heads`` and ``retrieval-pilots`` are a full run of ``slrlab
    retrieval``, which takes an hour and more, and ``capacity`` has the numbers of a publication:
    `write_tables` leaves them as they are.
    """
    rows = pd.read_csv(_FOLDER / f"{name}.csv", dtype={"length": str})
    # rows are found by these numbers: every bit counts, and some readers miss the last one
    exact = {key: [float(f"{x:.{_DIGITS}g}") for x in rows[key]] for key in _NUMBERS if key in rows}
    return rows.assign(**exact)


@cache
def _rows(name: str, keys: tuple[str, ...]) -> dict[tuple[Any, ...], Row]:
    """Return the rows of a table by the columns that identify them."""
    return {tuple(row[key] for key in keys): row for row in rows_of(table(name))}


def stored_population_row(task: Task, kind: Kind | None) -> Row | None:
    """Return `population_row` from the table, None if it is not there.

    With infinite data label noise adds its variance to a risk and changes nothing else.
    """
    name = BAYES_NAME if kind is None else make_activation(kind).name
    keys = ("task", "signal", "length", "activation")
    row = _rows("population", keys).get((task.name, task.signal, str(task.length), name))
    if row is None:
        return None
    return row | {"noise": task.noise, "risk": row["risk"] + task.noise**2}


def stored_population(name: str, noise: float = 0.0) -> pd.DataFrame:
    """Return the whole table of a task with infinite data, at a given noise."""
    rows = table("population")
    rows = rows[rows["task"] == name]
    return rows.assign(noise=noise, risk=rows["risk"] + noise**2)


def stored_trained_row(task: Task, kind: Kind | None, alpha: float) -> Row | None:
    """Return `trained_row` at the best ridges, or `bayes_optimal_row`, from the table."""
    if task.noise:
        return None
    name = BAYES_NAME if kind is None else make_activation(kind).name
    keys = ("task", "signal", "length", "activation", "alpha")
    at = (task.name, task.signal, str(task.length), name, alpha)
    return _rows("bayes" if kind is None else "trained", keys).get(at)


def stored_bayes_alphas(task: Task) -> list[float]:
    """Return the ``alpha`` of the stored Bayes-optimal risks of a task; none if there are none."""
    if task.noise:
        return []
    rows = table("bayes")
    same = (rows["task"] == task.name) & (rows["signal"] == task.signal)
    return rows.loc[same & (rows["length"] == str(task.length)), "alpha"].tolist()


def write_tables(
    folder: Path = _FOLDER, names: Iterable[str] | None = None, report: Report | None = None
) -> list[Path]:
    """Compute tables, all of them or some, and write them; all take half an hour on two cores."""
    makers: dict[str, Callable[[Report | None], pd.DataFrame]] = {
        "population": _population,
        "bayes": _bayes,
        "atlas": lambda tell: atlas(report=tell).drop(columns="note"),
        "trained": _trained,
    }
    paths = []
    for name in makers if names is None else names:
        paths.append(folder / f"{name}.csv")
        made = makers[name](report)
        made.to_csv(paths[-1], index=False, float_format=f"%.{_DIGITS}g")
    return paths


def _population(report: Report | None) -> pd.DataFrame:
    points = [
        (make_task(name, signal=signal, length=length), kind)
        for name, signals in SIGNALS.items()
        for signal, length in itertools.product(signals, LENGTHS)
        for kind in (None, *STANDARD)
    ]
    return _computed(_population_point, points, "stored population", report)


def _bayes(report: Report | None) -> pd.DataFrame:
    points = [(task, alpha) for task in _trained_tasks() for alpha in bayes_alphas(task)]
    return _computed(_bayes_point, points, "stored Bayes-optimal", report)


def _trained(report: Report | None) -> pd.DataFrame:
    points = list(itertools.product(_trained_tasks(), STANDARD, ALPHAS))
    return _computed(_trained_point, points, "stored trained", report)


def _trained_tasks() -> list[Task]:
    return [
        make_task(TRAINED_TASK, signal=signal, length=TRAINED_LENGTH) for signal in TRAINED_SIGNALS
    ]


def _computed(
    function: Callable[[Any], Row], points: Iterable[Any], label: str, report: Report | None
) -> pd.DataFrame:
    return pd.DataFrame(parallel_map(function, list(points), label=label, report=report))


def _population_point(point: tuple[Task, str | None]) -> Row:
    return population_row(*point)


def _bayes_point(point: tuple[Task, float]) -> Row:
    return bayes_optimal_row(*point)


def _trained_point(point: tuple[Task, str, float]) -> Row:
    task, kind, alpha = point
    return trained_row(task, kind, alpha, tolerance=TOLERANCE)
