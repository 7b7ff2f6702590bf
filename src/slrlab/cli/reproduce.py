"""The command `reproduce`: the figures of a profile, all tables and claims, and one report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from slrlab.cli.app import command
from slrlab.cli.console import Output, progress_line
from slrlab.cli.options import OUT, PROFILE, RESULTS, flag, given

_FULL = "The paper's size, not the quick one."
_EXPLORER = "Also write static pages of the explorer, linked from the report; needs its extra."


@command()
def reproduce(
    *,
    out: Annotated[Path, OUT] = RESULTS,
    full: Annotated[bool, flag("--full", _FULL)] = False,
    profile: Annotated[str | None, PROFILE] = None,
    explorer: Annotated[bool, flag("--explorer", _EXPLORER)] = False,
    output: Output,
) -> bool:
    """Reproduce the figures of a profile, all tables and claims, into one HTML report.

    The report is there as soon as the first figure is, and grows. Stopped and started again, it
    goes on where it was.

    Example: slrlab reproduce --out results
    """
    from slrlab.figures.report import EXPLORER_FOLDER
    from slrlab.figures.reproduction import reproduce_all

    if full and profile not in (None, "full"):
        raise ValueError(f"profile must not be given with --full, got {profile}")
    with progress_line() as report:
        pages = []
        if explorer:
            from slrlab.explorer.static import build_static

            pages = build_static(out / EXPLORER_FOLDER, report=report)
        chosen = given(profile="full" if full else profile)
        paths, holds = reproduce_all(out, report=report, **chosen)
    output.files([*pages, *paths], holds=holds)
    return holds
