"""Figure 7: does training find the predicted minimum? Informed and random starts, other lengths."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from slrlab._types import Axes, Figure, Report
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.points import Row, simulated_rows, size_dim, sorted_table
from slrlab.figures.registry import About
from slrlab.model.activations import make_activation
from slrlab.model.setting import Setting
from slrlab.model.tasks import SpikedSLR
from slrlab.simulation.training.erm import STARTS
from slrlab.theory.erm import optimal_ridge

ABOUT = About(
    title="Informed against random start, spiked-SLR, signal 2, lengths 2 and 5, best ridge",
    caption="""
    Test risk at the best ridge against samples per dimension: theory (lines), and training from the
    teachers (filled markers) and from small random vectors (open markers). Markers of one alpha
    stand side by side. At the best ridge both starts end close to each other and to the theory.
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
    alphas = tuple(np.geomspace(*RANGE, POINTS[profile]).tolist())
    curves = [
        (activation, length, alphas, TOLERANCE[profile])
        for activation in ACTIVATIONS
        for length in (LENGTHS[:1] if profile == "toy" else LENGTHS)
    ]
    theory = parallel_map(_theory, curves, label="figure 7: theory", report=report)
    rows = [row | {"start": start} for row in chain.from_iterable(theory) for start in STARTS]
    size, seeds = SIZE[profile], SEEDS[profile]
    points = [(_setting(row), size_dim(size, row["alpha"]), seeds, row["start"]) for row in rows]
    trained = simulated_rows(points, label="figure 7: training", report=report)
    merged = (row | simulated for row, simulated in zip(rows, trained, strict=True))
    return sorted_table(merged, "length", "activation", "start", "alpha")


def _setting(row: Row) -> Setting:
    task, activation = SpikedSLR(SIGNAL, row["length"]), make_activation(row["activation"])
    return Setting(task, activation, row["alpha"], row["ridge_k"], row["ridge_v"])


def _theory(curve: tuple[str, int, tuple[float, ...], float]) -> list[Row]:
    """Return the rows of one curve, from large to small alpha, each continued from the last."""
    activation, length, alphas, tolerance = curve
    task = SpikedSLR(SIGNAL, length)
    rows, best = [], None
    for alpha in sorted(alphas, reverse=True):
        best = optimal_ridge(task, activation, alpha=alpha, tolerance=tolerance, start=best)
        row = {"activation": activation, "length": length, "alpha": alpha}
        row |= {"risk": best.test_risk, "error": best.test_risk_error, "status": str(best.status)}
        row |= {"risk_low": best.test_risk_low, "risk_high": best.test_risk_high}
        rows.append(row | best.setting.training | {"branch": best.branch})
    return rows


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw one panel for each length: theory as lines, the two starts as two kinds of markers."""
    lengths = sorted(frame["length"].unique())
    figure, (axes,) = style.new_figure(1, len(lengths), 3.8 * len(lengths), 4.3, sharey=True)
    for panel, length in zip(axes, lengths, strict=True):
        _draw_length(panel, frame[frame["length"] == length])
        title = f"spiked-SLR, {style.in_symbols(signal=SIGNAL, length=length)}"
        panel.set(title=title, xscale="log", xlabel="samples per dimension $\\alpha = N/D$")
        style.x_ticks(panel, 1, 2, 4, 8, 16)
    axes[0].set_ylabel("test risk")
    style.shared_legend(figure, axes, ncols=2)
    return figure


def _draw_length(panel: Axes, part: pd.DataFrame) -> None:
    # side by side, or one marker would hide another where they agree
    shifts = {"softmax": (0.86, 0.95), "linear": (1.06, 1.17)}
    for activation in ACTIVATIONS:
        mark = style.MARKS[activation]
        curve = part[part["activation"] == activation]
        line = curve[curve["start"] == STARTS[0]]
        label = f"{mark.label}, theory"
        panel.plot(line["alpha"], line["risk"], color=mark.color, ls=mark.dashes, label=label)
        style.mark_statuses(panel, line["alpha"], line["risk"], line["status"])
        for start, shift in zip(STARTS, shifts[activation], strict=True):
            rows = curve[curve["start"] == start]
            face = mark.color if start == "informed" else "white"
            look: dict[str, Any] = {"fmt": mark.marker, "color": mark.color, "markersize": 5}
            look["label"] = f"{mark.label}, {start} start"
            style.draw_trained(panel, shift * rows["alpha"], rows, "simulated", face=face, **look)
