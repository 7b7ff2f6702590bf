"""The command `flow`: gradient flow with infinite data, as a table of its path and a film."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from slrlab import _checks
from slrlab._result import as_text
from slrlab.cli.app import command
from slrlab.cli.console import Output, print_json, print_table, progress
from slrlab.cli.options import POSITIVE, RESULTS, SEED, default, given, option, parser
from slrlab.model.activations import Activation
from slrlab.model.order_parameters import OVERLAPS
from slrlab.model.tasks import Task
from slrlab.theory.landscape import gradient_flow, sgd_flow
from slrlab.theory.landscape.path import COLUMNS, STARTS, Flow

_START = (
    "random (small), matched (k along k*, v along v*), mismatched (k along v*, v along k*), or k "
    "and v in R⁴ on (k*, v*, two free directions): eight numbers."
)
_SIZE = "Size of a named start; default 0.1 if random, else 2 for k and 0.5 for v."
_TIME = (
    f"When to stop at the latest; default {default(gradient_flow, 'time'):g}, of SGD "
    f"{default(sgd_flow, 'time'):g}."
)
_TOLERANCE = (
    f"Stop when the gradient is shorter (default {default(gradient_flow, 'tolerance'):g}), or no "
    f"overlap changes faster under SGD ({default(sgd_flow, 'tolerance'):g})."
)
_END = ("minimum", "destination", "gradient_norm", "evaluations", "status", "method", "rate")
_SETTING = ("task", "signal", "length", "noise", "activation")
_SGD_RATE = "Follow online SGD at this rate, noise included, instead of gradient flow."


def read_start(text: str) -> str | tuple[list[float], list[float]]:
    """Return the name of a start, or vectors ``k`` and ``v``."""
    if text in STARTS:
        return text
    parts = text.split(",")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) != 8:
        accepted = f"{', '.join(STARTS)} or eight numbers k1,k2,k3,k4,v1,v2,v3,v4"
        _checks.fail("start", accepted, text)
    return numbers[:4], numbers[4:]


@command(gradient_flow)
def flow(
    *,
    task: Task,
    activation: Activation,
    start: Annotated[Any, option(_START, parser(read_start), f"{'|'.join(STARTS)}|k1,…,v4")],
    size: Annotated[float | None, option(_SIZE, POSITIVE, "s")],
    seed: Annotated[int, SEED],
    time: Annotated[float | None, option(_TIME, POSITIVE, "t")] = None,
    tolerance: Annotated[float | None, option(_TOLERANCE, POSITIVE, "g")] = None,
    sgd_rate: Annotated[float | None, option(_SGD_RATE, POSITIVE, "η")] = None,
    out: Annotated[Path, option("CSV file for the path.", Path, "FILE.csv")] = RESULTS / "flow.csv",
    animate: Annotated[
        Path | None, option("Film of the path over the risk.", Path, "FILE.gif")
    ] = None,
    output: Output,
) -> bool:
    """Training with infinite data: the path of its flow, and the minimum it leads to.

    Order parameters and risk at every step go to a CSV file. Exit code 1 if the vectors grow
    without bound.

    Example: slrlab flow --length 10 --start mismatched

    Example: slrlab flow --start 0.5,0.4,0.3,0,0.1,0.2,0,0.1 --time 50 --animate flow.gif

    Example: slrlab flow --start matched --size 0.5 --sgd-rate 0.2 --time 20
    """
    from slrlab.figures.animation import animate_flow, check_suffix

    follow: Any = gradient_flow
    if sgd_rate is not None:
        follow = partial(sgd_flow, rate=_checks.positive(sgd_rate, "sgd_rate"))
    if animate is not None:
        check_suffix(animate, "animate")
        check_writable(animate)
    check_writable(out)
    options = given(start=start, size=size, seed=seed, time=time, tolerance=tolerance)
    with progress("flow") as report:
        path: Flow = follow(task, activation, report=report, **options)
        _write(path, out)
        files = {"trajectory": str(out)}
        if animate is not None:
            animate_flow(path, animate, report=report)
            files["animation"] = str(animate)
    _show(path, files, output)
    return path.status.usable


def check_writable(path: Path) -> None:
    """Raise OSError now if a file cannot be written later; nothing is left behind.

    Permissions do not cover read-only and virtual file systems or names that are too long, so the
    folders and the file are made and removed again.
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


def _write(flow: Flow, out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", newline="", encoding="utf-8") as file:  # pandas takes long to import
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        rows.writerows(zip(*(getattr(flow, name).tolist() for name in COLUMNS), strict=True))


def _show(flow: Flow, files: dict[str, str], output: Output) -> None:
    whole = flow.to_dict()
    shown = {"time": whole["times"][-1]}
    shown |= {name: whole[name][-1] for name in (*OVERLAPS, "bias", "risk")}
    shown |= {name: whole[name] for name in (*_END, *_SETTING)} | files
    if output.as_json:
        print_json(shown)
        return
    if flow.destination is not None:
        shown["destination"] = str(flow.destination)
    rows = [(name, as_text(value)) for name, value in shown.items()]
    print_table("Where training goes", ("quantity", "value"), rows)
