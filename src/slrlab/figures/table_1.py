"""Table 1: rates and closed forms of the population theory, predicted and measured.

Rates are fitted to computed risks with all constants free. Closed forms are compared with the
quadrature, which does not use them, and with vectors in D dimensions on drawn tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from slrlab._types import Report
from slrlab.experiments.rates import LAWS, LENGTHS, rate_fits
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures.points import Row
from slrlab.figures.registry import About
from slrlab.model.activations import make_activation
from slrlab.model.lengths import LengthLaw
from slrlab.model.order_parameters import OrderParameters
from slrlab.model.tasks import MaxSLR, SpikedSLR, Task
from slrlab.simulation.data.monte_carlo import finite_dimension_risk
from slrlab.theory.moments.selected import selected_score_mean
from slrlab.theory.population.bayes_risk import bayes_risk
from slrlab.theory.population.closed_forms import best_elementwise_risk, linear_keys, linear_risk
from slrlab.theory.population.minimal import PopulationRisk, minimal_risk

ABOUT = About(
    title="Rates and closed forms, predicted and measured",
    costs={"rates": 2.0, "table 1: drawn tokens": 5.0},
)
SIGNAL = 4.0
LONG = (10**3, 10**4, 10**5, 10**6)
DIM = 400
SAMPLES = {"toy": 20_000, "quick": 40_000, "full": 2_000_000}
_QUADRATURE, _FIT, _DRAWN = "quadrature", "fit", f"drawn, D={DIM}"


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each constant: what is predicted, what was measured and how."""
    rows = [*_rates(report), *_long_sequences(), *_linear(), *_best()]
    items = [(task, SAMPLES[profile]) for task in _tasks()]
    rows += parallel_map(_drawn, items, label="table 1: drawn tokens", report=report)
    return pd.DataFrame(rows)


def _row(
    task: str,
    activation: str,
    length: object,
    quantity: str,
    values: tuple[float, float],
    how: str,
    error: float = math.nan,
) -> Row:
    predicted, measured = values
    row: Row = {"task": task, "activation": activation, "length": str(length)}
    row |= {"quantity": quantity, "predicted": predicted, "measured": measured}
    return row | {"deviation": measured - predicted, "error": error, "how": how}


def _rates(report: Report | None) -> Iterator[Row]:
    for fit in rate_fits(report):
        sides = (fit.predicted, fit.fitted)
        yield _row("spiked", fit.activation, fit.length, fit.quantity, sides, _FIT)


def _long_sequences() -> Iterator[Row]:
    """Max-SLR at infinite signal: the gain of linear attention vanishes as L grows."""
    tasks = [MaxSLR(math.inf, LengthLaw.of(length)) for length in LONG]
    gains = [1.0 - minimal_risk(task, "linear").risk for task in tasks]
    means = [1.0 + selected_score_mean(task) ** 2 for task in tasks]
    slope = -np.polyfit(np.log(LONG), np.log(np.divide(gains, means)), 1)[0]
    lengths = f"{LONG[0]} to {LONG[-1]}"
    quantity = "power p of 1/L in (1 − E)/(1 + μ²), signal inf"
    yield _row("max", "linear", lengths, quantity, (1.0, float(slope)), _FIT)
    softmax = minimal_risk(tasks[-1], "softmax")
    sides, quantity = (0.0, softmax.risk), "risk, signal inf"
    yield _row("max", "softmax", LONG[-1], quantity, sides, _QUADRATURE, softmax.error)


def _tasks() -> list[Task]:
    return [kind(SIGNAL, LengthLaw.of(law)) for kind in (SpikedSLR, MaxSLR) for law in LAWS]


def _linear() -> Iterator[Row]:
    for task in _tasks():
        minimum = minimal_risk(task, "linear")
        yield _exact(task, "linear", "risk", linear_risk(task), minimum)
        yield _exact(task, "linear", "best m_k", linear_keys(task), minimum)


def _best() -> Iterator[Row]:
    for task in _tasks():
        minimum, scale = minimal_risk(task, "softmax"), task.posterior_scale or math.nan
        yield _exact(task, "softmax", "risk: Bayes", bayes_risk(task).risk, minimum)
        yield _exact(task, "softmax", "best m_k: c_ν", scale, minimum)
    logistic = make_activation("elementwise: sigmoid(x)", bias="optimal")
    for length in LENGTHS:
        spiked = SpikedSLR(SIGNAL, LengthLaw.of(length))
        bound, minimum = best_elementwise_risk(spiked), minimal_risk(spiked, logistic)
        yield _exact(spiked, "best elementwise", "risk", bound, minimum)


def _exact(
    task: Task, activation: str, quantity: str, predicted: float, minimum: PopulationRisk
) -> Row:
    """Return a closed form and the quadrature, of the risk or else of the best ``m_k``."""
    risk = quantity.startswith("risk")
    measured, error = (minimum.risk, minimum.error) if risk else (minimum.m_k, math.nan)
    sides, name = (predicted, measured), f"{quantity}, signal {SIGNAL:g}"
    return _row(task.name, activation, task.length, name, sides, _QUADRATURE, error)


def _drawn(item: tuple[Task, int]) -> Row:
    """Measure on drawn tokens the risk for which secondary sources give other formulas."""
    task, samples = item
    best = minimal_risk(task, "linear")
    order = OrderParameters(best.m_k, best.m_v)
    size = {"dim": DIM, "samples": samples, "teachers": 40, "seed": 1}
    risk = finite_dimension_risk(task, "linear", order, **size)
    sides, quantity = (linear_risk(task), risk.value), f"risk, signal {SIGNAL:g}"
    return _row(task.name, "linear", task.length, quantity, sides, _DRAWN, risk.error)
