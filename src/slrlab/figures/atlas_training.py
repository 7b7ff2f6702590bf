"""The atlas beyond infinite data as files: its table, and a picture of the order of the risks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd

from slrlab._types import Axes
from slrlab.experiments.atlas_training import FRACTION, STARTS, TIME, comparable, rank_agreement
from slrlab.figures import style

TRAINING_TITLE = "Test risk after training, and training time, against the risk with infinite data"
TRAINING_CAPTION = (
    "Test risk of trained attention at its best ridge against its risk with infinite data, one "
    "point for each activation that the theory covers, for several numbers of samples per "
    "dimension; last panel: time that gradient flow takes until nine tenths of the way to the "
    "least risk are covered (triangles: from most starts it never gets there). Points that rise "
    "from left to right keep the order of infinite data; ρ is the rank correlation. Black signs "
    "mark numbers of limited accuracy."
)
_COLOURS = {
    "elementwise": "#D55E00",
    "normalised": "#0072B2",
    "projection": "#009E73",
    "ratio": "#CC79A7",
    "ordered": "#E69F00",
}
_NAMED = ("softmax", "linear")
_CLOSE = 0.06  # distance, in parts of the panel, below which two names would cover each other
_MOVED = 3  # activations that are named because they change their rank most


def write_training(frame: pd.DataFrame, out: Path) -> list[Path]:
    """Write the table of `atlas_training` and its picture; return the files."""
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / "atlas-training.csv", out / "atlas-training.png"]
    frame.to_csv(paths[0], index=False)
    _draw(frame, paths[1])
    return paths


@style.house_style()
def _draw(frame: pd.DataFrame, path: Path) -> None:
    import matplotlib as mpl

    with mpl.rc_context({"backend": "agg"}):
        import matplotlib.pyplot as plt

        limits = frame[frame["alpha"].map(math.isinf)].set_index("activation")
        agreement = rank_agreement(frame)
        rows = math.ceil((len(agreement) + 1) / 2)
        figure, axes = style.new_figure(rows, 2, 7.2, 3.2 * rows + 0.6)
        panels = list(axes.flat)
        for panel, (alpha, rho) in zip(panels, agreement.items(), strict=False):
            part = frame[(frame["alpha"] == alpha) & comparable(frame)].set_index("activation")
            _draw_risks(panel, part.assign(limit=limits["risk"]))
            panel.set(title=f"{style.in_symbols(alpha=alpha)}, ρ = {rho:.2f}", ylabel="test risk")
        _draw_times(panels[len(agreement)], limits.dropna(subset="training_time"))
        for panel in panels[len(agreement) + 1 :]:
            panel.set_axis_off()
        for panel in panels[: len(agreement) + 1]:
            panel.set_xlabel("risk with infinite data")
        style.shared_legend(figure, panels)
        figure.savefig(path)
        plt.close(figure)


def _draw_risks(panel: Axes, part: pd.DataFrame) -> None:
    for family, colour in _COLOURS.items():
        rows = part[part["family"] == family]
        look: dict[str, Any] = {"fmt": "o", "color": colour, "capsize": 2, "markersize": 4}
        if len(rows):
            panel.errorbar(rows["limit"], rows["risk"], yerr=rows["error"], label=family, **look)
    style.mark_statuses(panel, part["limit"], part["risk"], part["status"])
    ends = [part["limit"].min(), part["limit"].max()]
    panel.plot(ends, ends, color="0.6", linewidth=1.0, label="as with infinite data")
    best = part["bayes_risk"].iloc[0]
    panel.axhline(best, color="black", linewidth=1.0, linestyle="--", label="Bayes-optimal")
    moves = (part["risk"].rank() - part["limit"].rank()).abs().sort_values(ascending=False)
    _name(panel, part["limit"], part["risk"], [*_NAMED, *moves.index[:_MOVED]])


def _draw_times(panel: Axes, limits: pd.DataFrame) -> None:
    """Draw the median time; the ones that are infinite at the upper edge."""
    finite = limits["training_time"].map(math.isfinite)
    top = 2.0 * limits.loc[finite, "training_time"].max() if finite.any() else TIME
    heights = limits["training_time"].where(finite, top)
    for family, colour in _COLOURS.items():
        for rows, marker in ((finite, "o"), (~finite, "^")):
            chosen = rows & (limits["family"] == family)
            look: dict[str, Any] = {"linestyle": "", "marker": marker, "color": colour}
            look["label"] = family if marker == "o" else "never, from most starts"
            if chosen.any():
                panel.plot(limits.loc[chosen, "risk"], heights[chosen], **look)
    slow = heights.sort_values(ascending=False).index[:_MOVED]
    _name(panel, limits["risk"], heights, [*_NAMED, *slow])
    title = f"time to {FRACTION:.0%} of the way, median of {STARTS} starts"
    panel.set(title=title, ylabel="time of gradient flow", yscale="log")


def _name(panel: Axes, x: pd.Series, y: pd.Series, names: list[str]) -> None:
    """Write names beside their points, towards the middle; only one of points that coincide."""
    ranges = x.max() - x.min() or 1.0, y.max() - y.min() or 1.0
    done: list[str] = []
    for name in (name for name in dict.fromkeys(names) if name in x.index):
        distances = (
            abs(x[name] - x[old]) / ranges[0] + abs(y[name] - y[old]) / ranges[1] for old in done
        )
        if all(distance > _CLOSE for distance in distances):
            left = x[name] > x.min() + 0.7 * ranges[0]
            shift, side = ((-4, 4), "right") if left else ((4, 4), "left")
            look: dict[str, Any] = {"textcoords": "offset points", "fontsize": 7, "ha": side}
            panel.annotate(name, (x[name], y[name]), shift, **look)
            done.append(name)
