"""One look for all figures: a colour, marker and line for each activation, safe in grey.

Colours are those of Okabe and Ito, told apart by readers with any form of colour blindness;
markers and dashes carry the same information without colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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

FINE_STATUSES = ("converged", "limit", "sampled")
"""Statuses of points that need no mark."""

_STATUS_MARKERS = {"boundary": "x", "unstable": "+", "inaccurate": ".", "not converged": "2"}


def mark_statuses(axes: Axes, x: Any, y: Any, statuses: Any) -> None:
    """Put a small black sign on each point whose status is not fine, with a legend entry for each.

    Every figure whose table has a status calls this for the points it draws; the signs mean the
    same in all figures. A status without a sign of its own (diverged, failed) gets a triangle.
    """
    points = list(zip(x, y, map(str, statuses), strict=True))
    _, known = axes.get_legend_handles_labels()
    for status in dict.fromkeys(text for *_, text in points if text not in FINE_STATUSES):
        here = [(a, b) for a, b, text in points if text == status]
        axes.plot(
            *zip(*here, strict=True),
            linestyle="none",
            marker=_STATUS_MARKERS.get(status, "v"),
            color="black",
            markersize=5,
            zorder=5,
            label="_nolegend_" if status in known else status,
        )


def shared_legend(figure: Figure, axes: Iterable[Axes], *, ncols: int = 3) -> None:
    """Put one legend below a figure, with an entry for each label that its panels have."""
    entries: dict[str, Any] = {}
    for panel in axes:
        handles, labels = panel.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    figure.legend(
        list(entries.values()), list(entries), loc="outside lower center", ncols=ncols, fontsize=8
    )


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


@contextmanager
def house_style() -> Iterator[None]:
    """Apply the look inside a ``with`` block; nothing global changes."""
    import matplotlib as mpl

    with mpl.rc_context(_SETTINGS):  # type: ignore[arg-type]  # keys are literals
        yield
