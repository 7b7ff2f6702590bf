"""One look for each activation and quantity, and helpers of the ``plot`` methods of results.

Readers with any form of colour blindness can distinguish the colours (Okabe and Ito); markers and
dashes carry the same information. matplotlib is imported when something is drawn. Independent of
how anything is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from slrlab._types import Axes


@dataclass(frozen=True)
class Mark:
    """How one curve is drawn."""

    label: str
    color: str
    marker: str
    dashes: str | tuple[int, tuple[int, ...]] = "-"

    def line(self, **extra: Any) -> dict[str, Any]:
        """Return keyword arguments for ``Axes.plot``."""
        style = {"color": self.color, "marker": self.marker, "linestyle": self.dashes}
        return {"label": self.label, **style, **extra}


BAYES = Mark("Bayes", "#000000", "", "-")
MARKS: dict[str, Mark] = {
    "bayes": BAYES,
    "softmax": Mark("softmax", "#0072B2", "o", "-"),
    "linear": Mark("linear", "#D55E00", "s", (0, (5, 2))),
    "erf": Mark("erf (best bias)", "#009E73", "^", (0, (3, 1, 1, 1))),
    "softplus": Mark("softplus, normalised", "#CC79A7", "D", (0, (1, 1))),
}
"""The looks of what the paper compares, the same in every figure of risks."""

_MORE: dict[str, Mark] = {
    "sparsemax": Mark("sparsemax", "#882255", "v", (0, (4, 1))),
    "entmax15": Mark("1.5-entmax", "#44AA99", "P", (0, (2, 1))),
}
_OTHERS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("#332288", (3, 2)),
    ("#999933", (6, 2)),
    ("#661100", (2, 2)),
    ("#AA4499", (6, 1, 1, 1)),
    ("#117733", (4, 2, 1, 2)),
    ("#88CCEE", (8, 3)),
)
"""Colours and dashes of other activations, by their position among those drawn."""

END_COLORS = {
    "matched": "#56B4E9",
    "mismatched": "#E69F00",
    "mirror": "#F7D68A",
    "infinity": "#8C6100",
    "reversed": "0.5",
    "other": "#000000",
}
"""Colours of the ends of flows; no activation has one of them."""

QUANTITIES: dict[str, tuple[str, str]] = {
    "risk": ("#000000", ""),
    "loss": ("#000000", ""),
    "m_kk": ("#0072B2", "o"),
    "m_vv": ("#D55E00", "s"),
    "m_kv": ("#009E73", "^"),
    "m_vk": ("#CC79A7", "D"),
    "q_k": ("#0072B2", "o"),
    "q_v": ("#D55E00", "s"),
}
"""Colour and marker of what is drawn against time or iterations."""

FINE_STATUSES = ("converged", "limit", "sampled")
"""Statuses of points that are not marked."""

_STATUS_MARKERS = {"boundary": "x", "unstable": "+", "inaccurate": ".", "not converged": "2"}


def mark_of(activation: str, among: Iterable[str] = ()) -> Mark:
    """Return the look of an activation; that of another one follows from those drawn with it.

    >>> mark_of("hardmax", ["softmax", "relu", "hardmax"]).color == mark_of("relu").color
    False
    """
    known = MARKS | _MORE
    if activation in known:
        return known[activation]
    others = [name for name in dict.fromkeys(among) if name not in known]
    position = others.index(activation) if activation in others else 0
    color, dashes = _OTHERS[position % len(_OTHERS)]
    return Mark(activation, color, "X", (0, dashes))


def axes_of(ax: Axes | None) -> Axes:
    """Return ``ax``, or the axes of a new figure if it is None."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def symbol(name: str) -> str:
    """Return a name as it is written in a figure.

    >>> symbol("m_kk"), symbol("risk")
    ('$m_{kk}$', 'risk')
    """
    letter, _, index = name.partition("_")
    return f"${letter}_{{{index}}}$" if index and len(letter) == 1 else name.replace("_", " ")


def draw_quantities(
    ax: Axes | None,
    x: Any,
    columns: Mapping[str, Any],
    errors: Mapping[str, Any] | None = None,
    *,
    points: bool = False,
    labels: bool = True,
    **properties: Any,
) -> Axes:
    """Draw order parameters and risks against ``x``, as lines or as points with error bars.

    Returns the axes with their ``properties`` set and a legend of what has labels.
    """
    axes = axes_of(ax)
    for name, values in columns.items():
        color, marker = QUANTITIES.get(name, ("0.5", "x"))
        label = symbol(name) if labels else "_nolegend_"
        bars = (errors or {}).get(name)
        if points or bars is not None:
            look = {"fmt": marker or "x", "markerfacecolor": "white", "capsize": 2}
            axes.errorbar(x, values, yerr=bars, color=color, label=label, **look)  # type: ignore[arg-type]
        else:
            axes.plot(x, values, color=color, label=label)
    axes.set(**properties)
    if labels:
        axes.legend()
    return axes


def draw_map(ax: Axes, x: Any, y: Any, values: Any, label: str) -> None:
    """Fill the axes with ``values[i, j]`` at ``(x[j], y[i])``, and add a bar of colours."""
    cells = ax.pcolormesh(x, y, values, shading="nearest", cmap="viridis_r")
    ax.figure.colorbar(cells, ax=ax, label=label)


def log_scale(values: Any) -> dict[str, Any]:
    """Return the arguments of ``set_xscale``: logarithmic, and linear near a value of zero."""
    positive = [value for value in values if value > 0.0]
    if len(positive) < len(list(values)):
        return {"value": "symlog", "linthresh": min(positive, default=1.0)}
    return {"value": "log"}


def mark_statuses(axes: Axes, x: Any, y: Any, statuses: Any) -> None:
    """Put a small black sign on each point whose status is not fine, with a legend entry for each.

    The signs mean the same in all figures; statuses without their own (diverged, failed) share a
    triangle.
    """
    points = list(zip(x, y, map(str, statuses), strict=True))
    _, known = axes.get_legend_handles_labels()
    for status in dict.fromkeys(text for *_, text in points if text not in FINE_STATUSES):
        marked = [(a, b) for a, b, text in points if text == status]
        look: dict[str, Any] = {"linestyle": "none", "color": "black", "markersize": 5, "zorder": 5}
        look["marker"] = _STATUS_MARKERS.get(status, "v")
        label = "_nolegend_" if status in known else status
        axes.plot(*zip(*marked, strict=True), label=label, **look)
