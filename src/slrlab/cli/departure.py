"""The command `departure`: where softmax stops being optimal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from slrlab.cli.app import command
from slrlab.cli.console import progress
from slrlab.cli.options import LENGTH, NOISE, NUMBERS, SIGNAL, option
from slrlab.cli.table_output import TableOutput
from slrlab.experiments.departures import DIRECTIONS
from slrlab.experiments.departures import departure as along

_VALUES = "Values of the parameter; default: a range that includes spiked-SLR."
_ACTIVATION = "Only these activations compete with softmax; repeatable. Default: the whole atlas."


@command(along)
def departure(
    *,
    direction: Annotated[
        str, typer.Argument(help=f"{', '.join(DIRECTIONS)}.", metavar="DIRECTION")
    ],
    values: Annotated[Any, option(_VALUES, NUMBERS, "x,x,…")],
    signal: Annotated[float, SIGNAL],
    length: Annotated[Any, LENGTH],
    noise: Annotated[float, NOISE],
    activation: Annotated[list[str] | None, option(_ACTIVATION, str, "NAME_or_EXPR")] = None,
    output: TableOutput,
) -> bool:
    """Bayes risk, softmax and the best activation of the atlas, away from the paper's task.

    similarity: one other token, a hard negative, is shifted by τ√ν. needles: J relevant tokens.
    variance: of the relevant score. Infinite data.

    Example: slrlab departure needles --values 1,2,3 --activation sigmoid

    Example: slrlab departure similarity --signal 9 --length 10 --csv similarity.csv
    """
    with progress(f"risks against {direction}") as report:
        result = along(
            direction,
            values,
            signal=signal,
            length=length,
            noise=noise,
            activations=activation,
            workers=None,
            report=report,
        )
    return output.table(result)
