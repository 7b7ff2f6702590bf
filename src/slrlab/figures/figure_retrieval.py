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
    parameters; grey: the other activations of the atlas, without ranges. Bottom: recall against
    pairs per width, and the class of the largest item for models that were trained on 16 items.
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
_OFFSETS = {"softmax": 0, "silu-linear": -2, "tnl": -1, "cosformer2": 1, "hgrn2": 2}
_OFFSET = 0.035  # step of the offsets, as a share of the place on an axis


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return the stored tests, whatever the profile: training takes too long here."""
    frame = table("retrieval")
    if report is not None:
        report(1, 1, "figure retrieval")
    return frame


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw recall and the Markov source against size, and recall and maximum beyond training."""
    figure, axes = style.new_figure(2, 2, 8.0, 6.2)
    tests = {str(name): part for name, part in frame.groupby("test")}
    recall, markov = tests["recall"], tests["markov"]
    most = recall[recall["size"] == max(PAIRS)]
    excess = markov["loss"] - MarkovTask().entropy
    for panel, part, value in (
        (axes[0, 0], most.assign(x=most["parameters"]), "accuracy"),
        (axes[0, 1], markov.assign(x=markov["parameters"], excess=excess), "excess"),
    ):
        _draw(panel, part, value)
        _draw_maps(panel, part, value)
    # one number of pairs per width from several widths would mix two effects
    _draw(
        axes[1, 0],
        most.assign(x=most["size"] / most["width"]),
        "accuracy",
    )
    own = recall[recall["width"] == WIDTH]
    _draw(axes[1, 0], own.assign(x=own["size"] / WIDTH), "accuracy", linestyle=":", hollow=True)
    _draw(axes[1, 1], tests["max"].assign(x=tests["max"]["size"]), "accuracy")
    widths = ", ".join(str(width) for width in sorted(most["width"].unique()))
    axes[0, 0].set(
        title=f"recall of {max(PAIRS)} pairs, widths {widths}", xlabel="parameters", xscale="log"
    )
    axes[0, 1].set(
        title="Markov source: no retrieval",
        xlabel="parameters",
        xscale="log",
        ylabel="loss above the entropy (nats)",
    )
    axes[0, 1].set_ylim(bottom=0.0)
    axes[1, 0].set(
        title=f"all widths at {max(PAIRS)} pairs (full), width {WIDTH} (dotted)",
        xlabel="pairs / width",
    )
    axes[1, 0].set_xscale("log", base=2)
    axes[1, 1].set(title="largest item, trained on 16", xlabel="items")
    axes[1, 1].set_xscale("log", base=4)
    for panel in axes[0]:
        style.x_ticks(panel, *sorted(most["parameters"][most["mixer"] == "softmax"].unique()))
    for panel in (axes[0, 0], axes[1, 0], axes[1, 1]):
        panel.set(ylabel="accuracy", ylim=(-0.03, 1.05))
    style.shared_legend(figure, axes.flat, ncols=6)
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
    panel: Axes, part: pd.DataFrame, value: str, *, linestyle: str = "-", hollow: bool = False
) -> None:
    """Draw means over seeds as lines, their ranges as bars, and seeds that failed as crosses."""
    for name in [mixer for mixer in LOOKS if mixer in set(part["mixer"])]:
        own = part[part["mixer"] == name]
        look = LOOKS[name] | {"linestyle": linestyle}
        if hollow:
            look |= {"markerfacecolor": "white", "label": "_nolegend_"}
        aside = 1.0 + _OFFSET * _OFFSETS[name]
        seeds = own.groupby("x")[value].agg(["mean", "min", "max"])
        x, lost = aside * seeds.index.to_numpy(), own[own["failed"]]
        panel.plot(x, seeds["mean"], markersize=4.5, **look)
        panel.vlines(x, seeds["min"], seeds["max"], colors=look["color"], linewidth=1.2)
        panel.scatter(aside * lost["x"], lost[value], color=look["color"], marker="x", s=24)


def _draw_maps(panel: Axes, part: pd.DataFrame, value: str) -> None:
    """Draw means of the other activations as thin lines with one name, and seeds that failed."""
    others = part[~part["mixer"].isin(LOOKS)]
    label = "other activations"
    for _, own in others.groupby("mixer"):
        means = own.groupby("x")[value].mean()
        panel.plot(means.index, means, color="0.7", linewidth=0.8, label=label, zorder=1)
        label = "_nolegend_"
    lost = others[others["failed"]]
    panel.scatter(lost["x"], lost[value], color="0.7", marker="x", s=12, zorder=1)
