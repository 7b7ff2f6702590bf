"""The landscape and its minima: contours, curvatures, and where the mismatched minimum exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab.experiments.parallel import Report, parallel_map
from slrlab.figures.style import MARKS, house_style
from slrlab.model.activations import make_activation
from slrlab.model.tasks import make_task
from slrlab.theory.landscape.branches import minimum_from
from slrlab.theory.landscape.minima import Minimum
from slrlab.theory.landscape.risk import make_landscape

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "The landscape of the risk and its two minima, spiked-SLR"
SIGNAL, LENGTH = 2.0, 10
MAPS = ("softmax", "linear")
ACTIVATIONS = ("softmax", "linear", "erf", "softplus")
GRID = {"toy": 7, "quick": 29, "full": 81}
KEYS = ((-2.0, 3.0), (-4.0, 4.0))  # of m_kk and m_kv
LENGTHS = {
    "toy": (10,),
    "quick": (2, 3, 10, 30, 100),
    "full": (2, 3, 4, 5, 7, 10, 14, 20, 30, 50, 70, 100),
}
SIGNALS = {"toy": 4, "quick": 11, "full": 31}
RANGE = (0.1, 100.0)
TRIES = {"toy": 1, "quick": 3, "full": 7}
_FLAT = 1e-9  # curvatures below are lost in the differences that they are computed by


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return rows of three panels: risks on a grid, minima against the signal, and thresholds.

    A threshold is the smallest signal at which the mismatched minimum was found, followed down
    from larger ones in ever shorter steps; it was ``absent`` one step below.
    """
    import pandas as pd

    settings: list[tuple[str, int, str]] = [
        (activation, length, profile)
        for length in LENGTHS[profile]
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
    return _branch(activation, length, profile)


def _contours(activation: str, count: int) -> list[dict[str, Any]]:
    """Return the risk at the best values on a grid of keys, and the minima."""
    task = make_task("spiked", signal=SIGNAL, length=LENGTH)
    landscape = make_landscape(task, make_activation(activation))
    setting = {"activation": activation, "length": LENGTH, "signal": SIGNAL}
    rows = []
    for name in ("matched", "mismatched"):
        found = minimum_from(task, activation, name)
        rows.append(_row(name, activation, LENGTH, SIGNAL, found))
    for m_kk in np.linspace(*KEYS[0], count).tolist():
        for m_kv in np.linspace(0.0, KEYS[1][1], (count + 1) // 2).tolist():  # the rest is a mirror
            _, slope = landscape.at_best_values(np.array([m_kk, m_kv, 0.0, 0.0]), 0.0)
            row = {"panel": "map", "m_kk": m_kk, "m_kv": m_kv, "risk": slope.risk}
            rows.append(row | setting)
    return rows


def _branch(activation: str, length: int, profile: str) -> list[dict[str, Any]]:
    """Follow both minima over the signals, the mismatched one down to where it disappears."""
    signals = np.geomspace(*RANGE, SIGNALS[profile]).tolist()[::-1]
    rows = []
    if length == LENGTH:
        for signal in signals:
            task = make_task("spiked", signal=signal, length=length)
            best = minimum_from(task, activation, "matched")
            rows.append(_row("matched", activation, length, signal, best))
    last: Minimum | None = None
    here, absent = np.inf, np.nan
    for signal in signals:
        found = _mismatched(activation, length, signal, last)
        if found is None and last is not None:
            absent = signal
            break
        rows.append(_row("mismatched", activation, length, signal, found))
        last, here = found, signal if found is not None else here
    step = signals[0] / signals[1]
    for _ in range(TRIES[profile]):
        # a step may have been too long for the minimum to be followed: try shorter ones
        if last is None or np.isnan(absent):
            break
        step = np.sqrt(step)
        found = last
        while found is not None and here / step > RANGE[0]:
            found = _mismatched(activation, length, here / step, last)
            if found is not None:
                last, here = found, here / step
                rows.append(_row("mismatched", activation, length, here, found))
        absent = here / step
    threshold = {"panel": "threshold", "activation": activation, "length": length}
    return [*rows, threshold | {"signal": here, "absent": absent}]


def _mismatched(
    activation: str, length: int, signal: float, last: Minimum | None
) -> Minimum | None:
    task = make_task("spiked", signal=signal, length=length)
    start = "mismatched" if last is None else last
    if length == LENGTH:
        return minimum_from(task, activation, start)
    # only whether it exists is shown, and a coarser rule can tell
    return minimum_from(task, activation, start, curvatures=False, resolution=0.8)


def _row(
    panel: str, activation: str, length: int, signal: float, found: Minimum | None
) -> dict[str, Any]:
    row = {"panel": panel, "activation": activation, "length": length, "signal": signal}
    row["exists"] = found is not None
    if found is None:
        return row
    row |= {"at_infinity": found.at_infinity, "risk": found.risk}
    row["softest"] = found.curvatures[0] if found.curvatures.size else np.nan
    return row | {"m_kk": found.order.m_kk, "m_kv": found.order.m_kv}


def draw(frame: pd.DataFrame) -> Figure:
    """Draw two maps of the risk, the thresholds, and the smallest curvatures."""
    import matplotlib.pyplot as plt

    with house_style():
        figure, grid = plt.subplots(2, 2, figsize=(9.2, 7.4), layout="constrained")
        maps, below = grid
        for panel, activation in zip(maps, MAPS, strict=True):
            _map(panel, frame[frame["activation"] == activation])
            title = f"{activation}: risk at the best values, $\\nu={SIGNAL:g}$, $L={LENGTH}$"
            panel.set(title=title, xlabel="$m_{kk}$", ylabel="$m_{kv}$")
            panel.grid(visible=False)
        _thresholds(below[0], frame[frame["panel"] == "threshold"])
        _curvatures(below[1], frame[frame["length"] == LENGTH])
        return figure


def _map(panel: Axes, part: pd.DataFrame) -> None:
    half = part[part["panel"] == "map"].pivot(index="m_kv", columns="m_kk", values="risk")
    risk = np.vstack([half.to_numpy()[:0:-1], half.to_numpy()])
    m_kv = np.concatenate([-half.index.to_numpy()[:0:-1], half.index.to_numpy()])
    lines = panel.contour(half.columns.to_numpy(), m_kv, risk, levels=18, cmap="viridis")
    panel.clabel(lines, list(lines.levels)[::2], fontsize=6, fmt="%.2f")
    here = part[np.isclose(part["signal"], SIGNAL) & (part["length"] == LENGTH)]
    for name, marker in (("matched", "*"), ("mismatched", "X")):
        for _, row in here[here["panel"] == name].iterrows():
            if row["exists"] and not row["at_infinity"]:
                places = [(row["m_kk"], sign * row["m_kv"]) for sign in (1.0, -1.0)]
                x, y = zip(*places, strict=True)
                look: dict[str, Any] = {"color": "#D55E00", "markersize": 10, "linestyle": ""}
                panel.plot(x, y, marker=marker, label=name, **look)
            elif row["exists"]:
                low, high = KEYS[1]
                arrow = {"arrowstyle": "->", "color": "#D55E00", "lw": 2}
                for end, start in ((high, high - 0.8), (low, low + 0.8)):
                    place = (row["m_kk"], end), (row["m_kk"], start)
                    panel.annotate("", *place, arrowprops=arrow)
                label = "mismatched, at infinity"
                panel.plot([], [], marker="$\\uparrow$", color="#D55E00", linestyle="", label=label)
    panel.legend(fontsize=8, loc="upper right", frameon=True)


def _thresholds(panel: Axes, part: pd.DataFrame) -> None:
    for activation in ACTIVATIONS:
        rows = part[part["activation"] == activation].sort_values("length")
        rows = rows[np.isfinite(rows["signal"])]
        mark = MARKS[activation]
        label = mark.label + (" (at infinity)" if activation == "linear" else "")
        panel.plot(rows["signal"], rows["length"], **mark.line(label=label))
    panel.set(xscale="log", yscale="log", xlabel="signal $\\nu$", ylabel="length $L$")
    panel.set(title="the mismatched minimum exists to the right of each line", xlim=RANGE)
    panel.legend(fontsize=8, loc="upper right")


def _curvatures(panel: Axes, part: pd.DataFrame) -> None:
    for activation in ACTIVATIONS:
        mark = MARKS[activation]
        for name, face in (("matched", mark.color), ("mismatched", "white")):
            rows = part[(part["activation"] == activation) & (part["panel"] == name)]
            rows = rows[(rows["softest"] > _FLAT) & (rows["at_infinity"] == False)]  # noqa: E712
            if rows.empty:
                continue
            look = mark.line(markerfacecolor=face, label=f"{mark.label.split(',')[0]}, {name}")
            panel.plot(rows["signal"], rows["softest"], **look)
    panel.set(xscale="log", yscale="log", xlabel="signal $\\nu$")
    panel.set(ylabel="smallest curvature", title=f"smallest curvature of the minima, $L={LENGTH}$")
    panel.set_ylim(bottom=1e-12)  # room for the legend
    panel.legend(fontsize=7, loc="lower left", ncols=2)
