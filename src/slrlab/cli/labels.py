"""The command `labels`: what labelled locations are worth."""

from __future__ import annotations

from typing import Annotated, Any

from slrlab.cli.app import command
from slrlab.cli.console import progress
from slrlab.cli.options import POSITIVE, RISK_ERROR, SEED, listed, option, whole
from slrlab.cli.table_output import TableOutput
from slrlab.experiments.comparison.labels import ALPHAS, labels_worth
from slrlab.model.tasks import Task


@command(labels_worth)
def labels(
    *,
    task: Task,
    alpha: Annotated[
        Any, option("Labelled sequences per dimension.", listed(POSITIVE), "α,α,…")
    ] = ",".join(f"{value:g}" for value in ALPHAS),
    loss: Annotated[str, option("Loss of the locations.", str, "cross entropy|least squares")],
    dim: Annotated[int, option("Dimensions D.", whole(2), "D")],
    seeds: Annotated[int, option("Datasets for each alpha.", whole(2), "n")],
    seed: Annotated[int, SEED],
    tolerance: Annotated[float, RISK_ERROR],
    output: TableOutput,
) -> bool:
    """Keys fitted to labelled locations, beside training from y alone.

    The overlap is the squared cosine of the keys with their teacher. A label is worth as many y as
    training needs for the same overlap. Risks are those after the values are fitted by a ridge
    regression; all ridges are the best of a grid.

    Example: slrlab labels --signal 2 --length 3 --alpha 1,4
    """
    with progress("labels and theory") as report:
        result = labels_worth(
            task,
            alpha=alpha,
            dim=dim,
            loss=loss,
            seeds=seeds,
            seed=seed,
            tolerance=tolerance,
            workers=None,
            report=report,
        )
    return output.table(result, f"± one standard error over {seeds} datasets of dimension {dim}")
