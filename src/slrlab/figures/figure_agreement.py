"""Agreement: ten settings, six quantities, two dimensions: simulation against theory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from slrlab._result import Estimate
from slrlab._types import Report
from slrlab.experiments.comparison import QUANTITIES, STANDARD, compare_erm
from slrlab.experiments.dimensions import gap_limit
from slrlab.experiments.parallel import parallel_map
from slrlab.experiments.student import normal_score, p_value
from slrlab.figures.points import data_seed
from slrlab.figures.registry import About
from slrlab.figures.style import house_style
from slrlab.model.setting import Setting
from slrlab.theory.erm import ErmTheory, erm_theory
from slrlab.theory.erm.fields import BLOCKS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABOUT = About(
    title="Theory against simulated training: ten settings, two dimensions and their limit",
    caption="""
    Top: simulation minus theory as normal scores (Student's t with the errors of both sides) for
    six quantities of ten settings, at two dimensions and fitted to infinite D. Bottom: the p-values
    in order, against those of a uniform law. If theory and simulation differ by chance alone, 95 %
    of the scores lie in the grey band, all of them within the dashed lines, and the p-values follow
    the diagonal.
    """,
    costs={"agreement: theory": 13.0, "agreement: training": 11.0},
    compiled=True,
)
DIMS = {"toy": (40, 80), "quick": (150, 600), "full": (400, 1600)}
SEEDS = {"toy": 4, "quick": 8, "full": 40}
TOLERANCE = {"toy": 2e-3, "quick": 1e-3, "full": 3e-4}
_MARKERS = {
    "m_k": ("$m_k$", "o"),
    "m_v": ("$m_v$", "s"),
    "q_k": ("$q_k$", "^"),
    "q_v": ("$q_v$", "D"),
    "order_risk": ("test risk (order parameters)", "*"),
    "train_mse": ("training error", "P"),
}
_COLOURS = ("#56B4E9", "#000000", "#E69F00")  # small D, large D, their limit
_KEYS = ["number", "setting", "quantity"]
_BAND = 0.95


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each setting, dimension (inf: their limit) and quantity, tested."""
    import pandas as pd

    chosen = STANDARD[:3] if profile == "toy" else STANDARD
    settings = [(setting, TOLERANCE[profile]) for setting in chosen]
    theory = parallel_map(_theory, settings, label="agreement: theory", report=report)
    points = [
        (number, known, dim, SEEDS[profile], index)
        for index, dim in reversed(list(enumerate(DIMS[profile])))  # the costly ones first
        for number, known in enumerate(theory)
    ]
    tables = parallel_map(_compared, points, label="agreement: training", report=report)
    frame = pd.concat([*tables, _limits(pd.concat(tables))], ignore_index=True)
    return frame.sort_values(["number", "dim"], ignore_index=True, kind="stable")


def _theory(item: tuple[Setting, float]) -> ErmTheory:
    setting, tolerance = item
    return erm_theory(**setting.arguments, tolerance=tolerance)


def _compared(item: tuple[int, ErmTheory, int, int, int]) -> pd.DataFrame:
    number, theory, dim, seeds, index = item
    setting = STANDARD[number]
    seed = data_seed(setting) + index * seeds  # each dimension has its own data
    found = compare_erm(**setting.arguments, dim=dim, seeds=seeds, seed=seed, theory=theory)
    status = {"theory_status": str(theory.status), "status": str(found.simulation.status)}
    return found.to_frame().assign(number=number + 1, setting=_label(setting), **status)


def _label(setting: Setting) -> str:
    """Return a setting in the symbols of a figure."""
    task = setting.task
    noise = f", noise {task.noise:g}" if task.noise else ""
    where = f"{task.name} ν={task.signal:g}, L={task.length}{noise}"
    return f"{setting.activation_name}, {where}, α={setting.alpha:g}"


def _limits(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each setting and quantity: the gap as the dimension becomes infinite."""
    import pandas as pd

    rows = []
    for keys, part in frame.groupby(_KEYS, sort=False):
        pairs = [
            (
                Estimate(row["simulation"], row["simulation_error"], row["seeds"] - 1.0),
                Estimate(row["theory"], row["theory_error"], BLOCKS - 1.0),
            )
            for row in part.to_dict("records")
        ]
        found = gap_limit(pairs, part["dim"].tolist())
        gap, drift = found.value, found.drift
        row: dict[str, Any] = dict(zip(_KEYS, keys, strict=True)) | {"dim": math.inf}
        row |= {"gap": gap.value, "gap_error": gap.error, "freedom": gap.freedom}
        row |= {"p_value": p_value(gap), "z": normal_score(gap)}
        rows.append(row | {"drift": drift.value, "drift_error": drift.error})
    return pd.DataFrame(rows).assign(seeds=int(frame["seeds"].iloc[0]))


def bound(count: int) -> float:
    """Return the normal score that the largest of ``count`` exceeds in at most 5 % of cases."""
    return float(-special.ndtri((1.0 - _BAND) / (2.0 * count)))


def draw(frame: pd.DataFrame) -> Figure:
    """Draw every difference as a normal score, and below them the ordered p-values."""
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    dims = sorted(frame["dim"].unique())
    seeds = int(frame["seeds"].iloc[0])
    with house_style():
        figure, (scores, order) = plt.subplots(
            2, 1, figsize=(6.8, 8.6), height_ratios=(2.1, 1.0), layout="constrained"
        )
        _scores(scores, frame, dims)
        _order(order, frame, dims)
        quantities = [
            Line2D([], [], linestyle="none", marker=mark, color="0.35", label=label)
            for label, mark in _MARKERS.values()
        ]
        figure.legend(handles=quantities, loc="outside upper center", ncols=3)
        colours = [
            Line2D([], [], linestyle="none", marker="o", color=colour, label=_dim_label(dim, seeds))
            for dim, colour in zip(dims, _COLOURS, strict=True)
        ]
        figure.legend(handles=colours, loc="outside lower center", ncols=3)
        return figure


def _dim_label(dim: float, seeds: int) -> str:
    return "$D\\to\\infty$, fitted" if math.isinf(dim) else f"$D={int(dim)}$, {seeds} seeds"


def _scores(panel: Axes, frame: pd.DataFrame, dims: list[float]) -> None:
    edge = bound(len(frame))
    panel.axvspan(-1.96, 1.96, color="0.93", zorder=0)
    panel.axvline(0.0, color="black", linewidth=0.8)
    for side in (-edge, edge):
        panel.axvline(side, color="black", linestyle="--", linewidth=0.9)
    for dim, colour, shift in zip(dims, _COLOURS, (-0.25, 0.0, 0.25), strict=True):
        for name in QUANTITIES:
            rows = frame[(frame["dim"] == dim) & (frame["quantity"] == name)]
            panel.plot(
                rows["z"],
                rows["number"] + shift,
                linestyle="none",
                marker=_MARKERS[name][1],
                color=colour,
                markersize=4.5,
                alpha=0.85,
            )
    names = frame.drop_duplicates("number")
    panel.set_yticks(names["number"], [_two_lines(text) for text in names["setting"]])
    panel.tick_params(axis="y", labelsize=8)
    panel.set_ylim(names["number"].max() + 0.6, names["number"].min() - 0.6)
    panel.grid(visible=False, axis="y")
    limit = 1.1 * max(edge, float(frame["z"].abs().max()))
    panel.set(xlim=(-limit, limit), xlabel="simulation minus theory, as a normal score")
    panel.set_title("each difference, by the errors of both sides")


def _two_lines(setting: str) -> str:
    """Return a setting with its activation and task on a line of their own."""
    first, second, *rest = setting.split(", ")
    return f"{first}, {second}\n{', '.join(rest)}"


def _order(panel: Axes, frame: pd.DataFrame, dims: list[float]) -> None:
    for dim, colour in zip(dims, _COLOURS, strict=True):
        values = np.sort(frame.loc[frame["dim"] == dim, "p_value"].to_numpy())
        expected = (np.arange(values.size) + 0.5) / values.size
        panel.plot(expected, values, marker="o", markersize=3, linewidth=0.8, color=colour)
    low = 0.3 / len(frame)
    panel.plot([low, 1.0], [low, 1.0], color="black", linewidth=0.8)
    panel.axhline((1.0 - _BAND) / len(frame), color="black", linestyle="--", linewidth=0.9)
    panel.set(xscale="log", yscale="log", xlabel="p-value expected (uniform)", ylabel="p-value")
    panel.set_title("all p-values in order")
