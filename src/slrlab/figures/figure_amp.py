"""Message passing on data and its state evolution, iteration by iteration."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from slrlab._result import Estimate
from slrlab._types import Axes, Figure, Report
from slrlab.experiments.comparison.amp import compare_amp
from slrlab.experiments.comparison.student import family_p, half_width
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.registry import About
from slrlab.model.task_registry import make_task
from slrlab.simulation.training.erm import training_bytes

ABOUT = About(
    title="Approximate message passing against its state evolution",
    caption="""
    Overlaps with the teachers and risk on fresh data after each iteration of message passing: state
    evolution as lines, means over seeds as markers with 95 % intervals (Student's t). The markers
    follow the lines from the first iteration on; each panel gives the p-value of the largest
    deviation among all its points, corrected for their number (Bonferroni).
    """,
    costs={"message passing": 40.0},
    compiled=True,
)
_KEYS = ["task", "signal", "length", "noise", "alpha"]
PANELS = (
    ("spiked", 2.0, "3", 0.3, 2.0),
    ("spiked", 2.0, "1,2,3", 0.0, 2.0),
    ("max", 2.0, "3", 0.3, 2.0),
    ("max", math.inf, "3", 0.0, 3.0),
)
DIM = {"toy": 80, "quick": 700, "full": 4000}
SEEDS = {"toy": 2, "quick": 8, "full": 16}
STEPS = {"toy": 4, "quick": 20, "full": 20}
_CURVES = {
    "q_k": ("keys, $q_k$", "#56B4E9", "o"),
    "q_v": ("values, $q_v$", "#E69F00", "s"),
    "risk": ("test risk", "#000000", "^"),
}

Panel = tuple[str, float, str, float, float]


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each setting and iteration."""
    dim = DIM[profile]
    panels = PANELS[::2] if profile == "toy" else PANELS
    runs = [(panel, dim, SEEDS[profile], STEPS[profile]) for panel in panels]
    sizes = [
        training_bytes(make_task(name, signal=signal, length=length), dim, alpha)
        for name, signal, length, _, alpha in panels
    ]
    label, size = "message passing", max(sizes)
    tables = parallel_map(_compared, runs, label=label, report=report, size=size)
    return pd.concat(tables, ignore_index=True)


def _compared(run: tuple[Panel, int, int, int]) -> pd.DataFrame:
    panel, dim, seeds, steps = run
    name, signal, length, noise, alpha = panel
    task = make_task(name, signal=signal, length=length, noise=noise)
    comparison = compare_amp(task, alpha=alpha, dim=dim, seeds=seeds, steps=steps)
    setting: dict[str, Any] = dict(zip(_KEYS, panel, strict=True)) | {"dim": dim, "seeds": seeds}
    return comparison.to_frame().assign(**setting, status=str(comparison.status))


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw one panel for each setting: state evolution as lines, simulation as markers."""
    groups = list(frame.groupby(_KEYS, sort=False))
    rows = (len(groups) + 1) // 2
    figure, axes = style.new_figure(rows, 2, 6.8, 1.0 + 2.7 * rows, sharex=True, sharey=True)
    for panel, (_, part) in zip(axes.flat, groups, strict=True):
        _draw_setting(panel, part)
    for panel in axes[-1]:
        panel.set_xlabel("iteration")
    axes[0, 0].set_ylim(0.0, 1.2)
    figure.supylabel("overlap with the teacher, test risk", fontsize=9)
    size = f"$D={int(frame['dim'].iloc[0])}$, {int(frame['seeds'].iloc[0])} seeds"
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=3,
        title=f"lines: state evolution; markers: {size}, 95 % intervals",
    )
    return figure


def _draw_setting(panel: Axes, part: pd.DataFrame) -> None:
    for name, (label, colour, mark) in _CURVES.items():
        means = [
            Estimate(row[name], row[f"{name}_error"], row["seeds"] - 1.0)
            for row in part.to_dict("records")
        ]
        panel.plot(part["iteration"], part[f"{name}_se"], color=colour)
        look: dict[str, Any] = {"fmt": mark, "color": colour, "markerfacecolor": "white"}
        bars = [half_width(mean) for mean in means]
        panel.errorbar(part["iteration"], part[name], yerr=bars, capsize=2, label=label, **look)
    task, *setting = part[_KEYS].iloc[0]
    symbols = style.in_symbols(**dict(zip(_KEYS[1:], setting, strict=True)))
    p_values = [value for name in _CURVES for value in part[f"{name}_p_value"]]
    panel.set_title(f"{task}-SLR, {symbols}\nlargest deviation: p = {family_p(p_values):.2g}")
