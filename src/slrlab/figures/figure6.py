"""Figure 6: test risk over the plane of ridges, by theory and training, and where they part."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab.experiments.comparison import Setting
from slrlab.experiments.parallel import Report, parallel_map
from slrlab.figures.points import simulated_rows
from slrlab.figures.style import MARKS, house_style
from slrlab.model.tasks import make_task
from slrlab.theory.erm import ridge_map

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Theory against training over the ridges, spiked-SLR, signal 2, length 3, alpha 2"
SIGNAL, LENGTH, ALPHA = 2.0, 3, 2.0
ACTIVATIONS = ("softmax", "linear")
POINTS = {"toy": 3, "quick": 5, "full": 17}
TOLERANCE = {"toy": 2e-2, "quick": 1e-2, "full": 2e-3}
DIM = {"toy": 40, "quick": 300, "full": 2000}
SEEDS = {"toy": 2, "quick": 3, "full": 6}
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
    where = ("spiked", SIGNAL, LENGTH, 0.0, row["activation"], ALPHA)
    return Setting(*where, ridge_k=row["ridge_k"], ridge_v=row["ridge_v"])


def _rows(setting: Line) -> pd.DataFrame:
    """Return one line of the map."""
    activation, ridge_v, ridge_k, tolerance = setting
    task = make_task("spiked", signal=SIGNAL, length=LENGTH)
    found = ridge_map(
        task, activation, alpha=ALPHA, ridge_k=ridge_k, ridge_v=[ridge_v], tolerance=tolerance
    )
    return found.to_frame().sort_values("ridge_k")[["activation", *_KEPT]]


def draw(frame: pd.DataFrame) -> Figure:
    """Draw risk, replicon and gap of each activation; hatching covers the unstable region."""
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    with house_style():
        figure, axes = plt.subplots(2, 3, figsize=(12.0, 6.4), layout="constrained")
        for row, activation in zip(axes, ACTIVATIONS, strict=True):
            part = frame[frame["activation"] == activation]
            label = MARKS[activation].label
            _map(row[0], part, "test_risk", f"{label}: test risk (dots: trained)", "viridis_r")
            _map(row[1], part, "replicon", f"{label}: replicon (white line: 1)", "magma_r")
            _gap(row[2], part, f"{label}: trained minus theory")
            for panel in row:
                _decorate(panel, part)
        handles = [
            Patch(facecolor="none", edgecolor="0.2", hatch="///", label="theory not to be trusted"),
            Line2D([], [], marker="*", color="#D55E00", linestyle="", label="least test risk"),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
        size = f"trained at $D={int(frame['dim'].iloc[0])}$, {int(frame['seeds'].iloc[0])} seeds"
        setting = f"$\\nu={SIGNAL:g}$, $L={LENGTH}$, $\\alpha={ALPHA:g}$"
        figure.suptitle(f"spiked-SLR, {setting}, {size}")
        return figure


def _grid(part: pd.DataFrame, column: str) -> pd.DataFrame:
    return part.pivot(index="ridge_v", columns="ridge_k", values=column)


def _map(panel: Axes, part: pd.DataFrame, column: str, title: str, colours: str) -> None:
    """Fill a panel with one quantity; the risk also as dots in the colour of the training."""
    import matplotlib.pyplot as plt
    from matplotlib.colors import LogNorm

    grid = _grid(part, column).astype(float)
    x, y, values = grid.columns.to_numpy(), grid.index.to_numpy(), grid.to_numpy()
    risk = column == "test_risk"
    low, high = (np.nanmin(values), min(np.nanmax(values), 1.5)) if risk else (0.1, 3.0)
    levels = np.geomspace(low, high, 15)
    norm = LogNorm(low, high)
    drawn = panel.contourf(x, y, values, levels, cmap=colours, norm=norm, extend="both")
    bar = plt.colorbar(drawn, ax=panel, ticks=levels[::2], format="%.2g")
    bar.ax.minorticks_off()
    if risk:
        style: dict[str, Any] = {
            "edgecolors": "white",
            "linewidths": 0.6,
            "s": 26,
            "zorder": 3,
            "clip_on": False,
        }
        where = (part["ridge_k"], part["ridge_v"])
        panel.scatter(*where, c=part["simulated_risk"], cmap=colours, norm=norm, **style)
    else:
        panel.contour(x, y, values, [1.0], colors="white", linewidths=1.5)
    panel.set(title=title)


def _gap(panel: Axes, part: pd.DataFrame, title: str) -> None:
    """Show simulated minus predicted risk; a ring where chance would give it once in 400."""
    import matplotlib.pyplot as plt
    from scipy.special import stdtrit

    gap = part["simulated_risk"] - part["test_risk"]
    error = np.hypot(part["simulated_error"], part["test_risk_error"])
    # few seeds: Student's law, not the normal one
    sure = np.abs(gap) > stdtrit(part["seeds"] - 1.0, 1.0 - 0.5 / 400.0) * error
    edge = ["black" if ringed else "none" for ringed in sure]
    drawn = panel.scatter(
        part["ridge_k"],
        part["ridge_v"],
        c=gap,
        cmap="RdBu_r",
        vmin=-0.3,
        vmax=0.3,
        s=70,
        edgecolors=edge,
        zorder=3,
        clip_on=False,
    )
    plt.colorbar(drawn, ax=panel, extend="both", label="ringed: chance below 1 in 400")
    panel.set(title=title)


def _decorate(panel: Axes, part: pd.DataFrame) -> None:
    """Hatch where the theory is not to be trusted, mark the best ridges, name the axes."""
    status = _grid(part, "status")
    x, y = status.columns.to_numpy(), status.index.to_numpy()
    doubt = np.where((status == "sampled").to_numpy(), 0.0, 1.0)
    panel.contourf(x, y, doubt, [0.5, 1.5], colors="none", hatches=["///"])
    panel.contour(x, y, doubt, [0.5], colors="0.2", linewidths=1.0)
    best = part[part["status"] == "sampled"].nsmallest(1, "test_risk")
    panel.plot(best["ridge_k"], best["ridge_v"], "*", color="#D55E00", markersize=11, zorder=4)
    panel.set(xscale="log", yscale="log")
    panel.set(xlabel="ridge of the keys $r_k$", ylabel="ridge of the values $r_v$")
