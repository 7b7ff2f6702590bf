"""The command `compare`: activations side by side, with the best predictor."""

from __future__ import annotations

import math
from typing import Annotated, Any

from slrlab.cli.app import command
from slrlab.cli.console import progress
from slrlab.cli.options import (
    ACTIVATION,
    ANY_ALPHA,
    BEST_RIDGE,
    LENGTH,
    NOISE,
    RISK_ERROR,
    SEED,
    SIGNAL,
    TASK,
    default,
)
from slrlab.cli.table_output import TableOutput
from slrlab.experiments.atlas.activations import compare as compare_activations
from slrlab.model.task_registry import make_task


@command(
    compare_activations,
    make_task,
    signal=[2.0],
    length=[3],
    activation=list(default(compare_activations, "activations")),
    alpha=[default(compare_activations, "alpha")],
)
def compare(
    *,
    task: Annotated[str, TASK] = "spiked",
    signal: Annotated[list[float], SIGNAL],
    length: Annotated[list[Any], LENGTH],
    noise: Annotated[float, NOISE],
    activation: Annotated[list[str], ACTIVATION],
    alpha: Annotated[list[float], ANY_ALPHA],
    ridge_k: Annotated[float | None, BEST_RIDGE],
    ridge_v: Annotated[float | None, BEST_RIDGE],
    tolerance: Annotated[float, RISK_ERROR],
    seed: Annotated[int, SEED],
    output: TableOutput,
) -> bool:
    """Activations side by side, beside the best predictor.

    Repeat --signal, --length, --activation or --alpha for several values.

    Example: slrlab compare --signal 9 --length 10

    Example: slrlab compare --activation softmax --activation linear --alpha 4 --alpha 16
    """
    with progress() as report:
        result = compare_activations(
            [
                make_task(task, signal=strength, length=law, noise=noise)
                for strength in signal
                for law in length
            ],
            activation,
            alpha=alpha,
            ridge_k=ridge_k,
            ridge_v=ridge_v,
            tolerance=tolerance,
            seed=seed,
            # with infinite data a row takes less time than a process to start
            workers=1 if all(map(math.isinf, alpha)) else None,
            report=report,
        )
    return output.table(result)
