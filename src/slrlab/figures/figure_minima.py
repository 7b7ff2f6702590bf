"""The landscape and its minima: contours, curvatures, and where mismatched minima exist."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from slrlab._types import Axes, Figure, FloatArray, Report
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.points import ACTIVATIONS, Row, sorted_table
from slrlab.figures.registry import About
from slrlab.figures.risk_plane import interpolated_risk
from slrlab.model.activations import make_activation
from slrlab.model.task_registry import make_task
from slrlab.theory.landscape.branches import minimum_from
from slrlab.theory.landscape.minima import Minimum
from slrlab.theory.landscape.ranges import MinimumBranch, minimum_branches
from slrlab.theory.landscape.risk import make_landscape

if TYPE_CHECKING:
    from matplotlib.contour import QuadContourSet

ABOUT = About(
    title="The landscape of the risk and its minima, spiked-SLR",
    caption="""
    Top: risk over keys in the plane of the two teachers, at the best values, with its minima.
    Bottom: the signals at which mismatched minima exist, each followed to the signal where it ends,
    and the smallest curvature of the minima at length 10. The matched minimum exists at every
    signal. Mismatched ones need a signal of about 1, except with erf, which has a second range at
    small signals and, at length 100, a third one.
    """,
    costs={"figure minima": 57.0},
)
SIGNAL, LENGTH = 2.0, 10
MAPS = ("softmax", "linear")
GRID = {"toy": 7, "quick": 41, "full": 81}
KEYS = ((-2.0, 3.0), (-4.0, 4.0))  # ranges of m_kk and m_kv
LENGTHS = {
    "toy": (10,),
    "quick": (2, 3, 10, 30, 100),
    "full": (2, 3, 4, 5, 7, 10, 14, 20, 30, 50, 70, 100),
}
ANCHORS = {"toy": 2, "quick": 4, "full": 13}
POINTS = {"toy": 4, "quick": 13, "full": 31}  # points of each curve of curvatures
RANGE = {"toy": (0.5, 2.0), "quick": (0.1, 100.0), "full": (0.1, 100.0)}
LONGEST = 30.0  # keys of softplus grow a hundredfold, and so does the time per minimum
_FLAT = 1e-9  # below, rounding errors dominate a curvature
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
    settings: list[tuple[str, int, str]] = [
        (activation, length, profile)
        for length in LENGTHS[profile][::-1]  # costly ones first
        for activation in reversed(ACTIVATIONS)
    ]
    settings += [(activation, 0, profile) for activation in MAPS]
    parts = parallel_map(_rows, settings, label="figure minima", report=report)
    return sorted_table(chain.from_iterable(parts), "panel", "activation", "length", "signal")


def _rows(setting: tuple[str, int, str]) -> list[Row]:
    """Return the branches at one length, or the map if the length is 0."""
    activation, length, profile = setting
    if length == 0:
        return _contours(activation, GRID[profile])
    task = make_task("spiked", signal=SIGNAL, length=length)
    options: dict[str, Any] = {"signals": RANGE[profile], "anchors": ANCHORS[profile]}
    # a coarser quadrature is accurate enough where only the ends are drawn
    options |= {"longest": LONGEST, "resolution": 1.0 if length == LENGTH else 0.8}
    branches = minimum_branches(task, activation, **options)
    rows = [_extent(activation, length, number, b) for number, b in enumerate(branches)]
    if length != LENGTH:
        return rows
    for signal in np.geomspace(*RANGE[profile], POINTS[profile]).tolist():
        task = make_task("spiked", signal=signal, length=length)
        rows.append(_row("matched", activation, signal, minimum_from(task, activation, "matched")))
    for number, branch in enumerate(branches):
        rows += [row | {"branch": number} for row in _curvatures(activation, branch, profile)]
    return rows


def _contours(activation: str, count: int) -> list[Row]:
    """Return the risk at the best values on a grid of keys, and the minima."""
    task = make_task("spiked", signal=SIGNAL, length=LENGTH)
    landscape = make_landscape(task, make_activation(activation))
    setting = {"activation": activation, "length": LENGTH, "signal": SIGNAL}
    rows = []
    for name in ("matched", "mismatched"):
        minimum = minimum_from(task, activation, name)
        rows.append(_row(name, activation, SIGNAL, minimum) | {"panel": f"map, {name}"})
    for m_kk in np.linspace(*KEYS[0], count).tolist():
        for m_kv in np.linspace(0.0, KEYS[1][1], (count + 1) // 2).tolist():  # the rest is a mirror
            _, slope = landscape.at_best_values(np.array([m_kk, m_kv, 0.0, 0.0]), 0.0)
            row = {"panel": "map", "m_kk": m_kk, "m_kv": m_kv, "risk": slope.risk}
            rows.append(row | setting)
    return rows


def _extent(activation: str, length: int, number: int, branch: MinimumBranch) -> Row:
    row = {"panel": "branch", "activation": activation, "length": length, "branch": number}
    row |= {"signal": branch.low, "high": branch.high, "at_infinity": branch.at_infinity}
    low, high = branch.ends
    return row | {"low_end": str(low), "high_end": str(high), "status": str(branch.status)}


def _curvatures(activation: str, branch: MinimumBranch, profile: str) -> list[Row]:
    """Return minima along a branch, without the ends at which a curvature is zero."""
    flat = [i for i, end in ((0, branch.ends[0]), (-1, branch.ends[1])) if end != "range"]
    points = np.delete(np.arange(branch.signals.size), flat)
    rows = []
    for i in np.unique(points[np.linspace(0, points.size - 1, POINTS[profile]).astype(int)]):
        signal = float(branch.signals[i])
        task = make_task("spiked", signal=signal, length=LENGTH)
        start = [branch.m_kk[i], branch.m_kv[i], 0.0, 0.0]
        minimum = None
        if not branch.at_infinity:
            minimum = minimum_from(task, activation, start, bias=float(branch.bias[i]))
        row = _row("mismatched", activation, signal, minimum)
        rows.append(row | {"exists": True, "at_infinity": branch.at_infinity})
    return rows


def _row(panel: str, activation: str, signal: float, minimum: Minimum | None) -> Row:
    row = {"panel": panel, "activation": activation, "length": LENGTH, "signal": signal}
    row["exists"] = minimum is not None
    if minimum is None:
        return row
    row |= {"at_infinity": minimum.at_infinity, "risk": minimum.risk}
    row |= {"status": str(minimum.status), "softest": minimum.curvatures[0], "bias": minimum.bias}
    return row | {"m_kk": minimum.order.m_kk, "m_kv": minimum.order.m_kv}


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw two maps of the risk, the ranges of mismatched minima, and the smallest curvatures."""
    figure, (maps, (ranges, curvatures)) = style.new_figure(2, 2, 6.4, 7.0)
    risks = frame[frame["panel"] == "map"]["risk"]
    levels = np.arange(np.floor(20.0 * risks.min()), 20.25, 0.5) / 20.0
    for panel, activation in zip(maps, MAPS, strict=True):
        contours = _draw_map(panel, frame[frame["activation"] == activation], levels)
        title = f"{activation}, {style.in_symbols(signal=SIGNAL, length=LENGTH)}"
        panel.set(title=title, xlabel="$m_{kk}$")
        panel.grid(visible=False)
    maps[0].set_ylabel("$m_{kv}$")
    figure.colorbar(contours, ax=maps, label="risk at the best values", ticks=levels[::2])
    _draw_ranges(ranges, frame[frame["panel"] == "branch"])
    _draw_softest(curvatures, frame)
    style.shared_legend(figure, (curvatures, ranges, *maps))
    return figure


def _draw_map(panel: Axes, part: pd.DataFrame, levels: FloatArray) -> QuadContourSet:
    half = part[part["panel"] == "map"].pivot(index="m_kv", columns="m_kk", values="risk")
    m_kk, m_kv = half.columns.to_numpy(), half.index.to_numpy()
    x = np.linspace(m_kk[0], m_kk[-1], 8 * m_kk.size)
    y = np.linspace(-m_kv[-1], m_kv[-1], 8 * (2 * m_kv.size - 1))
    risk = interpolated_risk(m_kk, m_kv, half.to_numpy(), x, y).clip(levels[0], levels[-1])
    contours = panel.contourf(x, y, risk, levels=levels, cmap="Greys", vmax=1.15)
    panel.contour(x, y, risk, levels=levels, colors="0.3", linewidths=0.5)
    look: dict[str, Any] = {"linestyle": "", "color": "black"}
    for name, marker in (("matched", "*"), ("mismatched", "X")):
        for _, row in part[part["panel"] == f"map, {name}"].iterrows():
            if row["exists"] and not row["at_infinity"]:
                pair = (row["m_kk"], row["m_kk"]), (row["m_kv"], -row["m_kv"])
                edge: dict[str, Any] = {"markeredgecolor": "white", "markersize": 9}
                panel.plot(*pair, marker=marker, label=f"{name} minimum", **edge, **look)
            elif row["exists"]:
                for end in KEYS[1]:
                    arrow = {"arrowstyle": "->", "color": "black", "lw": 2}
                    position = (row["m_kk"], end), (row["m_kk"], 0.75 * end)
                    panel.annotate("", *position, arrowprops=arrow)
                panel.plot([], [], marker="$\\uparrow$", label=f"{name}, at infinity", **look)
    return contours


def _draw_ranges(panel: Axes, part: pd.DataFrame) -> None:
    """Draw one bar for each branch, in one row for each length."""
    lengths = sorted(part["length"].unique())
    shift = {name: 0.6 * (0.5 - i / 3.0) for i, name in enumerate(ACTIVATIONS)}
    used = set()
    for _, row in part.iterrows():
        color = style.MARKS[row["activation"]].color
        # side by side, as two may exist at one signal
        height = lengths.index(row["length"]) + shift[row["activation"]] - 0.06 * row["branch"]
        panel.plot((row["signal"], row["high"]), (height, height), color=color, linewidth=3)
        for signal, end in ((row["signal"], row["low_end"]), (row["high"], row["high_end"])):
            name = "limit" if end == "infinity" and row["at_infinity"] else end
            if name not in _ENDS:
                continue
            used.add(name)
            left = name == "infinity" and signal == row["signal"]
            marker = "<" if left else _ENDS[name][0]
            look: dict[str, Any] = {"color": color, "markersize": 8 if marker == "|" else 5}
            panel.plot(signal, height, marker=marker, markeredgewidth=1.5, **look)
    for name, (marker, label) in _ENDS.items():
        if name in used:
            panel.plot([], [], linestyle="", marker=marker, color="0.3", label=label)
    panel.set(xscale="log", xlabel="signal $\\nu$", ylabel="length $L$")
    panel.set_yticks(range(len(lengths)), [str(length) for length in lengths])
    panel.grid(visible=False, axis="y")
    panel.set_title("where mismatched minima exist")


def _draw_softest(panel: Axes, frame: pd.DataFrame) -> None:
    finite = frame[(frame["softest"] > _FLAT) & frame["at_infinity"].eq(False)]
    for activation in ACTIVATIONS:
        mark = style.MARKS[activation]
        part = finite[finite["activation"] == activation]
        matched = part[part["panel"] == "matched"]
        panel.plot(matched["signal"], matched["softest"], **mark.line(markersize=3))
        mismatched = part[part["panel"] == "mismatched"]
        look = mark.line(markerfacecolor="white", markersize=3, label="_nolegend_")
        for _, rows in mismatched.groupby("branch"):
            panel.plot(rows["signal"], rows["softest"], **look)
        for rows in (matched, mismatched):
            style.mark_statuses(panel, rows["signal"], rows["softest"], rows["status"])
    marker: dict[str, Any] = {"linestyle": "", "marker": "o", "color": "0.3"}
    panel.plot([], [], label="at the matched minimum", **marker)
    panel.plot([], [], label="at a mismatched minimum", markerfacecolor="white", **marker)
    panel.set(xscale="log", yscale="log", xlabel="signal $\\nu$")
    panel.set_title(f"smallest curvature, {style.in_symbols(length=LENGTH)}")
