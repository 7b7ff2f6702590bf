"""Figure 5: the two minima of the risk, matched and mismatched, against the signal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab.experiments.parallel import Report, parallel_map
from slrlab.figures.points import minimal_risk_row
from slrlab.figures.style import BAYES, MARKS, house_style
from slrlab.model.tasks import make_task
from slrlab.theory.landscape.branches import follow_minimum, minimum_from
from slrlab.theory.landscape.minima import Minimum

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Matched and mismatched minima of the risk against the signal, length 10"
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
    where the keys grow without bound: the risk is then its limit.
    """
    import pandas as pd

    branches: list[Branch] = []
    points: list[Point] = []
    for task in ("max", "spiked"):
        for activation in reversed(ACTIVATIONS):  # costly ones first
            branches += [(task, activation, end, profile) for end in ENDS[task]]
            whole = {nu for end in ENDS[task] for nu in _signals(task, activation, end, profile)}
            points += [(task, nu, LENGTH, activation) for nu in sorted(whole)]
    found = parallel_map(_branch, branches, label="figure 5: mismatched", report=report)
    rows = parallel_map(_matched, points, label="figure 5: matched", report=report)
    rows += [row for part in found for row in part]
    frame = pd.DataFrame(rows).drop_duplicates(["task", "activation", "minimum", "signal"])
    return frame.sort_values(["task", "activation", "minimum", "signal"], ignore_index=True)


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
    """Follow the mismatched minimum from the middle to an end."""
    name, activation, end, profile = branch
    signals = _signals(name, activation, end, profile)
    middle = make_task("spiked", signal=MIDDLE, length=LENGTH)
    start = minimum_from(middle, activation, "mismatched", curvatures=False)
    if start is None or len(signals) == 1:
        return []
    tasks = [make_task(name, signal=signal, length=LENGTH) for signal in signals]
    # off M a coarser rule is exact enough for a picture
    found = follow_minimum(tasks, activation, start, curvatures=False, resolution=0.8)
    setting = {"task": name, "length": LENGTH, "activation": activation}
    return [
        setting | {"signal": signal} | _row("mismatched", minimum)
        for signal, minimum in zip(signals, found, strict=True)
    ]


def _row(minimum: str, found: Minimum | None) -> dict[str, Any]:
    if found is None:
        return {"minimum": minimum, "exists": False, "at_infinity": False, "risk": np.nan}
    row = {"minimum": minimum, "exists": True, "at_infinity": found.at_infinity}
    row |= {"risk": found.risk, "status": str(found.status), "bias": found.bias}
    return row | {name: getattr(found.order, name) for name in ("m_kk", "m_kv", "m_vk", "m_vv")}


def draw(frame: pd.DataFrame) -> Figure:
    """Draw one panel for each task: matched minima as full lines, mismatched ones dashed."""
    import matplotlib.pyplot as plt

    with house_style():
        figure, axes = plt.subplots(1, 2, figsize=(8.8, 4.3), sharey=True, layout="constrained")
        for panel, task in zip(axes, ("spiked", "max"), strict=True):
            _panel(panel, frame[frame["task"] == task])
            panel.set(title=f"{task}-SLR, $L={LENGTH}$", xscale="log", xlabel="signal $\\nu$")
        axes[0].set(ylabel="risk", ylim=(-0.02, 1.02))
        axes[1].set_xticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
        axes[1].minorticks_off()
        figure.legend(
            *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8
        )
        return figure


def _panel(panel: Axes, part: pd.DataFrame) -> None:
    bayes = part[(part["activation"] == "softmax") & (part["minimum"] == "matched")]
    panel.plot(bayes["signal"], bayes["bayes_risk"], color="0.8", linewidth=6, label=BAYES.label)
    for activation in ACTIVATIONS:
        mark = MARKS[activation]
        rows = part[part["activation"] == activation]
        full = rows[rows["minimum"] == "matched"]
        look: dict[str, Any] = {"color": mark.color, "marker": mark.marker}
        name = mark.label.split(",")[0]
        label = f"{name}: matched"
        panel.plot(full["signal"], full["risk"], linestyle="-", markersize=3, label=label, **look)
        other = rows[(rows["minimum"] == "mismatched")].copy()
        endless = bool(other["at_infinity"].any())
        label = "mismatched, limit as $|k|\\to\\infty$" if endless else "mismatched"
        face = "white" if endless else mark.color
        dashed: dict[str, Any] = {"linestyle": (0, (3, 1.5)), "markerfacecolor": face}
        panel.plot(other["signal"], other["risk"], label=f"{name}: {label}", **look, **dashed)
