"""Does the theory predict trained models? Excess risks of the atlas against measured errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from slrlab._types import Axes, Figure, Report
from slrlab.experiments.retrieval.prediction import prediction_table
from slrlab.experiments.stored import table
from slrlab.figures import style
from slrlab.figures.registry import About

ABOUT = About(
    title="Excess risk predicted by the atlas against retrieval error measured in trained models",
    caption="""
    Left and middle: one dot for each activation; its excess risk on spiked-SLR by the atlas (signal
    9, length 10; those of at most 1e-6 side by side in the grey strip) against the error of the
    model trained with it, mean and range over seeds, with Spearman's rank correlation and a 95 %
    bootstrap interval over activations. Right: how often the largest weight of a trained head is on
    the relevant token at four times the length of the diagnosis, predicted by `diagnose_scores` and
    measured; hollow are heads whose fit misses its own hit rate by more than 0.05. The models are
    those of the stored study of figure retrieval.
    """,
    costs={"figure prediction": 1.0},
    section="Beyond the paper",
)
TITLES = {"recall": "recall of 16 pairs", "max": "largest of 16 items"}
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#332288", "#661100")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_SMALL = 1e-6  # excess risks of at most this one stand side by side in a strip of their own
_STRIP = (6e-9, 5e-7)  # ends of the strip: all others are to the right of it
_LEAST = 1e-4  # errors below this one are drawn there
_HEADS = {"recall": ("needle", "#0072B2", "o"), "max": ("largest item", "#E69F00", "v")}


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return the predictions of the stored study, whatever the profile."""
    frame = prediction_table(table("retrieval"), table("retrieval-heads"))
    if report is not None:
        report(1, 1, "figure prediction")
    return frame


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw errors against predicted excess risks, and hit rates against predicted ones."""
    figure, axes = style.new_figure(1, 3, 11.0, 4.4)
    for panel, (name, title) in zip(axes[0], TITLES.items(), strict=False):
        _draw_task(panel, frame[frame["panel"] == name], title)
    _draw_heads(axes[0, 2], frame[frame["panel"] == "heads"])
    style.shared_legend(figure, axes[0, :2], ncols=8)
    return figure


def _draw_task(panel: Axes, part: pd.DataFrame, title: str) -> None:
    part = part.assign(**part[["measured", "low", "high"]].clip(lower=_LEAST))
    small = (part["predicted"] <= 1.01 * _SMALL).to_numpy()
    places = np.geomspace(*_STRIP, int(small.sum()) + 2)[1:-1]
    part.loc[small, "predicted"] = places
    error = part["measured"].to_numpy()
    ends = np.abs(part[["low", "high"]].to_numpy().T - error)
    panel.errorbar(part["predicted"], error, yerr=ends, fmt="none", ecolor="0.8", zorder=1)
    for number, row in enumerate(part.to_dict("records")):
        look: dict[str, Any] = {
            "color": _COLORS[number % 8],
            "marker": _MARKERS[(number + number // 8) % 8],
        }
        panel.plot(row["predicted"], row["measured"], linestyle="", label=row["mixer"], **look)
    first = part.iloc[0]
    interval = f"[{first['correlation_low']:.2f}, {first['correlation_high']:.2f}]"
    panel.set(
        title=f"{title}: rank correlation {first['correlation']:.2f} {interval}",
        xscale="log",
        xlabel="excess risk by the atlas",
        ylabel="error of the trained model",
        yscale="log",
        ylim=(0.7 * _LEAST, 1.4),
    )
    panel.axvspan(*_STRIP, color="0.93", zorder=0, linewidth=0.0)
    decades = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
    names = [f"$10^{{{math.log10(one):.0f}}}$" for one in decades]
    panel.set_xticks([math.sqrt(math.prod(_STRIP)), *decades], ["≤ $10^{-6}$", *names])
    panel.minorticks_off()


def _draw_heads(panel: Axes, part: pd.DataFrame) -> None:
    panel.plot([0, 1], [0, 1], color="0.6", linestyle=":")
    for name, (label, color, marker) in _HEADS.items():
        own = part[part["task"] == name]
        trusted = own["trusted"].astype(bool)
        for mask, face, text in ((trusted, color, label), (~trusted, "none", "_nolegend_")):
            look: dict[str, Any] = {"color": color, "marker": marker, "label": text}
            at = own[mask]
            panel.plot(at["predicted"], at["measured"], linestyle="", markerfacecolor=face, **look)
    panel.set(
        title="hit rate of heads at four times the length",
        xlabel="predicted",
        ylabel="measured",
        xlim=(-0.04, 1.04),
        ylim=(-0.04, 1.04),
    )
    grey: dict[str, Any] = {"color": "0.4", "marker": "o", "linestyle": ""}
    panel.plot([], [], label="fit agrees with its own hit rate", **grey)
    panel.plot([], [], label="fit does not (hollow)", markerfacecolor="none", **grey)
    panel.legend(fontsize=7)
