"""The command `reproduce`: the figures of a profile, all tables and claims, and one report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from slrlab.cli.app import command
from slrlab.cli.console import Output, progress_line
from slrlab.cli.options import OUT, PROFILE, RESULTS, flag, given

_FULL = "The paper's size, not the quick one."
_EXPLORER = "Write static pages of the explorer, linked from the report: if its extra is installed."


@command()
def reproduce(
    *,
    out: Annotated[Path, OUT] = RESULTS,
    full: Annotated[bool, flag("--full", _FULL)] = False,
    profile: Annotated[str | None, PROFILE] = None,
    explorer: Annotated[bool | None, flag("--explorer/--no-explorer", _EXPLORER)] = None,
    output: Output,
) -> bool:
    """Reproduce the figures of a profile, all tables and claims, into one HTML report.

    The report is there as soon as the first figure is, and grows. Stopped and started again, it
    goes on where it was. Pages of the explorer come first, if there are none yet.

    Example: slrlab reproduce --out results
    """
    from slrlab.explorer.server import STATIC_EXTRA, has_extra
    from slrlab.figures.report import EXPLORER_FOLDER
    from slrlab.figures.reproduction import reproduce_all

    if full and profile not in (None, "full"):
        raise ValueError(f"profile must not be given with --full, got {profile}")
    with progress_line() as report:
        pages, there = [], (out / EXPLORER_FOLDER / "index.html").exists()
        if explorer or (explorer is None and not there and has_extra(STATIC_EXTRA)):
            from slrlab.explorer.static import build_static

            pages = build_static(out / EXPLORER_FOLDER, report=report)
        chosen = given(profile="full" if full else profile)
        paths, holds = reproduce_all(out, report=report, **chosen)
    output.files([*pages, *paths], holds=holds)
    return holds
