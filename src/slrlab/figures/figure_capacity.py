"""Associative capacity: loss of a trained layer against the number of stored pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from slrlab._types import Axes, Report
from slrlab.experiments.retrieval.capacity import KEY_SIZE, capacity_of, published_runs, summaries
from slrlab.figures import style
from slrlab.figures.registry import About
from slrlab.retrieval.capacity import capacity_floor
from slrlab.retrieval.feature_maps import FeatureMap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ABOUT = About(
    title="Associative capacity: how many key-value pairs one attention layer stores",
    caption="""
    Loss of a layer that was trained to store N key-value pairs with keys of size 64 (marks: mean
    and range of the seeds, every query counts the same; crosses: the published single runs,
    whose mean gives queries unequal weights), against N, on a linear and a logarithmic axis. Lines:
    the floor (1 - m/N)/2 of any map with m features; softmax has none and solves every N. elu+1 (m
    = 64) and DPFP-1 (m = 128) end on theirs once N exceeds m; random features (FAVOR+) stay far
    above. Not drawn are the steps: DPFP-1 at N = 100 was published as solved in 600 and takes 1400
    to 6000 in the stored full run; softmax at N = 200, published at 200, takes 200 to 300.
    """,
    costs={"capacity": 120.0},
    compiled=True,
    section="Beyond the paper",
    report=("full",),
)
PAIRS: dict[str, dict[str, tuple[int, ...]]] = {
    "toy": {"softmax": (20,), "elu+1": (20,)},
    "quick": {"softmax": (20, 200), "elu+1": (20, 60, 100), "dpfp-1": (60,), "favor-64": (20,)},
    "full": {
        name: tuple(pairs for other, pairs in published_runs() if other == name)
        for name, _ in published_runs()
    },
}
SEEDS = {"toy": 1, "quick": 1, "full": 3}
MAX_STEPS = {"toy": 200, "quick": 4000, "full": 8000}
SOLVED = 1e-3
"""Loss at which a training ends as solved."""

_LOOKS = {
    "softmax": ("#0072B2", "o"),
    "elu+1": ("#D55E00", "s"),
    "dpfp-1": ("#009E73", "^"),
    "favor-64": ("#CC79A7", "v"),
}


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each training."""
    items = [
        (name, count, seed, MAX_STEPS[profile])
        for seed in range(1, SEEDS[profile] + 1)
        for name, counts in PAIRS[profile].items()
        for count in counts
    ]
    return capacity_of(items, workers=None, report=report).runs


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw losses, floors and the published runs, on a linear and on a logarithmic axis."""
    figure, axes = style.new_figure(1, 2, 9.0, 4.0)
    linear, logarithmic = axes.flat
    for panel in (linear, logarithmic):
        _draw(panel, frame)
        panel.set(xlabel="pairs $N$", ylabel="loss after training")
    linear.set(ylim=(-0.02, 0.52))
    logarithmic.axhline(SOLVED, color="0.6", linestyle=":", label=f"solved: {SOLVED:g}")
    logarithmic.set(yscale="log")
    style.shared_legend(figure, axes.flat, ncols=4)
    return figure


def _draw(panel: Axes, frame: pd.DataFrame) -> None:
    points = summaries(frame)
    widest = max(one.pairs for one in points)
    grid = np.arange(2, widest + 1)
    for name, (color, marker) in _LOOKS.items():
        own = [one for one in points if one.feature_map == name]
        if not own:
            continue
        rows = frame[frame["feature_map"] == name]
        low, high = rows.groupby("pairs")["mean_loss"].agg(["min", "max"]).to_numpy().T
        means = np.array([one.mean_loss for one in own])
        ranges = np.clip([means - low, high - means], 0.0, None)
        look: dict[str, Any] = {"color": color, "marker": marker, "linestyle": "none"}
        pairs = [one.pairs for one in own]
        panel.errorbar(pairs, means, yerr=ranges, label=name, **look)
        panel.plot(pairs, [one.published for one in own], "x", color=color, markersize=8)
        dimension = FeatureMap.of(name).dimension(KEY_SIZE)
        if dimension < widest and name != "favor-64":
            floor = np.array([capacity_floor(int(count), dimension) for count in grid])
            above = floor > 0.0  # a floor of 0 has no place on a logarithmic axis
            panel.plot(grid[above], floor[above], color=color, label=f"floor, m = {dimension:.0f}")
    panel.plot([], [], "x", color="0.4", markersize=8, label="published run")
