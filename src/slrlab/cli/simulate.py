"""The command `simulate`: attention trained on simulated data."""

from __future__ import annotations

from typing import Annotated, Any

from slrlab import _checks
from slrlab.cli.app import command
from slrlab.cli.comparisons import print_erm
from slrlab.cli.console import Output, print_json, progress
from slrlab.cli.options import (
    ALPHA,
    RIDGE_K,
    RIDGE_V,
    SEED,
    TEST_SAMPLES,
    TOKEN_LAW,
    Sizes,
    default,
    flag,
    option,
    parser,
    whole,
)
from slrlab.experiments.comparison.dimensions import extrapolate_erm
from slrlab.experiments.comparison.training import compare_erm
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task
from slrlab.simulation.training.erm import STARTS, simulate_erm

_START = "informed: start at the teachers; random: at small random vectors."
_ALONE, _COMPARED = default(simulate_erm, "seeds"), default(compare_erm, "seeds")
_SEEDS = f"Runs, each on its own data; default {_ALONE}, with --compare {_COMPARED}."
_COMPARE = "Solve the theory too and test each difference."


def _start(text: str) -> str:
    return _checks.choice(text, "start", STARTS)


@command(simulate_erm)
def simulate(
    *,
    task: Task,
    activation: Activation,
    alpha: Annotated[float, ALPHA],
    sizes: Sizes,
    seeds: Annotated[int | None, option(_SEEDS, whole(1), "n")] = None,
    ridge_k: Annotated[float, RIDGE_K],
    ridge_v: Annotated[float, RIDGE_V],
    start: Annotated[str, option(_START, parser(_start), "informed|random", "--start", "--init")],
    seed: Annotated[int, SEED],
    test_samples: Annotated[int, TEST_SAMPLES],
    dtype: Annotated[str, option("Precision of the tokens.", str, "float32|float64")],
    token_law: Annotated[str, TOKEN_LAW],
    teacher: Annotated[str, option("Law of the teachers.", str, "normalised|gaussian")],
    max_steps: Annotated[int, option("Quasi-Newton steps at most.", whole(1), "n")],
    compare: Annotated[bool, flag("--compare", _COMPARE)] = False,
    output: Output,
) -> bool:
    """Attention trained on N = alpha·D simulated sequences: test risk and order parameters.

    Example: slrlab simulate --alpha 4 --dim 1000 --ridge-k 0.5 --ridge-v 0.8

    Example: slrlab simulate --alpha 4 --ridge-k 0.5 --ridge-v 0.8 --compare --dims 250,1000
    """
    if sizes.dims is not None and not compare:
        text = ",".join(map(str, sizes.dims))
        raise ValueError(f"dims must not be given without --compare, got {text}")
    options: dict[str, Any] = {
        "alpha": alpha,
        "ridge_k": ridge_k,
        "ridge_v": ridge_v,
        "seed": seed,
        "seeds": seeds or (_COMPARED if compare else _ALONE),
        "start": start,
        "test_samples": test_samples,
        "dtype": dtype,
        "token_law": token_law,
        "teacher": teacher,
        "max_steps": max_steps,
    }
    if compare:
        return _compare(task, activation, options | sizes.given, output)
    with progress("training") as report:
        result = simulate_erm(task, activation, report=report, **options, **sizes.given)
    errors = ", ".join(f"{name} {value:.2g}" for name, value in result.errors.items())
    runs = "; ".join(
        f"seed {run.seed}: {run.iterations} steps, |grad| {run.gradient_norm:.1e}, {run.status}"
        for run in result.runs
    )
    special = {"test_risk": str(result.risk), "errors": errors, "runs": runs}
    return output.result("Simulated training", result, special)


def _compare(task: Task, activation: Activation, options: dict[str, Any], output: Output) -> bool:
    """Run both sides and print them quantity by quantity."""
    _checks.integer(options["seeds"], "seeds", low=2)
    limits = None
    with progress("training and theory") as report:
        if "dims" in options:
            limits = extrapolate_erm(task, activation, report=report, **options)
            result = limits.comparisons[-1]
        else:
            result = compare_erm(task, activation, report=report, **options)
    if output.as_json:
        both = result.simulation.to_dict() | result.to_dict()
        del both["simulation"]  # its keys are those of the command without --compare
        print_json(both if limits is None else both | limits.to_dict())
    else:
        print_erm(result, limits, options["test_samples"])
    return result.status.usable
