"""Needle in a haystack: minimal risk against the sequence length, from 1 to a million."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from slrlab._types import Report
from slrlab.experiments.parallel import parallel_map
from slrlab.figures.points import minimal_risk_row
from slrlab.figures.registry import About
from slrlab.figures.style import BAYES, MARKS, house_style, mark_statuses, shared_legend

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ABOUT = About(
    title="Minimal risk against the sequence length",
    caption="""
    Least risk that each attention can reach with infinite data against the length, from one token
    to a million, beside the Bayes risk (grey). Softmax lies on it; linear and softplus attention
    predict nothing beyond some thousand tokens, erf falls behind. A cross (boundary) marks an
    optimum at the edge of the search: the best keys vanish or grow without bound.
    """,
    costs={"length": 8.0},
)
POINTS = {"toy": 4, "quick": 13, "full": 43}
PANELS = (("spiked", 16.0), ("max", 10.0), ("max", math.inf))
ACTIVATIONS = ("softmax", "linear", "erf", "softplus")


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each panel, length and activation."""
    import pandas as pd

    lengths = np.unique(np.rint(np.geomspace(1, 1e6, POINTS[profile])).astype(int))
    settings = [
        (task, signal, int(length), activation)
        for length in lengths[::-1]  # costly ones first
        for activation in reversed(ACTIVATIONS)
        for task, signal in PANELS
    ]
    rows = parallel_map(minimal_risk_row, settings, label="length", report=report)
    return pd.DataFrame(rows).sort_values(["task", "signal", "activation", "length"])


def draw(frame: pd.DataFrame) -> Figure:
    """Draw one panel for each task and signal."""
    import matplotlib.pyplot as plt

    with house_style():
        figure, axes = plt.subplots(1, 3, figsize=(7.2, 3.4), sharey=True, layout="constrained")
        for panel, (task, signal) in zip(axes, PANELS, strict=True):
            part = frame[(frame["task"] == task) & (frame["signal"] == signal)]
            bayes = part[part["activation"] == "softmax"]
            panel.plot(
                bayes["length"], bayes["bayes_risk"], color="0.75", linewidth=5, label=BAYES.label
            )
            for activation in ACTIVATIONS:
                curve = part[part["activation"] == activation]
                panel.plot(curve["length"], curve["risk"], **MARKS[activation].line(markevery=2))
                mark_statuses(panel, curve["length"], curve["risk"], curve["status"])
            shown = "\\infty" if math.isinf(signal) else f"{signal:g}"
            panel.set(xscale="log", title=f"{task}-SLR, $\\nu={shown}$", xlabel="length $L$")
        axes[0].set_ylabel("minimal risk")
        axes[0].set_ylim(-0.03, 1.05)
        shared_legend(figure, axes, ncols=3)
        return figure
