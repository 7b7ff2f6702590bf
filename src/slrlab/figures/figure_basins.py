"""Basins of attraction: which minimum gradient flow reaches, from which start, and how soon."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from slrlab._types import Axes, Figure, FloatArray, Report
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.points import Row
from slrlab.figures.registry import About
from slrlab.model.task_registry import make_task
from slrlab.theory.landscape.ensemble import FlowEnsemble, flow_ensemble
from slrlab.theory.landscape.minima import Kind
from slrlab.theory.landscape.slope import SIZE
from slrlab.theory.landscape.table import TabulatedLandscape, tabulate

if TYPE_CHECKING:
    from matplotlib.image import AxesImage

ABOUT = About(
    title="Basins of attraction of gradient flow, spiked-SLR, signal 2, length 10",
    caption="""
    Top: where gradient flow from starts of length 2 ends, by the directions of keys and values.
    Middle: how long it takes; from hatched starts the keys grow without bound and no time is
    given. Bottom: where starts of random direction end, by their length. All short starts end
    matched; only long ones end at the mismatched minimum, which linear attention reaches at
    infinity.
    """,
    costs={"figure basins": 18.0},
)
SIGNAL, LENGTH = 2.0, 10
ACTIVATIONS = ("softmax", "linear")
ANGLES = {"toy": 7, "quick": 19, "full": 61}
SIZES = {"toy": (0.1, 0.5), "quick": (0.1, 2.0), "full": (0.1, 2.0)}
LENGTHS = {"toy": (0.05, 1.0, 3), "quick": (0.05, 5.0, 11), "full": (0.05, 5.0, 21)}
CLOSE = 0.01  # distance to the last risk that counts as its end
TIMES = (0.1, 200.0)  # range of the colours
BOX = {"toy": 1.5, "quick": 6.0, "full": 6.0}  # range of the keys that is tabulated
STARTS = {"toy": 20, "quick": 200, "full": 1000}
ENDS = {
    "matched": "matched",
    "mismatched": "mismatched (linear: to infinity)",
    "mirror": "its mirror image",
    "reversed": "$k$ along $-k^*$, $v$ along $-v^*$ (to infinity)",
    "other": "other or not finished",
}
_TURNS = [-180, -90, 0, 90, 180]
_NO_TIME: dict[str, Any] = {"facecolor": "white", "edgecolor": "0.6", "hatch": "////"}


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return rows of two panels: starts at two angles, and shares of random starts in R⁴.

    ``left`` says that the keys grew out of the box that was tabulated. Those of linear attention
    grow without bound.
    """
    settings = [(activation, profile) for activation in ACTIVATIONS]
    parts = parallel_map(_rows, settings, label="figure basins", report=report)
    return pd.DataFrame(chain.from_iterable(parts))


def _rows(setting: tuple[str, str]) -> list[Row]:
    activation, profile = setting
    task = make_task("spiked", signal=SIGNAL, length=LENGTH)
    box = BOX[profile]
    table = tabulate(task, activation, m=(-box, box), std=box, tolerance=1e-4)
    rows = [
        {"panel": "angles", "activation": activation, "size": size} | row
        for size in SIZES[profile]
        for row in _angles(table, size, ANGLES[profile])
    ]
    for index, size in enumerate(np.geomspace(*LENGTHS[profile]).tolist()):
        k, v = np.random.default_rng(index).standard_normal((2, STARTS[profile], SIZE))
        k, v = (size * x / np.linalg.norm(x, axis=1, keepdims=True) for x in (k, v))
        flows = flow_ensemble(table, k, v)
        ends = _ends(flows)
        row = {"panel": "random", "activation": activation, "size": size, "starts": len(ends)}
        row |= {end: ends.count(end) for end in ENDS}
        rows.append(row | {"left": sum(status == "diverged" for status in flows.statuses)})
    return rows


def _angles(table: TabulatedLandscape, size: float, count: int) -> list[Row]:
    turns = np.linspace(-180.0, 180.0, count)
    a, b = (x.ravel() for x in np.meshgrid(turns, turns, indexing="ij"))
    k, v = np.zeros((2, a.size, SIZE))
    k[:, 0], k[:, 1] = size * _cosine(a), size * _cosine(a - 90.0)
    v[:, 0], v[:, 1] = size * _cosine(b - 90.0), size * _cosine(b)
    flows = flow_ensemble(table, k, v)
    left = [status == "diverged" for status in flows.statuses]
    times = np.where(left, np.nan, flows.time_within(CLOSE, flows.risk[-1]))
    columns = zip(a.tolist(), b.tolist(), _ends(flows), left, times.tolist(), strict=True)
    names = ("angle_k", "angle_v", "end", "left", "time")
    return [dict(zip(names, values, strict=True)) for values in columns]


def _cosine(degrees: FloatArray) -> FloatArray:
    return np.asarray(np.cos(np.deg2rad(degrees)))


def _ends(flows: FlowEnsemble) -> list[str]:
    """Return where each flow ends, one of `ENDS`."""
    ends = []
    for kind, k, v, status in zip(flows.kinds, flows.k, flows.v, flows.statuses, strict=True):
        if status == "not converged":
            ends.append("other")
        elif kind is Kind.MISMATCHED:
            ends.append("mismatched" if k[1] > 0.0 else "mirror")
        elif kind is Kind.OTHER and k[0] < -0.7 * np.linalg.norm(k) and v[1] < 0.0:
            ends.append("reversed")
        else:
            ends.append(str(kind))
    return ends


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw for each activation the basins of the longer starts, the times, and the shares."""
    from matplotlib.patches import Patch

    figure, axes = style.new_figure(3, 2, 6.4, 9.2)
    for (ends, times, shares), activation in zip(axes.T, ACTIVATIONS, strict=True):
        part = frame[frame["activation"] == activation]
        angles = part[part["panel"] == "angles"]
        longest = angles["size"].max()
        angles = angles[angles["size"] == longest]
        _draw_ends(ends, angles)
        image = _draw_times(times, angles)
        _draw_shares(shares, part[part["panel"] == "random"])
        ends.set_title(f"{activation}: end, starts of length {longest:g}")
        times.set_title(f"{activation}: time to its end")
        shares.set_title(f"{activation}: starts of any direction")
        for panel in (ends, times):
            panel.set(xticks=_TURNS, yticks=_TURNS, xlabel="angle of $k$ from $k^*$ to $v^*$")
            panel.grid(visible=False)
    for panel in axes[:2, 0]:
        panel.set_ylabel("angle of $v$ from $v^*$ to $k^*$")
    axes[2, 0].set_ylabel("share of starts")
    label = f"time until the risk is within {CLOSE:g}\nof its last value"
    figure.colorbar(image, ax=axes[1], label=label, shrink=0.8)
    handles = [Patch(color=style.END_COLORS[end], label=label) for end, label in ENDS.items()]
    handles.append(Patch(label="no time: leaves for infinity", **_NO_TIME))
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8)
    return figure


def _draw_image(panel: Axes, part: pd.DataFrame, column: str, **look: Any) -> AxesImage:
    """Fill a cell around each pair of angles with the colour of one column."""
    table = part.pivot(index="angle_v", columns="angle_k", values=column)
    edge = 180.0 + 180.0 / (len(table) - 1)
    extent = (-edge, edge, -edge, edge)
    return panel.imshow(table.to_numpy(), extent=extent, origin="lower", **look)


def _draw_ends(panel: Axes, part: pd.DataFrame) -> None:
    from matplotlib.colors import ListedColormap

    names = list(ENDS)
    codes = part.assign(code=part["end"].map(names.index))
    colors = ListedColormap([style.END_COLORS[name] for name in names])
    _draw_image(panel, codes, "code", cmap=colors, vmin=-0.5, vmax=len(names) - 0.5)


def _draw_times(panel: Axes, part: pd.DataFrame) -> AxesImage:
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Rectangle

    image = _draw_image(panel, part, "time", cmap="viridis", norm=LogNorm(*TIMES, clip=True))
    left, right, low, high = image.get_extent()
    panel.add_patch(Rectangle((left, low), right - left, high - low, zorder=-1, **_NO_TIME))
    return image


def _draw_shares(panel: Axes, part: pd.DataFrame) -> None:
    names = [name for name in ENDS if name != "mirror"]
    total = part.assign(mismatched=part["mismatched"] + part["mirror"])
    shares = [total[name] / total["starts"] for name in names]
    panel.stackplot(part["size"], *shares, colors=[style.END_COLORS[name] for name in names])
    panel.plot(part["size"], shares[0], color="black", marker="o", markersize=3)
    panel.set(xscale="log", ylim=(0.0, 1.0), xlabel="length $|k|=|v|$ of the start")
