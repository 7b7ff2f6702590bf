"""Softmax where the relevant token has its own variance, and three Bayes risks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from slrlab._types import Axes, Figure, Report
from slrlab.experiments.running.parallel import parallel_map
from slrlab.figures import style
from slrlab.figures.points import Row, sorted_table
from slrlab.figures.registry import About
from slrlab.model.marion import MarionSLR
from slrlab.theory.population.bayes_risk import bayes_risk
from slrlab.theory.population.minimal import minimal_risk

ABOUT = About(
    title="Softmax on the task of Marion et al.: risk against the standard deviation of the "
    "relevant token",
    caption="""
    Least risk over the variance of the label, what softmax loses, and its best key overlap (dotted:
    the root of the signal), against the standard deviation of the relevant token in every
    direction. Grey lines are the least risks of predictors that see the key scores, key and value
    scores, or whole tokens. At a standard deviation of 1 the task is spiked-SLR and softmax is
    optimal. Away from it the log posterior is quadratic in the score: softmax loses a little to the
    best weights of the key scores, more to those who see the value scores, and whole tokens give
    the location away as the dimension grows.
    """,
    costs={"figure marion": 60.0},
    section="Beyond the paper",
    report=("full",),
)
POINTS = {"toy": 3, "quick": 9, "full": 33}
STD = (1.0 / 3.0, 3.0)
DIMS = (10, 100)
ACTIVATIONS = ("softmax", "linear", "erf")


class Setting(NamedTuple):
    """Signal and length of a column of panels."""

    signal: float
    length: int


SETTINGS = (Setting(2.0, 3), Setting(9.0, 10))
_SEEN = {"keys": "-", "scores": "--"}


def compute(profile: str = "quick", report: Report | None = None) -> pd.DataFrame:
    """Return a row for each setting, standard deviation and predictor."""
    stds = np.geomspace(*STD, POINTS[profile]).tolist()
    settings = SETTINGS[:1] if profile == "toy" else SETTINGS
    points = [(setting, std) for setting in settings for std in stds]
    rows = parallel_map(_rows, points, label="figure marion", report=report)
    columns = ("signal", "length", "predictor", "relevant_std")
    return sorted_table([row for several in rows for row in several], *columns)


def _rows(point: tuple[Setting, float]) -> list[Row]:
    setting, std = point
    task = MarionSLR(*setting, relevant_std=std)
    shared: Row = {"signal": task.signal, "length": setting.length, "relevant_std": std}
    rows = []
    for name in ACTIVATIONS:
        result = minimal_risk(task, name)
        own = {"risk": result.risk / std**2, "m_k": result.m_k, "status": str(result.status)}
        rows.append(shared | {"predictor": name} | own)
    seen: list[tuple[str, int | None]] = [(knows, None) for knows in _SEEN]
    for knows, dim in (*seen, *(("tokens", dim) for dim in DIMS)):
        least = bayes_risk(task, knows=knows, dim=dim)
        name = knows if dim is None else f"{knows} {dim}"
        own = {"risk": least.risk / std**2, "status": str(least.status)}
        rows.append(shared | {"predictor": name} | own)
    return rows


@style.house_style()
def draw(frame: pd.DataFrame) -> Figure:
    """Draw risks, the excess of softmax and its best keys against the standard deviation."""
    settings = list(frame.groupby(["length", "signal"]))
    figure, axes = style.new_figure(3, len(settings), 0.8 + 3.4 * len(settings), 7.6, sharex=True)
    for column, ((length, signal), part) in zip(axes.T, settings, strict=True):
        wide = part.pivot(index="relevant_std", columns="predictor", values="risk")
        _draw_risks(column[0], wide)
        _draw_excess(column[1], wide)
        softmax = part[part["predictor"] == "softmax"]
        column[2].plot(softmax["relevant_std"], softmax["m_k"], **style.MARKS["softmax"].line())
        column[2].axhline(float(str(signal)) ** 0.5, color="0.4", linestyle=":")
        symbols = style.in_symbols(signal=float(str(signal)), length=length)
        column[0].set(title=symbols, yscale="log", ylim=(1e-3, 1.2))
        column[2].set(xscale="log", xlabel="std $\\gamma$ of the relevant token")
        style.x_ticks(column[2], 0.4, 0.6, 1.0, 2.0, 3.0)
    words = ("risk$/\\gamma^2$", "softmax above the least risk, $/\\gamma^2$", "best $m_k$")
    for panel, label in zip(axes[:, 0], words, strict=True):
        panel.set_ylabel(label)
    style.shared_legend(figure, axes.flat, ncols=4)
    return figure


def _look(name: str) -> dict[str, Any]:
    """Return the look of a least risk: darker, and thinner, the more scores are known."""
    if name in _SEEN:
        words = {"keys": "best weights of the key scores", "scores": "key and value scores seen"}
        return {"color": "0.6", "linewidth": 4.0 if name == "keys" else 1.5, "label": words[name]}
    dim = name.split()[1]
    style_of = {str(one): line for one, line in zip(DIMS, ("--", ":"), strict=True)}
    return {"color": "0.3", "linestyle": style_of[dim], "label": f"tokens seen, $D={dim}$"}


def _draw_risks(panel: Axes, wide: pd.DataFrame) -> None:
    seen = [name for name in wide.columns if name not in ACTIVATIONS]
    for name in sorted(seen):
        panel.plot(wide.index, wide[name], **_look(name))
    for name in ACTIVATIONS:
        panel.plot(wide.index, wide[name], **style.MARKS[name].line())


def _draw_excess(panel: Axes, wide: pd.DataFrame) -> None:
    for name in ("keys", "scores"):
        look = _look(name) | {"label": "_nolegend_"}
        excess = (wide["softmax"] - wide[name]).clip(lower=1e-9)
        panel.plot(wide.index, excess, marker=".", **look)
    panel.set(yscale="log", ylim=(1e-6, 1.0))
