"""Figure 5: the two minima of the risk, matched and mismatched, against the signal."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from slrlab._types import Axes, Figure, Report
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.points import ACTIVATIONS, Row, minimal_risk_row
from slrlab.figures.registry import About
from slrlab.model.task_registry import make_task
from slrlab.theory.landscape.branches import follow_minimum, minimum_from
from slrlab.theory.landscape.minima import Minimum
from slrlab.theory.landscape.ranges import minimum_branches

ABOUT = About(
    title="Matched and mismatched minima of the risk against the signal, length 10",
    caption="""
    Risk at the matched minimum (full lines) and at mismatched minima (dashed) against the signal.
    Mismatched minima have a higher risk and exist only above some signal; a ring marks where one
    ends. Erf has a second one at small signals. The one of linear attention is reached only as the
    keys grow without bound (crosses).
    """,
    costs={"figure 5: mismatched": 32.0, "figure 5: matched": 12.0},
)
LENGTH = 10
_SLOW = ("softmax", "softplus")  # one risk of the max task takes tenths of a second
_LAST = {"softplus": 5.0}  # largest signal: beyond it a minimum takes 15 seconds
MIDDLE = 2.0  # signal at which every activation has both minima
ENDS = {"spiked": (0.1, 100.0), "max": (0.5, 8.0)}
STEPS = {"toy": (2, 1), "quick": (6, 4), "full": (16, 8)}  # steps to either side of the middle

Branch = tuple[str, str, float, str]
Point = tuple[str, float, int, str]


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each task, signal, activation and minimum.

    ``exists`` is false where there is no mismatched minimum, and ``at_infinity`` is true where the
    keys grow without bound: the risk is then its limit. ``branch`` numbers the mismatched minima of
    spiked-SLR; each has a row at either ``end``.
    """
    branches: list[Branch] = []
    points: list[Point] = []
    for task in ("max", "spiked"):
        for activation in reversed(ACTIVATIONS):  # costly ones first
            ends = ENDS[task] if task == "max" else ENDS[task][:1]
            branches += [(task, activation, end, profile) for end in ends]
            whole = {nu for end in ENDS[task] for nu in _signals(task, activation, end, profile)}
            points += [(task, nu, LENGTH, activation) for nu in sorted(whole)]
    mismatched = parallel_map(_branch, branches, label="figure 5: mismatched", report=report)
    matched = parallel_map(_matched, points, label="figure 5: matched", report=report)
    rows = chain(matched, *mismatched)
    keys = ["task", "activation", "minimum", "branch", "signal"]
    return pd.DataFrame(rows).drop_duplicates(keys).sort_values(keys, ignore_index=True)


def _signals(task: str, activation: str, end: float, profile: str) -> tuple[float, ...]:
    """Return the signals from the middle to an end; fewer where a minimum takes long."""
    slow = task == "max" and activation in _SLOW
    if slow and profile == "toy":
        return (MIDDLE,)
    count = STEPS[profile][task == "max"]
    signals = np.geomspace(MIDDLE, end, count + 1).tolist()
    if slow and profile == "quick":
        signals = [nu for nu in signals[::2] if nu < _LAST.get(activation, np.inf)]
    return tuple(signals)


def _matched(point: Point) -> Row:
    """Descend to the matched minimum from keys off M; add the population theory."""
    name, signal, length, activation = point
    population = minimal_risk_row(point)
    start = [0.9 * population["m_k"], 0.05, 0.05, 0.0]
    task = make_task(name, signal=signal, length=length)
    options: dict[str, Any] = {"bias": population["bias"], "curvatures": False, "resolution": 0.8}
    minimum = minimum_from(task, activation, start, **options)
    row = {"task": name, "signal": signal, "length": length, "activation": activation}
    risks = {"population_risk": population["risk"], "bayes_risk": population["bayes_risk"]}
    return row | _row("matched", minimum) | risks


def _branch(branch: Branch) -> list[Row]:
    """Follow the mismatched minima of spiked-SLR, or that of max-SLR from the middle to an end."""
    name, activation, end, profile = branch
    if name == "spiked":
        return _spiked_branches(activation, profile)
    signals = _signals(name, activation, end, profile)
    if len(signals) == 1:
        return []
    middle = make_task("spiked", signal=MIDDLE, length=LENGTH)
    start = minimum_from(middle, activation, "mismatched", curvatures=False)
    if start is None:
        return []
    tasks = [make_task(name, signal=signal, length=LENGTH) for signal in signals]
    # a coarser quadrature is accurate enough for a picture
    minima = follow_minimum(tasks, activation, start, curvatures=False, resolution=0.8)
    setting = {"task": name, "length": LENGTH, "activation": activation}
    return [
        setting | {"signal": signal} | _row("mismatched", minimum)
        for signal, minimum in zip(signals, minima, strict=True)
    ]


def _spiked_branches(activation: str, profile: str) -> list[Row]:
    """Return points of every mismatched minimum of spiked-SLR, both ends among them."""
    task = make_task("spiked", signal=MIDDLE, length=LENGTH)
    signals = (0.5, 4.0) if profile == "toy" else ENDS["spiked"]
    rows = []
    for number, branch in enumerate(minimum_branches(task, activation, signals=signals)):
        last = branch.signals.size - 1
        shown = np.unique(np.linspace(0, last, 2 * STEPS[profile][0]).round().astype(int))
        for i in shown.tolist():
            row = {"task": "spiked", "length": LENGTH, "activation": activation, "branch": number}
            row |= {"minimum": "mismatched", "exists": True, "at_infinity": branch.at_infinity}
            row |= {name: getattr(branch, name)[i] for name in ("risk", "m_kk", "m_kv", "bias")}
            row |= {"signal": branch.signals[i], "status": str(branch.status)}
            rows.append(row | {"end": str(branch.ends[i > 0]) if i in (0, last) else ""})
    return rows


def _row(name: str, minimum: Minimum | None) -> Row:
    row = {"minimum": name, "exists": minimum is not None, "branch": 0, "end": ""}
    if minimum is None:
        return row | {"at_infinity": False, "risk": np.nan}
    row |= {"at_infinity": minimum.at_infinity, "risk": minimum.risk}
    row |= {"status": str(minimum.status), "bias": minimum.bias}
    return row | {key: getattr(minimum.order, key) for key in ("m_kk", "m_kv", "m_vk", "m_vv")}


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw one panel for each task: matched minima as full lines, mismatched ones dashed."""
    figure, (axes,) = style.new_figure(1, 2, 6.4, 4.2, sharey=True)
    for panel, task in zip(axes, ("spiked", "max"), strict=True):
        _draw_task(panel, frame[frame["task"] == task])
        title = f"{task}-SLR, {style.in_symbols(length=LENGTH)}"
        panel.set(title=title, xscale="log", xlabel="signal $\\nu$")
    axes[0].set(ylabel="risk", ylim=(-0.02, 1.02))
    style.x_ticks(axes[1], 0.5, 1, 2, 4, 8)
    style.shared_legend(figure, axes)
    return figure


def _draw_task(panel: Axes, part: pd.DataFrame) -> None:
    bayes = part[(part["activation"] == "softmax") & (part["minimum"] == "matched")]
    look: dict[str, Any] = {"color": "0.8", "linewidth": 6, "label": style.BAYES.label}
    panel.plot(bayes["signal"], bayes["bayes_risk"], **look)
    dashes: Any = (0, (3, 1.5))
    ring: dict[str, Any] = {"linestyle": "", "marker": "o", "markerfacecolor": "none"}
    ring["markersize"] = 8
    for activation in ACTIVATIONS:
        mark = style.MARKS[activation]
        rows = part[part["activation"] == activation]
        look = {"color": mark.color, "marker": mark.marker, "markersize": 3}
        matched = rows[rows["minimum"] == "matched"]
        panel.plot(matched["signal"], matched["risk"], label=mark.label, **look)
        mismatched = rows[(rows["minimum"] == "mismatched") & rows["risk"].notna()]
        for _, curve in mismatched.groupby("branch"):
            panel.plot(curve["signal"], curve["risk"], linestyle=dashes, **look)
        ends = mismatched[mismatched["end"].isin(["fold", "plane", "infinity"])]
        panel.plot(ends["signal"], ends["risk"], color=mark.color, **ring)
        for curve in (matched, mismatched):
            style.mark_statuses(panel, curve["signal"], curve["risk"], curve["status"])
    panel.plot([], [], color="0.3", label="matched minimum")
    panel.plot([], [], color="0.3", linestyle=dashes, label="mismatched minimum")
    panel.plot([], [], color="0.3", label="where it ends", **ring)
