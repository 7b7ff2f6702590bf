"""Retrieval in small trained models: score against size, pairs and items, from a stored study."""

from __future__ import annotations

from typing import Any

import pandas as pd

from slrlab._types import Axes, Figure, Report
from slrlab.experiments.retrieval.runs import PAIRS, WIDTH
from slrlab.experiments.stored import table
from slrlab.figures import style
from slrlab.figures.registry import About
from slrlab.retrieval.tasks import MarkovTask

ABOUT = About(
    title="Retrieval in small trained models: softmax attention, kernel attention, gated "
    "recurrence",
    caption="""
    Models that differ in the mixer alone, from a stored full run of `slrlab retrieval`, whose date
    and settings are above the panels; points are means over seeds, bars their range, crosses seeds
    that failed to learn; mixers at one place stand side by side. Top: recall of 16 pairs, and loss
    above the entropy of a Markov source, which needs no retrieval, against the number of
    parameters. Bottom: recall against pairs per width, and the class of the largest item for models
    that were trained on 16 items, with SSMax, the highest at 4096. Grey: the other activations of
    the atlas, without ranges; those whose recall falls with the size have their name.
    """,
    costs={"figure retrieval": 1.0},
    section="Beyond the paper",
)
LOOKS: dict[str, dict[str, Any]] = {
    "softmax": style.MARKS["softmax"].line(),
    "silu-linear": {"color": "#D55E00", "marker": "s", "label": "linear (SiLU)"},
    "tnl": {"color": "#009E73", "marker": "^", "label": "TNL"},
    "cosformer2": {"color": "#CC79A7", "marker": "D", "label": "cosFormer2"},
    "hgrn2": {"color": "#E69F00", "marker": "v", "label": "HGRN2"},
}
MORE_LOOKS = {"ssmax": {"color": "#332288", "marker": "P", "label": "SSMax (items only)"}}
"""Activations that the panel of items draws in colour, too."""

_OFFSETS = {"softmax": 0, "silu-linear": -2, "tnl": -1, "cosformer2": 1, "hgrn2": 2, "ssmax": 3}
_OFFSET = 0.035  # step of the offsets, as a share of the place on an axis
_FALL = 0.1  # fall from its best size from which on a grey line has its name
_LOSSES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_RATIOS = {0.25: "1/4", 0.5: "1/2", 1.0: "1", 2.0: "2"}


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return the stored tests, whatever the profile: training takes too long here."""
    frame = table("retrieval")
    if report is not None:
        report(1, 1, "figure retrieval")
    return frame


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw recall and the Markov source against size, and recall and maximum beyond training."""
    figure, axes = style.new_figure(2, 2, 8.0, 6.4)
    tests = {str(name): part for name, part in frame.groupby("test")}
    recall, markov, items = tests["recall"], tests["markov"], tests["max"]
    most = recall[recall["size"] == max(PAIRS)]
    most = most.assign(x=most["parameters"])
    excess = markov["loss"] - MarkovTask().entropy
    markov = markov.assign(x=markov["parameters"], excess=excess)
    items = items.assign(x=items["size"])
    _draw(axes[0, 0], most, "accuracy", LOOKS)
    _name_falling(axes[0, 0], _draw_others(axes[0, 0], most, "accuracy", LOOKS))
    _draw(axes[0, 1], markov, "excess", LOOKS)
    _draw_others(axes[0, 1], markov, "excess", LOOKS)
    # one number of pairs per width from several widths would mix two effects
    per_width = most.assign(x=most["size"] / most["width"])
    _draw(axes[1, 0], per_width, "accuracy", LOOKS)
    own = recall[recall["width"] == WIDTH]
    own = own.assign(x=own["size"] / WIDTH)
    _draw(axes[1, 0], own, "accuracy", LOOKS, linestyle=":", hollow=True)
    coloured = LOOKS | MORE_LOOKS
    _draw(axes[1, 1], items, "accuracy", coloured)
    _draw_others(axes[1, 1], items, "accuracy", coloured)
    widths = ", ".join(str(width) for width in sorted(most["width"].unique()))
    axes[0, 0].set(title=f"recall of {max(PAIRS)} pairs, widths {widths}", xlabel="parameters")
    axes[0, 1].set(
        title="Markov source: no retrieval",
        xlabel="parameters",
        yscale="log",
        ylabel="loss above the entropy (nats)",
    )
    axes[1, 0].set(
        title=f"all widths at {max(PAIRS)} pairs (full), width {WIDTH} (dotted)",
        xlabel="pairs / width",
    )
    axes[1, 1].set(title="largest item, trained on 16", xlabel="items")
    for panel in axes.flat:
        panel.set_xscale("log")
    for panel in axes[0]:
        style.x_ticks(panel, *sorted(most["parameters"][most["mixer"] == "softmax"].unique()))
    axes[1, 0].set_xticks(list(_RATIOS), list(_RATIOS.values()))
    axes[1, 0].minorticks_off()
    style.x_ticks(axes[1, 1], *sorted(items["size"].unique()))
    axes[0, 1].set_yticks(_LOSSES, [f"{loss:g}" for loss in _LOSSES], minor=False)
    axes[0, 1].tick_params(axis="y", which="minor", labelleft=False)
    for panel in (axes[0, 0], axes[1, 0], axes[1, 1]):
        panel.set(ylabel="accuracy", ylim=(-0.03, 1.05))
    axes[0, 0].plot([], [], "x", color="0.4", label="seed that failed to learn")
    style.shared_legend(figure, axes.flat, ncols=4)
    figure.suptitle(_settings(frame), fontsize="small")
    return figure


def _settings(frame: pd.DataFrame) -> str:
    """Return date and settings of the run."""
    steps = frame.groupby("task")["steps"].max()
    seeds = frame.groupby(["task", "width", "mixer"])["seed"].nunique()
    dates = " and ".join(sorted(frame["date"].unique()))
    return (
        f"{frame['study'].iloc[0]} run of {dates}: vocabulary 128, length 64, "
        f"{steps['recall']} steps (Markov source {steps['markov']}), "
        f"{seeds.min()} to {seeds.max()} seeds"
    )


def _draw(
    panel: Axes,
    part: pd.DataFrame,
    value: str,
    looks: dict[str, dict[str, Any]],
    *,
    linestyle: str = "-",
    hollow: bool = False,
) -> None:
    """Draw means over seeds as lines, their ranges as bars, and seeds that failed as crosses."""
    for name in [mixer for mixer in looks if mixer in set(part["mixer"])]:
        own = part[part["mixer"] == name]
        look = looks[name] | {"linestyle": linestyle}
        if hollow:
            look |= {"markerfacecolor": "white", "label": "_nolegend_"}
        aside = 1.0 + _OFFSET * _OFFSETS[name]
        seeds = own.groupby("x")[value].agg(["mean", "min", "max"])
        x, lost = aside * seeds.index.to_numpy(), own[own["failed"]]
        panel.plot(x, seeds["mean"], markersize=4.5, **look)
        panel.vlines(x, seeds["min"], seeds["max"], colors=look["color"], linewidth=1.2)
        panel.scatter(aside * lost["x"], lost[value], color=look["color"], marker="x", s=24)


def _draw_others(
    panel: Axes, part: pd.DataFrame, value: str, coloured: dict[str, dict[str, Any]]
) -> pd.DataFrame:
    """Draw means of all others as thin lines with one name, and seeds that failed.

    Return the means: a column for each mixer, a row for each place.
    """
    others = part[~part["mixer"].isin(coloured)]
    means = others.groupby(["x", "mixer"])[value].mean().unstack()
    label = "other activations"
    for name in means:
        own = means[name].dropna()
        panel.plot(own.index, own, color="0.7", linewidth=0.8, label=label, zorder=1)
        label = "_nolegend_"
    lost = others[others["failed"]]
    panel.scatter(lost["x"], lost[value], color="0.7", marker="x", s=12, zorder=1)
    return means


def _name_falling(panel: Axes, means: pd.DataFrame) -> None:
    """Write the names of lines that end below their best place, at their common ends."""
    ends: dict[float, list[str]] = {}
    for name in means:
        own = means[name].dropna()
        if len(own) > 1 and (end := float(own.iloc[-1])) < own.max() - _FALL:
            place = next((one for one in ends if abs(one - end) < _FALL), end)
            ends.setdefault(place, []).append(str(name))
    for end, names in ends.items():
        aside: dict[str, Any] = {"xytext": (-3, 4), "textcoords": "offset points", "ha": "right"}
        panel.annotate(", ".join(names), (means.index[-1], end), fontsize=6.5, **aside)
