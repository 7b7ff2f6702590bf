"""The picture of a comparison of activations: risks against a setting, a curve for each."""

from __future__ import annotations

import math
from typing import Any

from slrlab._plot import BAYES, log_scale, mark_of, mark_statuses
from slrlab._types import Axes
from slrlab.experiments.atlas.compared import Compared

_FLAT = 20.0  # ratio of the largest to the smallest risk up to which the axis is not logarithmic
AXES = {
    "alpha": "samples per dimension $\\alpha$",
    "signal": "signal $\\nu$",
    "length": "mean length",
    "noise": "label noise $\\Delta$",
    "activation": "",
}
"""What risks may be drawn against, with the label of the axis."""


def draw_risks(
    axes: Axes, x: str, rows: tuple[Compared, ...], varied: list[str], title: str
) -> None:
    """Draw the risks of all rows against ``x``; see `ActivationComparison.plot`."""
    others = [name for name in varied if name != x]
    groups: dict[str, dict[str, list[Compared]]] = {}
    for row in rows:
        given = row.to_dict()
        where = ", ".join(f"{name} {given[name]}" for name in others)
        curve = "" if x == "activation" else row.setting.activation_name
        groups.setdefault(where, {}).setdefault(curve, []).append(row)
    for index, (where, curves) in enumerate(groups.items()):
        strength = 0.6**index  # curves of one activation become paler
        draw = _draw_activations if x == "activation" else _draw_curve
        for members in curves.values():
            draw(axes, x, members, f" ({where})" if where else "", strength)
    risks = [row.risk.value for row in rows if row.risk.value > 0.0]
    if risks and max(risks) > _FLAT * min(risks):
        axes.set_yscale("log")
    axes.set(xlabel=AXES[x], ylabel="risk", title=title)
    axes.legend()


def _draw_activations(
    axes: Axes, x: str, rows: list[Compared], where: str, strength: float
) -> None:
    """Draw a point for each activation, and the Bayes risk as a line."""
    names = [row.setting.activation_name for row in rows]
    marks = [mark_of(name, names) for name in names]
    for mark, row in zip(marks, rows, strict=True):
        look = mark.line(label="_nolegend_", linestyle="none", capsize=3, alpha=strength)
        axes.errorbar(mark.label, row.risk.value, yerr=row.risk.error, **look)
    look = BAYES.line(label=f"Bayes{where}", alpha=strength)
    axes.axhline(rows[0].bayes_risk.value, **look)
    axes.margins(x=0.2)
    _mark(axes, [mark.label for mark in marks], rows)


def _draw_curve(axes: Axes, x: str, rows: list[Compared], where: str, strength: float) -> None:
    """Draw the risks of one activation against ``x``, and the Bayes risk beside them."""
    mark = mark_of(rows[0].setting.activation_name)
    for row in (row for row in rows if not math.isfinite(_position(row, x))):
        label = f"{mark.label}, {x} ∞{where}"
        look = mark.line(label=label, marker="", linestyle=":", alpha=strength)
        axes.axhline(row.risk.value, **look)
    rows = [row for row in rows if math.isfinite(_position(row, x))]
    rows.sort(key=lambda row: _position(row, x))
    positions = [_position(row, x) for row in rows]
    if f"Bayes{where}" not in axes.get_legend_handles_labels()[1]:
        look = BAYES.line(label=f"Bayes{where}", zorder=1, alpha=strength)
        axes.plot(positions, [row.bayes_risk.value for row in rows], **look)
    look = mark.line(label=f"{mark.label}{where}", capsize=2, alpha=strength)
    values, errors = ([getattr(row.risk, part) for row in rows] for part in ("value", "error"))
    axes.errorbar(positions, values, yerr=errors, **look)
    low, high = ([row.interval[side] for row in rows] for side in (0, 1))
    if any(bottom < top for bottom, top in zip(low, high, strict=True)):
        axes.fill_between(positions, low, high, color=mark.color, alpha=0.15, linewidth=0)
    if positions and max(positions) > 4.0 * min(positions):
        axes.set_xscale(**log_scale(positions))
    _mark(axes, positions, rows)


def _mark(axes: Axes, positions: list[Any], rows: list[Compared]) -> None:
    statuses = [row.status for row in rows]
    mark_statuses(axes, positions, [row.risk.value for row in rows], statuses)


def _position(row: Compared, x: str) -> float:
    """Return the position of a row on the axis of a setting."""
    if x == "alpha":
        return row.alpha
    task = row.setting.task
    return task.length.mean if x == "length" else float(getattr(task, x))
