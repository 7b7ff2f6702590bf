"""Agreement: ten settings, six quantities, two dimensions: simulation against theory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import special

from slrlab._result import Estimate
from slrlab._types import Axes, Figure, Report
from slrlab.experiments.comparison.dimensions import gap_limit
from slrlab.experiments.comparison.training import QUANTITIES, STANDARD, compare_erm
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.points import data_seed
from slrlab.figures.registry import About
from slrlab.model.setting import Setting
from slrlab.theory.erm import ErmTheory, erm_theory
from slrlab.theory.erm.fields import BLOCKS

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

ABOUT = About(
    title="Theory against simulated training: ten settings, two dimensions and their limit",
    caption="""
    Top: simulation minus theory as normal scores (Student's t with the errors of both sides) for
    six quantities of ten settings, at two dimensions and fitted to infinite D. Bottom: the sorted
    p-values against those of a uniform law. If theory and simulation differ by chance alone, 95 %
    of the scores lie in the grey band, all scores lie within the dashed lines in 95 % of cases, and
    the p-values follow the diagonal.
    """,
    costs={"agreement: theory": 13.0, "agreement: training": 11.0},
    compiled=True,
)
DIMS = {"toy": (40, 80), "quick": (150, 600), "full": (400, 1600)}
SEEDS = {"toy": 4, "quick": 8, "full": 40}
TOLERANCE = {"toy": 2e-3, "quick": 1e-3, "full": 3e-4}
_MARKERS = dict(zip(QUANTITIES, "os^D*P", strict=True))
_COLOURS = ("#56B4E9", "#000000", "#E69F00")  # small D, large D, their limit
_KEYS = ["number", "setting", "quantity"]
_BAND = 0.95


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each setting, dimension (inf: their limit) and quantity, tested."""
    chosen = STANDARD[:3] if profile == "toy" else STANDARD
    settings = [(setting, TOLERANCE[profile]) for setting in chosen]
    theory = parallel_map(_theory, settings, label="agreement: theory", report=report)
    points = [
        (number, result, dim, SEEDS[profile], index)
        for index, dim in reversed(list(enumerate(DIMS[profile])))  # costly ones first
        for number, result in enumerate(theory)
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
    comparison = compare_erm(**setting.arguments, dim=dim, seeds=seeds, seed=seed, theory=theory)
    status = {"theory_status": str(theory.status), "status": str(comparison.simulation.status)}
    return comparison.to_frame().assign(number=number + 1, setting=_label(setting), **status)


def _label(setting: Setting) -> str:
    """Return a setting in the symbols of a figure."""
    task = setting.task
    noise = f", noise {task.noise:g}" if task.noise else ""
    where = f"{task.name} ν={task.signal:g}, L={task.length}{noise}"
    return f"{setting.activation_name}, {where}, α={setting.alpha:g}"


def _limits(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each setting and quantity: the gap as the dimension becomes infinite."""
    rows = []
    for keys, part in frame.groupby(_KEYS, sort=False):
        pairs = [
            (
                Estimate(row["simulation"], row["simulation_error"], row["seeds"] - 1.0),
                Estimate(row["theory"], row["theory_error"], BLOCKS - 1.0),
            )
            for row in part.to_dict("records")
        ]
        limit = gap_limit(pairs, part["dim"].tolist())
        row: dict[str, Any] = dict(zip(_KEYS, keys, strict=True)) | {"dim": math.inf}
        rows.append(row | limit.columns)
    return pd.DataFrame(rows).assign(seeds=int(frame["seeds"].iloc[0]))


def bound(count: int) -> float:
    """Return the normal score that the largest of ``count`` exceeds in at most 5 % of cases."""
    return float(-special.ndtri((1.0 - _BAND) / (2.0 * count)))


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw every difference as a normal score, and below them the ordered p-values."""
    dims = sorted(frame["dim"].unique())
    seeds = int(frame["seeds"].iloc[0])
    figure, ((scores,), (order,)) = style.new_figure(2, 1, 6.8, 8.6, height_ratios=(2.1, 1.0))
    _draw_scores(scores, frame, dims)
    _draw_order(order, frame, dims)
    names = {"order_risk": "test risk (order parameters)", "train_mse": "train MSE"}
    quantities = [
        _sample(names.get(name, style.symbol(name)), marker=marker, color="0.35")
        for name, marker in _MARKERS.items()
    ]
    figure.legend(handles=quantities, loc="outside upper center", ncols=3)
    sizes = [
        "$D\\to\\infty$, fitted" if math.isinf(dim) else f"$D={int(dim)}$, {seeds} seeds"
        for dim in dims
    ]
    colours = [_sample(*pair, marker="o") for pair in zip(sizes, _COLOURS, strict=True)]
    figure.legend(handles=colours, loc="outside lower center", ncols=3)
    return figure


def _sample(label: str, color: str, marker: str) -> Line2D:
    """Return an entry of a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="none", marker=marker, color=color, label=label)


def _draw_scores(panel: Axes, frame: pd.DataFrame, dims: list[float]) -> None:
    edge = bound(len(frame))
    panel.axvspan(-1.96, 1.96, color="0.93", zorder=0)
    panel.axvline(0.0, color="black", linewidth=0.8)
    for side in (-edge, edge):
        panel.axvline(side, color="black", linestyle="--", linewidth=0.9)
    look: dict[str, Any] = {"linestyle": "none", "markersize": 4.5, "alpha": 0.85}
    for dim, colour, shift in zip(dims, _COLOURS, (-0.25, 0.0, 0.25), strict=True):
        for name, marker in _MARKERS.items():
            rows = frame[(frame["dim"] == dim) & (frame["quantity"] == name)]
            panel.plot(rows["z"], rows["number"] + shift, marker=marker, color=colour, **look)
    settings = frame.drop_duplicates("number")
    panel.set_yticks(settings["number"], [_two_lines(text) for text in settings["setting"]])
    panel.tick_params(axis="y", labelsize=8)
    panel.set_ylim(settings["number"].max() + 0.6, settings["number"].min() - 0.6)
    panel.grid(visible=False, axis="y")
    limit = 1.1 * max(edge, float(frame["z"].abs().max()))
    panel.set(xlim=(-limit, limit), xlabel="simulation minus theory, as a normal score")
    panel.set_title("each difference, by the errors of both sides")


def _two_lines(setting: str) -> str:
    """Return a setting with its activation and task on a line of their own."""
    first, second, *rest = setting.split(", ")
    return f"{first}, {second}\n{', '.join(rest)}"


def _draw_order(panel: Axes, frame: pd.DataFrame, dims: list[float]) -> None:
    for dim, colour in zip(dims, _COLOURS, strict=True):
        values = np.sort(frame.loc[frame["dim"] == dim, "p_value"].to_numpy())
        expected = (np.arange(values.size) + 0.5) / values.size
        panel.plot(expected, values, marker="o", markersize=3, linewidth=0.8, color=colour)
    low = 0.3 / len(frame)
    panel.plot([low, 1.0], [low, 1.0], color="black", linewidth=0.8)
    panel.axhline((1.0 - _BAND) / len(frame), color="black", linestyle="--", linewidth=0.9)
    panel.set(xscale="log", yscale="log", xlabel="p-value expected (uniform)", ylabel="p-value")
    panel.set_title("all p-values in order")
