"""The command `compare`: activations side by side, with the best predictor."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Protocol

from slrlab._result import Status
from slrlab._types import Axes, DataFrame
from slrlab.cli.app import command
from slrlab.cli.console import Output, print_json, print_table, progress
from slrlab.cli.options import (
    ACTIVATION,
    ANY_ALPHA,
    BEST_RIDGE,
    CSV,
    LENGTH,
    NOISE,
    PLOT,
    RISK_ERROR,
    SEED,
    SIGNAL,
    TASK,
    default,
)
from slrlab.experiments.activations import compare as compare_activations
from slrlab.model.tasks import make_task


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
    csv: Annotated[Path | None, CSV] = None,
    plot: Annotated[Path | None, PLOT] = None,
    output: Output,
) -> bool:
    """Activations side by side, beside the best predictor.

    Repeat --signal, --length, --activation or --alpha for several values.

    Example: slrlab compare --signal 9 --length 10

    Example: slrlab compare --activation softmax --activation linear --alpha 4 --alpha 16
    """
    check_target(csv, "csv", (".csv",))
    check_target(plot, "plot", (".png", ".pdf", ".svg"))
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
    return show(result, output, csv, plot)


class Shown(Protocol):
    """A result with rows for people, a table and a picture."""

    @property
    def status(self) -> Status: ...
    def to_dict(self) -> dict[str, Any]: ...
    def to_frame(self) -> DataFrame: ...
    def table(self) -> tuple[list[str], list[list[str]]]: ...
    def plot(self, ax: Axes | None = None) -> Axes: ...


def show(result: Shown, output: Output, csv: Path | None, plot: Path | None) -> bool:
    """Print a result, write its table and its picture; return whether it is usable."""
    if output.as_json:
        print_json(result.to_dict())
    else:
        print_table(str(result), *result.table())
    if csv is not None:
        result.to_frame().to_csv(csv, index=False)
    if plot is not None:
        _draw(result, plot)
    return result.status.usable


def check_target(path: Path | None, name: str, kinds: tuple[str, ...]) -> None:
    """Refuse a file that cannot be written, before any work."""
    if path is not None and not (path.parent.is_dir() and path.suffix in kinds):
        accepted = f"a file that ends with {', '.join(kinds)} in a folder that exists"
        raise ValueError(f"{name} must be {accepted}, got {path}")


def _draw(result: Shown, path: Path) -> None:
    """Draw a result into a file."""
    import matplotlib as mpl

    from slrlab.figures.style import house_style

    with mpl.rc_context({"backend": "agg"}), house_style():
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
        result.plot(axes)
        figure.savefig(path)
        plt.close(figure)
