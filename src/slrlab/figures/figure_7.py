"""Figure 7: does training find the predicted minimum? Informed and random starts, other lengths."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab._types import Report
from slrlab.experiments.parallel import parallel_map
from slrlab.figures.points import simulated_rows
from slrlab.figures.registry import About
from slrlab.figures.style import MARKS, house_style, mark_statuses, shared_legend
from slrlab.model.activations import make_activation
from slrlab.model.setting import Setting
from slrlab.model.tasks import SpikedSLR
from slrlab.simulation.training.erm import STARTS
from slrlab.theory.erm import optimal_ridge

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABOUT = About(
    title="Informed against random start, spiked-SLR, signal 2, lengths 2 and 5, best ridge",
    caption="""
    Test risk at the best ridge against samples per dimension: theory (lines), and training from the
    teachers (filled markers) and from small random vectors (open), side by side around the same
    number of samples. At the best ridge the two starts end close to each other and to the theory.
    """,
    costs={"figure 7: theory": 35.0, "figure 7: training": 8.0},
    compiled=True,
)
SIGNAL, LENGTHS, RANGE = 2.0, (2, 5), (1.0, 16.0)
ACTIVATIONS = ("softmax", "linear")
POINTS = {"toy": 2, "quick": 3, "full": 5}
TOLERANCE = {"toy": 1e-2, "quick": 5e-3, "full": 2e-3}
SIZE = {"toy": 60, "quick": 700, "full": 10_000}  # √(ND)
SEEDS = {"toy": 2, "quick": 4, "full": 3}


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return theory at the best ridge, and training at the same ridge from both starts."""
    import pandas as pd

    alphas = tuple(np.geomspace(*RANGE, POINTS[profile]).tolist())
    curves = [
        (activation, length, alphas, TOLERANCE[profile])
        for activation in ACTIVATIONS
        for length in (LENGTHS[:1] if profile == "toy" else LENGTHS)
    ]
    theory = parallel_map(_theory, curves, label="figure 7: theory", report=report)
    rows = [row | {"start": start} for curve in theory for row in curve for start in STARTS]
    points = [
        (
            _setting(row),
            max(2, round(SIZE[profile] / math.sqrt(row["alpha"]))),
            SEEDS[profile],
            row["start"],
        )
        for row in rows
    ]
    found = simulated_rows(points, label="figure 7: training", report=report)
    merged = [row | simulated for row, simulated in zip(rows, found, strict=True)]
    return pd.DataFrame(merged).sort_values(
        ["length", "activation", "start", "alpha"], ignore_index=True
    )


def _setting(row: dict[str, Any]) -> Setting:
    task, activation = SpikedSLR(SIGNAL, row["length"]), make_activation(row["activation"])
    return Setting(task, activation, row["alpha"], row["ridge_k"], row["ridge_v"])


def _theory(curve: tuple[str, int, tuple[float, ...], float]) -> list[dict[str, Any]]:
    """Return the rows of one curve, from many samples to few, each continued from the last."""
    activation, length, alphas, tolerance = curve
    task = SpikedSLR(SIGNAL, length)
    rows, near = [], None
    for alpha in sorted(alphas, reverse=True):
        near = optimal_ridge(task, activation, alpha=alpha, tolerance=tolerance, start=near)
        row = {"activation": activation, "length": length, "alpha": alpha}
        row |= {"risk": near.test_risk, "error": near.test_risk_error, "status": str(near.status)}
        row |= {"risk_low": near.test_risk_low, "risk_high": near.test_risk_high}
        rows.append(row | near.setting.training | {"branch": near.branch})
    return rows


def draw(frame: pd.DataFrame) -> Figure:
    """Draw one panel for each length: theory as lines, the two starts as two kinds of markers."""
    import matplotlib.pyplot as plt

    lengths = sorted(frame["length"].unique())
    with house_style():
        figure, axes = plt.subplots(
            1, len(lengths), figsize=(3.8 * len(lengths), 4.3), sharey=True, layout="constrained"
        )
        for panel, length in zip(np.atleast_1d(axes), lengths, strict=True):
            _panel(panel, frame[frame["length"] == length])
            panel.set(title=f"spiked-SLR, $\\nu={SIGNAL:g}$, $L={length}$", xscale="log")
            panel.set_xlabel("samples per dimension $\\alpha = N/D$")
            panel.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
            panel.minorticks_off()
        np.atleast_1d(axes)[0].set_ylabel("test risk")
        shared_legend(figure, np.atleast_1d(axes), ncols=2)
        return figure


def _panel(panel: Axes, part: pd.DataFrame) -> None:
    # starts and activations stand side by side, else one would hide the other where they agree
    shifts = {"softmax": (0.86, 0.95), "linear": (1.06, 1.17)}
    for activation in ACTIVATIONS:
        mark = MARKS[activation]
        curve = part[part["activation"] == activation]
        line = curve[curve["start"] == STARTS[0]]
        label = f"{mark.label}, theory"
        panel.plot(line["alpha"], line["risk"], color=mark.color, ls=mark.dashes, label=label)
        mark_statuses(panel, line["alpha"], line["risk"], line["status"])
        for start, shift in zip(STARTS, shifts[activation], strict=True):
            rows = curve[curve["start"] == start]
            panel.errorbar(
                shift * rows["alpha"],
                rows["simulated_risk"],
                yerr=rows["simulated_error"],
                fmt=mark.marker,
                color=mark.color,
                markersize=5,
                markerfacecolor=mark.color if start == "informed" else "white",
                capsize=2,
                label=f"{mark.label}, {start} start",
            )
            where = (shift * rows["alpha"], rows["simulated_risk"], rows["simulated_status"])
            mark_statuses(panel, *where)
