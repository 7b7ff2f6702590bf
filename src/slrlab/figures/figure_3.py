"""Figure 3: test risk of trained attention against the number of samples per dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab._types import Report
from slrlab.experiments.learning_curve import (
    ACTIVATIONS,
    ALPHAS,
    LENGTH,
    TASKS,
    best_trained,
    curve_task,
)
from slrlab.experiments.learning_curve import TOLERANCE as SHARED_TOLERANCE
from slrlab.experiments.parallel import parallel_map
from slrlab.figures.points import simulated_rows
from slrlab.figures.registry import About
from slrlab.figures.style import FINE_STATUSES, MARKS, house_style, mark_statuses, shared_legend
from slrlab.model.activations import make_activation
from slrlab.model.setting import Setting
from slrlab.theory.bayes_optimal import bayes_optimal, bayes_thresholds

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABOUT = About(
    title="Test risk against samples per dimension, both tasks, length 3, best ridge",
    caption="""
    Test risk of trained attention at its best ridge: theory (lines; a band between its two forms
    where the prox jumps) and training on data (markers; filled where training has a best ridge of
    its own), above the Bayes-optimal risk. Softmax lies below linear attention at every signal once
    there are a few samples per dimension, and only softmax nears Bayes on max-SLR.
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
SAMPLES = {
    "toy": (4.0, 16.0),
    "quick": ALPHAS,
    "full": tuple(float(f"{alpha:.4g}") for alpha in np.geomspace(*RANGE, 8)),
}
MOST_AT_INFINITY = {"toy": 16.0, "quick": 16.0, "full": 100.0}  # alpha at an infinite signal
BAYES_POINTS = {"toy": 4, "quick": 16, "full": 60}  # a third of them where it is sampled
TOLERANCE = {"toy": 1e-2, "quick": SHARED_TOLERANCE, "full": 2e-3}
SIZE = {"toy": 60, "quick": 700, "full": 10_000}  # √(ND); the paper has 10⁴
SEEDS = {"toy": 2, "quick": 4, "full": 3}
# ridges that training chooses from, in units of the theory's best; by trainings of a smaller size,
# on data of their own, so that the choice does not favour the risk that is shown
KEY_FACTORS = {"toy": (1.0,), "quick": (0.1, 0.3, 1.0, 3.0), "full": (0.03, 0.1, 0.3, 1.0, 3.0)}
VALUE_FACTORS = {"toy": (1.0,), "quick": (0.5, 1.0, 2.0), "full": (0.25, 0.5, 1.0, 2.0, 4.0)}
PILOT_SIZE = {"toy": 40, "quick": 300, "full": 1000}
PILOT_SEEDS = {"toy": 2, "quick": 2, "full": 2}

_LEAST_RIDGE = 1e-3  # from which a theory's ridge of 0 is varied
_PLAIN_RIDGES = (0.3, 0.5)  # where no theory was found


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return theory and simulation of trained attention, and the limits that bound them."""
    import pandas as pd

    tasks = (TASKS[1], TASKS[3]) if profile == "toy" else TASKS
    # the costly curves first
    curves = [
        ((name, signal, activation), _alphas(signal, profile))
        for activation in ACTIVATIONS
        for name, signal in tasks[::-1]
    ]
    tolerance = TOLERANCE[profile]
    trained = best_trained(curves, tolerance, label="figure 3: theory", report=report)
    points = _own_ridges(trained, profile, report)
    sized = [(point, _dim(SIZE[profile], point.alpha), SEEDS[profile]) for point in points]
    found = simulated_rows(
        [(*point, "informed") for point in sized], label="figure 3: training", report=report
    )
    for row, point, simulated in zip(trained, points, found, strict=True):
        own = {"simulated_ridge_k": point.ridge_k, "simulated_ridge_v": point.ridge_v}
        row |= own | simulated
    best = _bayes_rows(tasks, profile, report)
    by = ["task", "signal", "curve", "alpha"]
    return pd.DataFrame(trained + best).sort_values(by, ignore_index=True)


def _alphas(signal: float, profile: str) -> tuple[float, ...]:
    """Return the points of a curve; those of an infinite signal and many samples cost most."""
    most = RANGE[1] if math.isfinite(signal) else MOST_AT_INFINITY[profile]
    return tuple(alpha for alpha in SAMPLES[profile] if alpha <= most)


def _dim(size: int, alpha: float) -> int:
    """Return ``D`` for ``√(ND)``."""
    return max(2, round(size / math.sqrt(alpha)))


def _trusted(row: dict[str, Any]) -> bool:
    return bool(row["stable"]) and row["status"] in FINE_STATUSES


def _own_ridges(rows: list[dict[str, Any]], profile: str, report: Report | None) -> list[Setting]:
    """Return where each row is trained, and say in the row whose best ridge it is.

    Training has its own where the theory is not to be trusted; in the full profile everywhere, as
    in the paper.
    """
    points = [_setting(row) for row in rows]
    grids: dict[int, list[Setting]] = {}
    for index, row in enumerate(rows):
        row["ridge_from"] = "theory"
        if profile == "full" or not _trusted(row):
            row["ridge_from"] = "training"
            grids[index] = [
                replace(
                    points[index],
                    ridge_k=a * points[index].ridge_k,
                    ridge_v=b * points[index].ridge_v,
                )
                for a in KEY_FACTORS[profile]
                for b in VALUE_FACTORS[profile]
            ]
    pilots = [
        (point, _dim(PILOT_SIZE[profile], point.alpha), PILOT_SEEDS[profile], "informed")
        for grid in grids.values()
        for point in grid
    ]
    found = iter(simulated_rows(pilots, label="figure 3: ridges of training", report=report))
    for index, grid in grids.items():
        risks = [next(found)["simulated_risk"] for _ in grid]
        if np.isfinite(risks).any():
            points[index] = grid[int(np.nanargmin(risks))]
    return points


def _setting(row: dict[str, Any]) -> Setting:
    """Return the training at the theory's best ridges."""
    found = (row["ridge_k"], row["ridge_v"])
    ridges = [
        max(ridge, _LEAST_RIDGE if not _trusted(row) else 0.0) if math.isfinite(ridge) else plain
        for ridge, plain in zip(found, _PLAIN_RIDGES, strict=True)
    ]
    task, activation = curve_task(row["task"], row["signal"]), make_activation(row["curve"])
    return Setting(task, activation, row["alpha"], *ridges)


def _bayes_rows(
    tasks: Sequence[tuple[str, float]], profile: str, report: Report | None
) -> list[dict[str, Any]]:
    """Return the limit that no algorithm passes."""
    jumps = parallel_map(_jumps, tasks, label="figure 3: thresholds", report=report)
    limits = []
    for (name, signal), ends in zip(tasks, jumps, strict=True):
        count = BAYES_POINTS[profile] // (1 if name == "spiked" else 3)
        # a point on either side draws a jump upright
        edges = [alpha * f for alpha in ends for f in (1 - 1e-6, 1 + 1e-6)]
        dense = np.geomspace(*RANGE, max(count, 2)).tolist()
        limits += [(name, signal, alpha) for alpha in sorted({*dense, *edges})]
    return parallel_map(_bayes_row, limits[::-1], label="figure 3: Bayes-optimal", report=report)


def _jumps(task: tuple[str, float]) -> tuple[float, ...]:
    found = bayes_thresholds(curve_task(*task))
    return tuple(filter(math.isfinite, (found.alpha_it, found.alpha_alg)))


def _bayes_row(setting: tuple[str, float, float]) -> dict[str, Any]:
    name, signal, alpha = setting
    found = bayes_optimal(curve_task(name, signal), alpha=alpha)
    return {
        "task": name,
        "signal": signal,
        "curve": "bayes",
        "alpha": alpha,
        "risk": found.risk_it,
        "risk_amp": found.risk_amp,
        "error": found.error,
        "status": str(found.status),
    }


def draw(frame: pd.DataFrame) -> Figure:
    """Draw one panel for each task and signal."""
    import matplotlib.pyplot as plt

    groups: list[Any] = sorted(
        frame.groupby(["task", "signal"]), key=lambda item: (item[0][0] == "max", item[0][1])
    )
    columns = min(3, len(groups))
    lines = math.ceil(len(groups) / columns)
    with house_style():
        figure, axes = plt.subplots(
            lines,
            columns,
            figsize=(2.5 * columns, 2.5 * lines + 1.3),
            sharey=True,
            layout="constrained",
            squeeze=False,
        )
        for panel, ((task, signal), part) in zip(axes.flat, groups, strict=False):
            _panel(panel, part)
            shown = "\\infty" if signal == math.inf else f"{signal:g}"
            panel.set(title=f"{task}-SLR, $\\nu={shown}$, $L={LENGTH}$", xscale="log")
            panel.set_xticks([0.5, 1, 4, 16, 100], ["0.5", "1", "4", "16", "100"])
            panel.minorticks_off()
            panel.set_xlabel("samples per dimension $\\alpha$")
        for panel in axes.flat[len(groups) :]:
            panel.set_axis_off()
        for panel in axes[:, 0]:
            panel.set(ylabel="test risk", ylim=(0.0, 1.05))
        shared_legend(figure, axes.flat[: len(groups)], ncols=2)
        return figure


def _panel(panel: Axes, part: pd.DataFrame) -> None:
    bayes = part[part["curve"] == "bayes"]
    panel.plot(bayes["alpha"], bayes["risk"], color="black", label="Bayes-optimal")
    amp: dict[str, Any] = {"color": "black", "linestyle": (0, (1, 1.5)), "linewidth": 2.0}
    panel.plot(bayes["alpha"], bayes["risk_amp"], label="Bayes-optimal, reached by AMP", **amp)
    for activation in ACTIVATIONS:
        _curve(panel, part[part["curve"] == activation], activation)


def _curve(panel: Axes, curve: pd.DataFrame, activation: str) -> None:
    """Draw theory, training and limit of one activation."""
    mark = MARKS[activation]
    color = mark.color
    label = f"{mark.label}, theory"
    panel.plot(curve["alpha"], curve["risk"], color=color, linestyle=mark.dashes, label=label)
    bounds = (curve["risk_low"], curve["risk_high"])
    panel.fill_between(curve["alpha"], *bounds, color=color, alpha=0.25, linewidth=0)
    mark_statuses(panel, curve["alpha"], curve["risk"], curve["status"])
    for whose, face in (("theory", "white"), ("training", color)):
        rows = curve[curve["ridge_from"] == whose]
        if rows.empty:
            continue
        own = "its own" if whose == "training" else "the theory's"
        panel.errorbar(
            rows["alpha"],
            rows["simulated_risk"],
            yerr=rows["simulated_error"],
            fmt=mark.marker,
            color=color,
            markerfacecolor=face,
            capsize=2,
            label=f"{mark.label}, trained at {own} best ridge",
        )
        mark_statuses(panel, rows["alpha"], rows["simulated_risk"], rows["simulated_status"])
    panel.axhline(
        curve["population_risk"].iloc[0],
        color=color,
        linewidth=0.9,
        alpha=0.6,
        linestyle=":",
        label=f"{mark.label}, infinite data",
    )
