"""Figure 3: test risk of trained attention against the number of samples per dimension."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab.experiments.comparison import Setting
from slrlab.experiments.learning_curve import LENGTH, SIGNALS, Place, best_trained, curve_task
from slrlab.experiments.parallel import Report, parallel_map
from slrlab.figures.points import Simulated, simulated_rows
from slrlab.figures.style import MARKS, house_style, mark_statuses
from slrlab.theory.bayes_optimal import bayes_optimal, bayes_thresholds
from slrlab.theory.erm import ErmTheory
from slrlab.theory.population import minimal_risk

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Test risk against samples per dimension, spiked-SLR, length 3, best ridge"
RANGE = (1.0, 32.0)
POINTS = {"toy": 2, "quick": 6, "full": 12}  # 6: those of claim C10 are among them
BAYES_POINTS = {"toy": 4, "quick": 16, "full": 60}
TOLERANCE = {"toy": 1e-2, "quick": 2e-3, "full": 5e-4}
SIZE = {"toy": 60, "quick": 700, "full": 10_000}  # √(ND); the paper has 10⁴
SEEDS = {"toy": 2, "quick": 4, "full": 4}
ACTIVATIONS = ("softmax", "linear")

_KEPT: tuple[str, ...] = ("ridge_k", "ridge_v", "m_k", "m_v", "q_k", "q_v", "replicon", "stable")
_KEPT += ("bistable_fraction", "trace_gap")


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return theory and simulation of trained attention, and the limits that bound them."""
    import pandas as pd

    alphas = [float(f"{alpha:.12g}") for alpha in np.geomspace(*RANGE, POINTS[profile])]
    places = [
        (curve, signal, alpha)
        for curve in ACTIVATIONS  # the costly ones first
        for signal in SIGNALS[::-1]
        for alpha in alphas
    ]
    label = "figure 3: theory"
    theory = best_trained(places, TOLERANCE[profile], label=label, report=report)
    trained = [_trained_row(*item) for item in zip(places, theory, strict=True)]
    points = [_point(row, profile) for row in trained]
    found = simulated_rows(points, label="figure 3: training", report=report)
    for row, simulated in zip(trained, found, strict=True):
        row.update(simulated)
    limits = []
    for signal in SIGNALS:
        jump = bayes_thresholds(curve_task(signal))
        # a point on either side draws a jump upright
        edges = [a * f for a in (jump.alpha_it, jump.alpha_alg) for f in (1 - 1e-6, 1 + 1e-6)]
        dense = np.geomspace(0.5, RANGE[1], BAYES_POINTS[profile]).tolist()
        limits += [(signal, alpha) for alpha in sorted({*alphas, *dense, *edges})]
    best = parallel_map(_bayes_row, limits, label="figure 3: Bayes-optimal", report=report)
    return pd.DataFrame(trained + best).sort_values(["signal", "curve", "alpha"], ignore_index=True)


def _point(row: dict[str, Any], profile: str) -> Simulated:
    """Return the training that belongs to a row of the theory."""
    where = ("spiked", row["signal"], LENGTH, 0.0, row["curve"], row["alpha"])
    dim = max(2, round(SIZE[profile] / math.sqrt(row["alpha"])))
    point = Setting(*where, ridge_k=row["ridge_k"], ridge_v=row["ridge_v"])
    return point, dim, SEEDS[profile], "informed"


def _bayes_row(setting: tuple[float, float]) -> dict[str, Any]:
    """Return one row of the limit that no algorithm passes."""
    signal, alpha = setting
    found = bayes_optimal(curve_task(signal), alpha=alpha)
    return {
        "curve": "bayes",
        "signal": signal,
        "alpha": alpha,
        "risk": found.risk_it,
        "risk_amp": found.risk_amp,
        "error": found.error,
        "status": str(found.status),
    }


def _trained_row(place: Place, point: ErmTheory) -> dict[str, Any]:
    """Return one row of trained attention."""
    curve, signal, alpha = place
    return {
        "curve": curve,
        "signal": signal,
        "alpha": alpha,
        "risk": point.test_risk,
        "error": point.test_risk_error,
        "population_risk": minimal_risk(curve_task(signal), curve).risk,
        "status": str(point.status),
    } | {name: getattr(point, name) for name in _KEPT}


def draw(frame: pd.DataFrame) -> Figure:
    """Draw one panel for each signal; a cross where the theory fails beyond the ridge."""
    import matplotlib.pyplot as plt

    signals = sorted(frame["signal"].unique())
    with house_style():
        figure, axes = plt.subplots(
            1, len(signals), figsize=(3.4 * len(signals), 4.0), sharey=True, layout="constrained"
        )
        for panel, signal in zip(axes, signals, strict=True):
            _panel(panel, frame[frame["signal"] == signal])
            panel.set(title=f"spiked-SLR, $\\nu={signal:g}$, $L={LENGTH}$", xscale="log")
            panel.set_xlabel("samples per dimension $\\alpha = N/D$")
            panel.set_xticks([0.5, 1, 2, 4, 8, 16, 32], ["0.5", "1", "2", "4", "8", "16", "32"])
            panel.minorticks_off()
        axes[0].set(ylabel="test risk", ylim=(0.0, 1.05))
        figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return figure


def _panel(panel: Axes, part: pd.DataFrame) -> None:
    bayes = part[part["curve"] == "bayes"]
    panel.plot(bayes["alpha"], bayes["risk"], color="black", label="Bayes-optimal")
    amp: dict[str, Any] = {"color": "black", "linestyle": (0, (1, 1.5)), "linewidth": 2.0}
    panel.plot(bayes["alpha"], bayes["risk_amp"], label="Bayes-optimal, reached by AMP", **amp)
    for activation in ACTIVATIONS:
        curve, mark = part[part["curve"] == activation], MARKS[activation]
        panel.plot(
            curve["alpha"],
            curve["risk"],
            color=mark.color,
            linestyle=mark.dashes,
            label=f"{mark.label}, theory",
        )
        edge = curve[curve["status"] == "boundary"]
        panel.plot(edge["alpha"], edge["risk"], "x", color=mark.color, markersize=5)
        panel.errorbar(
            curve["alpha"],
            curve["simulated_risk"],
            yerr=curve["simulated_error"],
            fmt=mark.marker,
            color=mark.color,
            markerfacecolor="white",
            capsize=2,
            label=f"{mark.label}, simulated training",
        )
        mark_statuses(panel, curve["alpha"], curve["simulated_risk"], curve["simulated_status"])
        panel.axhline(
            curve["population_risk"].iloc[0],
            color=mark.color,
            linewidth=0.9,
            alpha=0.6,
            linestyle=":",
            label=f"{mark.label}, infinite data",
        )
    label = "best ridge at which the theory holds"
    panel.plot([], [], "x", color="0.4", markersize=5, label=label)
