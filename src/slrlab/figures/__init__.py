"""Figures, one module each: ``compute(profile, report)`` makes a table, ``draw(table)`` a picture.

The picture is drawn from the table alone, so the CSV written beside it is all that it shows. A
module of the paper's tables has no ``draw``.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from slrlab import _checks
from slrlab.experiments.parallel import Report

if TYPE_CHECKING:
    import pandas as pd

FIGURES = {
    "2": "slrlab.figures.figure2",
    "3": "slrlab.figures.figure3",
    "4": "slrlab.figures.figure4",
    "5": "slrlab.figures.figure5",
    "6": "slrlab.figures.figure6",
    "7": "slrlab.figures.figure7",
    "agreement": "slrlab.figures.agreement",
    "amp": "slrlab.figures.message_passing",
    "basins": "slrlab.figures.basins",
    "descent": "slrlab.figures.descent",
    "length": "slrlab.figures.length",
    "minima": "slrlab.figures.minima",
    "phases": "slrlab.figures.hard_phase",
    "tension": "slrlab.figures.tension",
    "validity": "slrlab.figures.validity",
}
TABLES = {"1": "slrlab.figures.table1"}
PROFILES = ("toy", "quick", "full")


def figure_module(name: str) -> ModuleType:
    """Return the module of a figure."""
    return import_module(FIGURES[_checks.choice(name, "figure", FIGURES)])


def make_figure(
    name: str, out: Path, *, profile: str = "quick", report: Report | None = None
) -> list[Path]:
    """Compute and draw a figure; return the CSV, PNG and PDF written into ``out``.

    Raises
    ------
    ValueError
        If the figure or the profile is unknown.
    """
    frame = compute_figure(name, out, profile=profile, report=report)
    return draw_figure((name, out, frame))


def compute_figure(
    name: str, out: Path, *, profile: str = "quick", report: Report | None = None
) -> pd.DataFrame:
    """Compute the table of a figure and write it into ``out``."""
    module = figure_module(name)
    _checks.choice(profile, "profile", PROFILES)
    out.mkdir(parents=True, exist_ok=True)
    frame: pd.DataFrame = module.compute(profile, report)
    frame.to_csv(out / f"figure-{name}.csv", index=False)
    return frame


def draw_figure(item: tuple[str, Path, pd.DataFrame]) -> list[Path]:
    """Draw a figure from its table; return the CSV, PNG and PDF in ``out``."""
    import matplotlib as mpl

    name, out, frame = item
    paths = [out / f"figure-{name}.{kind}" for kind in ("csv", "png", "pdf")]
    with mpl.rc_context({"backend": "agg"}):
        import matplotlib.pyplot as plt

        drawn = figure_module(name).draw(frame)
        drawn.savefig(paths[1])
        drawn.set_layout_engine("none")  # the layout found for one file serves both
        drawn.savefig(paths[2], metadata={"CreationDate": None})  # same table, same bytes
        plt.close(drawn)
    return paths


def table_module(name: str) -> ModuleType:
    """Return the module of a table."""
    return import_module(TABLES[_checks.choice(name, "table", TABLES)])


def make_table(
    name: str, out: Path, *, profile: str = "quick", report: Report | None = None
) -> list[Path]:
    """Compute a table; return the CSV written into ``out``.

    Raises
    ------
    ValueError
        If the table or the profile is unknown.
    """
    module = table_module(name)
    _checks.choice(profile, "profile", PROFILES)
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"table-{name}.csv"
    module.compute(profile, report).to_csv(path, index=False)
    return [path]
