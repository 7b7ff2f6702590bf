"""A plot of any sweep: its value against one column, a curve for each combination of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from slrlab.figures.style import MARKS, house_style

if TYPE_CHECKING:
    import pandas as pd

_OWN = {"seed", "value", "error", "status", "message", "seconds", "versions", "finished", "key"}
_KINDS = (".png", ".pdf", ".svg")


def plot_sweep(frame: pd.DataFrame, x: str, path: Path) -> None:
    """Draw ``value`` against column ``x``; seeds are averaged, with their spread as error bars.

    Raises
    ------
    ValueError
        If there is no such column of numbers, nothing to draw, or the suffix is unknown.
    """
    import matplotlib as mpl
    import pandas as pd

    if path.suffix not in _KINDS:
        raise ValueError(f"plot must end with {', '.join(_KINDS)}, got {path}")
    settings = [name for name in frame.columns if name not in _OWN]
    if x not in settings:
        raise ValueError(f"x must be one of {', '.join(settings) or 'no column'}, got {x}")
    place = pd.to_numeric(frame[x], errors="coerce")
    if place.isna().any():
        raise ValueError(f"x must be a column of numbers, got {x}")
    rows = frame.assign(**{x: place}).dropna(subset=["value"])
    if rows.empty:
        raise ValueError(f"plot must have points with a value, got none for {path}")
    varied = [name for name in settings if name != x and rows[name].astype(str).nunique() > 1]
    with mpl.rc_context({"backend": "agg"}), house_style():
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
        groups = rows.groupby(varied, dropna=False) if varied else [((), rows)]
        for names, part in groups:
            means = part.groupby(x)["value"].agg(["mean", "sem", "count"])
            several = means["sem"].where(means["count"] > 1)
            single = part.groupby(x)["error"].mean()
            bars = several.fillna(single).fillna(0.0)
            shown = ", ".join(
                str(value) if name == "activation" else f"{name} {value}"
                for name, value in zip(varied, names, strict=True)
            )
            known = [MARKS[str(name)] for name in names if str(name) in MARKS]
            color, marker = (known[0].color, known[0].marker) if known else (None, "o")
            axes.errorbar(
                means.index,
                means["mean"],
                yerr=bars,
                capsize=2,
                label=shown,
                color=color,
                marker=marker,
            )
        axes.set(xlabel=x, ylabel=f"{', '.join(sorted(set(rows['compute'])))}: value")
        if varied:
            axes.legend(fontsize=8)
        figure.savefig(path)
        plt.close(figure)
