"""The command `compare`: activations side by side, with the best predictor."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slrlab.cli.console import print_json, print_table, progress
from slrlab.cli.options import JsonOption, NoiseOption, TaskOption, number, whole

if TYPE_CHECKING:
    from slrlab.experiments.activations import ActivationComparison

Signals = Annotated[
    list[str], typer.Option("--signal", help="Signal strength ν ≥ 0; repeatable.", metavar="ν")
]
Lengths = Annotated[
    list[str], typer.Option("--length", help="Sequence length; repeatable.", metavar="L")
]
Activations = Annotated[
    list[str],
    typer.Option("--activation", help="Name or expression; repeatable.", metavar="NAME_or_EXPR"),
]
Alphas = Annotated[
    list[str],
    typer.Option(
        "--alpha",
        help="Samples per dimension, N/D > 0; inf: infinite data; repeatable.",
        metavar="α",
    ),
]
_RIDGE = "Ridge of the training; default: that of least test risk."


def compare(
    task: TaskOption = "spiked",
    signal: Signals = ["2"],  # noqa: B006
    length: Lengths = ["3"],  # noqa: B006
    noise: NoiseOption = "0",
    activation: Activations = ["softmax", "linear", "erf", "softplus"],  # noqa: B006
    alpha: Alphas = ["inf"],  # noqa: B006
    ridge_k: Annotated[str | None, typer.Option("--ridge-k", help=_RIDGE, metavar="r")] = None,
    ridge_v: Annotated[str | None, typer.Option("--ridge-v", help=_RIDGE, metavar="r")] = None,
    tolerance: Annotated[
        str,
        typer.Option("--tolerance", help="Error asked of the risk after training.", metavar="t"),
    ] = "1e-3",
    seed: Annotated[str, typer.Option("--seed", help="Seed of the sample.", metavar="n")] = "0",
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Write a CSV file.", metavar="FILE")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw the risks: .png, .pdf or .svg.", metavar="FILE"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Activations side by side, beside the best predictor; repeat an option for several values.

    Example: slrlab compare --signal 9 --length 10

    Example: slrlab compare --activation softmax --activation linear --alpha 4 --alpha 16
    """
    from slrlab.experiments.activations import compare as compare_activations
    from slrlab.model.tasks import make_task

    ridges, spread = "a finite number >= 0", number(noise, "noise", "a finite number >= 0")
    strengths = [number(item, "signal", "a number >= 0 or inf") for item in signal]
    samples = [number(item, "alpha", "a number > 0 or inf") for item in alpha]
    _check_target(csv, "csv", (".csv",))
    _check_target(plot, "plot", (".png", ".pdf", ".svg"))
    with progress() as report:
        found = compare_activations(
            [
                make_task(task, signal=strength, length=law, noise=spread)
                for strength in strengths
                for law in length
            ],
            activation,
            alpha=samples,
            ridge_k=None if ridge_k is None else number(ridge_k, "ridge_k", ridges),
            ridge_v=None if ridge_v is None else number(ridge_v, "ridge_v", ridges),
            tolerance=number(tolerance, "tolerance", "a finite number > 0"),
            seed=whole(seed, "seed"),
            # with infinite data a row takes less time than a process to start
            workers=1 if all(map(math.isinf, samples)) else None,
            report=report,
        )
    if as_json:
        print_json(found.to_dict())
    else:
        print_table(str(found), *found.table())
    if csv is not None:
        found.to_frame().to_csv(csv, index=False)
    if plot is not None:
        _draw(found, plot)
    if not found.status.usable:
        raise typer.Exit(1)


def _check_target(path: Path | None, name: str, kinds: tuple[str, ...]) -> None:
    """Refuse a file that cannot be written, before any work."""
    if path is not None and not (path.parent.is_dir() and path.suffix in kinds):
        accepted = f"a file that ends with {', '.join(kinds)} in a folder that exists"
        raise ValueError(f"{name} must be {accepted}, got {path}")


def _draw(found: ActivationComparison, path: Path) -> None:
    import matplotlib as mpl

    from slrlab.figures.style import house_style

    with mpl.rc_context({"backend": "agg"}), house_style():
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
        found.plot(axes)
        figure.savefig(path)
        plt.close(figure)
