"""Message passing on data, iteration by iteration, on the curve of its state evolution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from slrlab.experiments.amp import compare_amp
from slrlab.experiments.parallel import Report, parallel_map
from slrlab.figures.style import house_style
from slrlab.model.tasks import make_task
from slrlab.simulation.erm import training_bytes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Approximate message passing against its state evolution"
# task, signal, length, noise, alpha
PANELS = (
    ("spiked", 2.0, "3", 0.3, 2.0),
    ("spiked", 2.0, "1,2,3", 0.0, 2.0),
    ("max", 2.0, "3", 0.3, 2.0),
    ("max", math.inf, "3", 0.0, 3.0),
)
DIM = {"toy": 80, "quick": 700, "full": 4000}
SEEDS = {"toy": 2, "quick": 4, "full": 8}
STEPS = {"toy": 4, "quick": 20, "full": 20}
_CURVES = {
    "q_k": ("keys, $q_k$", "#0072B2", "o"),
    "q_v": ("values, $q_v$", "#D55E00", "s"),
    "risk": ("test risk", "#009E73", "^"),
}

Panel = tuple[str, float, str, float, float]


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each setting and iteration."""
    import pandas as pd

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
    (name, signal, length, noise, alpha), dim, seeds, steps = run
    task = make_task(name, signal=signal, length=length, noise=noise)
    found = compare_amp(task, alpha=alpha, dim=dim, seeds=seeds, steps=steps)
    where: dict[str, Any] = {
        "task": name,
        "signal": signal,
        "length": length,
        "noise": noise,
        "alpha": alpha,
    }
    return found.to_frame().assign(**where, dim=dim, seeds=seeds, status=str(found.status))


def draw(frame: pd.DataFrame) -> Figure:
    """Draw one panel for each setting: state evolution as lines, simulation as markers."""
    import matplotlib.pyplot as plt

    keys = ["task", "signal", "length", "noise", "alpha"]
    groups = list(frame.groupby(keys, sort=False))
    with house_style():
        figure, axes = plt.subplots(
            1, len(groups), figsize=(3.2 * len(groups), 3.8), sharey=True, layout="constrained"
        )
        for panel, (_, part) in zip(axes, groups, strict=True):
            _panel(panel, part)
            panel.set(title=_title(part.iloc[0]), xlabel="iteration")
        axes[0].set(ylabel="overlap with the teacher, test risk", ylim=(0.0, 1.2))
        handles, labels = axes[0].get_legend_handles_labels()
        size = f"markers: $D={int(frame['dim'].iloc[0])}$, {int(frame['seeds'].iloc[0])} seeds"
        figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=3,
            title=f"lines: state evolution; {size}",
        )
        return figure


def _title(row: pd.Series[Any]) -> str:
    signal = "\\infty" if math.isinf(row["signal"]) else f"{row['signal']:g}"
    where = f"$\\nu={signal}$, $L\\in\\{{{row['length']}\\}}$, $\\Delta={row['noise']:g}$"
    return f"{row['task']}-SLR, {where}, $\\alpha={row['alpha']:g}$"


def _panel(panel: Axes, part: pd.DataFrame) -> None:
    for name, (label, colour, mark) in _CURVES.items():
        panel.plot(part["iteration"], part[f"{name}_se"], color=colour)
        panel.errorbar(
            part["iteration"],
            part[name],
            yerr=part[f"{name}_error"],
            fmt=mark,
            color=colour,
            markerfacecolor="white",
            capsize=2,
            label=label,
        )
    gap = max(float((part[name] - part[f"{name}_se"]).abs().max()) for name in ("q_k", "q_v"))
    panel.text(
        0.98,
        0.03,
        f"largest gap in $q$: {gap:.3f}",
        transform=panel.transAxes,
        ha="right",
        fontsize=7.5,
    )
