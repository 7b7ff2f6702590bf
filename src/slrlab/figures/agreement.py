"""Agreement: ten settings, six quantities, two dimensions: simulation minus theory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab.experiments.comparison import QUANTITIES, STANDARD, Setting, compare_erm
from slrlab.experiments.parallel import Report, parallel_map
from slrlab.figures.style import house_style
from slrlab.theory.erm import ErmTheory, erm_theory

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Theory against simulated training: ten settings, two dimensions"
DIMS = {"toy": (40, 80), "quick": (150, 600), "full": (400, 1600)}
SEEDS = {"toy": 4, "quick": 8, "full": 40}
TOLERANCE = {"toy": 2e-3, "quick": 1e-3, "full": 3e-4}
LABELS = {
    "m_k": "$m_k$",
    "m_v": "$m_v$",
    "q_k": "$q_k$",
    "q_v": "$q_v$",
    "test_risk": "test risk",
    "train_mse": "training error",
}
_COLOURS = ("#E69F00", "#0072B2")


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return one row for each setting, dimension and quantity, with its z-score."""
    import pandas as pd

    chosen = STANDARD[:3] if profile == "toy" else STANDARD
    settings = [(setting, TOLERANCE[profile]) for setting in chosen]
    theory = parallel_map(_theory, settings, label="agreement: theory", report=report)
    points = [
        (number, setting, known, dim, SEEDS[profile])
        for dim in DIMS[profile][::-1]  # the costly ones first
        for number, (setting, known) in enumerate(zip(chosen, theory, strict=True))
    ]
    tables = parallel_map(_compared, points, label="agreement: training", report=report)
    frame = pd.concat(tables, ignore_index=True)
    return frame.sort_values(["number", "dim"], ignore_index=True, kind="stable")


def _theory(item: tuple[Setting, float]) -> ErmTheory:
    setting, tolerance = item
    activation, training = setting.activation, setting.training
    return erm_theory(setting.make_task(), activation, tolerance=tolerance, **training)  # type: ignore[arg-type]


def _compared(item: tuple[int, Setting, ErmTheory, int, int]) -> pd.DataFrame:
    number, setting, theory, dim, seeds = item
    where: dict[str, Any] = {"dim": dim, "seeds": seeds, **setting.training}
    found = compare_erm(setting.make_task(), setting.activation, theory=theory, **where)
    status = {"theory_status": str(theory.status), "status": str(found.simulation.status)}
    return found.to_frame().assign(number=number + 1, setting=str(setting), **status)


def draw(frame: pd.DataFrame) -> Figure:
    """Draw one panel for each quantity: gaps with error bars, both dimensions side by side."""
    import matplotlib.pyplot as plt

    with house_style():
        figure, axes = plt.subplots(2, 3, figsize=(11.0, 6.0), sharex=True, layout="constrained")
        for panel, name in zip(axes.flat, QUANTITIES, strict=True):
            _panel(panel, frame[frame["quantity"] == name])
            panel.set_title(LABELS[name])
        for panel in axes[1]:
            panel.set_xlabel("setting")
        for panel in axes[:, 0]:
            panel.set_ylabel("simulation minus theory")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
        names = frame.drop_duplicates("number")[["number", "setting"]]
        listed = [f"{row.number:>2}  {row.setting}" for row in names.itertuples()]
        half = (len(listed) + 1) // 2
        columns = "\n".join(
            f"{left:<52}{right}"
            for left, right in zip(listed[:half], [*listed[half:], ""][:half], strict=True)
        )
        figure.supxlabel(columns, fontsize=7.5, family="monospace", ha="left", x=0.08)
        return figure


def _panel(panel: Axes, part: pd.DataFrame) -> None:
    panel.axhline(0.0, color="black", linewidth=0.8)
    for dim, colour, shift in zip(
        sorted(part["dim"].unique()), _COLOURS, (-0.15, 0.15), strict=True
    ):
        rows = part[part["dim"] == dim]
        worst = rows["z"].abs().max()
        panel.errorbar(
            rows["number"] + shift,
            rows["simulation"] - rows["theory"],
            yerr=np.hypot(rows["simulation_error"], rows["theory_error"]),
            fmt="o",
            color=colour,
            capsize=2,
            label=f"$D={dim}$, {int(rows['seeds'].iloc[0])} seeds, bars: 1 standard error",
        )
        where = 0.97 if colour == _COLOURS[0] else 0.90
        text = f"$D={dim}$: largest $|z|$ {worst:.1f}"
        panel.text(0.98, where, text, transform=panel.transAxes, ha="right", va="top", fontsize=7.5)
    panel.set_xticks(sorted(part["number"].unique()))
