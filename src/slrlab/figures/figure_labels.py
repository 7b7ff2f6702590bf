"""Labelled locations: how many labels are worth how many y's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from slrlab._types import Report
from slrlab.experiments.comparison.labels import labelled_overlap, labels_worth
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.registry import About
from slrlab.model.tasks import MaxSLR, SpikedSLR, Task
from slrlab.theory.bayes_optimal import bayes_optimal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABOUT = About(
    title="Labelled locations against y's: overlap of the keys, test risk and exchange rate",
    caption="""
    Left: squared cosine of the keys with their teacher, fitted to labelled locations (marks) and
    trained from y alone at the best ridges (line: theory); middle: test risk after the values are
    fitted to y. Right: number of y's per labelled location with which training from y alone reaches
    the same overlap, with its standard error; open marks are the ridge of the largest overlap, full
    ones that of the least risk, and crosses rest on theory at the edge of its stability. For
    trained attention a label is worth three to five y's. Both losses have nearly the same overlap;
    on max-SLR cross entropy has the lower test risk from alpha 1 on.
    """,
    costs={"y alone": 200.0, "labels": 200.0, "labels: Bayes": 5.0},
    compiled=True,
    section="Beyond the paper",
    report=("full",),
)
TASKS: tuple[Task, ...] = (SpikedSLR(2.0, 3), MaxSLR(3.0, 3))
ALPHAS: dict[str, tuple[float, ...]] = {
    "toy": (2.0, 4.0),
    "quick": (0.5, 1.0, 2.0, 4.0, 8.0),
    "full": (0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
}
# the full profile takes about 20 minutes of one core
DIM = {"toy": 30, "quick": 150, "full": 300}
SEEDS = {"toy": 2, "quick": 6, "full": 8}
TOLERANCE = {"toy": 3e-2, "quick": 1e-2, "full": 5e-3}
LOSSES = {"cross entropy": ("#0072B2", "o"), "least squares": ("#D55E00", "s")}
_ASIDE = {"cross entropy": 0.96, "least squares": 1.04}  # factors of alpha for the markers
_FIRST = 30_000  # seeds of this figure: other figures have others


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return the labelled fits, and the theory of training from y alone, for each task."""
    parts = []
    for task in TASKS[:1] if profile == "toy" else TASKS:
        curve = None
        for loss in LOSSES:
            result = labels_worth(
                task,
                alpha=ALPHAS[profile],
                dim=DIM[profile],
                loss=loss,
                seeds=SEEDS[profile],
                seed=_FIRST,
                tolerance=TOLERANCE[profile],
                curve=curve,
                workers=None,
                report=report,
            )
            curve = result.curve
            parts.append(result.to_frame().assign(kind=loss, task=task.name))
        parts.append(result.curve.assign(kind="y alone", task=task.name))
        points = [(task, alpha) for alpha in result.curve["alpha"].tolist()]
        rows = parallel_map(_bayes, points, label="labels: Bayes", report=report)
        parts.append(pd.DataFrame(rows).assign(kind="Bayes", task=task.name))
    return pd.concat(parts, ignore_index=True)


def _bayes(point: tuple[Task, float]) -> dict[str, Any]:
    """Return what the best method reaches, from y alone and on spiked-SLR from labels."""
    task, alpha = point
    best = bayes_optimal(task, alpha=alpha)
    row = {"alpha": alpha, "overlap": best.q_k, "risk": best.risk_amp, "status": str(best.status)}
    if isinstance(task, SpikedSLR):
        row["labelled_overlap"] = labelled_overlap(task, alpha, centred=False)
        row["centred_overlap"] = labelled_overlap(task, alpha, centred=True)
    return row


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw overlap, risk and exchange rate, a row for each task."""
    tasks = list(dict.fromkeys(frame["task"]))
    figure, axes = style.new_figure(len(tasks), 3, 9.2, 2.7 * len(tasks) + 0.5)
    for panels, name in zip(axes, tasks, strict=True):
        _draw_task(panels, frame[frame["task"] == name])
        panels[0].set_title(f"{name}-SLR")
    for panel in axes[-1]:
        panel.set_xlabel("sequences per dimension $\\alpha$")
    style.shared_legend(figure, axes.flat, ncols=4)
    return figure


def _draw_task(panels: Any, part: pd.DataFrame) -> None:
    """Fill the three panels of one task."""
    overlap, risk, worth = panels
    trained, best = (part[part["kind"] == kind] for kind in ("y alone", "Bayes"))
    widest = 1.3 * part[part["kind"].isin(LOSSES)]["alpha"].max()
    line: dict[str, Any] = {"color": "0.25", "label": "y alone, trained (theory)"}
    for panel, column in ((overlap, "overlap"), (risk, "risk")):
        near = trained[trained["alpha"] <= widest]
        panel.plot(near["alpha"], near[column], **line)
        style.mark_statuses(panel, near["alpha"], near[column], near["status"])
        rows = best[best["alpha"] <= widest]
        panel.plot(rows["alpha"], rows[column], ":", color="0.5", label="y alone, AMP")
    _draw_bounds(overlap, best[best["alpha"] <= widest])
    for kind, (color, marker) in LOSSES.items():
        rows = part[part["kind"] == kind]
        if rows.empty:
            continue
        look: dict[str, Any] = {"color": color, "marker": marker, "linestyle": "none"}
        for panel, column in ((overlap, "overlap"), (risk, "risk")):
            error = rows[f"{column}_error"]
            panel.errorbar(rows["alpha"], rows[column], yerr=error, label=f"labels, {kind}", **look)
            style.mark_statuses(panel, rows["alpha"], rows[column], rows["status"])
        aside = rows["alpha"] * _ASIDE[kind]
        open_look = look | {"markerfacecolor": "white", "zorder": 1.5}
        worth.plot(aside, rows["widest_worth"], **open_look)
        worth.errorbar(aside, rows["worth"], yerr=rows["worth_error"], capsize=2, **look)
        style.mark_statuses(worth, aside, rows["worth"], rows["worth_status"])
    worth.axhline(1.0, color="0.8", zorder=0)
    for panel in panels:
        panel.set_xscale("log")
        style.x_ticks(panel, *(tick for tick in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0) if tick <= widest))
        panel.set_xlim(right=widest)
    worth.set_yscale("log")
    style_ticks(worth)
    overlap.set(ylabel="overlap of the keys $m_k^2/q_k$", ylim=(0.0, 1.0))
    risk.set_ylabel("test risk")
    worth.set_ylabel("y's per label")


def _draw_bounds(panel: Axes, rows: pd.DataFrame) -> None:
    """Draw the overlaps that labels allow, where they are known."""
    if "labelled_overlap" not in rows or rows["labelled_overlap"].isna().all():
        return
    shown = {
        "labelled_overlap": ("-", "labels, best method"),
        "centred_overlap": ("--", "labels, large ridge"),
    }
    for column, (dashes, label) in shown.items():
        panel.plot(rows["alpha"], rows[column], dashes, color="#009E73", label=label)


def style_ticks(panel: Axes) -> None:
    """Put plain numbers on a logarithmic axis of rates."""
    low, high = panel.get_ylim()
    ticks = [tick for tick in (0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0) if low <= tick <= high]
    panel.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.set_yticks(np.array([]), minor=True)
