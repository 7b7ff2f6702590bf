"""Order parameters against time: descent in ``R^D``, and the flow that predicts it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from slrlab._types import Axes, Figure, Report
from slrlab.experiments.descent.flows import compare_descent, compare_sgd
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.points import Row
from slrlab.figures.registry import About
from slrlab.model.task_registry import make_task

ABOUT = About(
    title="Order parameters under descent in D dimensions against the flow in four",
    caption="""
    Every overlap along descent in many dimensions (markers) and along the flow in four (lines),
    from one start off the manifold M; each row is a task, an attention and a method of training.
    The markers lie on the lines: the flow predicts training at every time. Online SGD at a finite
    rate follows the flow with noise (line), not the flow without noise (dotted).
    """,
    costs={"figure descent": 17.0},
    compiled=True,
)
# k and v on (k*, v*, two free directions), off M, so that every overlap changes
START = ((0.5, 0.3, 0.3, 0.0), (0.1, 0.2, 0.1, 0.2))
SIGNAL, LENGTH = 2.0, 3
DIM = {"toy": 60, "quick": 300, "full": 2000}
TIME = {"toy": 1.0, "quick": 8.0, "full": 8.0}
SEEDS = 4  # number of seeds of online SGD, which fluctuates
_BATCH = 0.5  # sequences per step and dimension, of descent
_MARKS = 17  # times with a marker
# colours that no activation has
_CURVES = (
    {
        "m_kk": ("#000000", "o"),
        "m_kv": ("#E69F00", "s"),
        "m_vk": ("#56B4E9", "^"),
        "m_vv": ("#8C6100", "D"),
    },
    {"q_kk": ("#000000", "o"), "q_kv": ("#E69F00", "v"), "q_vv": ("#8C6100", "D")},
)


class Case(NamedTuple):
    """A row of panels: task, attention and method of training."""

    task: str
    activation: str
    method: str
    rate: float


# the weights of linear attention sum to the length: it needs smaller values and smaller steps
CASES = (
    Case("spiked", "softmax", "descent", 0.01),
    Case("spiked", "linear", "descent", 0.005),
    Case("max", "softmax", "descent", 0.01),
    Case("spiked", "softmax", "online SGD", 0.1),
    Case("spiked", "softmax", "online SGD", 0.4),
)


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each case and time: every overlap, measured and of the flow."""
    cases = [CASES[0], CASES[-1]] if profile == "toy" else CASES
    runs = [(case, DIM[profile], TIME[profile]) for case in cases]
    tables = parallel_map(_compared, runs, label="figure descent", report=report)
    return pd.concat(tables, ignore_index=True)


def _compared(run: tuple[Case, int, float]) -> pd.DataFrame:
    case, dim, time = run
    task = make_task(case.task, signal=SIGNAL, length=LENGTH)
    scale = 1.0 / LENGTH if case.activation == "linear" else 1.0
    start = (START[0], tuple(scale * x for x in START[1]))
    options: dict[str, Any] = {"start": start, "dim": dim, "time": time, "record": 81}
    if case.method == "descent":
        options["batch"] = 2 * max(1, round(_BATCH * dim / 2))
        comparison = compare_descent(task, case.activation, rate=case.rate, **options)
    else:
        comparison = compare_sgd(task, case.activation, rate=case.rate, seeds=SEEDS, **options)
    row: Row = {"method": case.method, "task": case.task, "activation": case.activation}
    row |= {"signal": SIGNAL, "length": LENGTH, "rate": case.rate, "batch": comparison.batch}
    return comparison.to_frame().assign(**row, dim=dim, status=str(comparison.status))


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw one row for each setting: the flow as lines, descent as markers."""
    keys = ["method", "task", "activation", "rate"]
    groups = [part for _, part in frame.groupby(keys, sort=False)]
    figure, axes = style.new_figure(len(groups), 2, 5.6, 0.9 + 1.75 * len(groups), sharex=True)
    for row, part in zip(axes, groups, strict=True):
        noiseless = _without_noise(part, groups)
        for panel, curves in zip(row, _CURVES, strict=True):
            _draw_overlaps(panel, part, noiseless, curves)
        row[0].set_title(_title(part.iloc[0]), loc="left")
    for panel, label in zip(axes[-1], ("with a teacher", "of keys and values"), strict=True):
        panel.set_xlabel(f"time (overlaps {label})")
    style.shared_legend(figure, axes.flat, ncols=7)
    return figure


def _without_noise(part: pd.DataFrame, groups: list[pd.DataFrame]) -> pd.DataFrame | None:
    """Return the gradient flow of the setting of online SGD, if the table has it."""
    own = part.iloc[0]
    for other in groups:
        row = other.iloc[0]
        same = row["task"] == own["task"] and row["activation"] == own["activation"]
        if same and row["method"] == "descent" != own["method"]:
            return other[other["run"] == 0]
    return None


def _title(row: pd.Series[Any]) -> str:
    sgd = f"online SGD, rate {row['rate']:g}, {SEEDS} runs"
    method = "descent" if row["method"] == "descent" else sgd
    setting = f"{style.in_symbols(signal=row['signal'], length=row['length'])}, $D={row['dim']}$"
    return f"{row['activation']} on {row['task']}-SLR, {method}, {setting}"


def _draw_overlaps(
    panel: Axes,
    part: pd.DataFrame,
    noiseless: pd.DataFrame | None,
    curves: dict[str, tuple[str, str]],
) -> None:
    mean = part.groupby("times", as_index=False).mean(numeric_only=True)  # over the runs
    # even in the square root of time, because the overlaps change fastest at first
    times = np.linspace(0.0, 1.0, _MARKS) ** 2 * mean["times"].max()
    shown = mean.iloc[np.unique(np.searchsorted(mean["times"], times - 1e-9))]
    for name, (colour, mark) in curves.items():
        panel.plot(mean["times"], mean[f"{name}_flow"], color=colour)
        if noiseless is not None:
            flow = noiseless[f"{name}_flow"]
            panel.plot(noiseless["times"], flow, ":", color=colour, linewidth=1.0)
        look: dict[str, Any] = {"color": colour, "markerfacecolor": "white"}
        panel.plot(shown["times"], shown[name], mark, label=style.symbol(name), **look)
    gap = max(float((mean[name] - mean[f"{name}_flow"]).abs().max()) for name in curves)
    where: dict[str, Any] = {"transform": panel.transAxes, "ha": "right", "va": "center"}
    panel.text(0.98, 0.2, f"largest gap {gap:.3f}", fontsize=7.5, **where)
