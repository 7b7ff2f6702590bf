"""The geometry of the atlas: how far each activation points from the posterior, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from slrlab._types import FloatArray, Report
from slrlab.experiments.atlas.properties import properties
from slrlab.figures import figure_atlas, style
from slrlab.figures.labels import place_labels
from slrlab.figures.registry import About
from slrlab.model.activations import ACTIVATIONS
from slrlab.model.tasks import SpikedSLR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABOUT = About(
    title="Angle of every activation to the posterior, and what it lacks, spiked-SLR, signal 9",
    caption="""
    Left, length 10: shape part of the excess against its size part, at the best keys (1e-7 stands
    for less); activations that reach the posterior are listed. Dotted lines have the same excess,
    labelled by the angle between weights and posterior. Right, lengths 1 to 10: what would remove
    the excess (number on the right). Elementwise maps mostly lack a factor for each
    sequence; most normalised maps lack weights whose log is linear in the score; a division by the
    length lacks a factor for each length.
    """,
    costs={"properties": 18.0},
    section="Atlas of activations",
)
SAMPLES = {"toy": 2048, "quick": 16384, "full": 262144}
SHOWN = {
    "toy": ("softmax", "linear", "sigmoid", "relu-over-length", "sparsemax"),
    "quick": (*figure_atlas.SHOWN["quick"], "relu-over-length", "softmax-1"),
    "full": tuple(ACTIVATIONS),
}
FIXED, RANDOM = "10", "uniform(1,10)"
_LACKS = {
    "log-linear weights": "#56B4E9",
    "a factor for each sequence": "#E69F00",
    "a factor for each length": "#882255",
}
_NONE = 1e-9  # excess that is not drawn
_LEAST = 1e-7  # smallest part that is drawn
_ANGLES = (0.1, 1.0, 10.0, 40.0)


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each length law and activation."""
    tasks = [SpikedSLR(9.0, length) for length in (10, RANDOM)]
    return properties(tasks, SHOWN[profile], samples=SAMPLES[profile], workers=None, report=report)


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw the plane of shape and size, and the shares of what each activation lacks."""
    frame = frame.assign(length=frame["length"].astype(str))
    figure, axes = style.new_figure(1, 2, 11.0, 6.6, width_ratios=(1.6, 1.0))
    plane, fixed = axes[0, 0], frame[frame["length"] == FIXED]
    _draw_plane(plane, fixed)
    _draw_shares(axes[0, 1], frame[frame["length"] == RANDOM])
    style.shared_legend(figure, axes.flat, ncols=4)
    named = fixed[fixed["excess"] > _NONE]
    colors = [style.FAMILIES[family][0] for family in named["family"]]
    place_labels(plane, named["activation"].tolist(), _points(named), colors=colors)
    return figure


def _draw_plane(panel: Axes, rows: pd.DataFrame) -> None:
    """Draw shape and size parts on logarithmic axes, with lines of constant angle."""
    off = rows[rows["excess"] > _NONE]
    points = _points(off)
    norm = float((off["excess"] / off["loss"]).iloc[0])  # E‖p‖²
    for angle in _ANGLES:
        excess = norm * np.sin(np.radians(angle)) ** 2
        shape = np.geomspace(1e-10, excess, 400)[:-1]
        panel.plot(shape, excess - shape, ":", color="0.6", lw=0.8, zorder=0)
        panel.plot([shape[-1]] * 2, [excess - shape[-1], 1e-10], ":", color="0.6", lw=0.8, zorder=0)
        panel.annotate(f"{angle:g}°", (excess, 1.2 * _LEAST), color="0.45", fontsize=7, ha="right")
    for family, (color, marker) in style.FAMILIES.items():
        own = (off["family"] == family).to_numpy()
        if own.any():
            look: dict[str, Any] = {
                "color": color,
                "label": family,
                "ms": 4.5,
                "mec": "white",
                "mew": 0.4,
            }
            panel.plot(*points[own].T, marker, **look)
    title = f"spiked-SLR, {style.in_symbols(signal=9.0, length=FIXED)}"
    panel.set(xscale="log", yscale="log", title=title)
    panel.set(xlim=(0.6 * _LEAST, 0.8), ylim=(_LEAST, 0.8))
    panel.set(xlabel="shape part of the excess", ylabel="size part of the excess")
    exact = rows.loc[rows["excess"] <= _NONE, "activation"]
    text = "on the posterior (0°):\n" + "\n".join(exact)
    panel.text(0.03, 0.935, text, transform=panel.transAxes, va="top", fontsize=6.5, color="0.25")


def _points(rows: pd.DataFrame) -> FloatArray:
    """Return where each activation is drawn."""
    return rows[["shape_part", "size_part"]].to_numpy(dtype=float).clip(_LEAST)


def _draw_shares(panel: Axes, rows: pd.DataFrame) -> None:
    """Draw for each activation, worst on top, what would remove its excess."""
    off = rows[rows["excess"] > _NONE]
    total = off["shape_part"] + off["size_part"] + off["length_part"]
    gains = [
        off["per_sequence"],
        off["per_length"] - off["per_sequence"],
        total - off["per_length"],
    ]
    left, heights = np.zeros(len(off)), np.arange(len(off))
    for (label, color), gain in zip(_LACKS.items(), gains, strict=True):
        share = (gain / total).to_numpy()
        panel.barh(heights, share, left=left, color=color, label=label, height=0.8)
        left = left + share
    for i, excess in enumerate(off["excess"]):
        panel.text(
            1.02,
            i,
            f"{excess:.1e}" if excess < 1e-3 else f"{excess:.3f}",
            va="center",
            fontsize=6.5,
        )
    panel.set_yticks(heights, off["activation"], fontsize=6.5)
    panel.grid(visible=False)
    panel.set(xlim=(0.0, 1.0), ylim=(-0.6, len(off) - 0.4), xlabel="share of the excess")
    panel.set_title(f"lacking, {style.in_symbols(signal=9.0)}, $L$ = 1…10 at random")
