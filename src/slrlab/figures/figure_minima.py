"""The landscape and its minima: contours, curvatures, and where mismatched minima exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab._types import Report
from slrlab.experiments.parallel import parallel_map
from slrlab.figures.registry import About
from slrlab.figures.style import MARKS, house_style, mark_statuses, shared_legend
from slrlab.model.activations import make_activation
from slrlab.model.tasks import make_task
from slrlab.theory.landscape.branches import minimum_from
from slrlab.theory.landscape.minima import Minimum
from slrlab.theory.landscape.ranges import MinimumBranch, minimum_branches
from slrlab.theory.landscape.risk import make_landscape

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.contour import QuadContourSet
    from matplotlib.figure import Figure

ABOUT = About(
    title="The landscape of the risk and its minima, spiked-SLR",
    caption="""
    Top: risk over keys in the plane of the two teachers, at the best values, with its minima.
    Bottom: the signals at which mismatched minima exist, each followed to the signal where it ends,
    and the smallest curvature of the minima at length 10. The matched minimum is always there;
    mismatched ones need a signal of about 1, except for erf, which has a second range at small
    signals and at length 100 a third one.
    """,
    costs={"figure minima": 57.0},
)
SIGNAL, LENGTH = 2.0, 10
MAPS = ("softmax", "linear")
ACTIVATIONS = ("softmax", "linear", "erf", "softplus")
GRID = {"toy": 7, "quick": 41, "full": 81}
KEYS = ((-2.0, 3.0), (-4.0, 4.0))  # of m_kk and m_kv
LENGTHS = {
    "toy": (10,),
    "quick": (2, 3, 10, 30, 100),
    "full": (2, 3, 4, 5, 7, 10, 14, 20, 30, 50, 70, 100),
}
ANCHORS = {"toy": 2, "quick": 4, "full": 13}
POINTS = {"toy": 4, "quick": 13, "full": 31}  # of a curve of curvatures
RANGE = {"toy": (0.5, 2.0), "quick": (0.1, 100.0), "full": (0.1, 100.0)}
LONGEST = 30.0  # keys of softplus grow a hundredfold, and so do the costs
_FLAT = 1e-9  # curvatures below are lost in the differences that they are computed by
_ENDS = {
    "fold": ("|", "ends: meets a saddle"),
    "plane": ("D", "ends: keys leave the plane"),
    "limit": ("x", "ends: no fall to infinity"),
    "infinity": (">", f"goes on with $|k|>{LONGEST:g}$"),
}


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return rows of four panels: risks on a grid, minima against the signal, and branches.

    A row of the panel ``branch`` is one mismatched minimum: the smallest and the largest signal at
    which it exists, and how it ends there (``range``: it goes on).
    """
    import pandas as pd

    settings: list[tuple[str, int, str]] = [
        (activation, length, profile)
        for length in LENGTHS[profile][::-1]  # costly ones first
        for activation in reversed(ACTIVATIONS)
    ]
    settings += [(activation, 0, profile) for activation in MAPS]
    parts = parallel_map(_rows, settings, label="figure minima", report=report)
    frame = pd.DataFrame([row for part in parts for row in part])
    return frame.sort_values(["panel", "activation", "length", "signal"], ignore_index=True)


def _rows(setting: tuple[str, int, str]) -> list[dict[str, Any]]:
    """Return the branches at one length, or the map if the length is 0."""
    activation, length, profile = setting
    if length == 0:
        return _contours(activation, GRID[profile])
    task = make_task("spiked", signal=SIGNAL, length=length)
    how: dict[str, Any] = {"signals": RANGE[profile], "anchors": ANCHORS[profile]}
    # where only the ends are shown a coarser rule is exact enough
    how |= {"longest": LONGEST, "resolution": 1.0 if length == LENGTH else 0.8}
    branches = minimum_branches(task, activation, **how)
    rows = [_extent(activation, length, number, b) for number, b in enumerate(branches)]
    if length != LENGTH:
        return rows
    for signal in np.geomspace(*RANGE[profile], POINTS[profile]).tolist():
        here = make_task("spiked", signal=signal, length=length)
        rows.append(_row("matched", activation, signal, minimum_from(here, activation, "matched")))
    for number, branch in enumerate(branches):
        rows += [row | {"branch": number} for row in _curvatures(activation, branch, profile)]
    return rows


def _contours(activation: str, count: int) -> list[dict[str, Any]]:
    """Return the risk at the best values on a grid of keys, and the minima."""
    task = make_task("spiked", signal=SIGNAL, length=LENGTH)
    landscape = make_landscape(task, make_activation(activation))
    setting = {"activation": activation, "length": LENGTH, "signal": SIGNAL}
    rows = []
    for name in ("matched", "mismatched"):
        found = minimum_from(task, activation, name)
        rows.append(_row(name, activation, SIGNAL, found) | {"panel": f"map, {name}"})
    for m_kk in np.linspace(*KEYS[0], count).tolist():
        for m_kv in np.linspace(0.0, KEYS[1][1], (count + 1) // 2).tolist():  # the rest is a mirror
            _, slope = landscape.at_best_values(np.array([m_kk, m_kv, 0.0, 0.0]), 0.0)
            row = {"panel": "map", "m_kk": m_kk, "m_kv": m_kv, "risk": slope.risk}
            rows.append(row | setting)
    return rows


def _extent(activation: str, length: int, number: int, branch: MinimumBranch) -> dict[str, Any]:
    row = {"panel": "branch", "activation": activation, "length": length, "branch": number}
    row |= {"signal": branch.low, "high": branch.high, "at_infinity": branch.at_infinity}
    low, high = branch.ends
    return row | {"low_end": str(low), "high_end": str(high), "status": str(branch.status)}


def _curvatures(activation: str, branch: MinimumBranch, profile: str) -> list[dict[str, Any]]:
    """Return minima along a branch, without the ends at which a curvature is zero."""
    inner = [i for i, end in ((0, branch.ends[0]), (-1, branch.ends[1])) if end != "range"]
    points = np.delete(np.arange(branch.signals.size), inner)
    rows = []
    for i in np.unique(points[np.linspace(0, points.size - 1, POINTS[profile]).astype(int)]):
        signal = float(branch.signals[i])
        task = make_task("spiked", signal=signal, length=LENGTH)
        start = [branch.m_kk[i], branch.m_kv[i], 0.0, 0.0]
        found = None
        if not branch.at_infinity:
            found = minimum_from(task, activation, start, bias=float(branch.bias[i]))
        row = _row("mismatched", activation, signal, found)
        rows.append(row | {"exists": True, "at_infinity": branch.at_infinity})
    return rows


def _row(panel: str, activation: str, signal: float, found: Minimum | None) -> dict[str, Any]:
    row = {"panel": panel, "activation": activation, "length": LENGTH, "signal": signal}
    row["exists"] = found is not None
    if found is None:
        return row
    row |= {"at_infinity": found.at_infinity, "risk": found.risk, "status": str(found.status)}
    row |= {"softest": found.curvatures[0], "bias": found.bias}
    return row | {"m_kk": found.order.m_kk, "m_kv": found.order.m_kv}


def draw(frame: pd.DataFrame) -> Figure:
    """Draw two maps of the risk, the ranges of mismatched minima, and the smallest curvatures."""
    import matplotlib.pyplot as plt

    with house_style():
        figure, grid = plt.subplots(2, 2, figsize=(6.4, 7.0), layout="constrained")
        maps, below = grid
        risks = frame[frame["panel"] == "map"]["risk"]
        levels = np.arange(np.floor(20.0 * risks.min()), 20.25, 0.5) / 20.0
        for panel, activation in zip(maps, MAPS, strict=True):
            shown = _map(panel, frame[frame["activation"] == activation], levels)
            panel.set(title=f"{activation}, $\\nu={SIGNAL:g}$, $L={LENGTH}$", xlabel="$m_{kk}$")
            panel.grid(visible=False)
        maps[0].set_ylabel("$m_{kv}$")
        figure.colorbar(shown, ax=maps, label="risk at the best values", ticks=levels[::2])
        _ranges(below[0], frame[frame["panel"] == "branch"])
        _softest(below[1], frame)
        shared_legend(figure, (below[1], below[0], *maps))
        return figure


def _map(panel: Axes, part: pd.DataFrame, levels: Any) -> QuadContourSet:
    from scipy.interpolate import RectBivariateSpline

    half = part[part["panel"] == "map"].pivot(index="m_kv", columns="m_kk", values="risk")
    risk = np.vstack([half.to_numpy()[:0:-1], half.to_numpy()])
    m_kv = np.concatenate([-half.index.to_numpy()[:0:-1], half.index.to_numpy()])
    m_kk = half.columns.to_numpy()
    # the risk is smooth: between the points of the grid a spline is closer than a straight line
    fine = [np.linspace(axis[0], axis[-1], 8 * axis.size) for axis in (m_kk, m_kv)]
    risk = np.clip(RectBivariateSpline(m_kv, m_kk, risk)(fine[1], fine[0]), levels[0], levels[-1])
    shown = panel.contourf(*fine, risk, levels=levels, cmap="Greys", vmax=1.15)
    panel.contour(*fine, risk, levels=levels, colors="0.3", linewidths=0.5)
    look: dict[str, Any] = {"linestyle": "", "color": "black", "markeredgecolor": "white"}
    for name, marker in (("matched", "*"), ("mismatched", "X")):
        for _, row in part[part["panel"] == f"map, {name}"].iterrows():
            if row["exists"] and not row["at_infinity"]:
                x, y = (row["m_kk"], row["m_kk"]), (row["m_kv"], -row["m_kv"])
                panel.plot(x, y, marker=marker, markersize=9, label=f"{name} minimum", **look)
            elif row["exists"]:
                for end in KEYS[1]:
                    arrow = {"arrowstyle": "->", "color": "black", "lw": 2}
                    position = (row["m_kk"], end), (row["m_kk"], 0.75 * end)
                    panel.annotate("", *position, arrowprops=arrow)
                look["markeredgecolor"] = "black"
                panel.plot([], [], marker="$\\uparrow$", label=f"{name}, at infinity", **look)
    return shown


def _ranges(panel: Axes, part: pd.DataFrame) -> None:
    """Draw one bar for each branch, in one row for each length."""
    lengths = sorted(part["length"].unique())
    shift = {name: 0.6 * (0.5 - i / 3.0) for i, name in enumerate(ACTIVATIONS)}
    used = set()
    for _, row in part.iterrows():
        color = MARKS[row["activation"]].color
        # side by side, as two may exist at one signal
        height = lengths.index(row["length"]) + shift[row["activation"]] - 0.06 * row["branch"]
        panel.plot((row["signal"], row["high"]), (height, height), color=color, linewidth=3)
        for signal, end in ((row["signal"], row["low_end"]), (row["high"], row["high_end"])):
            name = "limit" if end == "infinity" and row["at_infinity"] else end
            if name not in _ENDS:
                continue
            marker = _ENDS[name][0]
            used.add(name)
            if name == "infinity" and signal == row["signal"]:
                marker = "<"
            look: dict[str, Any] = {"color": color, "markersize": 8 if marker == "|" else 5}
            panel.plot(signal, height, marker=marker, markeredgewidth=1.5, **look)
    for name, (marker, label) in _ENDS.items():
        if name in used:
            panel.plot([], [], linestyle="", marker=marker, color="0.3", label=label)
    panel.set(xscale="log", xlabel="signal $\\nu$", ylabel="length $L$")
    panel.set_yticks(range(len(lengths)), [str(length) for length in lengths])
    panel.grid(visible=False, axis="y")
    panel.set_title("where mismatched minima exist")


def _softest(panel: Axes, frame: pd.DataFrame) -> None:
    for activation in ACTIVATIONS:
        mark = MARKS[activation]
        part = frame[(frame["activation"] == activation) & (frame["softest"] > _FLAT)]
        part = part[part["at_infinity"] == False]  # noqa: E712
        matched = part[part["panel"] == "matched"]
        panel.plot(matched["signal"], matched["softest"], **mark.line(markersize=3))
        other = part[part["panel"] == "mismatched"]
        look = mark.line(markerfacecolor="white", markersize=3, label="_nolegend_")
        for _, rows in other.groupby("branch"):
            panel.plot(rows["signal"], rows["softest"], **look)
        for rows in (matched, other):
            mark_statuses(panel, rows["signal"], rows["softest"], rows["status"])
    hollow: dict[str, Any] = {"linestyle": "", "marker": "o", "color": "0.3"}
    panel.plot([], [], label="at the matched minimum", **hollow)
    panel.plot([], [], label="at a mismatched minimum", markerfacecolor="white", **hollow)
    panel.set(xscale="log", yscale="log", xlabel="signal $\\nu$")
    panel.set_title(f"smallest curvature, $L={LENGTH}$")
