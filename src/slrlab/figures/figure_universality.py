"""Universality: training on tokens that are not Gaussian against the theory of those that are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from slrlab._types import Report
from slrlab.experiments.comparison.training import STANDARD
from slrlab.experiments.comparison.universality import LAWS, QUANTITIES, UNCORRELATED, universality
from slrlab.figures import style
from slrlab.figures.figure_agreement import bound
from slrlab.figures.registry import About

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABOUT = About(
    title="Universality: tokens that are not Gaussian, softmax, signal 2, length 3, alpha 4",
    caption="""
    Top: test risk of training minus that of the theory of independent Gaussian entries, against
    1/D, with the fit a + b/D. Bottom: the limit a of six quantities as a normal score; open
    marks are the theory that knows the covariance. Independent entries follow the theory (grey
    band: 95 % of the scores if it holds), whatever their law, with a larger drift for heavier
    tails; with three degrees of freedom they are off at small D, and their limit is in doubt.
    Correlated tokens do not follow it, but correlated coordinates follow the theory with their
    covariance.
    """,
    costs={"universality": 300.0},
    compiled=True,
    section="Beyond the paper",
    report=("full",),
)
SETTINGS = (STANDARD[0], STANDARD[7])
DIMS = {"toy": (30, 60), "quick": (150, 300, 600), "full": (300, 600, 1200, 2400)}
# as many seeds as one core trains in half an hour: about the same time at each dimension
SEEDS: dict[str, int | tuple[int, ...]] = {"toy": 4, "quick": 8, "full": (64, 32, 16, 8)}
TEST_SAMPLES = {"toy": 500, "quick": 10_000, "full": 10_000}
TOLERANCE = {"toy": 1e-2, "quick": 2e-3, "full": 5e-4}
TESTED: dict[str, tuple[str, ...]] = {
    "toy": ("rademacher", "gaussian+ar1(0.5)"),
    "quick": LAWS,
    "full": LAWS,
}
COLORS = ("#000000", "#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7", "#882255", "#7F7F7F")
LOOKS = dict(zip(LAWS, COLORS, strict=True))
MARKERS = dict(zip(LAWS, "os^D*vPX", strict=True))
_FIRST = 20_000  # seeds of this figure: other figures have others


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return a row for each task, law, theory, quantity and dimension; inf is the fit."""
    parts = []
    for number, setting in enumerate(SETTINGS):
        result = universality(
            **setting.arguments,
            laws=TESTED[profile],
            dims=DIMS[profile],
            seeds=SEEDS[profile],
            seed=_FIRST + 1000 * number,
            test_samples=TEST_SAMPLES[profile],
            tolerance=TOLERANCE[profile],
            workers=None,
            report=report,
        )
        parts.append(result.to_frame().assign(task=setting.task.name))
    return pd.concat(parts, ignore_index=True)


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw gaps of the test risk against 1/D above, and the limits as scores below."""
    figure, axes = style.new_figure(2, 2, 8.6, 6.4, height_ratios=(1.0, 1.1))
    laws = list(dict.fromkeys(frame["law"]))
    for (above, below), (task, part) in zip(axes.T, frame.groupby("task", sort=False), strict=True):
        _draw_gaps(above, part[part["theory"] == UNCORRELATED])
        _draw_scores(below, part[np.isinf(part["dim"])], laws)
        above.set_title(f"{task}-SLR")
    axes[0, 0].set_ylabel("test risk,\nsimulation minus theory")
    axes[1, 0].set_ylabel("limit $D\\to\\infty$, normal score")
    style.shared_legend(figure, axes[0], ncols=4)
    return figure


def _draw_gaps(panel: Axes, part: pd.DataFrame) -> None:
    """Draw the gap of the test risk of each law, with the fit."""
    own = part[part["quantity"] == "test_risk"]
    widest = 1.0 / own["dim"].min()
    for index, (law, rows) in enumerate(own.groupby("law", sort=False)):
        color, marker = LOOKS[str(law)], MARKERS[str(law)]
        seen, fit = rows[np.isfinite(rows["dim"])], rows[np.isinf(rows["dim"])].iloc[0]
        aside = (1.0 + 0.012 * (index - 3.5)) / seen["dim"]
        look: dict[str, Any] = {"color": color, "marker": marker, "linestyle": "none"}
        panel.errorbar(aside, seen["gap"], yerr=seen["gap_error"], label=law, capsize=2, **look)
        line = np.array([0.0, widest])
        panel.plot(line, fit["gap"] + fit["drift"] * line, color=color, linewidth=0.9)
        style.mark_statuses(panel, aside, seen["gap"], seen["status"])
    panel.axhline(0.0, color="0.6", linewidth=0.8)
    panel.set_xlim(0.0, 1.06 * widest)
    dims = sorted(own["dim"][np.isfinite(own["dim"])].unique())
    panel.set_xticks([0.0, *(1.0 / dim for dim in dims)], ["$\\infty$", *(f"{d:g}" for d in dims)])
    panel.set_xlabel("dimension $D$, on a scale of $1/D$")


def _draw_scores(panel: Axes, part: pd.DataFrame, laws: list[str]) -> None:
    """Draw the normal scores of all quantities, a column for each law."""
    panel.axhspan(-1.96, 1.96, color="0.9", zorder=0)
    count = len(laws) * len(QUANTITIES)
    for sign in (-1.0, 1.0):
        panel.axhline(sign * bound(count), color="0.5", linestyle="--", linewidth=0.8)
    offsets = dict(zip(QUANTITIES, np.linspace(-0.3, 0.3, len(QUANTITIES)), strict=True))
    for row in part.to_dict("records"):
        law = str(row["law"])
        face = LOOKS[law] if row["theory"] == UNCORRELATED else "white"
        score = float(np.clip(row["z"], -40.0, 40.0))
        panel.plot(
            laws.index(law) + offsets[row["quantity"]],
            score,
            marker=MARKERS[law],
            color=LOOKS[law],
            markerfacecolor=face,
            linestyle="none",
        )
    panel.set_yscale("symlog", linthresh=4.0)
    panel.set_yticks(
        [-30, -10, -4, -2, 0, 2, 4, 10, 30], ["−30", "−10", "−4", "−2", "0", "2", "4", "10", "30"]
    )
    panel.minorticks_off()
    panel.set_xticks(range(len(laws)), laws, rotation=30, ha="right", fontsize=7)
