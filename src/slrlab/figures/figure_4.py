"""Figure 4: order parameters after gradient flow from small random starts, against the signal."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from slrlab._types import Axes, Figure, Report
from slrlab.experiments.descent.small_starts import ENDS, INFINITY, small_starts
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.points import Row, sorted_table
from slrlab.figures.registry import About
from slrlab.model.task_registry import make_task

ABOUT = About(
    title=(
        "Order parameters after gradient flow from random starts of size 0.1, spiked-SLR, length 10"
    ),
    caption="""
    Top: overlaps with the teachers after gradient flow from random starts, as means over the runs
    that end matched (bars: smallest and largest), on lines of the optimum. Bottom: the share of
    runs that end at each minimum. Runs that end matched reach the optimum; the overlaps that vanish
    there are zero up to rounding. At large signals some runs end mismatched, most often with linear
    attention, whose keys then grow without bound.
    """,
    costs={"figure 4": 16.0},
)
LENGTH, SIZE = 10, 0.1
ACTIVATIONS = ("softmax", "linear")
SIGNALS = {"toy": (0.2, 2.0, 3), "quick": (0.2, 20.0, 9), "full": (0.1, 30.0, 16)}
RUNS = {"toy": 20, "quick": 24, "full": 200}
LEARNED = {"m_kk": ("o", "full"), "m_vv": ("s", "none")}  # marker and its filling
VANISHING = ("m_kv", "m_vk", "R_kk", "R_kv", "R_vv")
_LABELS = {
    "matched": "matched",
    "mismatched": "mismatched",
    INFINITY: "mismatched, to infinity",
    "other": "other",
    "not_converged": "not converged",
}
_COLORS = style.END_COLORS | {"not_converged": "0.8"}


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each signal, activation and quantity.

    Mean, smallest and largest value are those of the runs that ended at the matched minimum. The
    row also counts the runs that ended at each minimum.
    """
    settings = [
        (activation, signal, RUNS[profile])
        for signal in np.geomspace(*SIGNALS[profile]).tolist()[::-1]  # costly ones first
        for activation in ACTIVATIONS
    ]
    parts = parallel_map(_rows, settings, label="figure 4", report=report)
    return sorted_table(chain.from_iterable(parts), "activation", "quantity", "signal")


def _rows(setting: tuple[str, float, int]) -> list[Row]:
    activation, signal, runs = setting
    task = make_task("spiked", signal=signal, length=LENGTH)
    starts = small_starts(task, activation, runs=runs, size=SIZE)
    optimum = {"m_kk": starts.best.m_k, "m_vv": starts.best.m_v}
    counts = {end.replace(" ", "_"): starts.count(end) for end in ENDS}
    matched = [
        vars(order) | dict(zip(("R_kk", "R_kv", "R_vv"), order.residuals, strict=True))
        for end, order in zip(starts.ends, starts.orders, strict=True)
        if end == ENDS[0]
    ]
    rows = []
    for name in (*LEARNED, *VANISHING):
        values = np.array([order[name] for order in matched] or [np.nan])
        row = {"activation": activation, "signal": signal, "length": LENGTH, "quantity": name}
        row |= {"mean": values.mean(), "min": values.min(), "max": values.max()}
        rows.append(row | {"optimum": optimum.get(name, 0.0), "runs": runs} | counts)
    return rows


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw for each activation what is learned and how many runs end at each minimum."""
    figure, axes = style.new_figure(2, 2, 6.4, 5.4, sharex=True, sharey="row")
    for (top, bottom), activation in zip(axes.T, ACTIVATIONS, strict=True):
        part = frame[frame["activation"] == activation]
        _draw_learned(top, part, style.MARKS[activation].color)
        _draw_shares(bottom, part[part["quantity"] == "m_kk"].sort_values("signal"))
        top.set_title(f"{activation}, {style.in_symbols(length=LENGTH)}")
        bottom.set(title=f"{activation}: minimum reached", xlabel="signal $\\nu$")
    axes[0][0].set(xscale="log", yscale="log", ylabel="overlap after the flow")
    axes[1][0].set(ylim=(0.0, 1.0), ylabel="share of runs")
    style.shared_legend(figure, axes.flat)
    return figure


def _draw_learned(panel: Axes, part: pd.DataFrame, color: str) -> None:
    """Draw means with bars from the smallest to the largest value, on lines of the optimum."""
    for index, (name, (marker, filling)) in enumerate(LEARNED.items()):
        rows = part[part["quantity"] == name]
        panel.plot(rows["signal"], rows["optimum"], color=color, alpha=0.5)
        shift = 1.06 ** (index - 0.5)
        bars = np.abs([rows["mean"] - rows["min"], rows["max"] - rows["mean"]])
        look: dict[str, Any] = {"fmt": marker, "fillstyle": filling, "capsize": 2, "color": color}
        panel.errorbar(shift * rows["signal"], rows["mean"], yerr=bars, **look)
        panel.plot([], [], marker, color="0.3", fillstyle=filling, label=style.symbol(name))
    panel.plot([], [], color="0.3", alpha=0.5, label="best value")
    rest = part[part["quantity"].isin(VANISHING)][["min", "max"]].abs().to_numpy()
    names = ", ".join(map(style.symbol, VANISHING))
    note = f"{names}:\nbelow {np.nanmax(rest, initial=1e-16):.0e} in matched runs"
    panel.text(0.03, 0.03, note, transform=panel.transAxes, fontsize=8)
    panel.margins(y=0.25)


def _draw_shares(panel: Axes, rows: pd.DataFrame) -> None:
    reached = [name for name in _LABELS if name == "matched" or (rows[name] > 0).any()]
    panel.stackplot(
        rows["signal"],
        *[rows[name] / rows["runs"] for name in reached],
        labels=[f"runs: {_LABELS[name]}" for name in reached],
        colors=[_COLORS[name] for name in reached],
    )
