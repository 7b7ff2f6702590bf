"""Figure 3: test risk of trained attention against the number of samples per dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from slrlab._types import Axes, Figure, Report
from slrlab.experiments.comparison import learning_curve
from slrlab.experiments.comparison.learning_curve import (
    ACTIVATIONS,
    LENGTH,
    TASKS,
    best_trained,
    curve_task,
)
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.points import Row, simulated_rows, size_dim, sorted_table
from slrlab.figures.registry import About
from slrlab.model.activations import make_activation
from slrlab.model.setting import Setting
from slrlab.theory.bayes_optimal import bayes_optimal, bayes_thresholds

ABOUT = About(
    title="Test risk against samples per dimension, both tasks, length 3, best ridge",
    caption="""
    Test risk of trained attention at its best ridge: theory (lines; a band between its two forms
    where the prox jumps) and training on data (markers; filled where the ridge is the best one of
    training itself), above the Bayes-optimal risk. Softmax lies below linear attention at every
    signal once there are a few samples per dimension. On max-SLR only softmax comes close to the
    Bayes-optimal risk. Training starts at the teachers: with few samples and weak ridges it keeps
    part of their overlap, and may end below the risk that any method reaches from the data.
    """,
    costs={
        "figure 3: theory": 150.0,
        "figure 3: training": 14.0,
        "figure 3: thresholds": 16.0,
        "figure 3: Bayes-optimal": 32.0,
    },
    compiled=True,
)
RANGE = (0.5, 100.0)
ALPHAS = {
    "toy": (4.0, 16.0),
    "quick": learning_curve.ALPHAS,
    "full": tuple(float(f"{alpha:.4g}") for alpha in np.geomspace(*RANGE, 8)),
}
MOST_AT_INFINITY = {"toy": 16.0, "quick": 16.0, "full": 100.0}  # alpha at an infinite signal
BAYES_POINTS = {"toy": 4, "quick": 16, "full": 60}  # a third of them where it is sampled
TOLERANCE = {"toy": 1e-2, "quick": learning_curve.TOLERANCE, "full": 2e-3}
SIZE = {"toy": 60, "quick": 700, "full": 10_000}  # √(ND); the paper has 10⁴
SEEDS = {"toy": 2, "quick": 4, "full": 3}
# the best ridge of training is chosen among these multiples of the theory's best ridge, by smaller
# trainings on other data, so that the choice does not favour the risk that is drawn
KEY_FACTORS = {"toy": (1.0,), "quick": (0.1, 0.3, 1.0, 3.0), "full": (0.03, 0.1, 0.3, 1.0, 3.0)}
VALUE_FACTORS = {"toy": (1.0,), "quick": (0.5, 1.0, 2.0), "full": (0.25, 0.5, 1.0, 2.0, 4.0)}
PILOT_SIZE = {"toy": 40, "quick": 300, "full": 1000}
PILOT_SEEDS = {"toy": 2, "quick": 2, "full": 2}

_LEAST_RIDGE = 1e-3  # replaces a best ridge of 0 before it is multiplied
_PLAIN_RIDGES = (0.3, 0.5)  # ridges to use where the theory has no result


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return theory and simulation of trained attention, and the limits that bound them."""
    tasks = (TASKS[1], TASKS[3]) if profile == "toy" else TASKS
    curves = [
        ((name, signal, activation), _alphas(signal, profile))
        for activation in ACTIVATIONS
        for name, signal in tasks[::-1]  # costly ones first
    ]
    tolerance = TOLERANCE[profile]
    rows = best_trained(curves, tolerance, label="figure 3: theory", report=report)
    settings = _training_settings(rows, profile, report)
    points = [
        (setting, size_dim(SIZE[profile], setting.alpha), SEEDS[profile], "informed")
        for setting in settings
    ]
    trained = simulated_rows(points, label="figure 3: training", report=report)
    for row, setting, simulated in zip(rows, settings, trained, strict=True):
        ridges = {"simulated_ridge_k": setting.ridge_k, "simulated_ridge_v": setting.ridge_v}
        row |= ridges | simulated
    bayes = _bayes_rows(tasks, profile, report)
    return sorted_table(rows + bayes, "task", "signal", "curve", "alpha")


def _alphas(signal: float, profile: str) -> tuple[float, ...]:
    """Return the points of a curve; large alpha costs most where the signal is infinite."""
    largest = RANGE[1] if math.isfinite(signal) else MOST_AT_INFINITY[profile]
    return tuple(alpha for alpha in ALPHAS[profile] if alpha <= largest)


def _trusted(row: Row) -> bool:
    return bool(row["stable"]) and row["status"] in style.FINE_STATUSES


def _training_settings(rows: list[Row], profile: str, report: Report | None) -> list[Setting]:
    """Return the setting at which each row is trained; ``ridge_from`` says whose best ridge it has.

    The best ridge of training replaces that of the theory where the theory is not trusted, and
    everywhere in the full profile, as in the paper.
    """
    settings = [_theory_setting(row) for row in rows]
    grids: dict[int, list[Setting]] = {}
    for index, (row, setting) in enumerate(zip(rows, settings, strict=True)):
        row["ridge_from"] = "theory"
        if profile == "full" or not _trusted(row):
            row["ridge_from"] = "training"
            grids[index] = [
                replace(setting, ridge_k=a * setting.ridge_k, ridge_v=b * setting.ridge_v)
                for a in KEY_FACTORS[profile]
                for b in VALUE_FACTORS[profile]
            ]
    pilots = [
        (setting, size_dim(PILOT_SIZE[profile], setting.alpha), PILOT_SEEDS[profile], "informed")
        for grid in grids.values()
        for setting in grid
    ]
    trained = iter(simulated_rows(pilots, label="figure 3: ridges of training", report=report))
    for index, grid in grids.items():
        risks = [next(trained)["simulated_risk"] for _ in grid]
        if np.isfinite(risks).any():
            settings[index] = grid[int(np.nanargmin(risks))]
    return settings


def _theory_setting(row: Row) -> Setting:
    """Return the setting of a training at the theory's best ridges."""
    least = 0.0 if _trusted(row) else _LEAST_RIDGE
    ridges = [
        max(ridge, least) if math.isfinite(ridge) else plain
        for ridge, plain in zip((row["ridge_k"], row["ridge_v"]), _PLAIN_RIDGES, strict=True)
    ]
    task, activation = curve_task(row["task"], row["signal"]), make_activation(row["curve"])
    return Setting(task, activation, row["alpha"], *ridges)


def _bayes_rows(
    tasks: Sequence[tuple[str, float]], profile: str, report: Report | None
) -> list[Row]:
    """Return the Bayes-optimal risk of each task, and the risk of AMP."""
    jumps = parallel_map(_jumps, tasks, label="figure 3: thresholds", report=report)
    points = []
    for (name, signal), thresholds in zip(tasks, jumps, strict=True):
        count = BAYES_POINTS[profile] // (1 if name == "spiked" else 3)
        # with a point on either side a jump is drawn as a vertical line
        edges = [alpha * f for alpha in thresholds for f in (1 - 1e-6, 1 + 1e-6)]
        dense = np.geomspace(*RANGE, max(count, 2)).tolist()
        points += [(name, signal, alpha) for alpha in sorted({*dense, *edges})]
    return parallel_map(_bayes_row, points[::-1], label="figure 3: Bayes-optimal", report=report)


def _jumps(task: tuple[str, float]) -> tuple[float, ...]:
    thresholds = bayes_thresholds(curve_task(*task))
    return tuple(filter(math.isfinite, (thresholds.alpha_it, thresholds.alpha_alg)))


def _bayes_row(point: tuple[str, float, float]) -> Row:
    name, signal, alpha = point
    best = bayes_optimal(curve_task(name, signal), alpha=alpha)
    row = {"task": name, "signal": signal, "curve": "bayes", "alpha": alpha}
    risks = {"risk": best.risk_it, "risk_amp": best.risk_amp}
    return row | risks | {"error": best.error, "status": str(best.status)}


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw one panel for each task and signal."""
    groups: list[Any] = sorted(
        frame.groupby(["task", "signal"]), key=lambda item: (item[0][0] == "max", item[0][1])
    )
    columns = min(3, len(groups))
    rows = math.ceil(len(groups) / columns)
    figure, axes = style.new_figure(rows, columns, 2.5 * columns, 2.5 * rows + 1.3, sharey=True)
    for panel, ((task, signal), part) in zip(axes.flat, groups, strict=False):
        _draw_bayes(panel, part[part["curve"] == "bayes"])
        for activation in ACTIVATIONS:
            _draw_activation(panel, part[part["curve"] == activation], activation)
        title = f"{task}-SLR, {style.in_symbols(signal=signal, length=LENGTH)}"
        panel.set(title=title, xscale="log", xlabel="samples per dimension $\\alpha$")
        style.x_ticks(panel, 0.5, 1, 4, 16, 100)
    for panel in axes.flat[len(groups) :]:
        panel.set_axis_off()
    for panel in axes[:, 0]:
        panel.set(ylabel="test risk", ylim=(0.0, 1.05))
    style.shared_legend(figure, axes.flat[: len(groups)], ncols=2)
    return figure


def _draw_bayes(panel: Axes, curve: pd.DataFrame) -> None:
    panel.plot(curve["alpha"], curve["risk"], color="black", label="Bayes-optimal")
    amp: dict[str, Any] = {"color": "black", "linestyle": (0, (1, 1.5)), "linewidth": 2.0}
    panel.plot(curve["alpha"], curve["risk_amp"], label="Bayes-optimal, reached by AMP", **amp)


def _draw_activation(panel: Axes, curve: pd.DataFrame, activation: str) -> None:
    """Draw theory, training and the limit of infinite data."""
    mark = style.MARKS[activation]
    color, name = mark.color, mark.label
    line: dict[str, Any] = {"color": color, "linestyle": mark.dashes, "label": f"{name}, theory"}
    panel.plot(curve["alpha"], curve["risk"], **line)
    bounds = (curve["risk_low"], curve["risk_high"])
    panel.fill_between(curve["alpha"], *bounds, color=color, alpha=0.25, linewidth=0)
    style.mark_statuses(panel, curve["alpha"], curve["risk"], curve["status"])
    ridges = (("theory", "the theory's", "white"), ("training", "its own", color))
    for source, whose, face in ridges:
        rows = curve[curve["ridge_from"] == source]
        if not rows.empty:
            label = f"{name}, trained at {whose} best ridge"
            look = {"fmt": mark.marker, "color": color, "label": label}
            style.draw_trained(panel, rows["alpha"], rows, "simulated", face=face, **look)
    limit: dict[str, Any] = {"color": color, "linewidth": 0.9, "linestyle": ":", "alpha": 0.6}
    panel.axhline(curve["population_risk"].iloc[0], label=f"{name}, infinite data", **limit)
