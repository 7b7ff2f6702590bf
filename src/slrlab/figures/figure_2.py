"""Figure 2: minimal population risk against the signal, with the Bayes risk."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from slrlab._types import Figure, Report
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.points import ACTIVATIONS, minimal_risk_row, sorted_table
from slrlab.figures.registry import About

ABOUT = About(
    title="Minimal population risk against the signal",
    caption="""
    Least risk that each attention can reach with infinite data against the signal, and the Bayes
    risk (grey); tasks in rows, laws of the length in columns. Softmax lies on the Bayes risk of
    both tasks; linear, erf and softplus attention move away from it as the signal grows.
    """,
    costs={"figure 2": 10.0},
)
SIGNALS = {"toy": 5, "quick": 16, "full": 120}
RANGES = {"spiked": (0.1, 40.0), "max": (0.1, 10.0)}
LENGTHS = {"2": "$L=2$", "10": "$L=10$", "1,2,3": "$L\\sim$ Unif{1, 2, 3}"}


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each task, length law, signal and activation."""
    settings = [
        (task, float(signal), length, activation)
        for task, ends in RANGES.items()
        for signal in np.geomspace(*ends, SIGNALS[profile])[::-1]  # costly ones first
        for length in LENGTHS
        for activation in ACTIVATIONS
    ]
    rows = parallel_map(minimal_risk_row, settings, label="figure 2", report=report)
    return sorted_table(rows, "task", "length", "activation", "signal")


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw the panels: tasks in rows, length laws in columns."""
    figure, axes = style.new_figure(len(RANGES), len(LENGTHS), 7.2, 5.0, sharey="row")
    for row, task in zip(axes, RANGES, strict=True):
        risks = frame[frame["task"] == task]
        for panel, (length, title) in zip(row, LENGTHS.items(), strict=True):
            part = risks[risks["length"] == length]
            every = max(1, math.ceil(part["signal"].nunique() / 12))
            style.draw_minimal_risks(panel, part, "signal", ACTIVATIONS, every)
            panel.set(xscale="log", yscale="log", title=f"{task}-SLR, {title}")
        floor = max(1e-4, 0.6 * float(risks["bayes_risk"].min()))
        row[0].set(ylim=(floor, 1.3), ylabel="minimal risk")
    for panel in axes[-1]:
        panel.set_xlabel("signal $\\nu$")
    style.shared_legend(figure, axes.flat, ncols=5)
    return figure
