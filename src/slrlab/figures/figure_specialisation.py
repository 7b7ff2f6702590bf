"""How heads specialise: overlaps against time, and the times of the stages."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pandas as pd

from slrlab._types import Axes, Figure, Report
from slrlab.experiments.descent.specialisation import Stages, specialisation
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.points import Row
from slrlab.figures.registry import About
from slrlab.model.heads import BAYES_SOFTMAX, MultiHeadSLR

ABOUT = About(
    title="Specialisation of heads: online SGD and the flow of its overlaps",
    caption="""
    Bayes-softmax heads on two directions, with signals 16 and 6, trained on fresh sequences (dots)
    and by the flow of the overlaps (lines). Left: overlaps of the values with both directions for
    one seed, the time at which all heads are close to the mean of the directions (grey) and when a
    head permanently specialises (vertical lines); middle: risk of all seeds, which ends above
    the Bayes risk (grey) at this rate. Right: times of the stages in SGD against those of the flow,
    with open marks for seeds that have not the same stages in both (pink in the middle). All heads
    first learn the mean, then one direction after the other; a third head ends without a direction
    of its own.
    """,
    costs={"figure specialisation": 150.0},
    compiled=True,
    section="Beyond the paper",
    report=("full",),
)
SIGNALS, PROBABILITIES, LENGTH = (16.0, 6.0), (0.6, 0.4), 3
RATE, START, OVERLAP = 0.1, 0.1, 0.03
DIM = {"toy": 60, "quick": 1000, "full": 1000}
SAMPLES = {"toy": 256, "quick": 2048, "full": 2048}
TIME = {"toy": 3.0, "quick": 16.0, "full": 16.0}
# number of seeds for each number of heads
SEEDS = {"toy": {2: 2}, "quick": {2: 10, 3: 10}, "full": {2: 30, 3: 10}}
CHOSEN = 10  # the limits of the stages were chosen with these seeds; later ones are held out
_STYLES = ("-", "--")
_COLORS = ("#0072B2", "#D55E00", "#009E73")
_SHOWN = 1  # the seed of the overlaps


class _Point(NamedTuple):
    heads: int
    seed: int
    profile: str


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return a row for each number of heads, seed, method and time (or stage)."""
    counts = SEEDS[profile].items()
    points = [_Point(heads, seed, profile) for heads, count in counts for seed in range(count)]
    tables = parallel_map(_trained, points, label="figure specialisation", report=report)
    return pd.concat(tables, ignore_index=True)


def _trained(point: _Point) -> pd.DataFrame:
    heads, seed, profile = point
    task = MultiHeadSLR(SIGNALS, LENGTH, probabilities=PROBABILITIES)
    result = specialisation(
        task,
        BAYES_SOFTMAX,
        heads=heads,
        dim=DIM[profile],
        rate=RATE,
        time=TIME[profile],
        size=START,
        overlap=OVERLAP,
        samples=SAMPLES[profile],
        seed=seed,
    )
    run = result.runs[0]
    rows = _stage_rows("descent", run.stages) + _stage_rows("flow", run.predicted)
    path = result.to_frame()
    if seed != _SHOWN:  # only its risk is drawn
        path = path[(path["head"] == 0) & (path["direction"] == 0)]
    table = pd.concat([path.assign(part="path"), pd.DataFrame(rows)])
    fixed: Row = {"seed": seed, "reproduced": run.reproduced, "gap": run.gap}
    return table.assign(**fixed, status=str(result.status), heads=heads)


def _stage_rows(method: str, stages: Stages) -> list[Row]:
    """Return begin and end of the common stage, and when each direction is taken."""
    begin, end = stages.common or (math.nan, math.nan)
    rows: list[Row] = [{"stage": "begin", "times": begin}, {"stage": "end", "times": end}]
    for direction, head, time in stages.learned:
        rows.append({"stage": f"direction {direction + 1}", "times": time, "head": head})
    return [row | {"part": "stage", "method": method} for row in rows]


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw a row for each number of heads: overlaps of one seed, risks, times of stages."""
    counts = sorted(frame["heads"].unique())
    figure, axes = style.new_figure(len(counts), 3, 10.0, 0.8 + 2.8 * len(counts))
    for row, heads in zip(axes, counts, strict=True):
        own = frame[frame["heads"] == heads]
        paths, stages = own[own["part"] == "path"], own[own["part"] == "stage"]
        _draw_overlaps(row[0], paths[paths["seed"] == _SHOWN], stages[stages["seed"] == _SHOWN])
        row[0].set_title(f"{heads} heads, seed {_SHOWN}")
        _draw_risks(row[1], paths)
        _draw_stages(row[2], stages)
        seeds = own.drop_duplicates("seed")
        row[2].set_title(f"same stages in {int(seeds['reproduced'].sum())} of {len(seeds)} seeds")
    for panel, label in zip(axes[-1], ("time", "time", "time of the flow"), strict=True):
        panel.set_xlabel(label)
    style.shared_legend(figure, axes.flat, ncols=4)
    return figure


def _draw_overlaps(panel: Axes, part: pd.DataFrame, stages: pd.DataFrame) -> None:
    for (first, second), rows in part.groupby(["head", "direction"]):
        head, direction = (round(float(str(one))) for one in (first, second))
        color, dashes = _COLORS[head % 3], _STYLES[direction % 2]
        flow, sgd = (rows[rows["method"] == method] for method in ("flow", "descent"))
        label = f"head {head + 1}, direction {direction + 1}"
        panel.plot(flow["times"], flow["value"], dashes, color=color, linewidth=1.2, label=label)
        panel.plot(sgd["times"], sgd["value"], ".", color=color, markersize=2.5)
    own = stages[stages["method"] == "descent"]
    begin, end = (own[own["stage"] == name]["times"].iloc[0] for name in ("begin", "end"))
    if math.isfinite(begin):
        panel.axvspan(begin, end, color="0.9", zorder=0)
    for row in own[own["stage"].str.startswith("direction")].to_dict("records"):
        panel.axvline(row["times"], color=_COLORS[int(row["head"]) % 3], linewidth=0.8)
    panel.set(ylabel="overlap of values with $v^*_j$")


def _draw_risks(panel: Axes, part: pd.DataFrame) -> None:
    from slrlab.theory.heads.bayes import heads_bayes_risk

    once = part[(part["head"] == 0) & (part["direction"] == 0)]
    named: set[str] = set()
    for (_, method, good), rows in once.groupby(["seed", "method", "reproduced"]):
        look: dict[str, Any] = {"color": "black" if good else "#CC79A7", "alpha": 0.7}
        look |= {"linewidth": 0.7} if method == "flow" else {"linestyle": "none", "marker": "."}
        name = f"{method}, stages {'agree' if good else 'differ'}"
        label = "_nolegend_" if name in named else name.replace("descent", "SGD")
        named.add(name)
        panel.plot(rows["times"], rows["risk"], markersize=2.0, label=label, **look)
    task = MultiHeadSLR(SIGNALS, LENGTH, probabilities=PROBABILITIES)
    panel.axhline(heads_bayes_risk(task).risk, color="0.8", linewidth=4, zorder=0)
    panel.set(ylabel="risk", ylim=(0.0, 1.1))


_STAGES = {
    "begin": ("mean learned", "0.4", "o"),
    "end": ("heads part", "0.4", "s"),
    "direction 1": ("direction 1 taken", "#56B4E9", "^"),
    "direction 2": ("direction 2 taken", "#E69F00", "D"),
}


def _draw_stages(panel: Axes, stages: pd.DataFrame) -> None:
    """Draw the time of each stage in SGD against that of the flow."""
    index = ["stage", "seed", "reproduced"]
    wide = stages.pivot_table(index=index, columns="method", values="times").reset_index()
    for name, (label, color, marker) in _STAGES.items():
        for good, rows in wide[wide["stage"] == name].groupby("reproduced"):
            look: dict[str, Any] = {"color": color, "marker": marker, "linestyle": "none"}
            look |= {"label": label} if good else {"markerfacecolor": "white"}
            panel.plot(rows["flow"], rows["descent"], **look)
    top = 1.05 * float(stages["times"].max())
    panel.plot([0.0, top], [0.0, top], color="0.7", linewidth=0.8, zorder=0)
    panel.set(ylabel="time in SGD", xlim=(0.0, top), ylim=(0.0, top))
