"""One look for all figures: a colour, marker and line for each activation, safe in grey.

Colours are those of Okabe and Ito, told apart by readers with any form of colour blindness;
markers and dashes carry the same information without colour.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


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
