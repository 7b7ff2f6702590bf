"""Where softmax stops being optimal: the excess along each direction away from the task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from slrlab._types import Report
from slrlab.experiments.atlas.panel import atlas
from slrlab.experiments.departures import BEST, DIRECTIONS, departure
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.registry import About
from slrlab.model.neighbours import NeedlesSLR
from slrlab.theory.population.bayes_risk import bayes_risk
from slrlab.theory.population.closed_forms import needles_softmax_risk

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABOUT = About(
    title="Where softmax stops being optimal, spiked-SLR and its neighbours, signal 9, length 10",
    caption="""
    Top: minimal risks with infinite data; bottom: what softmax and the best activation of the atlas
    lose to the Bayes risk. A hard negative or another variance of the relevant score costs softmax
    little at first; a second relevant token costs more than anything else, and elementwise maps
    such as sigmoid overtake it. Names below are those of the best activation, where it changes.
    Right: with two relevant tokens of three the Bayes risk falls
    exponentially in the signal, softmax only as (log ν)²/ν (dotted: its closed form).
    """,
    costs={"atlas": 600.0, "departures: signal": 60.0},
    section="Beyond the paper",
    report=("full",),
)
SIGNAL = 9.0
PAIR, TRIPLE = 2, 3  # relevant tokens and length of the last column
LENGTH = {"toy": 3, "quick": 10, "full": 10}
VALUES: dict[str, dict[str, tuple[float, ...]]] = {
    "toy": {"similarity": (0.0, 0.8), "needles": (1.0, 2.0), "variance": (1.0, 4.0)},
    "quick": {
        "similarity": (0.0, 0.25, 0.5, 0.75, 1.0),
        "needles": (1.0, 2.0, 3.0, 5.0, 8.0, 10.0),
        "variance": (0.05, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 25.0),
    },
    "full": {
        "similarity": tuple(np.linspace(0.0, 1.0, 11).round(2).tolist()),
        "needles": tuple(float(count) for count in range(1, 11)),
        "variance": (0.04, 0.08, 0.15, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.5, 6.0, 12.0, 25.0),
    },
}
COMPETITORS: dict[str, tuple[str, ...] | None] = {
    "toy": ("softmax", "sigmoid"),
    "quick": ("softmax", "sigmoid", "linear", "softplus-biased", "hedgehog", "taylor2-normalised"),
    "full": None,
}
SIGNALS = {"toy": 2, "quick": 7, "full": 15}
SHOWN = ("softmax", "sigmoid", "linear")
LEAST = 1e-7  # excess below which there is none
AXES = {
    "similarity": "similarity $\\tau$ of a hard negative",
    "needles": "relevant tokens $J$",
    "variance": "variance of the relevant score",
    "signal": f"signal $\\nu$, at $J={PAIR}$, $L={TRIPLE}$",
}
LOOKS: dict[str, dict[str, Any]] = {
    "softmax": style.MARKS["softmax"].line(),
    "sigmoid": {
        "color": "#009E73",
        "marker": "^",
        "linestyle": (0, (3, 1, 1, 1)),
        "label": "sigmoid",
    },
    "linear": style.MARKS["linear"].line(),
    BEST: {"color": "#E69F00", "marker": "*", "markersize": 7, "linestyle": "-", "label": BEST},
}


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return risks along each direction, and against the signal with two relevant tokens."""
    parts = []
    for name, values in VALUES[profile].items():
        result = departure(
            name,
            [int(value) for value in values] if name == "needles" else values,
            signal=SIGNAL,
            length=LENGTH[profile],
            activations=COMPETITORS[profile],
            workers=None,
            report=report,
        )
        every = result.activations[["activation", "risk", "error", "m_k", "status", name]]
        rest = result.to_frame().drop(columns=["softmax_excess"])
        best = rest.rename(columns={"best_risk": "risk", "best_error": "error"})
        best = best.assign(activation=BEST, status=str(result.status))[
            ["activation", "risk", "error", "status", "best", name]
        ]
        least = rest[[name, "bayes_risk", "bayes_error", "hit_rate"]]
        rows = pd.concat([every, best], ignore_index=True).merge(least, on=name)
        parts.append(rows.rename(columns={name: "value"}).assign(panel=name))
    signals = np.geomspace(1.0, 60.0, SIGNALS[profile]).tolist()
    pairs = parallel_map(_pair, signals, label="departures: signal", report=report)
    frame = pd.concat([*parts, *pairs], ignore_index=True)
    return frame.assign(excess=frame["risk"] - frame["bayes_risk"])


def _pair(signal: float) -> pd.DataFrame:
    """Return the risks of a few activations with two relevant tokens of three."""
    task = NeedlesSLR(signal, TRIPLE, needles=PAIR)
    rows = atlas(SHOWN, panel=[task], workers=1)[["activation", "risk", "error", "m_k", "status"]]
    least, closed = bayes_risk(task), needles_softmax_risk(signal, TRIPLE, PAIR)
    own = {"bayes_risk": least.risk, "bayes_error": least.error, "closed_form": closed}
    return rows.assign(panel="signal", value=signal, **own)


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw risks above and their excess below, a column for each direction."""
    figure, axes = style.new_figure(2, len(AXES), 10.4, 5.2, sharex="col")
    for (above, below), (name, label) in zip(axes.T, AXES.items(), strict=True):
        _draw_direction(above, below, frame[frame["panel"] == name].sort_values("value"))
        below.set_xlabel(label)
        if name in DIRECTIONS:
            above.axvline(DIRECTIONS[name].origin, color="0.85", zorder=0)
            below.axvline(DIRECTIONS[name].origin, color="0.85", zorder=0)
        if name in ("variance", "signal"):
            above.set_xscale("log")
    for panel in axes[0, :3]:
        panel.set_ylim(0.0, 0.75)
    axes[0, 3].set_yscale("log")
    style.x_ticks(axes[1, 2], 0.1, 1.0, 10.0)
    style.x_ticks(axes[1, 3], 1.0, 3.0, 10.0, 30.0)
    axes[0, 0].set_ylabel("minimal risk")
    axes[1, 0].set_ylabel("risk minus Bayes risk")
    style.shared_legend(figure, axes.flat, ncols=6)
    return figure


def _draw_direction(above: Axes, below: Axes, part: pd.DataFrame) -> None:
    """Draw the risks of one direction and what they exceed the Bayes risk by."""
    least = part.drop_duplicates("value")
    above.plot(least["value"], least["bayes_risk"], color="0.75", linewidth=5, label="Bayes")
    for name, look in LOOKS.items():
        rows = part[part["activation"] == name]
        if rows.empty:
            continue
        above.plot(rows["value"], rows["risk"], **look)
        below.plot(rows["value"], rows["excess"].clip(lower=LEAST), **look)
        style.mark_statuses(above, rows["value"], rows["risk"], rows["status"])
    if "closed_form" in part and part["closed_form"].notna().any():
        rows = part.drop_duplicates("value")
        look = {"color": "0.2", "linestyle": ":", "label": "softmax, large signals"}
        above.plot(rows["value"], rows["closed_form"], **look)
    below.set_yscale("log")
    below.set_ylim(LEAST, 1.0)
    _name_winners(below, part[part["activation"] == BEST])


def _name_winners(panel: Axes, rows: pd.DataFrame) -> None:
    """Write the name of the best activation at the first value of each, if it loses something."""
    last = ""
    for row in rows[rows["excess"] > 10.0 * LEAST].to_dict("records"):
        if row["best"] != last:
            last = str(row["best"])
            where: dict[str, Any] = {"rotation": 90, "ha": "center", "va": "top", "fontsize": 6}
            panel.annotate(
                last,
                (row["value"], row["excess"]),
                xytext=(0, -6),
                textcoords="offset points",
                **where,
            )
