"""Where replica symmetry ends: training departs from the theory as the key ridge gets weak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab._types import Report
from slrlab.experiments.parallel import parallel_map
from slrlab.figures.points import simulated_rows
from slrlab.figures.registry import About
from slrlab.figures.style import MARKS, house_style, mark_statuses, shared_legend
from slrlab.model.activations import SOFTMAX
from slrlab.model.setting import Setting
from slrlab.model.tasks import make_task
from slrlab.theory.erm import ridge_map
from slrlab.theory.erm.stability import MOST_GAP

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABOUT = About(
    title="Beyond the replicon line: theory and training against the ridge of the keys, softmax",
    caption="""
    Top: test risk of softmax by theory, with the band between its two forms (trace and Stein), and
    by training from the teachers and from random vectors, against the ridge of the keys. Bottom:
    the two signs by which the theory warns; where one is above its line (grey) it is not to be
    trusted. Training leaves the theory there, stays within the band or near it, and depends on its
    start.
    """,
    costs={
        "validity: theory": 54.0,
        "validity: training, informed start": 5.0,
        "validity: training, random start": 5.0,
    },
    compiled=True,
)
# task, signal, length, alpha, ridge of the values
PANELS = (
    ("spiked", 2.0, 3, 2.0, 0.4),
    ("spiked", 1.0, 4, 3.0, 0.6),
    ("max", 3.0, 3, 2.0, 0.4),
)
RANGE = (0.003, 3.0)
POINTS = {"toy": 3, "quick": 5, "full": 19}
TOLERANCE = {"toy": 2e-2, "quick": 5e-3, "full": 1e-3}
DIM = {"toy": 40, "quick": 300, "full": 3000}
SEEDS = {"toy": 2, "quick": 3, "full": 8}
COLOR = MARKS["softmax"].color  # all of it is softmax: shapes and dashes tell the rest apart

_KEPT = (
    "test_risk",
    "test_risk_error",
    "test_risk_low",
    "test_risk_high",
    "train_mse",
    "replicon",
    "trace_gap",
    "bistable_fraction",
    "stable",
)
Panel = tuple[str, float, int, float, float]


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return theory, its warnings and training from both starts along a line of key ridges."""
    import pandas as pd

    panels = PANELS[:1] if profile == "toy" else PANELS
    lines = [(panel, POINTS[profile], TOLERANCE[profile]) for panel in panels]
    found = parallel_map(_theory, lines, label="validity: theory", report=report)
    rows = [row for line in found for row in line]
    for start in ("informed", "random"):
        points = [(_setting(row), DIM[profile], SEEDS[profile], start) for row in rows]
        label = f"validity: training, {start} start"
        trained = simulated_rows(points, label=label, report=report)
        for row, simulated in zip(rows, trained, strict=True):
            row |= {"dim": DIM[profile], "seeds": SEEDS[profile]}
            row[f"{start}_risk"] = simulated["simulated_risk"]
            row[f"{start}_error"] = simulated["simulated_error"]
            row[f"{start}_train_mse"] = simulated["simulated_train_mse"]
            row[f"{start}_status"] = simulated["simulated_status"]
    return pd.DataFrame(rows)


def _setting(row: dict[str, Any]) -> Setting:
    task = make_task(row["task"], signal=row["signal"], length=row["length"])
    return Setting(task, SOFTMAX, row["alpha"], row["ridge_k"], row["ridge_v"])


def _theory(line: tuple[Panel, int, float]) -> list[dict[str, Any]]:
    (name, signal, length, alpha, ridge_v), count, tolerance = line
    found = ridge_map(
        make_task(name, signal=signal, length=length),
        "softmax",
        alpha=alpha,
        ridge_k=np.geomspace(*RANGE, count),
        ridge_v=[ridge_v],
        tolerance=tolerance,
    )
    where = {"task": name, "signal": signal, "length": length}
    rows = [
        where
        | point.setting.training
        | {key: getattr(point, key) for key in _KEPT}
        | {"status": str(point.status)}
        for point in found.points
    ]
    return sorted(rows, key=lambda row: float(row["ridge_k"]))


def draw(frame: pd.DataFrame) -> Figure:
    """Draw risks above and the warnings below; grey where the theory is not to be trusted."""
    import matplotlib.pyplot as plt

    groups = list(frame.groupby(["task", "signal", "length", "alpha"], sort=False))
    with house_style():
        figure, axes = plt.subplots(
            2,
            len(groups),
            figsize=(max(2.6 * len(groups), 5.2), 5.6),
            sharex=True,
            height_ratios=[2, 1],
            layout="constrained",
            squeeze=False,
        )
        for column, (key, part) in zip(axes.T, groups, strict=True):
            task, signal, length, alpha = key
            _risks(column[0], part)
            _warnings(column[1], part)
            for panel in column:
                _shade(panel, part)
            name = f"{task}-SLR, $\\nu={signal:g}$, $L={length}$"
            rest = f"$\\alpha={alpha:g}$, $r_v={part['ridge_v'].iloc[0]:g}$"
            column[0].set(title=f"{name}\n{rest}", xscale="log")
            column[1].set(xlabel="ridge of the keys $r_k$", yscale="log", ylim=(1e-4, 20.0))
        axes[0, 0].set_ylabel("test risk")
        axes[1, 0].set_ylabel("warning signs")
        shared_legend(figure, axes.flat, ncols=2)
        return figure


def _risks(panel: Axes, part: pd.DataFrame) -> None:
    size = f"$D={int(part['dim'].iloc[0])}$, {int(part['seeds'].iloc[0])} seeds"
    style: dict[str, Any] = {"color": COLOR, "label": "theory (Stein form)"}
    panel.plot(part["ridge_k"], part["test_risk"], **style)
    panel.fill_between(
        part["ridge_k"],
        part["test_risk_low"],
        part["test_risk_high"],
        color=COLOR,
        alpha=0.25,
        linewidth=0,
        label="between trace and Stein form",
    )
    for start, shift, marker, face in (
        ("informed", 0.94, "o", COLOR),
        ("random", 1.06, "s", "white"),
    ):
        panel.errorbar(
            shift * part["ridge_k"],
            part[f"{start}_risk"],
            yerr=part[f"{start}_error"],
            fmt=marker,
            color=COLOR,
            markersize=5,
            markerfacecolor=face,
            capsize=2,
            label=f"trained, {start} start, {size}",
        )
        where = (shift * part["ridge_k"], part[f"{start}_risk"], part[f"{start}_status"])
        mark_statuses(panel, *where)


def _warnings(panel: Axes, part: pd.DataFrame) -> None:
    """Draw the two signs, each with the line above which the theory is not to be trusted."""
    for column, most, color, dashes in (
        ("replicon", 1.0, "0.15", "-"),
        ("trace_gap", MOST_GAP, "0.5", (0, (4, 2))),
    ):
        style: dict[str, Any] = {"color": color, "linestyle": dashes}
        label = f"{column.replace('_', ' ')} (trusted below {most:g}, dotted)"
        values = part[column].clip(lower=1e-4)
        panel.plot(part["ridge_k"], values, marker=".", linewidth=1.2, label=label, **style)
        panel.axhline(most, color=color, linewidth=0.9, linestyle=":")


def _shade(panel: Axes, part: pd.DataFrame) -> None:
    """Grey the ridges, up to half way to the next one, at which the theory is not trusted."""
    ridges, trusted = part["ridge_k"].to_numpy(), part["stable"].to_numpy(dtype=bool)
    edges = np.sqrt(ridges[1:] * ridges[:-1])
    edges = np.concatenate([[ridges[0]], edges, [ridges[-1]]])
    style: dict[str, Any] = {"color": "0.88", "linewidth": 0, "zorder": 0}
    for low, high, fine in zip(edges[:-1], edges[1:], trusted, strict=True):
        if not fine:
            panel.axvspan(low, high, label="theory not to be trusted", **style)
