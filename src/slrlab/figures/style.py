"""One look for all figures: that of single results (`slrlab._plot`), and settings for print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from slrlab._plot import BAYES as BAYES
from slrlab._plot import END_COLORS as END_COLORS
from slrlab._plot import FINE_STATUSES as FINE_STATUSES
from slrlab._plot import MARKS as MARKS
from slrlab._plot import Mark as Mark
from slrlab._plot import mark_statuses as mark_statuses

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
