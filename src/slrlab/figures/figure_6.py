"""Figure 6: test risk over the plane of ridges, by theory and training, and where they part."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab._types import Report
from slrlab.experiments.parallel import parallel_map
from slrlab.figures.points import simulated_rows
from slrlab.figures.registry import About
from slrlab.figures.style import MARKS, house_style
from slrlab.model.activations import make_activation
from slrlab.model.setting import Setting
from slrlab.model.tasks import SpikedSLR
from slrlab.theory.erm import ridge_map

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABOUT = About(
    title="Theory against training over the ridges, spiked-SLR, signal 2, length 3, alpha 2",
    caption="""
    Test risk by theory (squares) and by training (discs inside them), replicon, and training minus
    theory over the ridges of keys and values. The two agree but where the theory warns (hatched),
    at weak ridges. A ring marks a difference that chance would give once in 400.
    """,
    costs={"figure 6: theory": 57.0, "figure 6: training": 18.0},
    compiled=True,
)
SIGNAL, LENGTH, ALPHA = 2.0, 3, 2.0
ACTIVATIONS = ("softmax", "linear")
POINTS = {"toy": 3, "quick": 5, "full": 9}
TOLERANCE = {"toy": 2e-2, "quick": 1e-2, "full": 3e-3}
DIM = {"toy": 40, "quick": 300, "full": 7071}  # √(ND) = 10⁴ in the full profile
SEEDS = {"toy": 2, "quick": 3, "full": 2}
# the values of linear attention are about a third as large, so its ridge acts ten times less
RIDGE_K = (0.01, 10.0)
RIDGE_V = {"softmax": (0.01, 10.0), "linear": (0.1, 100.0)}

Line = tuple[str, float, tuple[float, ...], float]
_KEPT = ["ridge_k", "ridge_v", "test_risk", "test_risk_error", "train_mse", "objective"]
_KEPT += ["m_k", "m_v", "q_k", "q_v", "replicon", "bistable_fraction", "trace_gap", "status"]


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each pair of ridges and activation."""
    import pandas as pd

    count, tolerance = POINTS[profile], TOLERANCE[profile]
    columns = tuple(np.geomspace(*RIDGE_K, count).tolist())
    settings: list[Line] = [
        (activation, ridge, columns, tolerance)
        for activation in ACTIVATIONS
        for ridge in np.geomspace(*RIDGE_V[activation], count).tolist()
    ]
    lines = parallel_map(_rows, settings, label="figure 6: theory", report=report)
    frame = pd.concat(lines, ignore_index=True)
    points = [
        (_setting(row), DIM[profile], SEEDS[profile], "informed")
        for row in frame.to_dict(orient="records")
    ]
    found = simulated_rows(points, label="figure 6: training", report=report)
    return pd.concat([frame, pd.DataFrame(found)], axis=1)


def _setting(row: dict[Hashable, Any]) -> Setting:
    activation = make_activation(row["activation"])
    return Setting(SpikedSLR(SIGNAL, LENGTH), activation, ALPHA, row["ridge_k"], row["ridge_v"])


def _rows(setting: Line) -> pd.DataFrame:
    """Return one line of the map."""
    activation, ridge_v, ridge_k, tolerance = setting
    ridges: dict[str, Any] = {"ridge_k": ridge_k, "ridge_v": [ridge_v]}
    task = SpikedSLR(SIGNAL, LENGTH)
    found = ridge_map(task, activation, alpha=ALPHA, tolerance=tolerance, **ridges)
    return found.to_frame().sort_values("ridge_k")[["activation", *_KEPT]]


def draw(frame: pd.DataFrame) -> Figure:
    """Draw risk, replicon and gap of each activation, one cell for each pair of ridges."""
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    with house_style():
        figure, axes = plt.subplots(2, 3, figsize=(9.0, 6.2), layout="constrained")
        for row, activation in zip(axes, ACTIVATIONS, strict=True):
            part = frame[frame["activation"] == activation]
            label = MARKS[activation].label
            _risks(row[0], part, f"{label}: theory (squares), trained (discs)")
            _replicon(row[1], part, f"{label}: stability")
            _gap(row[2], part, f"{label}: trained minus theory")
            for panel in row:
                _decorate(panel, part)
        style: dict[str, Any] = {"linestyle": "", "color": "black", "markersize": 8}
        handles: list[Any] = [
            Patch(
                facecolor="none", edgecolor="0.2", hatch="////", label="theory not to be trusted"
            ),
            Line2D([], [], marker="*", label="least test risk of the theory", **style),
            Line2D(
                [], [], marker="o", markerfacecolor="none", label="chance below 1 in 400", **style
            ),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
        size = f"trained at $D={int(frame['dim'].iloc[0])}$, {int(frame['seeds'].iloc[0])} seeds"
        setting = f"$\\nu={SIGNAL:g}$, $L={LENGTH}$, $\\alpha={ALPHA:g}$"
        figure.suptitle(f"spiked-SLR, {setting}, {size}")
        return figure


def _cells(panel: Axes, part: pd.DataFrame, column: str, **style: Any) -> Any:
    """Fill a cell around each pair of ridges with the colour of one quantity."""
    grid = part.pivot(index="ridge_v", columns="ridge_k", values=column).astype(float)
    where = (np.log10(grid.columns.to_numpy()), np.log10(grid.index.to_numpy()))
    return panel.pcolormesh(*where, grid.to_numpy(), shading="nearest", **style)


def _discs(panel: Axes, part: pd.DataFrame, values: Any, **style: Any) -> Any:
    """Put a disc at each pair of ridges; the fewer there are the larger they can be."""
    size = 16.0 * (17.0 / part["ridge_k"].nunique()) ** 1.5
    where = (np.log10(part["ridge_k"]), np.log10(part["ridge_v"]))
    return panel.scatter(*where, c=values, s=size, zorder=3, **style)


def _risks(panel: Axes, part: pd.DataFrame, title: str) -> None:
    """Show the test risk of theory and training in one scale of colours."""
    import matplotlib.pyplot as plt
    from matplotlib.colors import LogNorm

    both = part[["test_risk", "simulated_risk"]].to_numpy(dtype=float)
    style: dict[str, Any] = {"cmap": "viridis_r"}
    style["norm"] = LogNorm(np.nanmin(both), min(np.nanmax(both), 1.5))
    drawn = _cells(panel, part, "test_risk", **style)
    _discs(panel, part, part["simulated_risk"], edgecolors="white", linewidths=0.8, **style)
    low, high = style["norm"].vmin, style["norm"].vmax
    ticks = np.geomspace(low, high, 5)
    bar = plt.colorbar(drawn, ax=panel, ticks=ticks, format="%.2g", label="test risk", extend="max")
    bar.ax.minorticks_off()
    panel.set(title=title)


def _replicon(panel: Axes, part: pd.DataFrame, title: str) -> None:
    """Show the replicon, white at 1: above, replica symmetry is unstable."""
    import matplotlib.pyplot as plt
    from matplotlib.colors import LogNorm

    style: dict[str, Any] = {"cmap": "PuOr_r", "norm": LogNorm(0.1, 10.0)}
    drawn = _cells(panel, part, "replicon", **style)
    label = "replicon (unstable above 1)"
    plt.colorbar(drawn, ax=panel, ticks=[0.1, 1, 10], format="%g", extend="both", label=label)
    panel.set(title=title)


def _gap(panel: Axes, part: pd.DataFrame, title: str) -> None:
    """Show simulated minus predicted risk; a ring where chance would give it once in 400."""
    import matplotlib.pyplot as plt
    from scipy.special import stdtrit

    gap = part["simulated_risk"] - part["test_risk"]
    error = np.hypot(part["simulated_error"], part["test_risk_error"])
    # few seeds: Student's law, not the normal one
    sure = np.abs(gap) > stdtrit(part["seeds"] - 1.0, 1.0 - 0.5 / 400.0) * error
    style: dict[str, Any] = {"cmap": "PiYG_r", "vmin": -0.3, "vmax": 0.3}
    cells = part.assign(gap=gap)
    drawn = _cells(panel, cells, "gap", **style)
    ringed = part[sure]
    if not ringed.empty:
        _discs(panel, part[sure], "none", edgecolors="black", linewidths=1.0)
    plt.colorbar(drawn, ax=panel, extend="both", label="difference of test risks")
    panel.set(title=title)


def _decorate(panel: Axes, part: pd.DataFrame) -> None:
    """Hatch where the theory is not to be trusted, mark the best ridges, name the axes."""
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    style: dict[str, Any] = {"facecolor": "none", "edgecolor": "0.2", "hatch": "////"}
    keys, values = (_spans(part[name].unique()) for name in ("ridge_k", "ridge_v"))
    doubtful = part[part["status"] != "sampled"]
    for key, value in zip(doubtful["ridge_k"], doubtful["ridge_v"], strict=True):
        (left, right), (low, high) = keys[key], values[value]
        panel.add_patch(Rectangle((left, low), right - left, high - low, linewidth=0.0, **style))
    best = part[part["status"] == "sampled"].nsmallest(1, "test_risk")
    where = (np.log10(best["ridge_k"]), np.log10(best["ridge_v"]))
    panel.plot(*where, "*", color="black", markeredgecolor="white", markersize=8, zorder=4)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(MultipleLocator(1.0))
        axis.set_major_formatter(FuncFormatter(lambda power, _: f"{10.0**power:g}"))
    panel.grid(visible=False)
    panel.set(xlabel="ridge of the keys $r_k$", ylabel="ridge of the values $r_v$")


def _spans(ridges: Any) -> dict[float, tuple[float, float]]:
    """Return where the cell around each ridge begins and ends, as powers of ten."""
    ordered = np.sort(np.asarray(ridges, dtype=float))
    half = np.diff(np.log10(ordered)).mean() / 2.0  # the grid is geometric
    return {ridge: (math.log10(ridge) - half, math.log10(ridge) + half) for ridge in ordered}
