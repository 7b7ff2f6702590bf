"""The hard phase: where recovering the teacher is impossible, possible but hard, or easy."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from slrlab._types import Axes, Figure, Report
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.points import Row, sorted_table
from slrlab.figures.registry import About
from slrlab.model.task_registry import make_task
from slrlab.theory.bayes_optimal import bayes_optimal, bayes_thresholds
from slrlab.theory.population.bayes_risk import bayes_risk

ABOUT = About(
    title="Hard phase of Bayes-optimal learning, spiked-SLR",
    caption="""
    Left: least possible risk and the risk that AMP reaches against samples per dimension. Middle
    and right: where learning the values is impossible, hard or easy, against signal and length.
    Without noise learning is possible above one sample per dimension. AMP needs more, most of all
    at weak signals and long sequences; with a little label noise there is no hard phase at strong
    signals.
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
IT, AMP = "#000000", "#8C6100"  # colours that no activation has

Point = tuple[str, float, int, float, float]


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return the thresholds against signal and length, and risks against ``alpha``."""
    count = POINTS[profile]
    jump = bayes_thresholds(make_task("spiked", signal=SIGNAL, length=LENGTH)).alpha_alg
    # the risk of AMP falls like a square root before its jump
    bend = jump - (jump - 1.0) * np.linspace(0.0, 1.0, count)[1:-1] ** 2
    # with a point on either side a jump is drawn as a vertical line
    sides = [1.0, 1.0 + 1e-9, jump - 1e-5, jump + 1e-5]
    alphas = np.concatenate([np.linspace(*ALPHAS, count), bend, sides])
    lengths = np.unique(np.rint(np.geomspace(*LENGTHS, count)).astype(int))
    points: list[Point] = [
        ("signal", float(signal), LENGTH, noise, 0.0)
        for noise in (NOISE, 0.0)  # costly ones first
        for signal in np.geomspace(*SIGNALS, count)
    ]
    points += [("length", SIGNAL, int(length), 0.0, 0.0) for length in lengths[::-1]]
    points += [("risk", SIGNAL, LENGTH, 0.0, float(alpha)) for alpha in alphas]
    rows = parallel_map(_row, points, label="figure phases", report=report)
    return sorted_table(rows, "panel", "noise", "signal", "length", "alpha")


def _row(point: Point) -> Row:
    """Return one row of the table: risks for the panel of risks, else thresholds."""
    panel, signal, length, noise, alpha = point
    task = make_task("spiked", signal=signal, length=length, noise=noise)
    row = {"panel": panel, "signal": signal, "length": length, "noise": noise, "alpha": alpha}
    if panel == "risk":
        best = bayes_optimal(task, alpha=alpha)
        risks = {"risk_it": best.risk_it, "risk_amp": best.risk_amp}
        return row | risks | {"bayes_risk": bayes_risk(task).risk, "status": str(best.status)}
    jumps = bayes_thresholds(task)
    thresholds = {"alpha_it": jumps.alpha_it, "alpha_alg": jumps.alpha_alg}
    return row | thresholds | {"status": str(jumps.status)}


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw the risk against ``alpha`` and the phases against signal and length."""
    figure, ((risks, signals, lengths),) = style.new_figure(1, 3, 7.6, 3.7)
    title = "Learning the values exactly from $N = \\alpha D$ noiseless samples"
    figure.suptitle(title, fontsize=10)
    clean = frame[frame["noise"] == 0.0]
    _draw_risks(risks, clean[clean["panel"] == "risk"].sort_values("alpha"))
    _draw_phases(signals, clean[clean["panel"] == "signal"], "signal", (0.85, 1.75))
    _draw_noisy(signals, frame[frame["noise"] > 0.0].sort_values("signal"))
    signals.set(title=f"length $L={LENGTH}$", xlabel="signal $\\nu$")
    signals.set_ylabel("samples per dimension $\\alpha$")
    signals.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
    _name_phases(signals, impossible=(0.5, 0.08), hard=(0.1, 0.24), easy=(0.2, 0.93))
    _draw_phases(lengths, clean[clean["panel"] == "length"], "length", (0.6, 200.0))
    lengths.set(xlabel="length $L$", yscale="log", title=f"signal $\\nu={SIGNAL:g}$")
    lengths.set_yticks([1, 10, 100], ["1", "10", "100"])
    lengths.set_xticks([10, 100, 1000], ["10", "100", "1000"])
    _name_phases(lengths, impossible=(0.5, 0.045), hard=(0.72, 0.36), easy=(0.25, 0.66))
    style.shared_legend(figure, (risks, signals, lengths))
    return figure


def _name_phases(panel: Axes, **positions: tuple[float, float]) -> None:
    """Name the phases, at positions in units of the panel."""
    look: dict[str, Any] = {"ha": "center", "va": "center", "weight": "bold", "fontsize": 7.5}
    for text, (x, y) in positions.items():
        panel.text(x, y, text, transform=panel.transAxes, **look)


def _draw_thresholds(
    panel: Axes, x: Any, rows: pd.DataFrame, amp: tuple[str, str], best: tuple[str, str]
) -> None:
    """Draw the columns of AMP and of the best possible method, each with its label."""
    panel.plot(x, rows[amp[0]], color=AMP, linewidth=2.4, label=amp[1])
    panel.plot(x, rows[best[0]], color=IT, linestyle=(0, (4, 2)), label=best[1])
    style.mark_statuses(panel, x, rows[amp[0]], rows["status"])
    panel.grid(visible=False)


def _draw_risks(panel: Axes, rows: pd.DataFrame) -> None:
    """Draw the least possible risk and the risk that AMP reaches, the phases shaded."""
    alpha = rows["alpha"].to_numpy()
    apart = alpha[rows["risk_amp"] > rows["risk_it"] + 1e-6]
    edges = (alpha.min(), apart.min(), apart.max(), alpha.max())
    colors = {"impossible": IMPOSSIBLE, "hard": HARD, "easy": EASY}
    for (low, high), (name, color) in zip(pairwise(edges), colors.items(), strict=True):
        panel.axvspan(low, high, color=color, linewidth=0)
        middle = ((low + high) / 2 - edges[0]) / (edges[-1] - edges[0])
        _name_phases(panel, **{name: (middle, 0.95)})
    amp, best = ("risk_amp", "reached by AMP"), ("risk_it", "best possible")
    _draw_thresholds(panel, alpha, rows, amp, best)
    floor = float(rows["bayes_risk"].iloc[0])
    panel.axhline(floor, color="0.45", linestyle=":", label="infinite data")
    title = f"signal $\\nu={SIGNAL:g}$, length $L={LENGTH}$"
    panel.set(xlim=(edges[0], edges[-1]), ylim=(0.0, 1.1), ylabel="risk", title=title)
    panel.set_xlabel("samples per dimension $\\alpha$")


def _draw_phases(panel: Axes, rows: pd.DataFrame, column: str, ends: tuple[float, float]) -> None:
    """Fill the three phases and draw the two thresholds between them."""
    rows = rows.sort_values(column)
    x, (bottom, top) = rows[column], ends
    edges: list[Any] = [bottom, rows["alpha_it"], rows["alpha_alg"], top]
    for (low, high), color in zip(pairwise(edges), (IMPOSSIBLE, HARD, EASY), strict=True):
        panel.fill_between(x, low, high, color=color, linewidth=0)
    amp = ("alpha_alg", "$\\alpha_\\mathrm{alg}$: AMP succeeds above")
    best = ("alpha_it", "$\\alpha_\\mathrm{IT}$: possible above")
    _draw_thresholds(panel, x, rows, amp, best)
    panel.set(xscale="log", xlim=(x.min(), x.max()), ylim=ends)


def _draw_noisy(panel: Axes, noisy: pd.DataFrame) -> None:
    """Outline the hard phase of a small label noise; it closes where the jump disappears."""
    kept = noisy[np.isfinite(noisy["alpha_it"].astype(float))]
    around = np.concatenate([kept["signal"], kept["signal"][::-1]])
    edge = np.concatenate([kept["alpha_it"], kept["alpha_alg"][::-1]])
    (area,) = panel.fill(around, edge, label=f"hard with label noise {NOISE:g}")
    area.set(facecolor="none", edgecolor="0.4", hatch="////", linewidth=0.8)
