"""Needle in a haystack: minimal risk against the sequence length, from 1 to a million."""

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
    title="Minimal risk against the sequence length",
    caption="""
    Least risk that each attention can reach with infinite data against the length, from one token
    to a million, and the Bayes risk (grey). Softmax lies on it. Linear and softplus attention do no
    better than the prediction 0 beyond some thousand tokens, and erf lies above softmax. Where the
    best keys of softplus grow without bound, its risk is that of the limit.
    """,
    costs={"length": 8.0},
)
POINTS = {"toy": 4, "quick": 13, "full": 43}
PANELS = (("spiked", 16.0), ("max", 10.0), ("max", math.inf))


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each panel, length and activation."""
    lengths = np.unique(np.rint(np.geomspace(1, 1e6, POINTS[profile])).astype(int))
    settings = [
        (task, signal, int(length), activation)
        for length in lengths[::-1]  # costly ones first
        for activation in reversed(ACTIVATIONS)
        for task, signal in PANELS
    ]
    rows = parallel_map(minimal_risk_row, settings, label="length", report=report)
    return sorted_table(rows, "task", "signal", "activation", "length")


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw one panel for each task and signal."""
    figure, (axes,) = style.new_figure(1, len(PANELS), 7.2, 3.4, sharey=True)
    for panel, (task, signal) in zip(axes, PANELS, strict=True):
        part = frame[(frame["task"] == task) & (frame["signal"] == signal)]
        style.draw_minimal_risks(panel, part, "length", ACTIVATIONS, 2)
        title = f"{task}-SLR, {style.in_symbols(signal=signal)}"
        panel.set(xscale="log", title=title, xlabel="length $L$")
    axes[0].set(ylabel="minimal risk", ylim=(-0.03, 1.05))
    style.shared_legend(figure, axes)
    return figure
