"""Are attention weights probabilities? Posterior probability against the weight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from slrlab._types import Report
from slrlab.experiments.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.points import Row
from slrlab.figures.registry import About
from slrlab.model.activations import SOFTMAX
from slrlab.model.setting import Setting
from slrlab.model.tasks import SpikedSLR
from slrlab.theory.erm import erm_theory
from slrlab.theory.population.weight_statistics import weight_statistics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ABOUT = About(
    title="Posterior probability against the weight, spiked-SLR, signal 9, length 10",
    caption="""
    How often a token of a given weight is the relevant one; on the grey diagonal the weight is
    this probability. Left, infinite data, weights times their best factor, which the values apply:
    softmax and the sigmoid with its best bias lie on the diagonal, sparsemax close to it. The
    others read too much from tokens of small weight and too little from most of large weight.
    Right, softmax trained on 16 samples per dimension: with a strong ridge of the keys it is less
    sure than it could be (large weights above the diagonal), with a weak one it is surer than it
    should be.
    """,
    costs={"reliability": 8.0},
    compiled=True,
    section="Atlas of activations",
)
TASK = SpikedSLR(9.0, 10)
ACTIVATIONS = ("softmax", "sparsemax", "sigmoid", "relu-normalised", "softplus", "linear")
ALPHA, RIDGES, RIDGE_V, TOLERANCE = 16.0, (1.0, 0.1, 0.03), 0.3, 0.02
BINS = {"toy": 6, "quick": 24, "full": 40}
SAMPLES = {"toy": 2_000, "quick": 50_000, "full": 2_000_000}
_LOOKS = (("#0072B2", "o", "-"), ("#E69F00", "^", "--"), ("#882255", "v", ":"))


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each panel, curve and bin of the weight."""
    sizes = {"bins": BINS[profile], "samples": SAMPLES[profile]}
    settings = [("trained", "softmax", ridge, sizes) for ridge in RIDGES]
    settings += [("infinite", name, math.nan, sizes) for name in ACTIVATIONS]
    rows = parallel_map(_rows, settings, label="reliability", report=report)
    return pd.DataFrame([row for curve in rows for row in curve])


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
    """Draw the reliability diagrams: infinite data, and trained softmax."""
    figure, ((infinite, trained),) = style.new_figure(1, 2, 7.2, 4.2, sharey=True)
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
    infinite.set_title("infinite data")
    trained.set(xlabel="weight", title=f"softmax, {style.in_symbols(alpha=ALPHA)}")
    for panel in (infinite, trained):
        panel.legend(fontsize=7, loc="lower right")
    return figure


def _curve(panel: Any, weight: Any, curve: pd.DataFrame, look: dict[str, Any]) -> None:
    errors = curve["bin_posterior_error"]
    panel.errorbar(weight, curve["bin_posterior"], yerr=errors, elinewidth=0.8, **look)
    style.mark_statuses(panel, weight, curve["bin_posterior"], curve["status"])
