"""Several heads on several directions: how many heads, and the worth of a sink."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from slrlab._types import Axes, Figure, Report
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.points import Row, sorted_table
from slrlab.figures.registry import About
from slrlab.model.activations import Activation, make_activation
from slrlab.model.heads import BAYES_SOFTMAX, MultiHeadSLR
from slrlab.theory.heads.aligned import heads_risk

ABOUT = About(
    title="Several heads: least risk with infinite data, and the worth of a sink",
    caption="""
    Least risk of aligned heads, against the number of heads on four directions (signal 6, length
    5), against the number of directions with a head for each, and against the signal. Bottom right:
    what a sink is worth, the risk of softmax minus that of softmax with a sink at its best bias. A
    head whose direction is absent adds noise, which a sink avoids, and which one redundant head
    that attends to all tokens alike reduces; further heads gain nothing. Bayes-softmax, normalised
    over tokens and heads together, needs a head for each direction and has the Bayes risk (grey).
    """,
    costs={"figure heads": 20.0},
    section="Beyond the paper",
    report=("full",),
)
LENGTH, SIGNAL, DIRECTIONS = 5, 6.0, 4
HEADS = 7
MANY = {
    "toy": (1, 4),
    "quick": (1, 2, 4, 8, 16, 32),
    "full": (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48),
}
SIGNALS = (0.5, 40.0)
POINTS = {"toy": 2, "quick": 7, "full": 25}
SINKS = (2, 4, 16)
_SOFTMAX, _UNIFORM, _SINK = "softmax", "softmax, one head uniform", "softmax with a sink"
_LOOKS: dict[str, dict[str, Any]] = {
    _SOFTMAX: style.MARKS["softmax"].line(),
    _UNIFORM: {"color": "#56B4E9", "marker": "v", "linestyle": "--", "label": _UNIFORM},
    _SINK: {"color": "#D55E00", "marker": "s", "linestyle": "-.", "label": _SINK},
    BAYES_SOFTMAX: {"color": "#009E73", "marker": "D", "linestyle": ":", "label": "Bayes-softmax"},
}
Point = tuple[str, str, float, int, int]


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return a row for each panel, attention, signal, number of directions and of heads."""
    points: list[Point] = []
    for name in _LOOKS:
        least = DIRECTIONS if name == BAYES_SOFTMAX else 1 + (name == _UNIFORM)
        counts = [1, 4, 5] if profile == "toy" else range(1, HEADS + 1)
        points += [("heads", name, SIGNAL, DIRECTIONS, H) for H in counts if least <= H]
        for K in MANY[profile]:
            points.append(("directions", name, SIGNAL, K, K + (name == _UNIFORM)))
        for K in SINKS:
            if K == DIRECTIONS or name in (_SOFTMAX, _SINK):
                for signal in np.geomspace(*SIGNALS, POINTS[profile]).tolist():
                    points.append(("signals", name, signal, K, K + (name == _UNIFORM)))
    rows = parallel_map(_row, points, label="figure heads", report=report)
    return sorted_table(rows, "panel", "attention", "directions", "heads", "signal")


def _row(point: Point) -> Row:
    panel, name, signal, directions, heads = point
    attention: Activation | str = BAYES_SOFTMAX if name == BAYES_SOFTMAX else "softmax"
    if name == _SINK:
        attention = make_activation("softmax-1", bias="optimal")
    task = MultiHeadSLR(signal, LENGTH, directions=directions)
    aligned = heads - (name == _UNIFORM)
    result = heads_risk(task, attention, heads=aligned, uniform=name == _UNIFORM)
    row: Row = {"panel": panel, "attention": name, "signal": signal, "directions": directions}
    row |= {"heads": heads, "risk": result.risk, "bayes_risk": result.bayes_risk}
    first = result.heads[0]
    return row | {"m_k": first.m_k, "bias": first.bias, "status": str(result.status)}


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw risks against heads, directions and signal, and the worth of a sink."""
    figure, axes = style.new_figure(2, 2, 7.4, 6.2)
    (first, second), (third, last) = axes
    fixed = f"$\\nu={SIGNAL:g}$, $L={LENGTH}$"
    _draw_risks(first, frame[frame["panel"] == "heads"], "heads")
    first.axvline(DIRECTIONS, color="0.7", linewidth=0.8, zorder=0)
    first.set(xlabel="heads $H$", title=f"$K={DIRECTIONS}$ directions, {fixed}")
    _draw_risks(second, frame[frame["panel"] == "directions"], "directions")
    second.set(xscale="log", xlabel="directions $K$", title=f"a head for each direction, {fixed}")
    style.x_ticks(second, *(k for k in (1, 2, 4, 8, 16, 32) if k <= frame["directions"].max()))
    part = frame[frame["panel"] == "signals"]
    _draw_risks(third, part[part["directions"] == DIRECTIONS], "signal")
    third.set(title=f"$K={DIRECTIONS}$ directions, $L={LENGTH}$")
    _draw_worth(last, part)
    for panel in (third, last):
        panel.set(xscale="log", xlabel="signal $\\nu$")
        style.x_ticks(panel, 0.5, 1.0, 3.0, 10.0, 30.0)
    for panel in (first, second, third):
        panel.set(ylim=(0.0, 1.02), ylabel="least risk")
    style.shared_legend(figure, [first, second], ncols=3)
    return figure


def _draw_risks(panel: Axes, part: pd.DataFrame, x: str) -> None:
    bayes = part[part["attention"] == _SOFTMAX]
    panel.plot(bayes[x], bayes["bayes_risk"], color="0.8", linewidth=5, label=style.BAYES.label)
    for name, look in _LOOKS.items():
        own = part[part["attention"] == name].sort_values(x)
        panel.plot(own[x], own["risk"], **look)
        style.mark_statuses(panel, own[x], own["risk"], own["status"])


def _draw_worth(panel: Axes, part: pd.DataFrame) -> None:
    """Draw the difference of the risks of softmax without and with a sink."""
    wide = part.pivot_table(index=["directions", "signal"], columns="attention", values="risk")
    worth = (wide[_SOFTMAX] - wide[_SINK]).reset_index(name="worth")
    for (directions, own), dashes in zip(
        worth.groupby("directions"), ("-", "--", ":"), strict=True
    ):
        panel.plot(own["signal"], own["worth"], dashes, color="#D55E00", marker="s")
        end = own.iloc[-1]
        panel.annotate(
            f"$K={directions}$",
            (end["signal"], end["worth"]),
            xytext=(4, 0),
            textcoords="offset points",
            fontsize=8,
            va="center",
        )
    panel.set(ylabel="worth of a sink", title=f"softmax without minus with a sink, $L={LENGTH}$")
    panel.set_ylim(bottom=0.0)
    panel.margins(x=0.12)
