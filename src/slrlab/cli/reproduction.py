"""The commands `claims`, `figure`, `table` and `reproduce`: the paper's results, one or all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slrlab.cli.console import print_json, print_lines, print_table, progress, progress_line
from slrlab.cli.options import JsonOption

OutOption = Annotated[Path, typer.Option("--out", help="Folder for the files.", metavar="DIR")]
FIGURE_NAMES = (
    "2, 3, 4, 5, 6, 7, agreement, amp, basins, descent, length, minima, phases, tension or "
    "validity."
)
ProfileOption = Annotated[
    str, typer.Option("--profile", help="quick, full (the paper's size) or toy.", metavar="NAME")
]


def claims(
    names: Annotated[
        list[str] | None, typer.Argument(help="Claims to check; default: all.", metavar="C1 …")
    ] = None,
    details: Annotated[bool, typer.Option("--details", help="Show every comparison.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the paper's claims: the numbers of both sides and a verdict with its margin.

    Example: slrlab claims C4 C7 --details
    """
    from slrlab.experiments.claims import run_claims

    with progress("claims") as report:
        verdicts = run_claims(names, report=report)
    holds = all(verdict.holds for verdict in verdicts)
    if as_json:
        print_json({"holds": holds, "claims": [verdict.to_dict() for verdict in verdicts]})
    else:
        rows = []
        for verdict in verdicts:
            chosen = verdict.checks if details else (verdict.tightest,)
            for check in chosen:
                left = f"{check.left_name} {check.left:.10g}"
                right = f"{check.right_name} {check.right:.10g}"
                outcome = "holds" if check.holds else "FAILS"
                comparison = f"{left} {check.relation} {right}"
                margin = f"{check.margin:.3g}"
                rows.append((verdict.name, outcome, check.case, comparison, margin))
        title = "Every comparison" if details else "Each claim at its tightest comparison"
        print_table(title, ("claim", "verdict", "case", "comparison", "margin"), rows)
    if not holds:
        raise typer.Exit(1)


def figure(
    name: Annotated[str, typer.Argument(help=FIGURE_NAMES, metavar="NAME")],
    out: OutOption = Path("results"),
    profile: ProfileOption = "",
    stored: Annotated[
        Path | None,
        typer.Option("--from", help="Draw this stored table, compute nothing.", metavar="CSV"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compute and draw a figure: PDF, PNG and the CSV behind them.

    The full profile goes on where it was stopped.

    Example: slrlab figure 2 --out results
    """
    from slrlab.figures import make_figure, redraw_figure

    if stored is not None:
        if profile:
            raise ValueError(f"profile must be left out with --from, got {profile}")
        paths = redraw_figure(name, stored, out)
    else:
        with progress(f"figure {name}") as report:
            paths = make_figure(name, out, profile=profile or "quick", report=report)
    _files("figure", name, paths, as_json)


def _files(kind: str, name: str, paths: list[Path], as_json: bool) -> None:
    if as_json:
        print_json({kind: name, "files": [str(path) for path in paths]})
    else:
        print_lines(paths)


def table(
    name: Annotated[str, typer.Argument(help="1.", metavar="NAME")],
    out: OutOption = Path("results"),
    profile: ProfileOption = "quick",
    as_json: JsonOption = False,
) -> None:
    """Compute a table of the paper, predicted beside measured; print it and write it as CSV.

    Example: slrlab table 1 --out results
    """
    from slrlab.figures import make_table

    with progress(f"table {name}") as report:
        paths = make_table(name, out, profile=profile, report=report)
    if not as_json:
        _print_constants(paths[0])
    _files("table", name, paths, as_json)


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


def reproduce(
    out: OutOption = Path("results"),
    full: Annotated[
        bool, typer.Option("--full", help="The paper's size, not the quick one.")
    ] = False,
    profile: ProfileOption = "",
    as_json: JsonOption = False,
) -> None:
    """Reproduce every figure, table and claim there is, into one HTML report.

    The report is there as soon as the first figure is, and grows. Stopped and started again, it
    goes on where it was.

    Example: slrlab reproduce --out results
    """
    from slrlab.figures.reproduction import reproduce_all

    if full and profile not in ("", "full"):
        raise ValueError(f"profile must be left out with --full, got {profile}")
    with progress_line() as report:
        paths, holds = reproduce_all(
            out, profile=profile or ("full" if full else "quick"), report=report
        )
    if as_json:
        print_json({"holds": holds, "files": [str(path) for path in paths]})
    else:
        print_lines(paths)
    if not holds:
        raise typer.Exit(1)
