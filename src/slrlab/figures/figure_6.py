"""Figure 6: test risk over the plane of ridges by theory and training, and their difference."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from slrlab._types import Axes, Figure, Report
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.points import simulated_rows
from slrlab.figures.registry import About
from slrlab.model.activations import make_activation
from slrlab.model.setting import Setting
from slrlab.model.tasks import SpikedSLR
from slrlab.theory.erm import ridge_map

if TYPE_CHECKING:
    from matplotlib.colorbar import Colorbar

ABOUT = About(
    title="Theory against training over the ridges, spiked-SLR, signal 2, length 3, alpha 2",
    caption="""
    Left: test risk by theory (squares) and by training (discs inside them) over the ridges of keys
    and values. Middle: replicon. Right: training minus theory; a ring marks a difference that
    chance alone would give once in 400. Theory and training agree except at weak ridges, where the
    theory reports that it cannot be trusted (hatched).
    """,
    costs={"figure 6: theory": 57.0, "figure 6: training": 18.0},
    compiled=True,
)
SIGNAL, LENGTH, ALPHA = 2.0, 3, 2.0
ACTIVATIONS = ("softmax", "linear")
POINTS = {"toy": 3, "quick": 5, "full": 7}
TOLERANCE = {"toy": 2e-2, "quick": 1e-2, "full": 3e-3}
DIM = {"toy": 40, "quick": 300, "full": 7071}  # √(ND) = 10⁴ in the full profile
SEEDS = {"toy": 2, "quick": 3, "full": 2}
# the values of linear attention are about a third as large: a ridge has a tenth of its effect
RIDGE_K = (0.01, 10.0)
RIDGE_V = {"softmax": (0.01, 10.0), "linear": (0.1, 100.0)}

_UNTRUSTED: dict[str, Any] = {"facecolor": "none", "edgecolor": "0.2", "hatch": "////"}

Line = tuple[str, float, tuple[float, ...], float]
_KEPT = ["ridge_k", "ridge_v", "test_risk", "test_risk_error", "train_mse", "objective"]
_KEPT += ["m_k", "m_v", "q_k", "q_v", "replicon", "bistable_fraction", "trace_gap", "status"]


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each pair of ridges and activation."""
    count, tolerance = POINTS[profile], TOLERANCE[profile]
    columns = tuple(np.geomspace(*RIDGE_K, count).tolist())
    settings: list[Line] = [
        (activation, ridge, columns, tolerance)
        for activation in ACTIVATIONS
        for ridge in np.geomspace(*RIDGE_V[activation], count).tolist()
    ]
    lines = parallel_map(_line, settings, label="figure 6: theory", report=report)
    frame = pd.concat(lines, ignore_index=True)
    points = [
        (_setting(row), DIM[profile], SEEDS[profile], "informed")
        for row in frame.to_dict(orient="records")
    ]
    trained = simulated_rows(points, label="figure 6: training", report=report)
    return pd.concat([frame, pd.DataFrame(trained)], axis=1)


def _setting(row: dict[Hashable, Any]) -> Setting:
    activation = make_activation(row["activation"])
    return Setting(SpikedSLR(SIGNAL, LENGTH), activation, ALPHA, row["ridge_k"], row["ridge_v"])


def _line(line: Line) -> pd.DataFrame:
    """Return the theory at one ridge of the values."""
    activation, ridge_v, ridge_k, tolerance = line
    ridges: dict[str, Any] = {"ridge_k": ridge_k, "ridge_v": [ridge_v]}
    task = SpikedSLR(SIGNAL, LENGTH)
    theory = ridge_map(task, activation, alpha=ALPHA, tolerance=tolerance, **ridges)
    return theory.to_frame().sort_values("ridge_k")[["activation", *_KEPT]]


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw risk, replicon and gap of each activation, one cell for each pair of ridges."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure, axes = style.new_figure(2, 3, 9.0, 6.2)
    for row, activation in zip(axes, ACTIVATIONS, strict=True):
        part = frame[frame["activation"] == activation]
        _draw_risks(row[0], part)
        _draw_replicon(row[1], part)
        _draw_gap(row[2], part)
        titles = ("theory (squares), trained (discs)", "stability", "trained minus theory")
        for panel, title in zip(row, titles, strict=True):
            panel.set_title(f"{style.MARKS[activation].label}: {title}")
            _decorate(panel, part)
    look: dict[str, Any] = {"linestyle": "", "color": "black", "markersize": 8}
    star = Line2D([], [], marker="*", label="least test risk of the theory", **look)
    look |= {"marker": "o", "markerfacecolor": "none"}
    ring = Line2D([], [], label="chance below 1 in 400", **look)
    untrusted = Patch(label="theory not to be trusted", **_UNTRUSTED)
    figure.legend(handles=[untrusted, star, ring], loc="outside lower center", ncols=3)
    size = f"trained at $D={int(frame['dim'].iloc[0])}$, {int(frame['seeds'].iloc[0])} seeds"
    setting = style.in_symbols(signal=SIGNAL, length=LENGTH, alpha=ALPHA)
    figure.suptitle(f"spiked-SLR, {setting}, {size}")
    return figure


def _draw_cells(
    panel: Axes, part: pd.DataFrame, column: str, look: dict[str, Any], **bar: Any
) -> Colorbar:
    """Fill a cell around each pair of ridges with the colour of one quantity; add a colour bar."""
    grid = part.pivot(index="ridge_v", columns="ridge_k", values=column).astype(float)
    where = (np.log10(grid.columns.to_numpy()), np.log10(grid.index.to_numpy()))
    cells = panel.pcolormesh(*where, grid.to_numpy(), shading="nearest", **look)
    return panel.figure.colorbar(cells, ax=panel, **bar)


def _draw_discs(panel: Axes, part: pd.DataFrame, values: Any, **look: Any) -> None:
    """Put a disc at each pair of ridges; the fewer there are the larger they can be."""
    size = 16.0 * (17.0 / part["ridge_k"].nunique()) ** 1.5
    where = (np.log10(part["ridge_k"]), np.log10(part["ridge_v"]))
    panel.scatter(*where, c=values, s=size, zorder=3, **look)


def _draw_risks(panel: Axes, part: pd.DataFrame) -> None:
    """Show the test risk of theory and training in one scale of colours."""
    from matplotlib.colors import LogNorm

    both = part[["test_risk", "simulated_risk"]].to_numpy(dtype=float)
    low, high = np.nanmin(both), min(np.nanmax(both), 1.5)
    look: dict[str, Any] = {"cmap": "viridis_r", "norm": LogNorm(low, high)}
    scale: dict[str, Any] = {"ticks": np.geomspace(low, high, 5), "format": "%.2g"}
    bar = _draw_cells(panel, part, "test_risk", look, label="test risk", extend="max", **scale)
    bar.ax.minorticks_off()
    _draw_discs(panel, part, part["simulated_risk"], edgecolors="white", linewidths=0.8, **look)


def _draw_replicon(panel: Axes, part: pd.DataFrame) -> None:
    """Show the replicon, white at 1: above, replica symmetry is unstable."""
    from matplotlib.colors import LogNorm

    look: dict[str, Any] = {"cmap": "PuOr_r", "norm": LogNorm(0.1, 10.0)}
    scale: dict[str, Any] = {"ticks": [0.1, 1, 10], "format": "%g", "extend": "both"}
    _draw_cells(panel, part, "replicon", look, label="replicon (unstable above 1)", **scale)


def _draw_gap(panel: Axes, part: pd.DataFrame) -> None:
    """Show simulated minus predicted risk; a ring where chance would give it once in 400."""
    from scipy.special import stdtrit

    gap = part["simulated_risk"] - part["test_risk"]
    error = np.hypot(part["simulated_error"], part["test_risk_error"])
    # few seeds: Student's law, not the normal one
    sure = np.abs(gap) > stdtrit(part["seeds"] - 1.0, 1.0 - 0.5 / 400.0) * error
    look = {"cmap": "PiYG_r", "vmin": -0.3, "vmax": 0.3}
    label = "difference of test risks"
    _draw_cells(panel, part.assign(gap=gap), "gap", look, label=label, extend="both")
    _draw_discs(panel, part, "none", edgecolors=np.where(sure, "black", "none"), linewidths=1.0)


def _decorate(panel: Axes, part: pd.DataFrame) -> None:
    """Hatch where the theory is not to be trusted, mark the best ridges, name the axes."""
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    width, height = (_log_step(part[name].unique()) for name in ("ridge_k", "ridge_v"))
    trusted = part["status"] == "sampled"
    for _, row in part[~trusted].iterrows():
        corner = math.log10(row["ridge_k"]) - width / 2.0, math.log10(row["ridge_v"]) - height / 2.0
        panel.add_patch(Rectangle(corner, width, height, linewidth=0.0, **_UNTRUSTED))
    best = part[trusted].nsmallest(1, "test_risk")
    where = (np.log10(best["ridge_k"]), np.log10(best["ridge_v"]))
    panel.plot(*where, "*", color="black", markeredgecolor="white", markersize=8, zorder=4)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(MultipleLocator(1.0))
        axis.set_major_formatter(FuncFormatter(lambda power, _: f"{10.0**power:g}"))
    panel.grid(visible=False)
    panel.set(xlabel="ridge of the keys $r_k$", ylabel="ridge of the values $r_v$")


def _log_step(ridges: Any) -> float:
    """Return the width of a cell in powers of ten; the grid is geometric."""
    return float(np.diff(np.log10(np.sort(ridges))).mean())
