"""The command `amp`: message passing on simulated data."""

from __future__ import annotations

from typing import Annotated, Any

from slrlab.cli.app import command
from slrlab.cli.comparisons import print_amp
from slrlab.cli.console import Output, print_json, progress
from slrlab.cli.options import ALPHA, SEED, TEST_SAMPLES, Sizes, option, whole
from slrlab.experiments.comparison.amp import compare_amp
from slrlab.experiments.comparison.dimensions import extrapolate_amp
from slrlab.model.tasks import Task
from slrlab.simulation.message_passing.amp import run_amp


@command(compare_amp, run_amp)
def amp(
    *,
    task: Task,
    alpha: Annotated[float, ALPHA],
    sizes: Sizes,
    seeds: Annotated[int, option("Runs, each on its own data.", whole(1), "n")],
    seed: Annotated[int, SEED],
    steps: Annotated[int, option("Iterations.", whole(1), "n")],
    test_samples: Annotated[int, TEST_SAMPLES],
    output: Output,
) -> bool:
    """Message passing on N = alpha·D simulated sequences, beside its state evolution.

    Example: slrlab amp --alpha 2 --noise 0.3 --dim 1000

    Example: slrlab amp --alpha 2 --noise 0.3 --dims 250,1000
    """
    options: dict[str, Any] = {"seeds": seeds, "seed": seed, "steps": steps}
    options |= {"alpha": alpha, "test_samples": test_samples} | sizes.given
    limits = None
    with progress("message passing") as report:
        if sizes.dims is None:
            result = compare_amp(task, report=report, **options)
        else:
            limits = extrapolate_amp(task, report=report, **options)
            result = limits.comparisons[-1]
    if output.as_json:
        print_json(result.to_dict() | ({} if limits is None else limits.to_dict()))
    else:
        print_amp(result, limits)
    return result.status.usable
