"""Length transfer: vectors fitted at one length and used at another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from slrlab._types import Report
from slrlab.experiments.running.parallel import parallel_map
from slrlab.experiments.transfer import RULES, length_transfer
from slrlab.figures import style
from slrlab.figures.registry import About
from slrlab.model.tasks import SpikedSLR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABOUT = About(
    title="Length transfer: fitted at one length, used at another, spiked-SLR, signal 9",
    caption="""
    Maps: loss of vectors fitted with infinite data at one length and used at another, the part of
    the attainable gain that is missed (red: above 1, worse than the prediction 0). Softmax loses
    nothing at any pair, SSMax loses off the diagonal, sparsemax most where sequences are longer
    than in the fit; sigmoid breaks at longer and ReLU over L at shorter ones. Right: softmax
    trained at length 10 on two samples per dimension, with factors on the scores; losses above 1.3
    are not drawn, so that the curve of log L leaves the panel, and the best factor is above 1 but
    tends to the dotted line instead of growing as log L.
    """,
    costs={"transfer: maps": 3.0, "transfer: trained": 5.0},
    section="Atlas of activations",
    compiled=True,
)
SIGNAL = 9.0
MAPS = ("softmax", "ssmax", "sparsemax", "sigmoid", "sigmoid-log-length", "relu-over-length")
LONGEST = 1000
POINTS = {"toy": 2, "quick": 5, "full": 13}
TRAINED_POINTS = {"toy": 3, "quick": 9, "full": 25}
TOLERANCE = {"toy": 5e-2, "quick": 5e-3, "full": 1e-3}
FIT, ALPHA = 10, 2.0
RIDGES = (0.153, 0.228)  # near those of least test risk
LEAST = 1e-4  # loss that counts as none in the colours
COLORS = {"constant": "#0072B2", "sqrt-log": "#E69F00", "log": "#D55E00", "best": "#000000"}
LABELS = {
    "constant": "factor 1",
    "sqrt-log": "$\\sqrt{\\log L_1/\\log L_0}$",
    "log": "$\\log L_1/\\log L_0$",
    "best": "best factor",
}
_KEPT = ["rule", "fit", "use", "factor", "risk", "error", "bayes_risk", "loss", "refitted_loss"]
_KEPT += ["m_k", "q_k", "status"]


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return the maps of each activation, and the rules after training."""
    maps = [(name, POINTS[profile]) for name in reversed(MAPS)]
    parts = parallel_map(_map, maps, label="transfer: maps", report=report)
    curve = [(TRAINED_POINTS[profile], TOLERANCE[profile])]
    parts += parallel_map(_trained, curve, label="transfer: trained", report=report)
    return pd.concat(parts, ignore_index=True)


def _lengths(longest: int, count: int) -> list[int]:
    return sorted({round(length) for length in np.geomspace(2, longest, count).tolist()})


def _map(item: tuple[str, int]) -> pd.DataFrame:
    """Return the losses of one activation with infinite data."""
    name, count = item
    lengths = _lengths(LONGEST, count)
    frame = length_transfer(SpikedSLR(SIGNAL, FIT), name, fit=lengths, use=lengths).to_frame()
    return frame[_KEPT].assign(panel="map", activation=name)


def _trained(item: tuple[int, float]) -> pd.DataFrame:
    """Return the losses of trained softmax by all rules."""
    count, tolerance = item
    transfer = length_transfer(
        SpikedSLR(SIGNAL, FIT),
        "softmax",
        fit=FIT,
        use=_lengths(10 * LONGEST, count),
        rule=RULES,
        alpha=ALPHA,
        ridge_k=RIDGES[0],
        ridge_v=RIDGES[1],
        refit=False,
        tolerance=tolerance,
    )
    return transfer.to_frame()[_KEPT].assign(panel="trained", activation="softmax")


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw the maps at the left, the rules after training at the right."""
    figure, axes = style.new_figure(2, 4, 9.6, 4.9)
    for panel, name in zip(axes[:, :3].flat, MAPS, strict=True):
        drawn = _draw_map(panel, frame[(frame["panel"] == "map") & (frame["activation"] == name)])
        panel.set_title(name)
    for panel in axes[:, 0]:
        panel.set_ylabel("length of the fit $L_0$")
    for panel in axes[1]:
        panel.set_xlabel("length of use $L_1$")
    options: dict[str, Any] = {"location": "bottom", "shrink": 0.6, "aspect": 40, "extend": "both"}
    figure.colorbar(drawn, ax=axes[:, :3], label="loss", **options)
    _draw_rules(axes[:, 3], frame[frame["panel"] == "trained"])
    style.shared_legend(figure, axes[::-1, 3], ncols=5)
    return figure


def _draw_map(panel: Axes, part: pd.DataFrame) -> Any:
    """Fill a panel with the loss at each pair of lengths."""
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    colors = colormaps["viridis"].with_extremes(over="#B2182B")
    grid = part.pivot(index="fit", columns="use", values="loss").astype(float)
    values = np.clip(grid.to_numpy(), LEAST, None)
    norm, edges = LogNorm(LEAST, 1.0), np.arange(len(grid) + 1) - 0.5
    drawn = panel.pcolormesh(edges, edges, values, cmap=colors, norm=norm)
    ticks = list(range(0, len(grid), max(1, (len(grid) - 1) // 4)))
    panel.set_xticks(ticks, [str(grid.columns[index]) for index in ticks])
    panel.set_yticks(ticks, [str(grid.index[index]) for index in ticks])
    panel.tick_params(labelsize=7)
    panel.set_aspect("equal")
    panel.grid(visible=False)
    return drawn


def _draw_rules(panels: Any, part: pd.DataFrame) -> None:
    """Draw losses above and factors below, against the length of use."""
    losses, factors = panels
    for name, rows in part.groupby("rule", sort=False):
        look = {"color": COLORS[str(name)], "label": LABELS[str(name)]}
        losses.plot(rows["use"], rows["loss"], marker=".", **look)
        factors.plot(rows["use"], rows["factor"], marker=".", **look)
        style.mark_statuses(losses, rows["use"], rows["loss"], rows["status"])
    matched = math.sqrt(SIGNAL) * float(part["m_k"].iloc[0]) / float(part["q_k"].iloc[0])
    label = "$\\sqrt{\\nu}\\,m_k/q_k$"
    factors.axhline(matched, color="0.4", linestyle=":", linewidth=1.2, label=label)
    for panel in panels:
        panel.axvline(FIT, color="0.8", zorder=0)
        panel.set_xscale("log")
    losses.set(ylim=(0.0, 1.3), ylabel="loss")
    losses.set_title(f"softmax trained at $L_0={FIT}$, {style.in_symbols(alpha=ALPHA)}")
    factors.set(ylabel="factor of the scores", xlabel="length of use $L_1$", ylim=(0.0, 4.2))
