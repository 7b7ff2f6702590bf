"""The command `flow`: where training goes, as a file of its path and a picture that moves."""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slrlab import _checks
from slrlab.cli.console import print_json, print_table, progress
from slrlab.cli.options import (
    ActivationOption,
    BiasOption,
    JsonOption,
    LengthOption,
    NoiseOption,
    SignalOption,
    TaskOption,
    number,
    read_activation,
    read_task,
    whole,
)

if TYPE_CHECKING:
    from slrlab.theory.landscape.path import Flow

_POSITIVE = "a finite number > 0"


def flow(
    task: TaskOption = "spiked",
    signal: SignalOption = "2",
    length: LengthOption = "3",
    noise: NoiseOption = "0",
    activation: ActivationOption = "softmax",
    bias: BiasOption = None,
    start: Annotated[
        str,
        typer.Option(
            "--start",
            help="random (small), matched (k along k*, v along v*), mismatched (k along v*, v "
            "along k*), or k and v in R⁴ on (k*, v*, two free directions): eight numbers.",
            metavar="random|matched|mismatched|k1,…,v4",
        ),
    ] = "random",
    size: Annotated[
        str | None,
        typer.Option(
            "--size",
            help="Size of a named start; default 0.1 if random, else 2 for k and 0.5 for v.",
            metavar="s",
        ),
    ] = None,
    seed: Annotated[str, typer.Option("--seed", help="Seed of a random start.", metavar="n")] = "0",
    time: Annotated[
        str | None,
        typer.Option(
            "--time", help="When to stop at the latest; default 1e5, of SGD 100.", metavar="t"
        ),
    ] = None,
    tolerance: Annotated[
        str | None,
        typer.Option(
            "--tolerance",
            help="Stop when the gradient is shorter (default 1e-6), or no overlap changes faster "
            "under SGD (1e-5).",
            metavar="g",
        ),
    ] = None,
    sgd_rate: Annotated[
        str | None,
        typer.Option(
            "--sgd-rate",
            help="Follow online SGD at this rate, noise included, instead of gradient flow.",
            metavar="η",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", help="CSV file for the path.", metavar="FILE.csv")
    ] = Path("results/flow.csv"),
    animate: Annotated[
        Path | None,
        typer.Option("--animate", help="Film of the path over the risk.", metavar="FILE.gif"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Training with infinite data: the path of its flow, and the minimum it leads to.

    Order parameters and risk at every step go to a CSV file. Exit code 1 if the vectors grow
    without bound.

    Example: slrlab flow --length 10 --start mismatched

    Example: slrlab flow --start 0.5,0.4,0.3,0,0.1,0.2,0,0.1 --time 50 --animate flow.gif

    Example: slrlab flow --start matched --size 0.5 --sgd-rate 0.2 --time 20
    """
    from slrlab.theory.landscape import gradient_flow

    chosen_task, chosen = read_task(task, signal, length, noise), read_activation(activation, bias)
    given: dict[str, Any] = {
        "start": read_start(start),
        "size": None if size is None else number(size, "size", _POSITIVE),
        "seed": whole(seed, "seed"),
    }
    for name, text in (("time", time), ("tolerance", tolerance)):
        if text is not None:
            given[name] = number(text, name, _POSITIVE)
    follow: Callable[..., Flow] = gradient_flow
    if sgd_rate is not None:
        from slrlab.theory.landscape import sgd_flow

        rate = _checks.positive(number(sgd_rate, "sgd_rate", _POSITIVE), "sgd_rate")
        follow = partial(sgd_flow, rate=rate)
    if animate is not None:
        from slrlab.figures.animation import check_suffix

        check_suffix(animate, "animate")
        check_writable(animate)
    check_writable(out)
    with progress("flow") as report:
        found = follow(chosen_task, chosen, report=report, **given)
        _write(found, out)
        files = {"trajectory": str(out)}
        if animate is not None:
            from slrlab.figures.animation import animate_flow

            animate_flow(found, animate, report=report)
            files["animation"] = str(animate)
    _show(found, files, as_json)
    if not found.status.usable:
        raise typer.Exit(1)


def read_start(text: str) -> str | tuple[list[float], list[float]]:
    """Return the name of a start, or vectors ``k`` and ``v``."""
    from slrlab.theory.landscape.path import STARTS

    if text in STARTS:
        return text
    parts = text.split(",")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) != 8:
        accepted = f"{', '.join(STARTS)} or eight numbers k1,k2,k3,k4,v1,v2,v3,v4"
        raise ValueError(f"start must be {accepted}, got {text or repr(text)}")
    return numbers[:4], numbers[4:]


def check_writable(path: Path) -> None:
    """Raise OSError now if a file cannot be written later; nothing is left behind.

    Permissions do not say it all (read-only and virtual file systems, names that are too long), so
    the folders and the file are made for a moment.
    """
    there, made = path.exists(), []
    try:
        for folder in reversed(path.parents):
            if not folder.exists():
                folder.mkdir()
                made.append(folder)
        with path.open("ab"):
            pass
        if not there:
            path.unlink()
    finally:
        for folder in reversed(made):
            folder.rmdir()


def _write(found: Flow, out: Path) -> None:
    from slrlab.theory.landscape.path import COLUMNS

    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        rows.writerows(zip(*(getattr(found, name).tolist() for name in COLUMNS), strict=True))


def _show(found: Flow, files: dict[str, str], as_json: bool) -> None:
    from slrlab.theory.landscape.path import OVERLAPS

    whole_path = found.to_dict()
    last = {name: whole_path[name][-1] for name in (*OVERLAPS, "bias", "risk")}
    kept = ("minimum", "destination", "gradient_norm", "evaluations", "status")
    setting = ("method", "rate", "task", "signal", "length", "noise", "activation")
    shown = {"time": whole_path["times"][-1], **last}
    shown |= {name: whole_path[name] for name in (*kept, *setting)} | files
    if as_json:
        print_json(shown)
        return
    if found.destination is not None:
        shown["destination"] = str(found.destination)
    rows = [
        (name, f"{value:.6g}" if isinstance(value, float) else str(value))
        for name, value in shown.items()
    ]
    print_table("Where training goes", ("quantity", "value"), rows)
