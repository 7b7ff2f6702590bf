"""Does an activation with a lower risk train more slowly? Risk, times and curvatures."""

from __future__ import annotations

import numpy as np
import pandas as pd

from slrlab._types import Figure, FloatArray, Report
from slrlab.experiments.descent.small_starts import small_starts
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.points import ACTIVATIONS, Row, sorted_table
from slrlab.figures.registry import About
from slrlab.model.task_registry import make_task
from slrlab.model.tasks import Task
from slrlab.theory.landscape.branches import minimum_from
from slrlab.theory.landscape.flow import gradient_flow
from slrlab.theory.landscape.path import Flow
from slrlab.theory.population.minimal import PopulationRisk, minimal_risk

ABOUT = About(
    title="Risk reached and time to reach it, gradient flow from small random starts, length 10",
    caption="""
    Against the signal: minimal risk; time that gradient flow from small starts takes for 90 % and
    99 % of the way from the trivial risk to it (bands: quartiles); inverse of the smallest
    curvature and condition number at the matched minimum. The lower risk of softmax costs no time
    over most of the way, but its last part becomes exponentially slow in the signal. The bias of
    erf is learned too.
    """,
    costs={"figure tension": 43.0},
)
LENGTH, SIZE = 10, 0.1
SIGNALS = {"toy": (0.5, 2.0, 2), "quick": (0.25, 16.0, 7), "full": (0.1, 25.0, 17)}
CURVATURES = {"toy": (0.5, 2.0, 3), "quick": (0.1, 40.0, 14), "full": (0.05, 50.0, 31)}
RUNS = {"toy": 20, "quick": 24, "full": 200}
_BIASED = {"toy": 2, "quick": 3, "full": 24}  # runs with a bias, for which there is no table
_LONGEST = 1e4  # time of a flow with a bias
FRACTIONS = (0.9, 0.99)
_FLAT = 1e-9  # below, rounding errors dominate a curvature


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return rows of two panels: times of flows, and curvatures at the matched minimum.

    Times are medians and quartiles over the runs that reached the matched minimum, of the time
    at which the risk has fallen by 90 % and 99 % of the way from the trivial to the minimal risk.
    """
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
    return sorted_table(rows, "panel", "activation", "signal")


def _row(setting: tuple[str, str, float, int]) -> Row:
    panel, activation, signal, runs = setting
    task = make_task("spiked", signal=signal, length=LENGTH)
    row = {"panel": panel, "activation": activation, "signal": signal, "length": LENGTH}
    if panel == "curvature":
        best, minimum = minimal_risk(task, activation), minimum_from(task, activation, "matched")
        row |= {"risk": best.risk, "bayes_risk": best.bayes_risk}
        if minimum is None:  # too flat for the search to identify it
            return row
        row |= {"softest": minimum.curvatures[0], "stiffest": minimum.curvatures[-1]}
        return row | {"status": str(minimum.status)}
    times, best = _times(task, activation, runs)
    row |= {"risk": best.risk, "bayes_risk": best.bayes_risk, "runs": runs}
    row["matched"] = times.shape[1]
    for fraction, reached in zip(FRACTIONS, times, strict=True):
        low, median, high = (
            np.quantile(reached, (0.25, 0.5, 0.75)) if reached.size else [np.nan] * 3
        )
        name = f"time_{round(100 * fraction)}"
        row |= {name: median, f"{name}_low": low, f"{name}_high": high}
    return row


def _times(task: Task, activation: str, runs: int) -> tuple[FloatArray, PopulationRisk]:
    """Return times to each fraction (rows) of the runs that end matched, and the optimum."""
    if activation == "erf":
        best = minimal_risk(task, activation)
        flows = [
            gradient_flow(task, activation, size=SIZE, seed=seed, time=_LONGEST, tolerance=1e-5)
            for seed in range(runs)
        ]
        times = [_fraction_times(flow, best) for flow in flows if flow.minimum == "matched"]
        return np.array(times).reshape(-1, len(FRACTIONS)).T, best
    starts = small_starts(task, activation, runs=runs, size=SIZE)
    matched = np.array(starts.ends) == "matched"
    risk = starts.best.risk
    rest = [(1.0 - fraction) * (task.trivial_risk - risk) for fraction in FRACTIONS]
    within = [starts.flows.time_within(excess, risk)[matched] for excess in rest]
    return np.array(within), starts.best


def _fraction_times(flow: Flow, best: PopulationRisk) -> FloatArray:
    """Return when the risk of a flow, which never rises, has fallen by each fraction."""
    trivial = flow.setting.task.trivial_risk
    done = (trivial - flow.risk) / (trivial - best.risk)
    return np.interp(FRACTIONS, done, flow.times, right=np.nan)


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw minimal risk, times and curvatures at the matched minimum against the signal."""
    flows, points = (frame[frame["panel"] == name] for name in ("flow", "curvature"))
    figure, axes = style.new_figure(2, 2, 6.4, 6.4, sharex=True)
    (risks, times), (slowest, condition) = axes
    for activation in ACTIVATIONS:
        mark = style.MARKS[activation]
        curve = points[points["activation"] == activation]
        risks.plot(curve["signal"], curve["risk"], **mark.line())
        curve = curve[curve["softest"] > _FLAT]
        for panel, height in (
            (slowest, 1.0 / curve["softest"]),
            (condition, curve["stiffest"] / curve["softest"]),
        ):
            panel.plot(curve["signal"], height, **mark.line())
            style.mark_statuses(panel, curve["signal"], height, curve["status"])
        runs = flows[flows["activation"] == activation]
        for name, face in (("time_90", "white"), ("time_99", mark.color)):
            ends = (runs[f"{name}_low"], runs[f"{name}_high"])
            times.fill_between(runs["signal"], *ends, color=mark.color, alpha=0.2, lw=0)
            look = mark.line(markerfacecolor=face, label="_nolegend_")
            times.plot(runs["signal"], runs[name], **look)
    for label, face in (("time to 90 %", "white"), ("time to 99 %", "0.3")):
        times.plot([], [], "o", color="0.3", markerfacecolor=face, label=label)
    risks.set(title="minimal risk", xscale="log", ylim=(1e-4, 1.3))
    times.set_title("time to 90 % and 99 % of the gain")
    slowest.set_title("1 / smallest curvature")
    condition.set_title("largest / smallest curvature")
    for panel in axes.flat:
        panel.set_yscale("log")
    for panel in axes[1]:
        panel.set_xlabel("signal $\\nu$")
    style.shared_legend(figure, axes.flat)
    return figure
