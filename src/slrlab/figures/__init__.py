"""Figures, one module each: ``compute(profile, report)`` makes a table, ``draw(table)`` a picture.

The picture is drawn from the table alone, so the CSV written beside it is all that it shows.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from slrlab import _checks
from slrlab.experiments.parallel import Report

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
    module = figure_module(name)
    _checks.choice(profile, "profile", PROFILES)
    out.mkdir(parents=True, exist_ok=True)
    frame = module.compute(profile, report)
    paths = [out / f"figure-{name}.{kind}" for kind in ("csv", "png", "pdf")]
    frame.to_csv(paths[0], index=False)
    import matplotlib as mpl

    with mpl.rc_context({"backend": "agg"}):
        import matplotlib.pyplot as plt

        drawn = module.draw(frame)
        drawn.savefig(paths[1])
        drawn.savefig(paths[2], metadata={"CreationDate": None})  # same table, same bytes
        plt.close(drawn)
    return paths
