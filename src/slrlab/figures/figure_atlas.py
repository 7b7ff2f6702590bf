"""The atlas of activations: losses on a panel of settings, against the length and the signal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from slrlab._types import Report
from slrlab.experiments.atlas.panel import PANEL, atlas, ranking
from slrlab.figures import style
from slrlab.figures.registry import About
from slrlab.model.activations import ACTIVATIONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CAPTION = (
    "Left: the part of the attainable gain that each activation (rows, best first) misses with "
    "infinite data on each setting (columns), from 0 (dark) to 1 (bright); rows that stay dark "
    "contain softmax as a limit. Right: the same loss on spiked-SLR against the length at signal "
    "9 and against the signal at length 10, values below 0.0001 drawn as 0.0001. Maps that grow "
    "like a power (linear, softplus, Taylor) miss almost all of it at length 10,000, elementwise "
    "maps a tenth or more at signal 9 and length 10; hardmax is good at strong signals only."
)


def _rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return rank, losses and limits of each activation."""
    table = ranking(frame)
    names = ["rank", "activation", "family", "mean_loss", "worst_loss", "worst_setting"]
    return table[[*names, "breaks_at"]].rename(columns=lambda name: name.replace("_", " "))


ABOUT = About(
    title="Loss of the activations of the atlas",
    caption=f"{CAPTION} The quick profile shows some activations of each family, the full one all.",
    costs={"atlas": 28.0},
    section="Atlas of activations",
    rows=_rows,
)
SHOWN = {
    "toy": ("softmax", "linear", "sparsemax"),
    "quick": (
        *("softmax", "softplus", "relu-normalised", "spherical-4", "taylor2-normalised"),
        *("linear", "erf", "sigmoid", "relu", "consmax", "ssmax"),
        *("sparsemax", "entmax15", "hardmax", "stick-breaking", "l2-softmax"),
    ),
    "full": tuple(ACTIVATIONS),
}
HIGHLIGHTED = {
    "linear": "#D55E00",
    "softplus": "#CC79A7",
    "erf": "#009E73",
    "consmax": "#661100",
    "spherical-4": "#999933",
    "hardmax": "#332288",
    "sparsemax": "#882255",
    "entmax15": "#44AA99",
}
_SETTINGS = {"toy": PANEL[2:6], "quick": PANEL[:12], "full": PANEL}
_LEAST = 1e-4  # loss that counts as none in the picture


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each setting and activation."""
    return atlas(SHOWN[profile], panel=_SETTINGS[profile], report=report)


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw the heat map of all losses, and two panels of curves beside it."""
    names = ranking(frame)["activation"]
    height = max(7.0, 0.17 * len(names) + 1.8)
    figure, axes = style.new_figure(2, 2, 10.5, height, gridspec_kw={"width_ratios": (3, 2)})
    grid = axes[0, 0].get_gridspec()
    for panel in axes[:, 0]:
        panel.remove()
    _heat_map(figure, figure.add_subplot(grid[:, 0]), frame, names)
    plain = frame[(frame["task"] == "spiked") & (frame["noise"] == 0.0)]
    lengths = pd.to_numeric(plain["length"], errors="coerce")
    _curves(axes[0, 1], plain[plain["signal"] == 9.0].assign(x=lengths).dropna(subset="x"))
    _curves(axes[1, 1], plain[lengths == 10.0].assign(x=plain["signal"]))
    axes[0, 1].set(title="spiked-SLR, $\\nu=9$", xlabel="length $L$")
    axes[1, 1].set(title="spiked-SLR, $L=10$", xlabel="signal $\\nu$")
    return figure


def _heat_map(figure: Figure, panel: Axes, frame: pd.DataFrame, names: pd.Series) -> None:
    from matplotlib.colors import LogNorm

    settings = list(dict.fromkeys(frame["setting"]))
    losses = frame.pivot(index="activation", columns="setting", values="loss")
    shown = np.clip(losses.loc[names, settings].to_numpy(), _LEAST, 1.0)
    drawn = panel.imshow(shown, norm=LogNorm(_LEAST, 1.0), cmap="magma", aspect="auto")
    panel.set_xticks(range(len(settings)), settings, rotation=60, ha="right", fontsize=7)
    panel.set_yticks(range(len(names)), names, fontsize=7)
    panel.set_title("loss with infinite data")
    panel.grid(visible=False)
    figure.colorbar(drawn, ax=panel, label="part of the attainable gain that is missed")


def _curves(panel: Axes, part: pd.DataFrame) -> None:
    """Draw loss against ``x``: a grey line for each activation, some in colour with their name."""
    part = part.assign(loss=part["loss"].clip(lower=_LEAST))
    ends = []
    for name, curve in part.sort_values("x").groupby("activation", sort=False):
        color = HIGHLIGHTED.get(str(name))
        look: dict[str, Any] = {"color": color or "0.85", "linewidth": 1.5 if color else 1.0}
        panel.plot(curve["x"], curve["loss"], zorder=2 if color is None else 3, **look)
        if color is not None:
            ends.append((float(curve["loss"].iloc[-1]), float(curve["x"].iloc[-1]), name, color))
    y = 2.0
    for loss, x, name, color in sorted(ends, reverse=True):  # names keep a distance
        y = min(loss, y / 1.5)
        place: dict[str, Any] = {"xytext": (1.04, y), "textcoords": panel.get_yaxis_transform()}
        panel.annotate(str(name), (x, loss), **place, color=color, fontsize=7, va="center")
    panel.set(xscale="log", yscale="log", ylim=(0.8 * _LEAST, 1.5), ylabel="loss")
    style.x_ticks(panel, *np.unique(part["x"]))
