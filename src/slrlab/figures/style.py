"""One look for all figures: that of single results (`slrlab._plot`), and settings for print."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from slrlab._plot import BAYES as BAYES
from slrlab._plot import END_COLORS as END_COLORS
from slrlab._plot import FINE_STATUSES as FINE_STATUSES
from slrlab._plot import MARKS as MARKS
from slrlab._plot import mark_of as mark_of
from slrlab._plot import mark_statuses as mark_statuses
from slrlab._plot import symbol as symbol
from slrlab._types import Axes, DataFrame, Figure

_SETTINGS: dict[str, Any] = {
    "figure.dpi": 110,
    "savefig.dpi": 200,
    "savefig.bbox": "tight",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
}

FAMILIES = {
    "elementwise": ("#D55E00", "s"),
    "normalised": ("#0072B2", "o"),
    "projection": ("#009E73", "^"),
    "ratio": ("#CC79A7", "D"),
    "ordered": ("#000000", "v"),
}
"""Colour and marker of each family of activations."""


@contextmanager
def house_style() -> Iterator[None]:
    """Apply the look inside a ``with`` block or a decorated function; nothing global changes."""
    import matplotlib as mpl

    with mpl.rc_context(_SETTINGS):  # type: ignore[arg-type]  # keys are literals
        yield


def new_figure(
    rows: int, columns: int, width: float, height: float, **options: Any
) -> tuple[Figure, Any]:
    """Return a figure of ``width`` times ``height`` inches and the array of its panels."""
    import matplotlib.pyplot as plt

    size: dict[str, Any] = {"figsize": (width, height), "layout": "constrained"}
    return plt.subplots(rows, columns, squeeze=False, **size, **options)


def shared_legend(figure: Figure, axes: Iterable[Axes], *, ncols: int = 3) -> None:
    """Put one legend below a figure, with an entry for each label that its panels have."""
    entries: dict[str, Any] = {}
    for panel in axes:
        handles, labels = panel.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    figure.legend(
        list(entries.values()), list(entries), loc="outside lower center", ncols=ncols, fontsize=8
    )


def in_symbols(
    *, signal: float | None = None, length: object = None, noise: float = 0.0, alpha: float = 0.0
) -> str:
    r"""Return the given parts of a setting in symbols, for the title of a panel.

    >>> print(in_symbols(signal=math.inf, length="1,2,3"), in_symbols(length=3, alpha=0.5))
    $\nu=\infty$, $L\in\{1,2,3\}$ $L=3$, $\alpha=0.5$
    """
    parts = []
    if signal is not None:
        parts.append("$\\nu=\\infty$" if math.isinf(signal) else f"$\\nu={signal:g}$")
    if length is not None:
        law = f"\\in\\{{{length}\\}}" if "," in str(length) else f"={length}"
        parts.append(f"$L{law}$")
    if noise:
        parts.append(f"$\\Delta={noise:g}$")
    if alpha:
        parts.append(f"$\\alpha={alpha:g}$")
    return ", ".join(parts)


def x_ticks(panel: Axes, *values: float) -> None:
    """Put ticks at these values of a logarithmic axis, and nowhere else."""
    panel.set_xticks(values, [f"{value:g}" for value in values])
    panel.minorticks_off()


def draw_minimal_risks(
    panel: Axes, part: DataFrame, x: str, activations: Iterable[str], markevery: int
) -> None:
    """Draw minimal risks against column ``x``, on a grey line of the Bayes risk."""
    bayes = part[part["activation"] == "softmax"]
    panel.plot(bayes[x], bayes["bayes_risk"], color="0.75", linewidth=5, label=BAYES.label)
    for activation in activations:
        curve = part[part["activation"] == activation]
        panel.plot(curve[x], curve["risk"], **MARKS[activation].line(markevery=markevery))
        mark_statuses(panel, curve[x], curve["risk"], curve["status"])


def draw_trained(
    panel: Axes, x: Any, rows: DataFrame, name: str, *, face: str, **look: Any
) -> None:
    """Draw the columns ``NAME_risk`` as markers with error bars, and mark ``NAME_status``."""
    risk = rows[f"{name}_risk"]
    panel.errorbar(x, risk, yerr=rows[f"{name}_error"], capsize=2, markerfacecolor=face, **look)
    mark_statuses(panel, x, risk, rows[f"{name}_status"])
