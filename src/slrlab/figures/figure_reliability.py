"""Are attention weights probabilities? Posterior probability against the weight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from slrlab._types import Report
from slrlab.experiments.atlas.weights import atlas_weights
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import figure_atlas, style
from slrlab.figures.points import Row
from slrlab.figures.registry import About
from slrlab.model.activations import SOFTMAX
from slrlab.model.setting import Setting
from slrlab.model.tasks import SpikedSLR
from slrlab.theory.erm import erm_theory
from slrlab.theory.population.hit_rate import hit_rate
from slrlab.theory.population.weight_statistics import weight_statistics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ABOUT = About(
    title="Calibration and hit rate of the weights, spiked-SLR, signal 9, length 10",
    caption="""
    Left and middle: how often a token of a given weight is the relevant one; on the grey diagonal
    the weight is this probability. Left, infinite data, weights times their best factor: softmax
    and the sigmoid with its best bias lie on the diagonal, sparsemax close to it, and the others
    read too much from tokens of small weight and too little from most of large weight. Middle,
    softmax trained on 16 samples per dimension: with a strong ridge of the keys it is less sure
    than it could be (large weights above the diagonal), with a weak one surer than it should be.
    Right, infinite data: mean weight on the relevant token, times its best factor (this is 1 −
    risk), against the hit rate; increasing activations lie on one vertical line, so they give
    the largest weight to the same token, and differ in how much of its value they read.
    """,
    costs={"reliability": 8.0, "weights": 8.0},
    compiled=True,
    section="Atlas of activations",
)
TASK = SpikedSLR(9.0, 10)
ACTIVATIONS = ("softmax", "sparsemax", "sigmoid", "relu-normalised", "softplus", "linear")
ALPHA, RIDGES, RIDGE_V, TOLERANCE = 16.0, (1.0, 0.1, 0.03), 0.3, 0.02
BINS = {"toy": 6, "quick": 24, "full": 40}
SAMPLES = {"toy": 2_000, "quick": 50_000, "full": 2_000_000}
SHOWN = figure_atlas.SHOWN
_RATES = ["panel", "activation", "family", "hit_rate", "hit_rate_error", "read"]
_SAME_RATE, _SAME_READ = 3e-3, 4e-3  # differences that no label shows
_LOOKS = (("#0072B2", "o", "-"), ("#E69F00", "^", "--"), ("#882255", "v", ":"))


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each panel, curve and bin of the weight, and one for each hit rate."""
    sizes = {"bins": BINS[profile], "samples": SAMPLES[profile]}
    settings = [("trained", "softmax", ridge, sizes) for ridge in RIDGES]
    settings += [("infinite", name, math.nan, sizes) for name in ACTIVATIONS]
    rows = parallel_map(_rows, settings, label="reliability", report=report)
    rates = atlas_weights(SHOWN[profile], task=TASK, report=report)
    rates = rates.assign(panel="hit rate", read=rates["scale"] * rates["mean_weight"])
    bins = pd.DataFrame([row for curve in rows for row in curve])
    return pd.concat([bins, rates[[*_RATES, "status"]]], ignore_index=True)


def _rows(setting: tuple[str, str, float, dict[str, int]]) -> list[Row]:
    panel, activation, ridge, sizes = setting
    order: Any = None
    if panel == "trained":
        training = Setting(TASK, SOFTMAX, ALPHA, ridge, RIDGE_V)
        order = erm_theory(**training.arguments, tolerance=TOLERANCE)
    weights = weight_statistics(TASK, activation, order, **sizes)
    row: Row = {"panel": panel, "activation": activation, "ridge_k": ridge, "scale": weights.scale}
    row |= {"m_k": weights.m_k, "R_k": weights.R_k, "hit_rate": weights.hit_rate}
    row["status"] = str(weights.status if order is None else order.status)
    bins = weights.to_frame()
    names = [str(name) for name in bins]
    return [row | dict(zip(names, line, strict=True)) for line in bins.to_numpy().tolist()]


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw the reliability diagrams, infinite data and trained softmax, and the hit rates."""
    figure, ((infinite, trained, rates),) = style.new_figure(1, 3, 11.0, 4.4)
    for panel in (infinite, trained):
        panel.plot([0.0, 1.0], [0.0, 1.0], color="0.8", linewidth=6, zorder=0)
        panel.set(xlim=(-0.25, 1.25), ylim=(-0.05, 1.05))
    for name in ACTIVATIONS:
        curve = frame[(frame["panel"] == "infinite") & (frame["activation"] == name)]
        look = style.mark_of(name, ACTIVATIONS).line(markersize=3.5)
        _curve(infinite, curve["scale"] * curve["bin_weight"], curve, look)
    for ridge, (color, marker, dashes) in zip(RIDGES, _LOOKS, strict=False):
        curve = frame[(frame["panel"] == "trained") & (frame["ridge_k"] == ridge)]
        look = {"color": color, "marker": marker, "linestyle": dashes, "markersize": 3.5}
        _curve(trained, curve["bin_weight"], curve, look | {"label": f"$r_k={ridge:g}$"})
    infinite.set(xlabel="weight times its best factor", ylabel="posterior probability")
    infinite.set_title("infinite data, six activations")
    trained.set(xlabel="weight", title=f"softmax, {style.in_symbols(alpha=ALPHA)}")
    _draw_rates(rates, frame[frame["panel"] == "hit rate"])
    for panel in (infinite, trained):
        panel.legend(fontsize=7, loc="lower right")
    rates.legend(fontsize=7, loc="lower left")
    return figure


def _draw_rates(panel: Any, rows: pd.DataFrame) -> None:
    """Draw what is read against the hit rate; labels of the most frequent rate are on the right."""
    for family, part in rows.groupby("family", sort=False):
        color, marker = style.FAMILIES[str(family)]
        look: dict[str, Any] = {"color": color, "marker": marker, "label": family}
        panel.plot(part["hit_rate"], part["read"], linestyle="", markersize=4.5, **look)
    rate = hit_rate(TASK)
    panel.axvline(rate, color="0.8", zorder=0)
    apart = (rows["hit_rate"] - rate).abs() > _SAME_RATE
    above = 2.0
    far = rows[apart].sort_values("read", ascending=False, kind="stable")
    for _, group in far.groupby(["family", far["read"].round(3)], sort=False):
        place = (group["hit_rate"].min(), group["read"].iloc[0])
        below = above - place[1] < 0.01  # of two neighbours one name is above, one below
        text = {"textcoords": "offset points", "ha": "right", "fontsize": 6.5}
        text["va"] = "top" if below else "bottom"
        panel.annotate(", ".join(group["activation"]), place, (-4, -2 if below else 2), **text)
        above = float(place[1])
    same = rows[~apart].sort_values("read", ascending=False, kind="stable")
    groups = same.groupby((same["read"].diff() < -_SAME_READ).cumsum())
    height = 2.0
    for _, group in groups:
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        at = float(group["read"].iloc[0])
        height = min(at, height - 0.018)  # labels keep a distance
        text = {"xytext": (1.03, height), "textcoords": panel.get_yaxis_transform()}
        arrow = {"arrowstyle": "-", "color": "0.8", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
        name = f"{group['activation'].iloc[0]}{more}"
        point = (float(group["hit_rate"].iloc[0]), at)
        panel.annotate(name, point, **text, va="center", fontsize=6.5, arrowprops=arrow)
    panel.set(xlim=(min(0.83, rows["hit_rate"].min() - 0.02), rate + 0.004))
    panel.set(title="infinite data, hit rates")
    panel.set(xlabel="hit rate", ylabel="read from the relevant token: $1-$risk")


def _curve(panel: Any, weight: Any, curve: pd.DataFrame, look: dict[str, Any]) -> None:
    errors = curve["bin_posterior_error"]
    panel.errorbar(weight, curve["bin_posterior"], yerr=errors, elinewidth=0.8, **look)
    style.mark_statuses(panel, weight, curve["bin_posterior"], curve["status"])
