"""The command `table`: one table of the paper, predicted beside measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slrlab.cli.app import command
from slrlab.cli.console import Output, print_lines, print_table, progress
from slrlab.cli.options import OUT, PROFILE, RESULTS
from slrlab.figures import make_table
from slrlab.figures.registry import TABLES


@command(make_table)
def table(
    *,
    name: Annotated[str, typer.Argument(help=f"{', '.join(TABLES)}.", metavar="NAME")],
    out: Annotated[Path, OUT] = RESULTS,
    profile: Annotated[str, PROFILE],
    output: Output,
) -> None:
    """Compute a table of the paper, predicted beside measured; print it and write it as CSV.

    Example: slrlab table 1 --out results
    """
    with progress(f"table {name}") as report:
        paths = make_table(name, out, profile=profile, report=report)
    if not output.as_json:
        _print_constants(paths[0])
    output.files(paths, table=name)


def _print_constants(path: Path) -> None:
    """Print a table of predicted and measured constants, and how many there are of each kind."""
    import pandas as pd

    from slrlab._result import Estimate

    frame = pd.read_csv(path)
    for how, part in frame.groupby("how", sort=False):
        rows = [
            (
                f"{row['task']}, {row['activation']}, L={row['length']}",
                row["quantity"],
                f"{row['predicted']:.6g}",
                # the errors of quadratures lie below the digits shown
                str(Estimate(row["measured"], row["error"]))
                if row["error"] > 1e-6
                else f"{row['measured']:.6g}",
            )
            for row in part.to_dict("records")
        ]
        title = f"{how}: {len(part)} constants"
        print_table(title, ("setting", "quantity", "predicted", "measured"), rows)
    print_lines([f"{len(frame)} constants"])
