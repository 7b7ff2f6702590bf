"""Descent in ``R^D`` on the curves of its flow: every order parameter against time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slrlab.experiments.flows import compare_descent
from slrlab.experiments.parallel import Report, parallel_map
from slrlab.figures.style import house_style
from slrlab.model.tasks import make_task

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Order parameters under descent in D dimensions against the flow in four"
# k and v on (k*, v*, two free directions), off M: every overlap moves
START = ((0.5, 0.3, 0.3, 0.0), (0.1, 0.2, 0.1, 0.2))
SIGNAL, LENGTH = 2.0, 3
DIM = {"toy": 60, "quick": 500, "full": 2000}
TIME = {"toy": 2.0, "quick": 8.0, "full": 8.0}
MARKS = 17  # times with a marker
CURVES = (
    {
        "m_kk": ("$m_{kk}$", "#0072B2", "o"),
        "m_kv": ("$m_{kv}$", "#D55E00", "s"),
        "m_vk": ("$m_{vk}$", "#009E73", "^"),
        "m_vv": ("$m_{vv}$", "#CC79A7", "D"),
    },
    {
        "q_kk": ("$q_{kk}$", "#0072B2", "o"),
        "q_kv": ("$q_{kv}$", "#000000", "v"),
        "q_vv": ("$q_{vv}$", "#CC79A7", "D"),
    },
)


class Case(NamedTuple):
    """A panel: which task and attention, and how descent steps."""

    task: str
    activation: str
    rate: float
    batch: float  # sequences a step and dimension


# linear weights sum to the length: its values begin smaller, and its steps must be
CASES = (
    Case("spiked", "softmax", 0.01, 0.5),
    Case("spiked", "linear", 0.005, 0.5),
    Case("max", "softmax", 0.01, 0.5),
)


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each panel and time: every overlap, and beside it that of the flow."""
    import pandas as pd

    cases = CASES[:2] if profile == "toy" else CASES
    runs = [(case, DIM[profile], TIME[profile]) for case in cases]
    tables = parallel_map(_compared, runs, label="figure descent", report=report)
    return pd.concat(tables, ignore_index=True)


def _compared(run: tuple[Case, int, float]) -> pd.DataFrame:
    case, dim, time = run
    scale = 1.0 / LENGTH if case.activation == "linear" else 1.0
    found = compare_descent(
        make_task(case.task, signal=SIGNAL, length=LENGTH),
        case.activation,
        dim=dim,
        time=time,
        rate=case.rate,
        batch=2 * max(1, round(case.batch * dim / 2)),
        start=(START[0], tuple(scale * x for x in START[1])),
        record=81,
    )
    where: dict[str, Any] = {
        "task": case.task,
        "activation": case.activation,
        "signal": SIGNAL,
        "length": LENGTH,
        "method": "descent",
        "rate": case.rate,
        "dim": dim,
    }
    return found.to_frame().assign(**where, status=str(found.status))


def draw(frame: pd.DataFrame) -> Figure:
    """Draw one column for each setting: the flow as lines, descent as markers."""
    import matplotlib.pyplot as plt

    groups = list(frame.groupby(["method", "task", "activation"], sort=False))
    with house_style():
        figure, axes = plt.subplots(
            2,
            len(groups),
            figsize=(0.6 + 3.1 * len(groups), 5.6),
            sharex="col",
            squeeze=False,
            layout="constrained",
        )
        for column, (_, part) in enumerate(groups):
            for panel, curves in zip(axes[:, column], CURVES, strict=True):
                _panel(panel, part, curves)
            axes[0, column].set_title(_title(part.iloc[0]))
            axes[1, column].set_xlabel("time")
        axes[0, 0].set_ylabel("overlap with a teacher")
        axes[1, 0].set_ylabel("overlap of keys and values")
        for row, panel in enumerate(axes[:, -1]):
            panel.legend(
                *axes[row, 0].get_legend_handles_labels(),
                loc="center left",
                bbox_to_anchor=(1.0, 0.5),
                title="lines: flow\nmarkers: descent" if row == 0 else None,
            )
        return figure


def _title(row: pd.Series[Any]) -> str:
    where = f"$\\nu={row['signal']:g}$, $L={row['length']}$, $D={row['dim']}$"
    return f"{row['activation']} on {row['task']}-SLR\n{where}"


def _panel(panel: Axes, part: pd.DataFrame, curves: dict[str, tuple[str, str, str]]) -> None:
    first = part[part["run"] == 0]
    # even in the square root of time: much happens at once
    spread = np.linspace(0.0, 1.0, MARKS) ** 2 * first["times"].max()
    places = np.unique(np.searchsorted(first["times"], spread - 1e-9))
    shown = first.iloc[places]
    for name, (label, colour, mark) in curves.items():
        panel.plot(first["times"], first[f"{name}_flow"], color=colour)
        panel.plot(
            shown["times"],
            shown[name],
            mark,
            color=colour,
            markerfacecolor="white",
            label=label,
        )
    gap = max(float((part[name] - part[f"{name}_flow"]).abs().max()) for name in curves)
    panel.text(
        0.98,
        0.02,
        f"largest gap {gap:.3f}",
        transform=panel.transAxes,
        ha="right",
        va="bottom",
        fontsize=7.5,
    )
