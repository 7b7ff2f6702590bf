"""Basins of attraction: which minimum gradient flow reaches, from which start, and how soon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab.experiments.parallel import Report, parallel_map
from slrlab.figures.style import MARKS, house_style
from slrlab.model.lengths import FloatArray
from slrlab.model.tasks import make_task
from slrlab.theory.landscape.ensemble import FlowEnsemble, flow_ensemble
from slrlab.theory.landscape.minima import Kind
from slrlab.theory.landscape.risk import SIZE
from slrlab.theory.landscape.table import TabulatedLandscape, tabulate

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Basins of attraction of gradient flow, spiked-SLR, signal 2, length 10"
SIGNAL, LENGTH = 2.0, 10
ACTIVATIONS = ("softmax", "linear")
ANGLES = {"toy": 7, "quick": 19, "full": 61}
SIZES = {"toy": (0.1, 0.5), "quick": (0.1, 2.0), "full": (0.1, 2.0)}
LENGTHS = {"toy": (0.05, 1.0, 3), "quick": (0.05, 5.0, 11), "full": (0.05, 5.0, 21)}
CLOSE = 0.01  # of the last risk
BOX = {"toy": 1.5, "quick": 6.0, "full": 6.0}  # keys beyond it have left
STARTS = {"toy": 20, "quick": 200, "full": 1000}
ENDS = {
    "matched": ("matched", "#9ecae1"),
    "mismatched": ("mismatched (linear: to infinity)", "#D55E00"),
    "mirror": ("its mirror image", "#E69F00"),
    "reversed": ("$k$ along $-k^*$, $v$ along $-v^*$ (to infinity)", "#CC79A7"),
    "other": ("other or not finished", "#999999"),
}


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return rows of two panels: starts at two angles, and shares of random starts in R⁴.

    ``left`` says that the keys grew out of the box that was tabulated: for linear attention they
    grow for ever.
    """
    import pandas as pd

    settings = [(activation, profile) for activation in ACTIVATIONS]
    parts = parallel_map(_rows, settings, label="figure basins", report=report)
    return pd.DataFrame([row for part in parts for row in part])


def _rows(setting: tuple[str, str]) -> list[dict[str, Any]]:
    activation, profile = setting
    task = make_task("spiked", signal=SIGNAL, length=LENGTH)
    box = BOX[profile]
    table = tabulate(task, activation, m=(-box, box), spread=box, tolerance=1e-4)
    rows = [
        {"panel": "angles", "activation": activation, "size": size} | row
        for size in SIZES[profile]
        for row in _angles(table, size, ANGLES[profile])
    ]
    for index, size in enumerate(np.geomspace(*LENGTHS[profile]).tolist()):
        k, v = np.random.default_rng(index).standard_normal((2, STARTS[profile], SIZE))
        k, v = (size * x / np.linalg.norm(x, axis=1, keepdims=True) for x in (k, v))
        found = flow_ensemble(table, k, v)
        ends = _ends(found)
        row = {"panel": "random", "activation": activation, "size": size, "starts": len(ends)}
        row |= {end: ends.count(end) for end in ENDS}
        rows.append(row | {"left": sum(status == "diverged" for status in found.statuses)})
    return rows


def _angles(table: TabulatedLandscape, size: float, count: int) -> list[dict[str, Any]]:
    turns = np.linspace(-180.0, 180.0, count)
    a, b = (x.ravel() for x in np.meshgrid(turns, turns, indexing="ij"))
    k, v = size * np.zeros((2, a.size, SIZE))
    k[:, 0], k[:, 1] = size * _cosine(a), size * _cosine(a - 90.0)
    v[:, 0], v[:, 1] = size * _cosine(b - 90.0), size * _cosine(b)
    found = flow_ensemble(table, k, v)
    left = [status == "diverged" for status in found.statuses]
    times = np.where(left, np.nan, found.time_within(CLOSE, found.risk[-1]))
    columns = zip(a.tolist(), b.tolist(), _ends(found), left, times.tolist(), strict=True)
    names = ("angle_k", "angle_v", "end", "left", "time")
    return [dict(zip(names, values, strict=True)) for values in columns]


def _cosine(degrees: FloatArray) -> FloatArray:
    return np.asarray(np.cos(np.deg2rad(degrees)))


def _ends(found: FlowEnsemble) -> list[str]:
    """Return what each flow leads to."""
    ends = []
    for kind, k, v, status in zip(found.kinds, found.k, found.v, found.statuses, strict=True):
        if status == "not converged":
            ends.append("other")
        elif kind is Kind.MISMATCHED:
            ends.append("mismatched" if k[1] > 0.0 else "mirror")
        elif kind is Kind.OTHER and k[0] < -0.7 * np.linalg.norm(k) and v[1] < 0.0:
            ends.append("reversed")
        else:
            ends.append(str(kind))
    return ends


def draw(frame: pd.DataFrame) -> Figure:
    """Draw for each activation the basins at two sizes, the times, and the shares."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    with house_style():
        figure, axes = plt.subplots(2, 4, figsize=(13.0, 6.2), layout="constrained")
        for row, activation in zip(axes, ACTIVATIONS, strict=True):
            part = frame[frame["activation"] == activation]
            angles = part[part["panel"] == "angles"]
            small, large = sorted(angles["size"].unique())
            _basins(row[0], angles[angles["size"] == small])
            _basins(row[1], angles[angles["size"] == large])
            row[2].set_facecolor("0.85")
            row[0].set_title(f"{activation}, starts of length {small:g}")
            row[1].set_title(f"{activation}, starts of length {large:g}")
            _times(figure, row[2], angles[angles["size"] == large])
            row[2].set_title(f"length {large:g}: time until risk is within {CLOSE:g} of its end")
            _shares(row[3], part[part["panel"] == "random"], activation)
            for panel in row[:3]:
                panel.set(xlabel="angle of $k$ from $k^*$ to $v^*$")
                panel.set(ylabel="angle of $v$ from $v^*$ to $k^*$")
                panel.set(xticks=[-180, -90, 0, 90, 180], yticks=[-180, -90, 0, 90, 180])
                panel.grid(visible=False)
        handles = [Patch(color=color, label=label) for label, color in ENDS.values()]
        figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=8)
        return figure


def _image(part: pd.DataFrame, column: str) -> tuple[FloatArray, tuple[float, float, float, float]]:
    table = part.pivot(index="angle_v", columns="angle_k", values=column)
    half = 180.0 / (len(table) - 1)
    return table.to_numpy(), (-180.0 - half, 180.0 + half, -180.0 - half, 180.0 + half)


def _basins(panel: Axes, part: pd.DataFrame) -> None:
    from matplotlib.colors import ListedColormap

    names = list(ENDS)
    image, extent = _image(part.assign(code=part["end"].map(names.index)), "code")
    colors = ListedColormap([color for _, color in ENDS.values()])
    panel.imshow(
        image, extent=extent, origin="lower", cmap=colors, vmin=-0.5, vmax=len(names) - 0.5
    )


def _times(figure: Figure, panel: Axes, part: pd.DataFrame) -> None:
    from matplotlib.colors import LogNorm

    image, extent = _image(part, "time")
    finite = image[np.isfinite(image) & (image > 0.0)]
    ends = np.quantile(finite, (0.02, 0.98)) if finite.size else (0.1, 10.0)
    shown = panel.imshow(
        image, extent=extent, origin="lower", cmap="viridis", norm=LogNorm(ends[0], 1.01 * ends[1])
    )
    figure.colorbar(shown, ax=panel, shrink=0.8)


def _shares(panel: Axes, part: pd.DataFrame, activation: str) -> None:
    names = [name for name in ENDS if name != "mirror"]
    total = part.assign(mismatched=part["mismatched"] + part["mirror"])
    shares = [total[name] / total["starts"] for name in names]
    panel.stackplot(part["size"], *shares, colors=[ENDS[name][1] for name in names])
    look: dict[str, Any] = {"color": MARKS[activation].color, "marker": "o", "markersize": 3}
    panel.plot(part["size"], shares[0], **look)
    panel.set(xscale="log", ylim=(0.0, 1.0), xlabel="length $|k|=|v|$ of random starts")
    panel.set(ylabel="share of starts", title=f"{activation}, random directions in R$^4$")
