"""The command `figure`: one figure, computed and drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slrlab.cli.app import command
from slrlab.cli.console import Output, progress
from slrlab.cli.options import OUT, PROFILE, RESULTS, given, option
from slrlab.figures import make_figure, redraw_figure
from slrlab.figures.registry import FIGURES

_STORED = "Draw this stored table, compute nothing."


@command()
def figure(
    *,
    name: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(FIGURES)}.", metavar="NAME", autocompletion=lambda: list(FIGURES)
        ),
    ],
    out: Annotated[Path, OUT] = RESULTS,
    profile: Annotated[str | None, PROFILE] = None,
    stored: Annotated[Path | None, option(_STORED, Path, "CSV", "--from")] = None,
    output: Output,
) -> None:
    """Compute and draw a figure: PDF, PNG and the CSV behind them.

    The full profile goes on where it was stopped.

    Example: slrlab figure 2 --out results
    """
    if stored is None:
        with progress(f"figure {name}") as report:
            paths = make_figure(name, out, report=report, **given(profile=profile))
    elif profile is None:
        paths = redraw_figure(name, stored, out)
    else:
        raise ValueError(f"profile must not be given with --from, got {profile}")
    output.files(paths, figure=name)
