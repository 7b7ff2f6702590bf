"""Figure 4: order parameters after gradient flow from small random starts, against the signal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab._types import Report
from slrlab.experiments.parallel import parallel_map
from slrlab.experiments.small_starts import ENDS, INFINITY, small_starts
from slrlab.figures.registry import About
from slrlab.figures.style import END_COLORS, MARKS, house_style, shared_legend
from slrlab.model.tasks import make_task

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABOUT = About(
    title=(
        "Order parameters after gradient flow from random starts of size 0.1, spiked-SLR, length 10"
    ),
    caption="""
    Top: overlaps with the teachers after gradient flow from random starts, as means over runs that
    end matched (bars: smallest and largest), on lines of the best values. Bottom: the share of runs
    that end at each minimum. Runs that end matched find the optimum, and what vanishes there is
    zero to rounding; at large signals some runs end mismatched, most of all those of linear
    attention, which then leave for infinity.
    """,
    costs={"figure 4": 16.0},
)
LENGTH, SIZE = 10, 0.1
ACTIVATIONS = ("softmax", "linear")
SIGNALS = {"toy": (0.2, 2.0, 3), "quick": (0.2, 20.0, 9), "full": (0.1, 30.0, 16)}
RUNS = {"toy": 20, "quick": 24, "full": 200}
LEARNED = {"m_kk": ("o", "full"), "m_vv": ("s", "none")}  # marker and its filling
VANISHING = ("m_kv", "m_vk", "R_kk", "R_kv", "R_vv")


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each signal, activation and quantity.

    Mean, smallest and largest value are those of the runs that ended at the matched minimum; how
    many ended where is counted beside them.
    """
    import pandas as pd

    settings = [
        (activation, signal, RUNS[profile])
        for signal in np.geomspace(*SIGNALS[profile]).tolist()[::-1]  # costly ones first
        for activation in ACTIVATIONS
    ]
    parts = parallel_map(_rows, settings, label="figure 4", report=report)
    frame = pd.DataFrame([row for part in parts for row in part])
    return frame.sort_values(["activation", "quantity", "signal"], ignore_index=True)


def _rows(setting: tuple[str, float, int]) -> list[dict[str, Any]]:
    activation, signal, runs = setting
    task = make_task("spiked", signal=signal, length=LENGTH)
    found = small_starts(task, activation, runs=runs, size=SIZE)
    optimum = {"m_kk": found.best.m_k, "m_vv": found.best.m_v}
    counts = {end.replace(" ", "_"): found.count(end) for end in ENDS}
    orders = [order for end, order in zip(found.ends, found.orders, strict=True) if end == ENDS[0]]
    rows = []
    for name in (*LEARNED, *VANISHING):
        values = np.array(
            [
                getattr(order, name) if name[0] == "m" else order.residuals[_RESIDUALS.index(name)]
                for order in orders
            ]
            or [np.nan]
        )
        row = {"activation": activation, "signal": signal, "length": LENGTH, "quantity": name}
        row |= {"mean": values.mean(), "min": values.min(), "max": values.max()}
        rows.append(row | {"optimum": optimum.get(name, 0.0), "runs": runs} | counts)
    return rows


_RESIDUALS = ("R_kk", "R_kv", "R_vv")


def draw(frame: pd.DataFrame) -> Figure:
    """Draw for each activation what is learned and how many runs end where."""
    import matplotlib.pyplot as plt

    with house_style():
        figure, axes = plt.subplots(
            2, 2, figsize=(6.4, 5.4), sharex=True, sharey="row", layout="constrained"
        )
        for column, activation in zip(axes.T, ACTIVATIONS, strict=True):
            part = frame[frame["activation"] == activation]
            _learned(column[0], part, MARKS[activation].color)
            _counts(column[1], part)
            column[0].set_title(f"{activation}, $L={LENGTH}$")
            column[1].set_title(f"{activation}: minimum reached")
            column[1].set_xlabel("signal $\\nu$")
        axes[0][0].set(xscale="log", yscale="log", ylabel="overlap after the flow")
        axes[1][0].set(ylim=(0.0, 1.0), ylabel="share of runs")
        shared_legend(figure, axes.ravel())
        return figure


def _symbol(name: str) -> str:
    return f"${name[0]}_{{{name[2:]}}}$"


def _learned(panel: Axes, part: pd.DataFrame, color: str) -> None:
    """Draw means with bars from the smallest to the largest value, on lines of the best ones."""
    for index, (name, (marker, filling)) in enumerate(LEARNED.items()):
        rows = part[part["quantity"] == name]
        panel.plot(rows["signal"], rows["optimum"], color=color, alpha=0.5)
        shift = 1.06 ** (index - 0.5)
        reach = np.abs([rows["mean"] - rows["min"], rows["max"] - rows["mean"]])
        look: dict[str, Any] = {"fmt": marker, "fillstyle": filling, "capsize": 2, "color": color}
        panel.errorbar(shift * rows["signal"], rows["mean"], yerr=reach, **look)
        panel.plot([], [], marker, color="0.3", fillstyle=filling, label=_symbol(name))
    panel.plot([], [], color="0.3", alpha=0.5, label="best value")
    rest = part[part["quantity"].isin(VANISHING)][["min", "max"]].abs().to_numpy()
    names = ", ".join(_symbol(name) for name in VANISHING)
    note = f"{names}:\nbelow {np.nanmax(rest, initial=1e-16):.0e} in matched runs"
    panel.text(0.03, 0.03, note, transform=panel.transAxes, fontsize=8)
    panel.margins(y=0.25)


def _counts(panel: Axes, part: pd.DataFrame) -> None:
    rows = part[part["quantity"] == "m_kk"].sort_values("signal")
    labels = {
        "matched": "matched",
        "mismatched": "mismatched",
        INFINITY: "mismatched, to infinity",
        "other": "other",
        "not_converged": "not converged",
    }
    colors = END_COLORS | {"not_converged": "0.8"}
    kept = [name for name in labels if name == "matched" or (rows[name] > 0).any()]
    panel.stackplot(
        rows["signal"],
        *[rows[name] / rows["runs"] for name in kept],
        labels=[f"runs: {labels[name]}" for name in kept],
        colors=[colors[name] for name in kept],
    )
