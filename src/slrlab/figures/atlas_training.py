"""The atlas beyond infinite data as files: its table, and a picture of the order of the risks."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from slrlab._types import Axes
from slrlab.experiments.atlas.training import FRACTION, STARTS, TIME
from slrlab.experiments.atlas.training_table import comparable, rank_agreement
from slrlab.figures import style
from slrlab.figures.labels import place_labels

TRAINING_TITLE = "Test risk after training, and training time, against the risk with infinite data"
TRAINING_CAPTION = (
    "Test risk of trained attention at its best ridge against its risk with infinite data, one "
    "point for each activation that the theory covers, for several numbers of samples per "
    "dimension; last panel: time that gradient flow takes until nine tenths of the way to the "
    "least risk are covered (triangles: from most starts it never gets there). Points that rise "
    "from left to right keep the order of infinite data; ρ is the rank correlation. Black signs "
    "mark numbers of limited accuracy."
)
_COLOURS = {family: color for family, (color, _) in style.FAMILIES.items()}
_NAMED = ("softmax", "linear")
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
        panels, names = list(axes.flat), list[Callable[[], None]]()
        for panel, (alpha, rho) in zip(panels, agreement.items(), strict=False):
            part = frame[(frame["alpha"] == alpha) & comparable(frame)].set_index("activation")
            names.append(_draw_risks(panel, part.assign(limit=limits["risk"])))
            panel.set(title=f"{style.in_symbols(alpha=alpha)}, ρ = {rho:.2f}", ylabel="test risk")
        timed = limits.dropna(subset="training_time")
        names.append(_draw_times(panels[len(agreement)], timed))
        for panel in panels[len(agreement) + 1 :]:
            panel.set_axis_off()
        for panel in panels[: len(agreement) + 1]:
            panel.set_xlabel("risk with infinite data")
        style.shared_legend(figure, panels)
        for write in names:
            write()
        figure.savefig(path)
        plt.close(figure)


def _draw_risks(panel: Axes, part: pd.DataFrame) -> Callable[[], None]:
    """Draw the risks; return a function that writes the names, once the layout is known."""
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
    return lambda: _name(panel, part["limit"], part["risk"], [*_NAMED, *moves.index[:_MOVED]])


def _draw_times(panel: Axes, limits: pd.DataFrame) -> Callable[[], None]:
    """Draw the median time, infinite ones at the upper edge; return a function for the names."""
    finite = limits["training_time"].map(math.isfinite)
    top = 2.0 * limits.loc[finite, "training_time"].max() if finite.any() else TIME
    heights = limits["training_time"].where(finite, top)
    for family, colour in _COLOURS.items():
        for rows, marker in ((finite, "o"), (~finite, "^")):
            chosen = rows & (limits["family"] == family)
            look: dict[str, Any] = {"linestyle": "", "marker": marker, "color": colour}
            look["label"] = family if marker == "o" else None
            if chosen.any():
                panel.plot(limits.loc[chosen, "risk"], heights[chosen], **look)
    if not finite.all():  # of every family
        look = {"linestyle": "", "marker": "^", "color": "0.5"}
        panel.plot([], [], label="never, from most starts", **look)
    slow = heights.sort_values(ascending=False).index[: max(_MOVED, int((~finite).sum()))]
    title = f"time to {FRACTION:.0%} of the way, median of {STARTS} starts"
    panel.set(title=title, ylabel="time of gradient flow", yscale="log")
    return lambda: _name(panel, limits["risk"], heights, [*_NAMED, *slow])


def _name(panel: Axes, x: pd.Series, y: pd.Series, names: list[str]) -> None:
    """Write names near their points."""
    kept = [name for name in dict.fromkeys(names) if name in x.index]
    points = np.column_stack([x, y.reindex(x.index)])
    at = np.column_stack([x[kept], y[kept]])
    place_labels(panel, kept, at, points=points, fontsize=7, start=2.0)
