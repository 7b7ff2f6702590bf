"""The command `claims`: the paper's claims, checked."""

from __future__ import annotations

from typing import Annotated

import typer

from slrlab.cli.app import command
from slrlab.cli.console import Output, print_json, print_table, progress
from slrlab.cli.options import flag
from slrlab.experiments.claims import run_claims


@command(run_claims)
def claims(
    *,
    names: Annotated[
        list[str] | None, typer.Argument(help="Claims to check; default: all.", metavar="C1 …")
    ],
    details: Annotated[bool, flag("--details", "Show every comparison.")] = False,
    output: Output,
) -> bool:
    """Check the paper's claims: the numbers of both sides and a verdict with its margin.

    Example: slrlab claims C4 C7 --details
    """
    with progress("claims") as report:
        verdicts = run_claims(names, report=report)
    holds = all(verdict.holds for verdict in verdicts)
    if output.as_json:
        print_json({"holds": holds, "claims": [verdict.to_dict() for verdict in verdicts]})
        return holds
    rows = []
    for verdict in verdicts:
        for check in verdict.checks if details else (verdict.tightest,):
            left = f"{check.left_name} {check.left:.10g}"
            right = f"{check.right_name} {check.right:.10g}"
            outcome = "holds" if check.holds else "FAILS"
            comparison, margin = f"{left} {check.relation} {right}", f"{check.margin:.3g}"
            rows.append((verdict.name, outcome, check.case, comparison, margin))
    title = "Every comparison" if details else "Each claim at its tightest comparison"
    print_table(title, ("claim", "verdict", "case", "comparison", "margin"), rows)
    return holds
