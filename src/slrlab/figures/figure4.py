"""Figure 4: order parameters after gradient flow from small random starts, against the signal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab.experiments.parallel import Report, parallel_map
from slrlab.experiments.small_starts import ENDS, INFINITY, small_starts
from slrlab.figures.style import house_style
from slrlab.model.tasks import make_task

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Order parameters after gradient flow from random starts of size 0.1, spiked-SLR, length 10"
LENGTH, SIZE = 10, 0.1
ACTIVATIONS = ("softmax", "linear")
SIGNALS = {"toy": (0.2, 2.0, 3), "quick": (0.2, 20.0, 9), "full": (0.1, 30.0, 16)}
RUNS = {"toy": 20, "quick": 24, "full": 200}
LEARNED = {"m_kk": ("#0072B2", "o"), "m_vv": ("#D55E00", "s")}
VANISHING = {
    "m_kv": ("#009E73", "^"),
    "m_vk": ("#CC79A7", "v"),
    "R_kk": ("#56B4E9", "D"),
    "R_kv": ("#E69F00", "P"),
    "R_vv": ("#000000", "x"),
}


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
    """Draw for each activation what is learned, what vanishes, and how many runs end where."""
    import matplotlib.pyplot as plt

    with house_style():
        figure, axes = plt.subplots(
            2, 3, figsize=(10.0, 5.2), sharex=True, layout="constrained", squeeze=False
        )
        for row, activation in zip(axes, ACTIVATIONS, strict=True):
            part = frame[frame["activation"] == activation]
            _bars(row[0], part, LEARNED)
            _bars(row[1], part, VANISHING)
            _counts(row[2], part)
            row[0].set(ylabel="value", title=f"{activation}: learned", yscale="log")
            row[1].set(ylabel="value", title=f"{activation}: vanishing", ylim=(-0.11, 0.11))
            row[1].axhspan(-SIZE, SIZE, color="0.93", zorder=0, label="size of the start")
            largest = part[part["quantity"].isin(VANISHING)][["min", "max"]].abs().to_numpy().max()
            note = f"largest of the matched runs: {largest:.0e}"
            row[1].text(0.5, 0.62, note, transform=row[1].transAxes, ha="center")
            row[2].set(ylabel="share of runs", title=f"{activation}: minimum reached")
            row[2].set_ylim(0.0, 1.0)
        axes[0][0].set_xscale("log")
        for panel in axes[1]:
            panel.set_xlabel("signal $\\nu$")
        for panel in axes[0][:2]:
            panel.legend(fontsize=7, loc="lower right", ncols=2)
        axes[1][2].legend(fontsize=7, loc="lower left")
        return figure


def _symbol(name: str) -> str:
    return f"${name[0]}_{{{name[2:]}}}$"


def _bars(panel: Axes, part: pd.DataFrame, marks: dict[str, tuple[str, str]]) -> None:
    """Draw means with bars from the smallest to the largest value; markers side by side."""
    for place, (name, (color, marker)) in enumerate(marks.items()):
        rows = part[part["quantity"] == name]
        if name in LEARNED:
            label = f"{_symbol(name)}, best"
            panel.plot(rows["signal"], rows["optimum"], color=color, alpha=0.5, label=label)
        shift = 1.06 ** (place - (len(marks) - 1) / 2.0)
        spread = [rows["mean"] - rows["min"], rows["max"] - rows["mean"]]
        look: dict[str, Any] = {"fmt": marker, "color": color, "capsize": 2, "label": _symbol(name)}
        panel.errorbar(shift * rows["signal"], rows["mean"], yerr=np.abs(spread), **look)


def _counts(panel: Axes, part: pd.DataFrame) -> None:
    rows = part[part["quantity"] == "m_kk"]
    names = ("matched", "mismatched", INFINITY, "other", "not_converged")
    labels = ("matched", "mismatched", "mismatched, to infinity", "other", "not converged")
    colors = ("#9ecae1", "#D55E00", "#E69F00", "#999999", "#000000")
    shares = [rows[name] / rows["runs"] for name in names]
    kept = [i for i, share in enumerate(shares) if i < 3 or (share > 0.0).any()]
    panel.stackplot(
        rows["signal"],
        *[shares[i] for i in kept],
        labels=[labels[i] for i in kept],
        colors=[colors[i] for i in kept],
    )
