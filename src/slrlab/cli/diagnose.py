"""The command `diagnose`: what the scores of a trained head say about its retrieval."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from slrlab.cli.app import command
from slrlab.cli.console import progress
from slrlab.cli.options import lengths, option
from slrlab.cli.table_output import TableOutput
from slrlab.experiments.diagnosis import diagnose_file
from slrlab.model.activations import Activation

_FILE = ".npz with scores and locations, or .csv or .parquet with sequence, score and relevant."


@command()
def diagnose(
    *,
    file: Annotated[Path, typer.Argument(help=_FILE, metavar="FILE")],
    activation: Activation,
    at: Annotated[Any, option("Lengths at which to predict.", lengths, "L,L,…")] = None,
    output: TableOutput,
) -> bool:
    """Scores of a trained head: effective signal, losses, best temperature, largest context.

    Scores are those that the activation receives; the locations of the relevant tokens are known.

    Example: slrlab diagnose head.npz --at 256,1024

    Example: slrlab diagnose head.csv --activation sigmoid --bias -4 --json
    """
    with progress("diagnosis") as report:
        result = diagnose_file(file, activation=activation, at=at or (), report=report)
    return output.table(result)
