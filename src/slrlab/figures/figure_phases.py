"""The hard phase: where recovering the teacher is impossible, possible but hard, or easy."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab._types import Report
from slrlab.experiments.parallel import parallel_map
from slrlab.figures.registry import About
from slrlab.figures.style import house_style, mark_statuses, shared_legend
from slrlab.model.tasks import make_task
from slrlab.theory.bayes_optimal import bayes_optimal, bayes_thresholds
from slrlab.theory.population.bayes_risk import bayes_risk

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABOUT = About(
    title="Hard phase of Bayes-optimal learning, spiked-SLR",
    caption="""
    Left: least possible risk and the risk that AMP reaches against samples per dimension. Middle
    and right: where learning the values is impossible, hard or easy, against signal and length.
    Without noise learning is possible above one sample per dimension; AMP needs more, most at weak
    signals and long sequences, and a little label noise closes the gap at strong ones.
    """,
    costs={"figure phases": 18.0},
)
POINTS = {"toy": 3, "quick": 12, "full": 48}
SIGNAL, LENGTH = 2.0, 3
SIGNALS = (0.1, 20.0)
LENGTHS = (2, 1000)
ALPHAS = (0.2, 2.0)
NOISE = 0.02
IMPOSSIBLE, HARD, EASY = "#E4E4E4", "#F5E3B5", "#FAFAF5"
IT, AMP = "#000000", "#8C6100"  # no colour of an activation

Point = tuple[str, float, int, float, float]


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return the thresholds against signal and length, and risks against ``alpha``."""
    import pandas as pd

    count = POINTS[profile]
    jump = bayes_thresholds(make_task("spiked", signal=SIGNAL, length=LENGTH)).alpha_alg
    # AMP falls like a square root before its jump; a point on either side draws a jump upright
    bend = jump - (jump - 1.0) * np.linspace(0.0, 1.0, count)[1:-1] ** 2
    upright = [1.0, 1.0 + 1e-9, jump - 1e-5, jump + 1e-5]
    alphas = np.concatenate([np.linspace(*ALPHAS, count), bend, upright])
    lengths = np.unique(np.rint(np.geomspace(*LENGTHS, count)).astype(int))
    points: list[Point] = []
    for noise in (NOISE, 0.0):  # costly ones first
        points += [("signal", float(nu), LENGTH, noise, 0.0) for nu in _signals(count)]
    points += [("length", SIGNAL, int(length), 0.0, 0.0) for length in lengths[::-1]]
    points += [("risk", SIGNAL, LENGTH, 0.0, float(alpha)) for alpha in alphas]
    rows = parallel_map(_row, points, label="figure phases", report=report)
    return pd.DataFrame(rows).sort_values(["panel", "noise", "signal", "length", "alpha"])


def _signals(count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.geomspace(*SIGNALS, count)


def _row(point: Point) -> dict[str, Any]:
    """Return one row of the table: thresholds, or risks if the panel is that of risks."""
    panel, signal, length, noise, alpha = point
    task = make_task("spiked", signal=signal, length=length, noise=noise)
    row = {"panel": panel, "signal": signal, "length": length, "noise": noise, "alpha": alpha}
    if panel == "risk":
        found = bayes_optimal(task, alpha=alpha)
        risks = {"risk_it": found.risk_it, "risk_amp": found.risk_amp}
        return row | risks | {"bayes_risk": bayes_risk(task).risk, "status": str(found.status)}
    jumps = bayes_thresholds(task)
    return row | {
        "alpha_it": jumps.alpha_it,
        "alpha_alg": jumps.alpha_alg,
        "status": str(jumps.status),
    }


def draw(frame: pd.DataFrame) -> Figure:
    """Draw the risk against ``alpha`` and the phases against signal and length."""
    import matplotlib.pyplot as plt

    with house_style():
        figure, axes = plt.subplots(1, 3, figsize=(7.6, 3.7), layout="constrained")
        figure.suptitle(
            "Learning the values exactly from $N = \\alpha D$ noiseless samples", fontsize=10
        )
        clean = frame[frame["noise"] == 0.0]
        by_signal = clean[clean["panel"] == "signal"].sort_values("signal")
        by_length = clean[clean["panel"] == "length"].sort_values("length")
        _draw_risks(axes[0], frame[frame["panel"] == "risk"].sort_values("alpha"))
        _draw_phases(axes[1], by_signal, "signal", (0.85, 1.75))
        _draw_noisy(axes[1], frame[frame["noise"] > 0.0].sort_values("signal"))
        axes[1].set(title=f"length $L={LENGTH}$", xlabel="signal $\\nu$")
        axes[1].set_ylabel("samples per dimension $\\alpha$")
        axes[1].set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
        _label(axes[1], impossible=(0.5, 0.08), hard=(0.1, 0.24), easy=(0.2, 0.93))
        _draw_phases(axes[2], by_length, "length", (0.6, 200.0))
        axes[2].set(title=f"signal $\\nu={SIGNAL:g}$", xlabel="length $L$", yscale="log")
        axes[2].set_yticks([1, 10, 100], ["1", "10", "100"])
        axes[2].set_xticks([10, 100, 1000], ["10", "100", "1000"])
        _label(axes[2], impossible=(0.5, 0.045), hard=(0.72, 0.36), easy=(0.25, 0.66))
        shared_legend(figure, axes)
        return figure


def _label(axes: Axes, **positions: tuple[float, float]) -> None:
    """Name the phases, at positions in units of the panel."""
    for text, (x, y) in positions.items():
        style: dict[str, Any] = {"ha": "center", "va": "center", "weight": "bold", "fontsize": 7.5}
        axes.text(x, y, text, transform=axes.transAxes, **style)


def _draw_risks(axes: Axes, risks: pd.DataFrame) -> None:
    """Draw the risk that is possible and the risk that AMP reaches, the phases shaded."""
    alpha, best, amp = (risks[name].to_numpy() for name in ("alpha", "risk_it", "risk_amp"))
    apart = amp > best + 1e-6
    edges = alpha.min(), alpha[apart].min(), alpha[apart].max(), alpha.max()
    for low, high, color in zip(edges[:-1], edges[1:], (IMPOSSIBLE, HARD, EASY), strict=True):
        axes.axvspan(low, high, color=color, linewidth=0)
    floor = float(risks["bayes_risk"].iloc[0])
    axes.plot(alpha, amp, color=AMP, linewidth=2.4, label="reached by AMP")
    axes.plot(alpha, best, color=IT, linestyle=(0, (4, 2)), label="best possible")
    axes.axhline(floor, color="0.45", linestyle=":", label="infinite data")
    mark_statuses(axes, alpha, amp, risks["status"])
    axes.set(xlim=(edges[0], edges[-1]), ylim=(0.0, 1.1), ylabel="risk")
    axes.set_title(f"signal $\\nu={SIGNAL:g}$, length $L={LENGTH}$")
    axes.set_xlabel("samples per dimension $\\alpha$")
    span = edges[-1] - edges[0]
    middles = [((a + b) / 2 - edges[0]) / span for a, b in pairwise(edges)]
    names = ("impossible", "hard", "easy")
    _label(axes, **{name: (x, 0.95) for name, x in zip(names, middles, strict=True)})
    axes.grid(visible=False)


def _draw_phases(axes: Axes, rows: pd.DataFrame, column: str, ends: tuple[float, float]) -> None:
    """Fill the three phases and draw the two thresholds between them."""
    x, (bottom, top) = rows[column], ends
    axes.fill_between(x, bottom, rows["alpha_it"], color=IMPOSSIBLE, linewidth=0)
    axes.fill_between(x, rows["alpha_it"], rows["alpha_alg"], color=HARD, linewidth=0)
    axes.fill_between(x, rows["alpha_alg"], top, color=EASY, linewidth=0)
    alg, it = (
        "$\\alpha_\\mathrm{alg}$: AMP succeeds above",
        "$\\alpha_\\mathrm{IT}$: possible above",
    )
    axes.plot(x, rows["alpha_alg"], color=AMP, linewidth=2.4, label=alg)
    axes.plot(x, rows["alpha_it"], color=IT, linestyle=(0, (4, 2)), label=it)
    mark_statuses(axes, x, rows["alpha_alg"], rows["status"])
    axes.set(xscale="log", xlim=(x.min(), x.max()), ylim=ends)
    axes.grid(visible=False)


def _draw_noisy(axes: Axes, noisy: pd.DataFrame) -> None:
    """Outline the hard phase of a small label noise; it closes where the jump disappears."""
    kept = noisy[np.isfinite(noisy["alpha_it"].astype(float))]
    around = np.concatenate([kept["signal"], kept["signal"][::-1]])
    edge = np.concatenate([kept["alpha_it"], kept["alpha_alg"][::-1]])
    label = f"hard with label noise {NOISE:g}"
    (area,) = axes.fill(around, edge, label=label)
    area.set(facecolor="none", edgecolor="0.4", hatch="////", linewidth=0.8)
