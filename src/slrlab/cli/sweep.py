"""The command `sweep`: many points into one file of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slrlab._checks import MANY
from slrlab.cli.app import command
from slrlab.cli.console import Output, print_json, print_lines, print_problems, progress
from slrlab.cli.options import STORE, flag, option, whole
from slrlab.cli.results import print_points
from slrlab.experiments.running.store import Store
from slrlab.experiments.sweeps.computations import COMPUTATIONS
from slrlab.experiments.sweeps.definition import Sweep, read_sweep
from slrlab.experiments.sweeps.run import SweepSummary, run_sweep

_FILE = f"TOML file of the sweep; it can compute {', '.join(COMPUTATIONS)}."
_CLUSTER = "Dask scheduler instead of processes: tcp://host:port."
_SHOWN = 5  # problems named at the end of a sweep


@command(run_sweep)
def sweep(
    *,
    file: Annotated[Path, typer.Argument(help=_FILE, metavar="FILE")],
    store: Annotated[Path, STORE],
    workers: Annotated[int | None, option("Processes; default: the cores.", whole(1, MANY), "n")],
    cluster: Annotated[str | None, option(_CLUSTER, str, "ADDR")],
    retry_failed: Annotated[bool, flag("--retry-failed", "Compute failed points again.")],
    output: Output,
) -> bool:
    r"""Compute every point of a sweep that the store does not hold yet.

    Each point is kept the moment it is finished; stop it at any time and run it again. FILE says:

    compute = "population"
    seeds = 1
    \[settings]
    length = 3
    \[grid]
    signal = [1, 2, 4]
    activation = ["softmax", "linear"]

    Example: slrlab sweep curve.toml --store results/store.sqlite
    """
    definition = read_sweep(file)
    with progress("sweep") as report:
        summary = run_sweep(
            definition,
            store,
            workers=workers,
            cluster=cluster,
            retry_failed=retry_failed,
            report=report,
        )
    if output.as_json:
        print_json(summary.to_dict())
    else:
        _print_summary(definition, summary)
    problems = list(summary.problems[:_SHOWN])
    if summary.failed > _SHOWN:
        problems.append(f"{summary.failed - _SHOWN} more points failed; see slrlab results")
    if summary.failed_before:
        problems.append(f"{summary.failed_before} points failed before; --retry-failed tries again")
    print_problems(problems)
    return not (summary.failed or summary.failed_before)


def _print_summary(definition: Sweep, summary: SweepSummary) -> None:
    """Print the points of a sweep, how many of them ended and how, and the file of the store."""
    keys = {point.key for point in definition.expand()}
    with Store(summary.store) as base:
        frame = base.frame()
    if not frame.empty:
        print_points(frame[frame["key"].isin(keys)])
    counts = f"{summary.computed} computed now, {summary.points - summary.computed} there before"
    failed = summary.failed + summary.failed_before
    print_lines([f"{summary.points} points: {counts}, {failed} failed", summary.store])
