"""Figure 7: does training find the predicted minimum? Informed and random starts, other lengths."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab.experiments.comparison import Setting
from slrlab.experiments.parallel import Report, parallel_map
from slrlab.figures.points import simulated_rows
from slrlab.figures.style import MARKS, house_style, mark_statuses
from slrlab.model.tasks import make_task
from slrlab.simulation.erm import INITS
from slrlab.theory.erm import optimal_ridge

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Informed against random start, spiked-SLR, signal 2, lengths 2 and 5, best ridge"
SIGNAL, LENGTHS, RANGE = 2.0, (2, 5), (1.0, 16.0)
ACTIVATIONS = ("softmax", "linear")
POINTS = {"toy": 2, "quick": 3, "full": 9}
TOLERANCE = {"toy": 1e-2, "quick": 3e-3, "full": 5e-4}
SIZE = {"toy": 60, "quick": 700, "full": 10_000}  # √(ND)
SEEDS = {"toy": 2, "quick": 4, "full": 4}


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return theory at the best ridge, and training at the same ridge from both starts."""
    import pandas as pd

    curves = [
        (activation, length, alpha, TOLERANCE[profile])
        for activation in ACTIVATIONS
        for length in (LENGTHS[:1] if profile == "toy" else LENGTHS)
        for alpha in np.geomspace(*RANGE, POINTS[profile]).tolist()
    ]
    theory = parallel_map(_theory, curves, label="figure 7: theory", report=report)
    rows = [row | {"init": init} for row in theory for init in INITS]
    points = [
        (
            Setting(
                "spiked",
                SIGNAL,
                row["length"],
                0.0,
                row["activation"],
                row["alpha"],
                row["ridge_k"],
                row["ridge_v"],
            ),
            max(2, round(SIZE[profile] / math.sqrt(row["alpha"]))),
            SEEDS[profile],
            row["init"],
        )
        for row in rows
    ]
    found = simulated_rows(points, label="figure 7: training", report=report)
    merged = [row | simulated for row, simulated in zip(rows, found, strict=True)]
    return pd.DataFrame(merged).sort_values(
        ["length", "activation", "init", "alpha"], ignore_index=True
    )


def _theory(curve: tuple[str, int, float, float]) -> dict[str, Any]:
    activation, length, alpha, tolerance = curve
    task = make_task("spiked", signal=SIGNAL, length=length)
    found = optimal_ridge(task, activation, alpha=alpha, tolerance=tolerance)
    row = {"activation": activation, "length": length, "alpha": alpha}
    row |= {"risk": found.test_risk, "error": found.test_risk_error, "status": str(found.status)}
    return row | {"ridge_k": found.ridge_k, "ridge_v": found.ridge_v, "branch": found.branch}


def draw(frame: pd.DataFrame) -> Figure:
    """Draw one panel for each length: theory as lines, the two starts as two kinds of markers."""
    import matplotlib.pyplot as plt

    lengths = sorted(frame["length"].unique())
    with house_style():
        figure, axes = plt.subplots(
            1, len(lengths), figsize=(4.2 * len(lengths), 4.1), sharey=True, layout="constrained"
        )
        for panel, length in zip(np.atleast_1d(axes), lengths, strict=True):
            _panel(panel, frame[frame["length"] == length])
            panel.set(title=f"spiked-SLR, $\\nu={SIGNAL:g}$, $L={length}$", xscale="log")
            panel.set_xlabel("samples per dimension $\\alpha = N/D$")
            panel.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
            panel.minorticks_off()
        first = np.atleast_1d(axes)[0]
        first.set_ylabel("test risk")
        figure.legend(*first.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return figure


def _panel(panel: Axes, part: pd.DataFrame) -> None:
    # the two starts stand side by side, else one would hide the other where they agree
    for activation in ACTIVATIONS:
        mark = MARKS[activation]
        curve = part[part["activation"] == activation]
        line = curve[curve["init"] == INITS[0]]
        label = f"{mark.label}, theory"
        panel.plot(line["alpha"], line["risk"], color=mark.color, ls=mark.dashes, label=label)
        edge = line[line["status"] == "boundary"]
        panel.plot(edge["alpha"], edge["risk"], "x", color=mark.color, markersize=5)
        for init, shift, face in (("informed", 0.97, mark.color), ("random", 1.03, "white")):
            rows = curve[curve["init"] == init]
            panel.errorbar(
                shift * rows["alpha"],
                rows["simulated_risk"],
                yerr=rows["simulated_error"],
                fmt=mark.marker,
                color=mark.color,
                markerfacecolor=face,
                capsize=2,
                label=f"{mark.label}, {init} start",
            )
            where = (shift * rows["alpha"], rows["simulated_risk"], rows["simulated_status"])
            mark_statuses(panel, *where)
    label = "best ridge at which the theory holds"
    panel.plot([], [], "x", color="0.4", markersize=5, label=label)
