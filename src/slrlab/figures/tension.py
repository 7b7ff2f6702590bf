"""Does an activation with a lower risk train more slowly? Risk, times and softest curvature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab.experiments.parallel import Report, parallel_map
from slrlab.experiments.small_starts import small_starts
from slrlab.figures.style import MARKS, house_style
from slrlab.model.tasks import make_task
from slrlab.theory.landscape.branches import minimum_from
from slrlab.theory.population import minimal_risk

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

TITLE = "Risk reached and time to reach it, gradient flow from small random starts, length 10"
LENGTH, SIZE = 10, 0.1
ACTIVATIONS = ("softmax", "linear", "softplus")
SIGNALS = {"toy": (0.5, 2.0, 2), "quick": (0.25, 16.0, 7), "full": (0.1, 25.0, 17)}
CURVATURES = {"toy": (0.5, 2.0, 3), "quick": (0.1, 40.0, 14), "full": (0.05, 50.0, 31)}
RUNS = {"toy": 20, "quick": 24, "full": 200}
FRACTIONS = (0.9, 0.99)
_STEEP = 1e-9  # curvatures below are lost in the differences that they are computed by


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return rows of two panels: times of flows, and curvatures at the matched minimum.

    Times are medians and quartiles over the runs that reached the matched minimum, of the time
    until 90 % and 99 % of the way down from the risk of predicting nothing was done.
    """
    import pandas as pd

    settings = [
        ("flow", activation, signal, RUNS[profile])
        for signal in np.geomspace(*SIGNALS[profile]).tolist()[::-1]  # costly ones first
        for activation in ACTIVATIONS
    ]
    settings += [
        ("curvature", activation, signal, 0)
        for signal in np.geomspace(*CURVATURES[profile]).tolist()
        for activation in ACTIVATIONS
    ]
    rows = parallel_map(_row, settings, label="figure tension", report=report)
    return pd.DataFrame(rows).sort_values(["panel", "activation", "signal"], ignore_index=True)


def _row(setting: tuple[str, str, float, int]) -> dict[str, Any]:
    panel, activation, signal, runs = setting
    task = make_task("spiked", signal=signal, length=LENGTH)
    row = {"panel": panel, "activation": activation, "signal": signal, "length": LENGTH}
    if panel == "curvature":
        best, found = minimal_risk(task, activation), minimum_from(task, activation, "matched")
        row |= {"risk": best.risk, "bayes_risk": best.bayes_risk}
        if found is None:  # too flat to be told from a slope
            return row
        return row | {"softest": found.curvatures[0], "stiffest": found.curvatures[-1]}
    flows = small_starts(task, activation, runs=runs, size=SIZE)
    matched = np.array(flows.ends) == "matched"
    row |= {"risk": flows.best.risk, "bayes_risk": flows.best.bayes_risk, "runs": runs}
    row["matched"] = int(matched.sum())
    for fraction in FRACTIONS:
        gap = (1.0 - fraction) * (task.trivial_risk - flows.best.risk)
        times = flows.flows.time_within(gap, flows.best.risk)[matched]
        low, middle, high = np.quantile(times, (0.25, 0.5, 0.75)) if times.size else [np.nan] * 3
        name = f"time_{round(100 * fraction)}"
        row |= {name: middle, f"{name}_low": low, f"{name}_high": high}
    return row


def draw(frame: pd.DataFrame) -> Figure:
    """Draw the minimal risk, the times, and the slowest rate at the minimum against the signal."""
    import matplotlib.pyplot as plt

    flows = frame[frame["panel"] == "flow"]
    points = frame[frame["panel"] == "curvature"]
    with house_style():
        figure, grid = plt.subplots(2, 2, figsize=(8.6, 6.6), layout="constrained")
        axes = grid.ravel()
        for activation in ACTIVATIONS:
            mark = MARKS[activation]
            curve = points[points["activation"] == activation]
            axes[0].plot(curve["signal"], curve["risk"], **mark.line())
            steep = curve[curve["softest"] > _STEEP]
            axes[2].plot(steep["signal"], 1.0 / steep["softest"], **mark.line())
            axes[3].plot(steep["signal"], steep["stiffest"] / steep["softest"], **mark.line())
            runs = flows[flows["activation"] == activation]
            for name, face in (("time_90", "white"), ("time_99", mark.color)):
                ends = (runs[f"{name}_low"], runs[f"{name}_high"])
                axes[1].fill_between(runs["signal"], *ends, color=mark.color, alpha=0.2, lw=0)
                look = mark.line(markerfacecolor=face, label=f"{mark.label}, {name[-2:]} %")
                axes[1].plot(runs["signal"], runs[name], **look)
        axes[0].set(title="minimal risk", ylabel="risk", yscale="log", ylim=(1e-4, 1.3))
        axes[1].set(title="time to 90 % and 99 % of the best gain over trivial risk")
        axes[1].set_ylabel("time of gradient flow")
        axes[2].set(title="slowest decay at the matched minimum", ylabel="1 / smallest curvature")
        axes[3].set(title="the same in steps of descent: condition number")
        axes[3].set_ylabel("largest / smallest curvature")
        for panel in axes:
            panel.set(xscale="log", xlabel="signal $\\nu$")
        for panel in axes[1:]:
            panel.set_yscale("log")
        axes[0].legend(fontsize=8, loc="lower left")
        figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return figure
