"""Descent in ``R^D`` on the curves of its flow: every order parameter against time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slrlab._types import Report
from slrlab.experiments.flows import FlowComparison, compare_descent, compare_sgd
from slrlab.experiments.parallel import parallel_map
from slrlab.figures.registry import About
from slrlab.figures.style import house_style, shared_legend
from slrlab.model.tasks import make_task

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABOUT = About(
    title="Order parameters under descent in D dimensions against the flow in four",
    caption="""
    Every overlap along descent in many dimensions (markers) and along the flow in four (lines),
    from one start off the manifold M; rows are tasks, attentions and ways to train. Markers lie on
    the lines: the flow predicts training at every time. Online SGD at a finite rate follows the
    flow with noise and leaves the one without (dotted).
    """,
    costs={"figure descent": 17.0},
    compiled=True,
)
# k and v on (k*, v*, two free directions), off M: every overlap moves
START = ((0.5, 0.3, 0.3, 0.0), (0.1, 0.2, 0.1, 0.2))
SIGNAL, LENGTH = 2.0, 3
DIM = {"toy": 60, "quick": 300, "full": 2000}
TIME = {"toy": 1.0, "quick": 8.0, "full": 8.0}
SEEDS = 4  # of online SGD, which fluctuates
_MARKS = 17  # times with a marker
# colours that no activation has
_CURVES = (
    {
        "m_kk": ("$m_{kk}$", "#000000", "o"),
        "m_kv": ("$m_{kv}$", "#E69F00", "s"),
        "m_vk": ("$m_{vk}$", "#56B4E9", "^"),
        "m_vv": ("$m_{vv}$", "#8C6100", "D"),
    },
    {
        "q_kk": ("$q_{kk}$", "#000000", "o"),
        "q_kv": ("$q_{kv}$", "#E69F00", "v"),
        "q_vv": ("$q_{vv}$", "#8C6100", "D"),
    },
)


class Case(NamedTuple):
    """A row: which task and attention, and how it is trained."""

    task: str
    activation: str
    method: str
    rate: float
    batch: float = 0.0  # sequences a step and dimension, of descent


# linear weights sum to the length: its values begin smaller, and its steps must be
CASES = (
    Case("spiked", "softmax", "descent", 0.01, 0.5),
    Case("spiked", "linear", "descent", 0.005, 0.5),
    Case("max", "softmax", "descent", 0.01, 0.5),
    Case("spiked", "softmax", "online SGD", 0.1),
    Case("spiked", "softmax", "online SGD", 0.4),
)


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each panel and time: every overlap, and beside it that of the flow."""
    import pandas as pd

    cases = [CASES[0], CASES[-1]] if profile == "toy" else CASES
    runs = [(case, DIM[profile], TIME[profile]) for case in cases]
    tables = parallel_map(_compared, runs, label="figure descent", report=report)
    return pd.concat(tables, ignore_index=True)


def _compared(run: tuple[Case, int, float]) -> pd.DataFrame:
    case, dim, time = run
    found = _run(case, dim, time)
    where: dict[str, Any] = {
        "method": case.method,
        "task": case.task,
        "activation": case.activation,
        "signal": SIGNAL,
        "length": LENGTH,
        "rate": case.rate,
        "batch": found.batch,
        "dim": dim,
    }
    return found.to_frame().assign(**where, status=str(found.status))


def _run(case: Case, dim: int, time: float) -> FlowComparison:
    task = make_task(case.task, signal=SIGNAL, length=LENGTH)
    scale = 1.0 / LENGTH if case.activation == "linear" else 1.0
    given: dict[str, Any] = {
        "start": (START[0], tuple(scale * x for x in START[1])),
        "dim": dim,
        "time": time,
        "rate": case.rate,
        "record": 81,
    }
    if case.method != "descent":
        return compare_sgd(task, case.activation, seeds=SEEDS, **given)
    batch = 2 * max(1, round(case.batch * dim / 2))
    return compare_descent(task, case.activation, batch=batch, **given)


def draw(frame: pd.DataFrame) -> Figure:
    """Draw one row for each setting: the flow as lines, descent as markers."""
    import matplotlib.pyplot as plt

    keys = ["method", "task", "activation", "rate"]
    groups = [part for _, part in frame.groupby(keys, sort=False)]
    with house_style():
        figure, axes = plt.subplots(
            len(groups),
            2,
            figsize=(5.6, 0.9 + 1.75 * len(groups)),
            sharex=True,
            squeeze=False,
            layout="constrained",
        )
        for row, part in zip(axes, groups, strict=True):
            quiet = _without_noise(part, groups)
            for panel, curves in zip(row, _CURVES, strict=True):
                _panel(panel, part, quiet, curves)
            row[0].set_title(_title(part.iloc[0]), loc="left")
        for panel, label in zip(axes[-1], ("with a teacher", "of keys and values"), strict=True):
            panel.set_xlabel(f"time (overlaps {label})")
        shared_legend(figure, axes.flat, ncols=7)
        return figure


def _without_noise(part: pd.DataFrame, groups: list[pd.DataFrame]) -> pd.DataFrame | None:
    """Return the gradient flow of the same setting beside a flow with noise, if it is there."""
    here = part.iloc[0]
    for other in groups:
        row = other.iloc[0]
        same = row["task"] == here["task"] and row["activation"] == here["activation"]
        if same and row["method"] == "descent" != here["method"]:
            return other[other["run"] == 0]
    return None


def _title(row: pd.Series[Any]) -> str:
    how = "descent" if row["method"] == "descent" else f"online SGD, rate {row['rate']:g}"
    where = f"$\\nu={row['signal']:g}$, $L={row['length']}$, $D={row['dim']}$"
    runs = "" if row["method"] == "descent" else f", {SEEDS} runs"
    return f"{row['activation']} on {row['task']}-SLR, {how}{runs}, {where}"


def _panel(
    panel: Axes,
    part: pd.DataFrame,
    quiet: pd.DataFrame | None,
    curves: dict[str, tuple[str, str, str]],
) -> None:
    first = part.groupby("times", as_index=False).mean(numeric_only=True)  # over the runs
    # even in the square root of time: much happens at once
    times = np.linspace(0.0, 1.0, _MARKS) ** 2 * first["times"].max()
    indices = np.unique(np.searchsorted(first["times"], times - 1e-9))
    shown = first.iloc[indices]
    for name, (label, colour, mark) in curves.items():
        panel.plot(first["times"], first[f"{name}_flow"], color=colour)
        if quiet is not None:
            panel.plot(quiet["times"], quiet[f"{name}_flow"], ":", color=colour, linewidth=1.0)
        panel.plot(
            shown["times"],
            shown[name],
            mark,
            color=colour,
            markerfacecolor="white",
            label=label,
        )
    gap = max(float((first[name] - first[f"{name}_flow"]).abs().max()) for name in curves)
    panel.text(
        0.98,
        0.2,
        f"largest gap {gap:.3f}",
        transform=panel.transAxes,
        ha="right",
        va="center",
        fontsize=7.5,
    )
