"""Figure 5: the two minima of the risk, matched and mismatched, against the signal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab._types import Report
from slrlab.experiments.parallel import parallel_map
from slrlab.figures.points import minimal_risk_row
from slrlab.figures.registry import About
from slrlab.figures.style import BAYES, MARKS, house_style, mark_statuses, shared_legend
from slrlab.model.tasks import make_task
from slrlab.theory.landscape.branches import follow_minimum, minimum_from
from slrlab.theory.landscape.minima import Minimum
from slrlab.theory.landscape.ranges import minimum_branches

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABOUT = About(
    title="Matched and mismatched minima of the risk against the signal, length 10",
    caption="""
    Risk at the matched minimum (full lines) and at mismatched ones (dashed) against the signal.
    Mismatched minima lie above and need a signal of some size; a ring marks where one ends. Erf has
    a second one at small signals; that of linear attention is reached only as the keys grow without
    bound (crosses).
    """,
    costs={"figure 5: mismatched": 32.0, "figure 5: matched": 12.0},
)
LENGTH = 10
ACTIVATIONS = ("softmax", "linear", "erf", "softplus")
_SLOW = ("softmax", "softplus")  # tenths of a second for one risk of the max task
_LAST = {"softplus": 5.0}  # signal from which on it takes a quarter of a minute
MIDDLE = 2.0  # where every activation has both minima
ENDS = {"spiked": (0.1, 100.0), "max": (0.5, 8.0)}
STEPS = {"toy": (2, 1), "quick": (6, 4), "full": (16, 8)}  # on either side of the middle

Branch = tuple[str, str, float, str]
Point = tuple[str, float, int, str]


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each task, signal, activation and minimum.

    ``exists`` is false where the mismatched minimum is not there, and ``at_infinity`` is true
    where the keys grow without bound: the risk is then its limit. Mismatched minima of spiked-SLR
    are told apart by ``branch``, and each has a row at its ``end``.
    """
    import pandas as pd

    branches: list[Branch] = []
    points: list[Point] = []
    for task in ("max", "spiked"):
        for activation in reversed(ACTIVATIONS):  # costly ones first
            ends = ENDS[task] if task == "max" else ENDS[task][:1]
            branches += [(task, activation, end, profile) for end in ends]
            whole = {nu for end in ENDS[task] for nu in _signals(task, activation, end, profile)}
            points += [(task, nu, LENGTH, activation) for nu in sorted(whole)]
    found = parallel_map(_branch, branches, label="figure 5: mismatched", report=report)
    rows = parallel_map(_matched, points, label="figure 5: matched", report=report)
    rows += [row for part in found for row in part]
    keys = ["task", "activation", "minimum", "branch", "signal"]
    return pd.DataFrame(rows).drop_duplicates(keys).sort_values(keys, ignore_index=True)


def _signals(task: str, activation: str, end: float, profile: str) -> tuple[float, ...]:
    """Return the signals from the middle to an end; fewer for what is slow."""
    slow = task == "max" and activation in _SLOW
    if slow and profile == "toy":
        return (MIDDLE,)
    count = STEPS[profile][task == "max"]
    signals = np.geomspace(MIDDLE, end, count + 1).tolist()
    if slow and profile == "quick":
        signals = [nu for nu in signals[::2] if nu < _LAST.get(activation, np.inf)]
    return tuple(signals)


def _matched(point: Point) -> dict[str, Any]:
    """Descend to the matched minimum from keys off M, with the population theory beside it."""
    name, signal, length, activation = point
    known = minimal_risk_row(point)
    start = [0.9 * known["m_k"], 0.05, 0.05, 0.0]
    task = make_task(name, signal=signal, length=length)
    given: dict[str, Any] = {"bias": known["bias"], "curvatures": False, "resolution": 0.8}
    found = minimum_from(task, activation, start, **given)
    row = {"task": name, "signal": signal, "length": length, "activation": activation}
    theory = {"population_risk": known["risk"], "bayes_risk": known["bayes_risk"]}
    return row | _row("matched", found) | theory


def _branch(branch: Branch) -> list[dict[str, Any]]:
    """Follow the mismatched minima of spiked-SLR, or that of max-SLR from the middle to an end."""
    name, activation, end, profile = branch
    if name == "spiked":
        return _whole(activation, profile)
    signals = _signals(name, activation, end, profile)
    if len(signals) == 1:
        return []
    middle = make_task("spiked", signal=MIDDLE, length=LENGTH)
    start = minimum_from(middle, activation, "mismatched", curvatures=False)
    if start is None:
        return []
    tasks = [make_task(name, signal=signal, length=LENGTH) for signal in signals]
    # off M a coarser rule is exact enough for a picture
    found = follow_minimum(tasks, activation, start, curvatures=False, resolution=0.8)
    setting = {"task": name, "length": LENGTH, "activation": activation}
    return [
        setting | {"signal": signal} | _row("mismatched", minimum)
        for signal, minimum in zip(signals, found, strict=True)
    ]


def _whole(activation: str, profile: str) -> list[dict[str, Any]]:
    """Return points of every mismatched minimum of spiked-SLR, both ends among them."""
    task = make_task("spiked", signal=MIDDLE, length=LENGTH)
    rows = []
    for number, found in enumerate(minimum_branches(task, activation, signals=_range(profile))):
        last = found.signals.size - 1
        shown = np.unique(np.linspace(0, last, 2 * STEPS[profile][0]).round().astype(int))
        for i in shown.tolist():
            row = {"task": "spiked", "length": LENGTH, "activation": activation, "branch": number}
            row |= {"minimum": "mismatched", "exists": True, "at_infinity": found.at_infinity}
            row |= {"signal": found.signals[i], "risk": found.risk[i], "status": str(found.status)}
            row |= {"m_kk": found.m_kk[i], "m_kv": found.m_kv[i], "bias": found.bias[i]}
            row["end"] = str(found.ends[i > 0]) if i in (0, last) else ""
            rows.append(row)
    return rows


def _range(profile: str) -> tuple[float, float]:
    """Return the signals of spiked-SLR."""
    return (0.5, 4.0) if profile == "toy" else ENDS["spiked"]


def _row(minimum: str, found: Minimum | None) -> dict[str, Any]:
    row = {"minimum": minimum, "exists": found is not None, "branch": 0, "end": ""}
    if found is None:
        return row | {"at_infinity": False, "risk": np.nan}
    row |= {"at_infinity": found.at_infinity}
    row |= {"risk": found.risk, "status": str(found.status), "bias": found.bias}
    return row | {name: getattr(found.order, name) for name in ("m_kk", "m_kv", "m_vk", "m_vv")}


def draw(frame: pd.DataFrame) -> Figure:
    """Draw one panel for each task: matched minima as full lines, mismatched ones dashed."""
    import matplotlib.pyplot as plt

    with house_style():
        figure, axes = plt.subplots(1, 2, figsize=(6.4, 4.2), sharey=True, layout="constrained")
        for panel, task in zip(axes, ("spiked", "max"), strict=True):
            _panel(panel, frame[frame["task"] == task])
            panel.set(title=f"{task}-SLR, $L={LENGTH}$", xscale="log", xlabel="signal $\\nu$")
        axes[0].set(ylabel="risk", ylim=(-0.02, 1.02))
        axes[1].set_xticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
        axes[1].minorticks_off()
        shared_legend(figure, axes)
        return figure


def _panel(panel: Axes, part: pd.DataFrame) -> None:
    bayes = part[(part["activation"] == "softmax") & (part["minimum"] == "matched")]
    panel.plot(bayes["signal"], bayes["bayes_risk"], color="0.8", linewidth=6, label=BAYES.label)
    dashed: dict[str, Any] = {"linestyle": (0, (3, 1.5)), "markersize": 3}
    for activation in ACTIVATIONS:
        mark = MARKS[activation]
        rows = part[part["activation"] == activation]
        full = rows[rows["minimum"] == "matched"]
        look: dict[str, Any] = {"color": mark.color, "marker": mark.marker}
        panel.plot(full["signal"], full["risk"], markersize=3, label=mark.label, **look)
        other = rows[(rows["minimum"] == "mismatched") & rows["risk"].notna()]
        for _, curve in other.groupby("branch"):
            panel.plot(curve["signal"], curve["risk"], **look, **dashed)
        ends = other[other["end"].isin(["fold", "plane", "infinity"])]
        ring: dict[str, Any] = {"markerfacecolor": "none", "color": mark.color, "markersize": 8}
        panel.plot(ends["signal"], ends["risk"], linestyle="", marker="o", **ring)
        for curve in (full, other):
            mark_statuses(panel, curve["signal"], curve["risk"], curve["status"])
    panel.plot([], [], color="0.3", label="matched minimum")
    panel.plot([], [], color="0.3", linestyle=dashed["linestyle"], label="mismatched minimum")
    ring = {"markerfacecolor": "none", "color": "0.3", "markersize": 8}
    panel.plot([], [], linestyle="", marker="o", label="where it ends", **ring)
