"""The command `bayes`: the best that any predictor can do with finite data."""

from __future__ import annotations

from typing import Annotated

from slrlab.cli.app import command
from slrlab.cli.console import Output, waiting
from slrlab.cli.options import ALPHA, flag
from slrlab.model.tasks import Task
from slrlab.theory.bayes_optimal import bayes_optimal, bayes_thresholds


@command()
def bayes(
    *,
    task: Task,
    alpha: Annotated[float | None, ALPHA] = None,
    thresholds: Annotated[
        bool, flag("--thresholds", "The thresholds in alpha instead of a risk.")
    ] = False,
    output: Output,
) -> bool:
    """Risk of the best predictor from N = alpha·D samples, and the risk that AMP reaches.

    Example: slrlab bayes --signal 2 --length 3 --alpha 1.1
    """
    if thresholds and alpha is not None:
        raise ValueError(f"alpha must not be given with --thresholds, got {alpha:g}")
    with waiting(f"Bayes-optimal {task.name}-SLR"):
        if thresholds:
            return output.result("Bayes-optimal thresholds", bayes_thresholds(task))
        if alpha is None:
            raise ValueError("alpha must be a finite number > 0, got nothing")
        return output.result("Bayes-optimal risk", bayes_optimal(task, alpha=alpha))
