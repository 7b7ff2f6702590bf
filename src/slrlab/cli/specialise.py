"""The command `specialise`: how several heads divide the directions among them in training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from slrlab.cli.app import command
from slrlab.cli.console import Output, print_json, print_table, progress
from slrlab.cli.options import CSV, NOT_NEGATIVE, POSITIVE, SEED, HeadsAttention, option, whole
from slrlab.experiments.descent.specialisation import specialisation
from slrlab.model.heads import MultiHeadSLR

_HEADS = "Number of heads; default: one a direction."
_OVERLAP = "Standard deviation of overlaps of the start with the teachers, beside those of 1/√D."
_SAMPLES = "Sequences of the sample behind the flow."


@command(specialisation)
def specialise(
    *,
    task: MultiHeadSLR,
    attention: HeadsAttention,
    number: Annotated[int | None, option(_HEADS, whole(1), "H", "--heads")] = None,
    dim: Annotated[int, option("Dimensions D.", whole(4), "D")],
    rate: Annotated[float, option("Learning rate η; a step takes the time η/D.", POSITIVE, "η")],
    time: Annotated[float, option("End of training.", POSITIVE, "t")],
    size: Annotated[float, option("Standard deviation of the start.", POSITIVE, "s")],
    overlap: Annotated[float, option(_OVERLAP, NOT_NEGATIVE, "s")],
    samples: Annotated[int, option(_SAMPLES, whole(64), "n")],
    seeds: Annotated[int, option("Number of runs.", whole(1), "n")],
    seed: Annotated[int, SEED],
    csv: Annotated[Path | None, CSV] = None,
    output: Output,
) -> bool:
    """Stages of training several heads: online SGD in D dimensions, and the flow of its overlaps.

    All heads first align with the mean of the directions; then heads take one direction after the
    other. Prints when, and by which head, for SGD and for the flow from the same start.

    Example: slrlab specialise --signals 12,6,3 --activation bayes-softmax --dim 200 --time 40

    Example: slrlab specialise --signals 16,6 --activation bayes-softmax --overlap 0.03 --time 16

    Example: slrlab specialise --signals 25,9 --dim 200 --time 20 --heads 3 --csv paths.csv
    """
    with progress("training heads") as report:
        result = specialisation(
            task,
            attention.made,
            heads=task.directions if number is None else number,
            dim=dim,
            rate=rate,
            time=time,
            size=size,
            overlap=overlap,
            samples=samples,
            seeds=seeds,
            seed=seed,
            report=report,
        )
    if csv is not None:
        result.to_frame().to_csv(csv, index=False)
    if output.as_json:
        print_json(result.to_dict() | ({} if csv is None else {"csv": str(csv)}))
        return result.status.usable
    rows = [
        (str(run.seed), method, f"{path.risk[-1]:.4f}", str(stages))
        for run in result.runs
        for method, path, stages in (
            ("SGD", run.descent, run.stages),
            ("flow", run.flow, run.predicted),
        )
    ]
    print_table(str(result), ("seed", "method", "risk", "stages"), rows)
    return result.status.usable
