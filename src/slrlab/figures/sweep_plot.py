"""A plot of any sweep: its value against one column, one curve for each other setting."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from slrlab.figures.style import MARKS, house_style

_OWN = {"seed", "value", "error", "status", "message", "seconds", "versions", "finished", "key"}
_KINDS = (".png", ".pdf", ".svg")
_INSIDE = 6  # largest number of curves for a legend inside the axes
_COLOURS = ("#000000", "#56B4E9", "#E69F00", "#882255", "#999933", "#666666")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1)), (0, (3, 1, 1, 1)))


def plot_sweep(frame: pd.DataFrame, x: str, path: Path) -> None:
    """Draw ``value`` against column ``x``; the mean over seeds, with its standard error.

    Raises
    ------
    ValueError
        If there is no such column of numbers, nothing to draw, or the suffix is unknown.
    """
    import matplotlib as mpl

    if path.suffix not in _KINDS:
        raise ValueError(f"plot must end with {', '.join(_KINDS)}, got {path}")
    settings = [name for name in frame.columns if name not in _OWN]
    if x not in settings:
        raise ValueError(f"x must be one of {', '.join(settings) or 'no column'}, got {x}")
    position = pd.to_numeric(frame[x], errors="coerce")
    if position.isna().any():
        none = f"{position.isna().sum()} of {len(frame)} points have none"
        raise ValueError(f"x must be a number of every point, got {x}: {none}")
    rows = frame.assign(**{x: position}).dropna(subset=["value"])
    if rows.empty:
        raise ValueError(f"plot must have points with a value, got none for {path}")
    varied = [name for name in settings if name != x and rows[name].astype(str).nunique() > 1]
    groups = list(rows.groupby(varied, dropna=False)) if varied else [((), rows)]
    looks = series_looks(varied, [names for names, _ in groups])
    crowded = len(groups) > _INSIDE
    with mpl.rc_context({"backend": "agg"}), house_style():
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(7.4 if crowded else 5.6, 3.8), layout="constrained")
        for (names, part), look in zip(groups, looks, strict=True):
            means = part.groupby(x)["value"].agg(["mean", "sem", "count"])
            several = means["sem"].where(means["count"] > 1)
            single = part.groupby(x)["error"].mean()
            bars = several.fillna(single).fillna(0.0)
            label = ", ".join(map(_shown, varied, names))
            axes.errorbar(means.index, means["mean"], yerr=bars, capsize=2, label=label, **look)
        axes.set(xlabel=x, ylabel=f"{', '.join(sorted(set(rows['compute'])))}: value")
        if crowded:
            figure.legend(loc="outside right upper", fontsize=8)
        elif varied:
            axes.legend(fontsize=8)
        figure.savefig(path)
        plt.close(figure)


def series_looks(
    varied: Sequence[str], series: Sequence[tuple[object, ...]]
) -> list[dict[str, Any]]:
    """Return colour, marker and dashes of each series, no two alike.

    Activations keep their colour in all figures; other settings differ by markers, then by dashes.
    Without activations each series has its own colour, marker and dashes.
    """
    position = varied.index("activation") if "activation" in varied else None
    rest = [tuple(n for at, n in enumerate(names) if at != position) for names in series]
    kinds = list(dict.fromkeys(map(str, rest)))
    count = len(_MARKERS)
    shapes = [
        (_MARKERS[at % count], _DASHES[(at + at // count) % len(_DASHES)])
        for at in range(count * len(_DASHES))
    ]
    others = iter(range(len(series)))
    colours: dict[str, str] = {}
    looks = []
    for names, own in zip(series, map(str, rest), strict=True):
        at = kinds.index(own)
        marker, dashes = shapes[at % len(shapes)]
        activation = str(names[position]) if position is not None else own
        known = MARKS.get(activation)
        if known is not None and len(kinds) == 1:
            marker, dashes = known.marker, known.dashes
        if activation not in colours:
            spare = _COLOURS[next(others) % len(_COLOURS)] if known is None else known.color
            colours[activation] = spare
        looks.append({"color": colours[activation], "marker": marker, "linestyle": dashes})
    return looks


def _shown(name: str, value: object) -> str:
    return str(value) if name == "activation" else f"{name} {value}"
