"""Figure 6, theory part: test risk over the plane of ridges, and where the theory fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slrlab.experiments.parallel import Report, parallel_map
from slrlab.figures.style import MARKS, house_style
from slrlab.model.tasks import make_task
from slrlab.theory.erm import ridge_map

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Test risk and replicon over the ridges, spiked-SLR, signal 2, length 3, alpha 2"
SIGNAL, LENGTH, ALPHA = 2.0, 3, 2.0
ACTIVATIONS = ("softmax", "linear")
POINTS = {"toy": 3, "quick": 8, "full": 17}
TOLERANCE = {"toy": 2e-2, "quick": 1e-2, "full": 2e-3}
# the values of linear attention are about a third as large, so its ridge acts ten times less
RIDGE_K = (0.01, 10.0)
RIDGE_V = {"softmax": (0.01, 10.0), "linear": (0.1, 100.0)}

Setting = tuple[str, float, tuple[float, ...], float]
_KEPT = ["ridge_k", "ridge_v", "test_risk", "test_risk_error", "train_mse", "objective"]
_KEPT += ["m_k", "m_v", "q_k", "q_v", "replicon", "bistable_fraction", "trace_gap", "status"]


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each pair of ridges and activation."""
    import pandas as pd

    count, tolerance = POINTS[profile], TOLERANCE[profile]
    columns = tuple(np.geomspace(*RIDGE_K, count).tolist())
    settings: list[Setting] = [
        (activation, ridge, columns, tolerance)
        for activation in ACTIVATIONS
        for ridge in np.geomspace(*RIDGE_V[activation], count).tolist()
    ]
    lines = parallel_map(_rows, settings, label="figure 6", report=report)
    return pd.concat(lines, ignore_index=True)


def _rows(setting: Setting) -> pd.DataFrame:
    """Return one line of the map."""
    activation, ridge_v, ridge_k, tolerance = setting
    task = make_task("spiked", signal=SIGNAL, length=LENGTH)
    found = ridge_map(
        task, activation, alpha=ALPHA, ridge_k=ridge_k, ridge_v=[ridge_v], tolerance=tolerance
    )
    return found.to_frame().sort_values("ridge_k")[["activation", *_KEPT]]


def draw(frame: pd.DataFrame) -> Figure:
    """Draw risk and replicon of each activation; hatching covers the unstable region."""
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    with house_style():
        figure, axes = plt.subplots(2, 2, figsize=(8.2, 6.4), layout="constrained")
        for row, activation in zip(axes, ACTIVATIONS, strict=True):
            part = frame[frame["activation"] == activation]
            label = MARKS[activation].label
            _map(row[0], part, "test_risk", f"{label}: test risk", "viridis_r")
            _map(row[1], part, "replicon", f"{label}: replicon", "magma_r")
        handles = [
            Patch(facecolor="none", edgecolor="0.2", hatch="///", label="theory not to be trusted"),
            Line2D([], [], marker="*", color="#D55E00", linestyle="", label="least test risk"),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
        figure.suptitle(f"spiked-SLR, $\\nu={SIGNAL:g}$, $L={LENGTH}$, $\\alpha={ALPHA:g}$")
        return figure


def _map(panel: Axes, part: pd.DataFrame, column: str, title: str, colours: str) -> None:
    import matplotlib.pyplot as plt
    from matplotlib.colors import LogNorm

    grid = part.pivot(index="ridge_v", columns="ridge_k", values=column).astype(float)
    trusted = part.pivot(index="ridge_v", columns="ridge_k", values="status") == "sampled"
    x, y = grid.columns.to_numpy(), grid.index.to_numpy()
    values = grid.to_numpy()
    risk = column == "test_risk"
    low, high = (np.nanmin(values), min(np.nanmax(values), 1.5)) if risk else (0.1, 3.0)
    levels = np.geomspace(low, high, 15)
    drawn = panel.contourf(
        x, y, values, levels, cmap=colours, norm=LogNorm(low, high), extend="both"
    )
    bar = plt.colorbar(drawn, ax=panel, ticks=levels[::2], format="%.2g")
    bar.ax.minorticks_off()
    doubt = np.where(trusted.to_numpy(), 0.0, 1.0)
    panel.contourf(x, y, doubt, [0.5, 1.5], colors="none", hatches=["///"])
    panel.contour(x, y, doubt, [0.5], colors="0.2", linewidths=1.0)
    if not risk:
        panel.contour(x, y, values, [1.0], colors="white", linewidths=1.5)
    best = part[part["status"] == "sampled"].nsmallest(1, "test_risk")
    panel.plot(best["ridge_k"], best["ridge_v"], "*", color="#D55E00", markersize=11)
    panel.set(xscale="log", yscale="log", title=title)
    panel.set(xlabel="ridge of the keys $r_k$", ylabel="ridge of the values $r_v$")
