"""Theory and training against the ridge of the keys, across the limit of replica symmetry."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from slrlab._types import Axes, Figure, Report
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.points import Row, simulated_rows
from slrlab.figures.registry import About
from slrlab.model.activations import SOFTMAX
from slrlab.model.setting import Setting
from slrlab.model.task_registry import make_task
from slrlab.theory.erm import ridge_map
from slrlab.theory.erm.stability import MOST_GAP

ABOUT = About(
    title="Beyond the replicon line: theory and training against the ridge of the keys, softmax",
    caption="""
    Top: test risk of softmax by theory, with the band between its two forms (trace and Stein), and
    by training from the teachers and from random vectors, against the ridge of the keys. Bottom:
    replicon and trace gap; where one of them is above its dotted line (grey) the theory cannot be
    trusted. There training differs from the theory, stays within the band or close to it, and
    depends on its start.
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
COLOR = style.MARKS["softmax"].color

_KEPT = ["test_risk", "test_risk_error", "test_risk_low", "test_risk_high", "train_mse"]
_KEPT += ["replicon", "trace_gap", "bistable_fraction", "stable"]
Panel = tuple[str, float, int, float, float]


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return theory, its warnings and training from both starts along a line of key ridges."""
    panels = PANELS[:1] if profile == "toy" else PANELS
    lines = [(panel, POINTS[profile], TOLERANCE[profile]) for panel in panels]
    theory = parallel_map(_theory, lines, label="validity: theory", report=report)
    rows = list(chain.from_iterable(theory))
    for start in ("informed", "random"):
        points = [(_setting(row), DIM[profile], SEEDS[profile], start) for row in rows]
        label = f"validity: training, {start} start"
        trained = simulated_rows(points, label=label, report=report)
        for row, simulated in zip(rows, trained, strict=True):
            row |= {"dim": DIM[profile], "seeds": SEEDS[profile]}
            for name in ("risk", "error", "train_mse", "status"):
                row[f"{start}_{name}"] = simulated[f"simulated_{name}"]
    return pd.DataFrame(rows)


def _setting(row: Row) -> Setting:
    task = make_task(row["task"], signal=row["signal"], length=row["length"])
    return Setting(task, SOFTMAX, row["alpha"], row["ridge_k"], row["ridge_v"])


def _theory(line: tuple[Panel, int, float]) -> list[Row]:
    (name, signal, length, alpha, ridge_v), count, tolerance = line
    theory = ridge_map(
        make_task(name, signal=signal, length=length),
        "softmax",
        alpha=alpha,
        ridge_k=np.geomspace(*RANGE, count),
        ridge_v=[ridge_v],
        tolerance=tolerance,
    )
    setting = {"task": name, "signal": signal, "length": length}
    rows = [
        setting
        | point.setting.training
        | {key: getattr(point, key) for key in _KEPT}
        | {"status": str(point.status)}
        for point in theory.points
    ]
    return sorted(rows, key=lambda row: float(row["ridge_k"]))


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw risks above and the warnings below; grey where the theory cannot be trusted."""
    groups: list[Any] = list(frame.groupby(["task", "signal", "length", "alpha"], sort=False))
    count = len(groups)
    options: dict[str, Any] = {"sharex": True, "height_ratios": [2, 1]}
    figure, axes = style.new_figure(2, count, max(2.6 * count, 5.2), 5.6, **options)
    for (risks, warnings), (key, part) in zip(axes.T, groups, strict=True):
        _draw_risks(risks, part)
        _draw_warnings(warnings, part)
        for panel in (risks, warnings):
            _shade(panel, part)
        task, signal, length, alpha = key
        title = f"{task}-SLR, {style.in_symbols(signal=signal, length=length)}"
        ridge = f"$r_v={part['ridge_v'].iloc[0]:g}$"
        risks.set(title=f"{title}\n{style.in_symbols(alpha=alpha)}, {ridge}", xscale="log")
        warnings.set(xlabel="ridge of the keys $r_k$", yscale="log", ylim=(1e-4, 20.0))
    axes[0, 0].set_ylabel("test risk")
    axes[1, 0].set_ylabel("warning signs")
    style.shared_legend(figure, axes.flat, ncols=2)
    return figure


def _draw_risks(panel: Axes, part: pd.DataFrame) -> None:
    ridges = part["ridge_k"]
    panel.plot(ridges, part["test_risk"], color=COLOR, label="theory (Stein form)")
    band: dict[str, Any] = {"color": COLOR, "alpha": 0.25, "linewidth": 0}
    band["label"] = "between trace and Stein form"
    panel.fill_between(ridges, part["test_risk_low"], part["test_risk_high"], **band)
    size = f"$D={int(part['dim'].iloc[0])}$, {int(part['seeds'].iloc[0])} seeds"
    for start, shift, marker, face in (
        ("informed", 0.94, "o", COLOR),
        ("random", 1.06, "s", "white"),
    ):
        look: dict[str, Any] = {"fmt": marker, "color": COLOR, "markersize": 5}
        look["label"] = f"trained, {start} start, {size}"
        style.draw_trained(panel, shift * ridges, part, start, face=face, **look)


def _draw_warnings(panel: Axes, part: pd.DataFrame) -> None:
    """Draw the two signs, each with the line above which the theory cannot be trusted."""
    for column, limit, color, dashes in (
        ("replicon", 1.0, "0.15", "-"),
        ("trace_gap", MOST_GAP, "0.5", (0, (4, 2))),
    ):
        look: dict[str, Any] = {"color": color, "linestyle": dashes}
        label = f"{column.replace('_', ' ')} (trusted below {limit:g}, dotted)"
        values = part[column].clip(lower=1e-4)
        panel.plot(part["ridge_k"], values, marker=".", linewidth=1.2, label=label, **look)
        panel.axhline(limit, color=color, linewidth=0.9, linestyle=":")


def _shade(panel: Axes, part: pd.DataFrame) -> None:
    """Grey the ridges, up to half way to the next one, at which the theory is not trusted."""
    ridges, trusted = part["ridge_k"].to_numpy(), part["stable"].to_numpy(dtype=bool)
    edges = np.sqrt(ridges[1:] * ridges[:-1])
    edges = np.concatenate([[ridges[0]], edges, [ridges[-1]]])
    look: dict[str, Any] = {"color": "0.88", "linewidth": 0, "zorder": 0}
    for low, high in zip(edges[:-1][~trusted], edges[1:][~trusted], strict=True):
        panel.axvspan(low, high, label="theory not to be trusted", **look)
