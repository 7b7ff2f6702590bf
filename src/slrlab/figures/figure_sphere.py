"""Training on the sphere: the experiments of Marion et al. (2024)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from slrlab._types import Axes, Figure, FloatArray, Report
from slrlab.experiments.descent.sphere import sphere_training
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.points import Row
from slrlab.figures.registry import About
from slrlab.model.activations import make_activation
from slrlab.model.marion import MarionSLR
from slrlab.theory.landscape.risk import make_landscape
from slrlab.theory.landscape.sphere import ERF_ATTENTION

ABOUT = About(
    title="Training on the sphere: erf attention on the task of Marion et al., $L=10$",
    caption="""
    Risk above the noise, sizes of the overlaps with the teachers, and distance to the manifold M
    against time, from starts on M or anywhere on the sphere (a line for each flow, dots for descent
    on fresh sequences); right: paths over the risk on M at the first length of the keys. From M all
    flows reach the teachers, but about half of the random starts with short keys end at a
    mismatched minimum far from M. Its risk is below that of the teachers (dotted) in 80 dimensions
    and above it in 400. With long keys training takes long; keys whose length falls with time reach
    the teachers from most starts.
    """,
    costs={"figure sphere": 40.0},
    compiled=True,
    section="Beyond the paper",
    report=("full",),
)
LENGTH, NOISE, STD = 10, 0.1, math.sqrt(0.5)
DIM = {"toy": 20, "quick": 80, "full": 400}
STARTS = {"toy": 2, "quick": 8, "full": 30}
RECORD = 61
_GRID = {"toy": 9, "quick": 41, "full": 61}
_PATHS = 6  # drawn over the risk
_BLUE, _ORANGE = "#0072B2", "#D55E00"


class Case(NamedTuple):
    """A row of panels: where training starts, the keys, and the step of a descent (0: none)."""

    name: str
    start: str
    scale: float
    decay: float
    time: float
    rate: float = 0.0
    noise: float = 0.0


# scales, decays and times are those of the paper's code, with a time of 4e-3 (1e-3) a step; the
# descent has dimension 80 there
CASES = (
    Case("on M, $\\lambda=0.1$", "manifold", 0.1, 0.0, 80.0),
    Case("random, $\\lambda=0.1$", "random", 0.1, 0.0, 80.0),
    Case("random, $\\lambda=0.9$", "random", 0.9, 0.0, 120.0),
    Case("random, $\\lambda$ falls from 1", "random", 1.0, 0.025, 480.0),
    Case("descent, $\\lambda$ falls from 2", "random", 2.0, 0.1, 200.0, 1e-3, NOISE),
)
DESCENTS = {"toy": 2, "quick": 8, "full": 10}  # starts of the last case: 40 s each in full
_DESCENT_DIM = {"toy": 20, "quick": 20, "full": 80}
_DESCENT_TIME = {"toy": 2.0, "quick": 20.0, "full": 200.0}


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return a row for each case, start and time, and the risk on M for each case."""
    cases = (CASES[1], CASES[4]) if profile == "toy" else CASES
    points = [
        (case, seed, profile)
        for case in cases
        for seed in range((DESCENTS if case.rate else STARTS)[profile])
    ]
    tables = parallel_map(_trained, points, label="figure sphere", report=report)
    tables += [_on_manifold(case, profile) for case in cases]
    return pd.concat(tables, ignore_index=True)


def _task(case: Case, profile: str) -> tuple[MarionSLR, int]:
    dim = (_DESCENT_DIM if case.rate else DIM)[profile]
    return MarionSLR(dim / 2.0, LENGTH, case.noise, relevant_std=STD), dim


def _trained(point: tuple[Case, int, str]) -> pd.DataFrame:
    case, seed, profile = point
    task, dim = _task(case, profile)
    time = min(case.time, _DESCENT_TIME[profile]) if case.rate else case.time
    result = sphere_training(
        task,
        scale=case.scale,
        decay=case.decay,
        dim=dim,
        start=case.start,
        time=time,
        record=RECORD,
        rate=case.rate or None,
        seeds=1,
        seed=seed,
    )
    row: Row = {"part": "path", "case": case.name, "start": seed, "dim": dim, "noise": case.noise}
    row |= {"oracle_risk": result.oracle_risk, "minimum": result.flows[0].minimum}
    return result.to_frame().assign(**row, status=str(result.status))


def _on_manifold(case: Case, profile: str) -> pd.DataFrame:
    """Return the risk on M against both overlaps, at the first length of the keys."""
    task, dim = _task(case, profile)
    landscape = make_landscape(task, make_activation(ERF_ATTENTION))
    grid = np.linspace(-1.0, 1.0, _GRID[profile])
    rows = []
    for kappa in grid.tolist():
        k = case.scale * np.array([kappa, 0.0, math.sqrt(1.0 - kappa**2), 0.0])
        # the risk on M is linear in v·v*: two values give all
        ends = [landscape(k, np.array([0.0, end, 0.0, 0.0]), 0.0).risk for end in (-1.0, 1.0)]
        for nu in grid.tolist():
            risk = 0.5 * (ends[0] * (1.0 - nu) + ends[1] * (1.0 + nu))
            rows.append({"part": "M", "case": case.name, "kappa": kappa, "nu": nu, "risk": risk})
    return pd.DataFrame(rows).assign(dim=dim, noise=case.noise)


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw one row for each case: risk, overlaps, distance to M, and the plane of M."""
    cases = list(dict.fromkeys(frame["case"]))
    figure, axes = style.new_figure(len(cases), 4, 10.0, 1.0 + 1.9 * len(cases))
    for row, name in zip(axes, cases, strict=True):
        own = frame[frame["case"] == name]
        part = own[own["part"] == "path"]
        _draw_paths(row, part, f"{name}, $d={part['dim'].iloc[0]}$")
        _draw_plane(row[3], own[own["part"] == "M"], part)
    for panel, label in zip(axes[-1], ("time", "time", "time", "$k\\cdot k^*$"), strict=True):
        panel.set_xlabel(label)
    words = ("risk above the noise", "overlaps", "distance to $M$")
    for row in axes:
        for panel, label in zip(row[:3], words, strict=True):
            panel.set_ylabel(label)
    style.shared_legend(figure, [*axes[:, 1], *axes[:, 3]], ncols=4)
    return figure


def _draw_paths(row: Any, part: pd.DataFrame, title: str) -> None:
    """Draw risk, overlaps and distance to M against time."""
    noise = part["noise"].iloc[0] ** 2
    _draw_lines(row[0], part, part["risk"] - noise, "black", "risk")
    row[0].axhline(part["oracle_risk"].iloc[0] - noise, color="0.4", linestyle=":")
    row[0].set_ylim(bottom=0.0)
    _draw_lines(row[1], part, part["kappa"].abs(), _BLUE, "$|k\\cdot k^*|$")
    _draw_lines(row[1], part, part["nu"].abs(), _ORANGE, "$|v\\cdot v^*|$")
    row[1].set_ylim(-0.05, 1.05)
    distance = (part["theta"] ** 2 + part["eta"] ** 2 + part["rho"] ** 2) ** 0.5
    if distance.max() > 0.0:
        _draw_lines(row[2], part, distance, "black", "distance")
        row[2].set(yscale="log", ylim=(1e-8, 3.0))
    else:
        where: dict[str, Any] = {"transform": row[2].transAxes, "ha": "center", "va": "center"}
        row[2].text(0.5, 0.5, "0 at all times", **where)
        row[2].set(xticks=[], yticks=[])
    ends = part.drop_duplicates("start")["minimum"].value_counts()
    row[0].set_title(title, loc="left")
    row[1].set_title(", ".join(f"{count} {kind}" for kind, count in ends.items()), loc="left")


def _draw_lines(
    panel: Axes, part: pd.DataFrame, values: pd.Series[float], color: str, label: str
) -> None:
    """Draw a line for each start: solid for its flow, with dots for its descent."""
    for (method, start), own in values.groupby([part["method"], part["start"]]):
        name = label if start == part["start"].min() else "_nolegend_"
        times = part.loc[own.index, "times"]
        look: dict[str, Any] = {"color": color, "linewidth": 0.7, "alpha": 0.8}
        if method == "descent":
            name = f"{name}, descent" if name == label else name
            look |= {"linestyle": "none", "marker": ".", "markersize": 2.0}
        panel.plot(times, own, label=name, **look)


def _draw_plane(panel: Axes, surface: pd.DataFrame, part: pd.DataFrame) -> None:
    """Draw paths in the plane of both overlaps, over the risk on M."""
    table = surface.pivot(index="nu", columns="kappa", values="risk")
    plane = _axis(table.columns), _axis(table.index), table.to_numpy()
    panel.contourf(*plane, 14, cmap="Greys_r", alpha=0.6)
    method = "descent" if "descent" in set(part["method"]) else "flow"
    for start, path in part[part["method"] == method].groupby("start"):
        if float(str(start)) < _PATHS:
            end = path["minimum"].iloc[0]
            color = style.END_COLORS.get(end, "0.5")
            panel.plot(path["kappa"], path["nu"], color=color, linewidth=1.0, label=f"to {end}")
            panel.plot(path["kappa"].iloc[-1], path["nu"].iloc[-1], "o", color=color, markersize=3)
    panel.set(xlim=(-1.02, 1.02), ylim=(-1.02, 1.02), ylabel="$v\\cdot v^*$")
    panel.grid(visible=False)


def _axis(index: pd.Index[Any]) -> FloatArray:
    return np.asarray(index, dtype=float)
