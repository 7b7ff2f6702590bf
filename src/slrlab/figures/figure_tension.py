"""Does an activation with a lower risk train more slowly? Risk, times and softest curvature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab._types import FloatArray, Report
from slrlab.experiments.parallel import parallel_map
from slrlab.experiments.small_starts import small_starts
from slrlab.figures.registry import About
from slrlab.figures.style import MARKS, house_style, mark_statuses, shared_legend
from slrlab.model.tasks import Task, make_task
from slrlab.theory.landscape.branches import minimum_from
from slrlab.theory.landscape.flow import gradient_flow
from slrlab.theory.landscape.path import Flow
from slrlab.theory.population.minimal import PopulationRisk, minimal_risk

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ABOUT = About(
    title="Risk reached and time to reach it, gradient flow from small random starts, length 10",
    caption="""
    Minimal risk, time that gradient flow from small starts takes for 90 % and 99 % of the way from
    the trivial risk to it (bands: quartiles), and slowest decay and condition number at the matched
    minimum, against the signal. The lower risk of softmax costs no time on most of the way, but the
    last of the way becomes exponentially slow in the signal. The bias of erf is learned with the
    rest.
    """,
    costs={"figure tension": 43.0},
)
LENGTH, SIZE = 10, 0.1
ACTIVATIONS = ("softmax", "linear", "erf", "softplus")
SIGNALS = {"toy": (0.5, 2.0, 2), "quick": (0.25, 16.0, 7), "full": (0.1, 25.0, 17)}
CURVATURES = {"toy": (0.5, 2.0, 3), "quick": (0.1, 40.0, 14), "full": (0.05, 50.0, 31)}
RUNS = {"toy": 20, "quick": 24, "full": 200}
_BIASED = {"toy": 2, "quick": 3, "full": 24}  # runs with a bias, which no table can speed up
_LONGEST = 1e4  # time of a flow with a bias
FRACTIONS = (0.9, 0.99)
_STEEP = 1e-9  # curvatures below are lost in the differences that they are computed by


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return rows of two panels: times of flows, and curvatures at the matched minimum.

    Times are medians and quartiles over the runs that reached the matched minimum, of the time
    until 90 % and 99 % of the way down from the risk of predicting nothing was done.
    """
    import pandas as pd

    settings = [
        ("flow", activation, signal, (_BIASED if activation == "erf" else RUNS)[profile])
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
        row |= {"softest": found.curvatures[0], "stiffest": found.curvatures[-1]}
        return row | {"status": str(found.status)}
    times, best = _times(task, activation, runs)
    row |= {"risk": best.risk, "bayes_risk": best.bayes_risk, "runs": runs}
    row["matched"] = times.shape[1]
    for fraction, found_times in zip(FRACTIONS, times, strict=True):
        ends = np.quantile(found_times, (0.25, 0.5, 0.75)) if found_times.size else [np.nan] * 3
        name = f"time_{round(100 * fraction)}"
        row |= {name: ends[1], f"{name}_low": ends[0], f"{name}_high": ends[2]}
    return row


def _times(task: Task, activation: str, runs: int) -> tuple[FloatArray, PopulationRisk]:
    """Return times to each fraction (rows) of the runs that end matched, and the optimum."""
    if activation == "erf":
        best = minimal_risk(task, activation)
        flows = [
            gradient_flow(task, activation, size=SIZE, seed=seed, time=_LONGEST, tolerance=1e-5)
            for seed in range(runs)
        ]
        found = [_way(flow, task, best) for flow in flows if flow.minimum == "matched"]
        return np.array(found).reshape(-1, len(FRACTIONS)).T, best
    starts = small_starts(task, activation, runs=runs, size=SIZE)
    matched = np.array(starts.ends) == "matched"
    gaps = [(1.0 - part) * (task.trivial_risk - starts.best.risk) for part in FRACTIONS]
    within = [starts.flows.time_within(gap, starts.best.risk)[matched] for gap in gaps]
    return np.array(within), starts.best


def _way(flow: Flow, task: Task, best: PopulationRisk) -> list[float]:
    """Return when a flow has done each fraction of its way; its risk falls all along."""
    done = (task.trivial_risk - flow.risk) / (task.trivial_risk - best.risk)
    return [float(np.interp(part, done, flow.times, right=np.nan)) for part in FRACTIONS]


def draw(frame: pd.DataFrame) -> Figure:
    """Draw the minimal risk, the times, and the slowest rate at the minimum against the signal."""
    import matplotlib.pyplot as plt

    flows = frame[frame["panel"] == "flow"]
    points = frame[frame["panel"] == "curvature"]
    with house_style():
        figure, grid = plt.subplots(2, 2, figsize=(6.4, 6.4), sharex=True, layout="constrained")
        axes = grid.ravel()
        for activation in ACTIVATIONS:
            mark = MARKS[activation]
            curve = points[points["activation"] == activation]
            axes[0].plot(curve["signal"], curve["risk"], **mark.line())
            steep = curve[curve["softest"] > _STEEP]
            for panel, height in (
                (axes[2], 1.0 / steep["softest"]),
                (axes[3], steep["stiffest"] / steep["softest"]),
            ):
                panel.plot(steep["signal"], height, **mark.line())
                mark_statuses(panel, steep["signal"], height, steep["status"])
            runs = flows[flows["activation"] == activation]
            for name, face in (("time_90", "white"), ("time_99", mark.color)):
                ends = (runs[f"{name}_low"], runs[f"{name}_high"])
                axes[1].fill_between(runs["signal"], *ends, color=mark.color, alpha=0.2, lw=0)
                look = mark.line(markerfacecolor=face, label="_nolegend_")
                axes[1].plot(runs["signal"], runs[name], **look)
        for label, face in (("time to 90 %", "white"), ("time to 99 %", "0.3")):
            axes[1].plot([], [], "o", color="0.3", markerfacecolor=face, label=label)
        axes[0].set(title="minimal risk", yscale="log", ylim=(1e-4, 1.3))
        axes[1].set(title="time to 90 % and 99 % of the gain")
        axes[2].set(title="1 / smallest curvature")
        axes[3].set(title="largest / smallest curvature")
        for panel in grid[1]:
            panel.set_xlabel("signal $\\nu$")
        axes[0].set_xscale("log")
        for panel in axes[1:]:
            panel.set_yscale("log")
        shared_legend(figure, axes)
        return figure
