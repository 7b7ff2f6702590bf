"""The commands `simulate` and `amp`: learning from data drawn here and now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from slrlab.cli.comparisons import print_amp, print_erm
from slrlab.cli.console import print_json, print_result, progress
from slrlab.cli.options import (
    ActivationOption,
    AlphaOption,
    BiasOption,
    JsonOption,
    LengthOption,
    NoiseOption,
    RidgeKOption,
    RidgeVOption,
    SignalOption,
    TaskOption,
    number,
    read_activation,
    read_task,
    whole,
)

if TYPE_CHECKING:
    from slrlab.model.activations import Activation
    from slrlab.model.tasks import Task

_DIM, _SEEDS, _SEEDS_COMPARED = "1000", "4", "16"

DimOption = Annotated[
    str | None,
    typer.Option(
        "--dim", help=f"Dimensions D; default {_DIM}. The paper's size is 10⁴/√α.", metavar="D"
    ),
]
DimsOption = Annotated[
    str | None,
    typer.Option(
        "--dims",
        help="Several dimensions, such as 250,1000: compare at each, and as D → ∞ by fitting "
        "a + b/D.",
        metavar="D,D,…",
    ),
]
SeedOption = Annotated[str, typer.Option("--seed", help="Seed of the first run.", metavar="n")]
TestOption = Annotated[
    str,
    typer.Option("--test-samples", help="Fresh sequences that measure the risk.", metavar="n"),
]


def simulate(
    task: TaskOption = "spiked",
    signal: SignalOption = "2",
    length: LengthOption = "3",
    noise: NoiseOption = "0",
    activation: ActivationOption = "softmax",
    bias: BiasOption = None,
    alpha: AlphaOption = None,
    dim: DimOption = None,
    dims: DimsOption = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            "--seeds",
            help=f"Runs, each on its own data; default {_SEEDS}, with --compare {_SEEDS_COMPARED}.",
            metavar="n",
        ),
    ] = None,
    ridge_k: RidgeKOption = None,
    ridge_v: RidgeVOption = None,
    init: Annotated[
        str,
        typer.Option(
            "--init",
            help="informed: start at the teachers; random: at small random vectors.",
            metavar="informed|random",
        ),
    ] = "informed",
    seed: SeedOption = "0",
    test_samples: TestOption = "20000",
    dtype: Annotated[
        str, typer.Option("--dtype", help="Precision of the tokens.", metavar="float32|float64")
    ] = "float32",
    teacher: Annotated[
        str,
        typer.Option("--teacher", help="Law of the teachers.", metavar="normalised|gaussian"),
    ] = "normalised",
    max_steps: Annotated[
        str, typer.Option("--max-steps", help="Quasi-Newton steps at most.", metavar="n")
    ] = "2000",
    compare: Annotated[
        bool, typer.Option("--compare", help="Solve the theory too and test each difference.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Attention trained on N = alpha·D simulated sequences: test risk and order parameters.

    Example: slrlab simulate --alpha 4 --dim 1000 --ridge-k 0.5 --ridge-v 0.8

    Example: slrlab simulate --alpha 4 --ridge-k 0.5 --ridge-v 0.8 --compare --dims 250,1000
    """
    accepted = "a finite number >= 0"
    chosen_task, chosen = read_task(task, signal, length, noise), read_activation(activation, bias)
    given: dict[str, Any] = {
        "alpha": number(alpha, "alpha", "a finite number > 0"),
        "ridge_k": number(ridge_k, "ridge_k", accepted),
        "ridge_v": number(ridge_v, "ridge_v", accepted),
        "seed": whole(seed, "seed"),
        "init": init,
        "dtype": dtype,
        "teacher": teacher,
        "max_steps": whole(max_steps, "max_steps", low=1),
        "test_samples": whole(test_samples, "test_samples"),
    }
    if dims is not None and not compare:
        raise ValueError(f"dims must be left out without --compare, got {dims}")
    given |= _sizes(dim, dims)
    count = seeds or (_SEEDS_COMPARED if compare else _SEEDS)
    given["seeds"] = whole(count, "seeds", low=2 if compare else 1)
    if compare:
        _compare(chosen_task, chosen, given, as_json)
        return
    from slrlab.simulation.training.erm import simulate_erm

    with progress("training") as report:
        result = simulate_erm(chosen_task, chosen, report=report, **given)
    errors = ", ".join(f"{name} {value:.2g}" for name, value in result.errors.items())
    runs = "; ".join(
        f"seed {run.seed}: {run.iterations} steps, |grad| {run.gradient_norm:.1e}, {run.status}"
        for run in result.runs
    )
    special = {"test_risk": str(result.risk), "errors": errors, "runs": runs}
    print_result("Simulated training", result, as_json, special)


def _sizes(dim: str | None, dims: str | None) -> dict[str, Any]:
    """Return one dimension, or several to extrapolate from."""
    if dims is None:
        return {"dim": whole(dim or _DIM, "dim", low=2)}
    if dim is not None:
        raise ValueError(f"dim must be left out with --dims, got {dim}")
    return {"dims": [whole(text, "dims", low=2) for text in dims.split(",")]}


def _compare(task: Task, activation: Activation, given: dict[str, Any], as_json: bool) -> None:
    """Run both sides and print them quantity by quantity."""
    from slrlab.experiments.comparison import compare_erm
    from slrlab.experiments.dimensions import extrapolate_erm

    limits = None
    with progress("training and theory") as report:
        if "dims" in given:
            limits = extrapolate_erm(task, activation, report=report, **given)
            found = limits.comparisons[-1]
        else:
            found = compare_erm(task, activation, report=report, **given)
    if as_json:
        both = found.simulation.to_dict() | found.to_dict()
        del both["simulation"]  # its keys are those of the command without --compare
        print_json(both if limits is None else both | limits.to_dict())
    else:
        print_erm(found, limits, given["test_samples"])
    if not found.status.usable:
        raise typer.Exit(1)


def amp(
    task: TaskOption = "spiked",
    signal: SignalOption = "2",
    length: LengthOption = "3",
    noise: NoiseOption = "0",
    alpha: AlphaOption = None,
    dim: DimOption = None,
    dims: DimsOption = None,
    seeds: Annotated[
        str, typer.Option("--seeds", help="Runs, each on its own data.", metavar="n")
    ] = _SEEDS_COMPARED,
    seed: SeedOption = "0",
    steps: Annotated[str, typer.Option("--steps", help="Iterations.", metavar="n")] = "20",
    test_samples: TestOption = "20000",
    as_json: JsonOption = False,
) -> None:
    """Message passing on N = alpha·D simulated sequences, beside its state evolution.

    Example: slrlab amp --alpha 2 --noise 0.3 --dim 1000

    Example: slrlab amp --alpha 2 --noise 0.3 --dims 250,1000
    """
    from slrlab.experiments.amp import compare_amp
    from slrlab.experiments.dimensions import extrapolate_amp

    chosen = read_task(task, signal, length, noise)
    given: dict[str, Any] = {
        "alpha": number(alpha, "alpha", "a finite number > 0"),
        **_sizes(dim, dims),
        "seeds": whole(seeds, "seeds", low=1 if dims is None else 2),
        "seed": whole(seed, "seed"),
        "steps": whole(steps, "steps", low=1),
        "test_samples": whole(test_samples, "test_samples"),
    }
    limits = None
    with progress("message passing") as report:
        if dims is None:
            result = compare_amp(chosen, report=report, **given)
        else:
            limits = extrapolate_amp(chosen, report=report, **given)
            result = limits.comparisons[-1]
    if as_json:
        print_json(result.to_dict() if limits is None else result.to_dict() | limits.to_dict())
    else:
        print_amp(result, limits)
    if not result.status.usable:
        raise typer.Exit(1)
