"""Figures, one module each: ``compute(profile, report)`` makes a table, ``draw(table)`` a picture.

The picture is drawn from the table alone, which is written beside it as CSV with the settings it
was made with. A module of the paper's tables has no ``draw``.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from slrlab import _checks
from slrlab._types import DataFrame, Report
from slrlab.experiments.running.parallel import remember
from slrlab.figures.registry import PROFILES, depends_on_profile, figure_module, table_module
from slrlab.figures.style import house_style


def make_figure(
    name: str, out: Path, *, profile: str = "quick", report: Report | None = None
) -> list[Path]:
    """Compute and draw a figure; return the CSV, PNG and PDF written into ``out``.

    With the full profile finished points are kept in ``out``, and `reproduce_all` uses them too:
    stopped and called again, it computes only the missing ones.

    Raises
    ------
    ValueError
        If the figure or the profile is unknown.
    """
    figure_module(name)
    with remember(out / "finished-full.sqlite") if profile == "full" else nullcontext():
        frame = compute_figure(name, out, profile=profile, report=report)
    return draw_figure(name, out, frame)


def redraw_figure(name: str, table: Path, out: Path) -> list[Path]:
    """Draw a figure from a table that `make_figure` wrote; return the PNG and PDF in ``out``.

    Raises
    ------
    ValueError
        If the figure is unknown, or the file is not a table of it.
    """
    import pandas as pd

    figure_module(name)
    wanted = f"{table} must be a table of figure {name}"
    try:
        frame = pd.read_csv(table)
    except (UnicodeDecodeError, pd.errors.EmptyDataError, pd.errors.ParserError):
        raise ValueError(f"{wanted}, got a file that is not a CSV table") from None
    for own in frame.get("figure", pd.Series(dtype=str)).astype(str).unique():
        if own != name:
            raise ValueError(f"{wanted}, got one of figure {own}")
    if frame.empty:
        raise ValueError(f"{wanted}, got one without rows")
    out.mkdir(parents=True, exist_ok=True)
    try:
        return draw_figure(name, out, frame)[1:]
    except KeyError as missing:
        raise ValueError(f"{wanted}, got one without {missing.args[0]}") from missing
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(f"{wanted}, got one that cannot be drawn: {error}") from error


def compute_figure(
    name: str, out: Path, *, profile: str = "quick", report: Report | None = None
) -> DataFrame:
    """Compute the table of a figure and write it, with its settings, into ``out``."""
    module = figure_module(name)
    _checks.choice(profile, "profile", PROFILES)
    out.mkdir(parents=True, exist_ok=True)
    return write_figure_table(name, out, module.compute(profile, report), profile)


def write_figure_table(name: str, out: Path, frame: DataFrame, profile: str) -> DataFrame:
    """Write the table of a figure into ``out``, with its settings, and return it."""
    frame = frame.assign(**_settings(name, profile))
    frame.to_csv(out / f"figure-{name}.csv", index=False)
    return frame


def _settings(name: str, profile: str) -> dict[str, str | int | float]:
    """Return the columns that say how a table was made: name, profile, its sizes, version."""
    from slrlab import __version__

    columns: dict[str, str | int | float] = {"figure": name, "profile": profile}
    for key, value in vars(figure_module(name)).items():
        if not key.isupper() or not depends_on_profile(value):
            continue
        if isinstance(value[profile], int | float):
            columns[f"profile_{key.lower()}"] = value[profile]
    return columns | {"version": __version__}


def draw_figure(name: str, out: Path, frame: DataFrame) -> list[Path]:
    """Draw a figure from its table; return the CSV, PNG and PDF in ``out``."""
    import matplotlib as mpl

    paths = [out / f"figure-{name}.{kind}" for kind in ("csv", "png", "pdf")]
    with house_style(), mpl.rc_context({"backend": "agg"}):
        import matplotlib.pyplot as plt

        drawn = figure_module(name).draw(frame)
        drawn.savefig(paths[1])
        drawn.set_layout_engine("none")  # both files have the same layout
        drawn.savefig(paths[2], metadata={"CreationDate": None})  # the same bytes every time
        plt.close(drawn)
    return paths


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
