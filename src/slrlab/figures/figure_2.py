"""Fig. 2: minimal population risk against the signal, every activation beside Bayes."""

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
    title="Minimal population risk against the signal",
    caption="""
    Least risk that each attention can reach with infinite data, against the signal, beside the
    Bayes risk (grey); tasks in rows, laws of the length in columns. Softmax lies on the Bayes risk
    of spiked-SLR and close to it on max-SLR; linear, erf and softplus attention fall behind as the
    signal grows.
    """,
    costs={"figure 2": 10.0},
)
SIGNALS = {"toy": 5, "quick": 16, "full": 120}
RANGES = {"spiked": (0.1, 40.0), "max": (0.1, 10.0)}
LENGTHS = {"2": "$L=2$", "10": "$L=10$", "1,2,3": "$L\\sim$ Unif{1, 2, 3}"}
ACTIVATIONS = ("softmax", "linear", "erf", "softplus")


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each task, length law, signal and activation."""
    import pandas as pd

    settings = [
        (task, float(signal), length, activation)
        for task, ends in RANGES.items()
        for signal in np.geomspace(*ends, SIGNALS[profile])[::-1]  # costly ones first
        for length in LENGTHS
        for activation in ACTIVATIONS
    ]
    rows = parallel_map(minimal_risk_row, settings, label="figure 2", report=report)
    return pd.DataFrame(rows).sort_values(["task", "length", "activation", "signal"])


def draw(frame: pd.DataFrame) -> Figure:
    """Draw the panels: tasks in rows, length laws in columns."""
    import matplotlib.pyplot as plt

    with house_style():
        figure, axes = plt.subplots(2, 3, figsize=(7.2, 5.0), sharey="row", layout="constrained")
        for row, task in zip(axes, RANGES, strict=True):
            for panel, (length, title) in zip(row, LENGTHS.items(), strict=True):
                part = frame[(frame["task"] == task) & (frame["length"] == length)]
                bayes = part[part["activation"] == "softmax"]
                panel.plot(
                    bayes["signal"],
                    bayes["bayes_risk"],
                    color="0.75",
                    linewidth=5,
                    label=BAYES.label,
                )
                for activation in ACTIVATIONS:
                    curve = part[part["activation"] == activation]
                    every = max(1, math.ceil(len(curve) / 12))
                    style = MARKS[activation].line(markevery=every)
                    panel.plot(curve["signal"], curve["risk"], **style)
                    mark_statuses(panel, curve["signal"], curve["risk"], curve["status"])
                panel.set(xscale="log", yscale="log", title=f"{task}-SLR, {title}")
            floor = max(1e-4, 0.6 * float(frame[frame["task"] == task]["bayes_risk"].min()))
            row[0].set_ylim(floor, 1.3)
            row[0].set_ylabel("minimal risk")
        for panel in axes[1]:
            panel.set_xlabel("signal $\\nu$")
        shared_legend(figure, axes.flat, ncols=5)
        return figure
