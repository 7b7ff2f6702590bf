"""The commands `sweep` and `results`: many points into one file, and what is in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slrlab._result import plain
from slrlab.cli.console import (
    print_json,
    print_lines,
    print_problems,
    print_table,
    progress,
)
from slrlab.cli.options import JsonOption, whole
from slrlab.experiments.sweeps.computations import COMPUTATIONS

if TYPE_CHECKING:
    import pandas as pd

    from slrlab.experiments.sweeps.definition import Sweep
    from slrlab.experiments.sweeps.run import SweepSummary

StoreOption = Annotated[
    Path, typer.Option("--store", help="SQLite file of results.", metavar="FILE")
]
_DEFAULT = Path("results/store.sqlite")
_TOLD = 5  # problems named at the end of a sweep
_SHOWN = 40  # rows of a listing on the terminal


def sweep(
    file: Annotated[Path, typer.Argument(help="TOML file of the sweep.", metavar="FILE")],
    store: StoreOption = _DEFAULT,
    workers: Annotated[
        str | None,
        typer.Option("--workers", help="Processes; default: the cores.", metavar="n"),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            help="Dask scheduler instead of processes: tcp://host:port.",
            metavar="ADDR",
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Compute failed points again.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    r"""Compute every point of a sweep that the store does not hold yet.

    Each point is kept the moment it is finished; stop it at any time and run it again. FILE says:

    compute = "population"        # or {others}
    seeds = 1
    \[settings]
    length = 3
    \[grid]
    signal = [1, 2, 4]
    activation = ["softmax", "linear"]

    Example: slrlab sweep curve.toml --store results/store.sqlite
    """
    from slrlab.experiments.sweeps.definition import read_sweep
    from slrlab.experiments.sweeps.run import run_sweep

    count = None if workers is None else whole(workers, "workers", low=1)
    wanted = read_sweep(file)
    with progress("sweep") as report:
        found = run_sweep(
            wanted,
            store,
            workers=count,
            cluster=cluster,
            retry_failed=retry_failed,
            report=report,
        )
    if as_json:
        print_json(found.to_dict())
    else:
        _summary(wanted, found)
    if found.failed or found.failed_before:
        told = list(found.problems[:_TOLD])
        if found.failed > _TOLD:
            told.append(f"{found.failed - _TOLD} more points failed; see slrlab results")
        if found.failed_before:
            told.append(f"{found.failed_before} points failed before; --retry-failed tries again")
        print_problems(told)
        raise typer.Exit(1)


sweep.__doc__ = (sweep.__doc__ or "").replace("{others}", ", ".join([*COMPUTATIONS][1:]))


def _summary(wanted: Sweep, found: SweepSummary) -> None:
    """Print the points of a sweep, what became of them, and the file that holds them."""
    from slrlab.experiments.store import Store

    keys = {point.key for point in wanted.expand()}
    with Store(found.store) as base:
        frame = base.frame()
    if not frame.empty:
        _listing(frame[frame["key"].isin(keys)])
    counts = f"{found.computed} computed now, {found.points - found.computed} there before"
    failed = found.failed + found.failed_before
    print_lines([f"{found.points} points: {counts}, {failed} failed", found.store])


def results(
    store: StoreOption = _DEFAULT,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="Keep rows with this value; may repeat.", metavar="COL=VALUE"),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Write a CSV file.", metavar="FILE")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", help="Write a Parquet file.", metavar="FILE")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw value against a column: .png or .pdf.", metavar="FILE"),
    ] = None,
    x: Annotated[str, typer.Option("--x", help="Column of --plot.", metavar="COL")] = "signal",
    as_json: JsonOption = False,
) -> None:
    """List, filter, export and plot the points of a store.

    Example: slrlab results --where activation=softmax --plot curve.png --x signal
    """
    from slrlab.experiments.store import Store

    if not store.exists():
        raise ValueError(f"store must be a file of results, got {store}: no such file")
    pairs = dict(_pair(text) for text in where or [])
    with Store(store) as base:
        frame = base.frame(pairs)
    written: list[Path] = []
    if csv is not None:
        frame.to_csv(csv, index=False)
        written.append(csv)
    if parquet is not None:
        _parquet(frame, parquet)
        written.append(parquet)
    if plot is not None:
        from slrlab.figures.sweep_plot import plot_sweep

        plot_sweep(frame, x, plot)
        written.append(plot)
    if as_json:
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
        print_json({"rows": plain(rows), "files": [str(path) for path in written]})
    elif written:
        print_lines(written)
    else:
        _listing(frame)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(f"where must be COLUMN=VALUE, got {text}")
    return name, value


def _parquet(frame: pd.DataFrame, path: Path) -> None:
    kinds = {name: frame[name].dropna().map(type).nunique() for name in frame.columns}
    mixed = [name for name, count in kinds.items() if count > 1]  # a column has one type
    try:
        frame.astype(dict.fromkeys(mixed, str)).to_parquet(path, index=False)
    except ImportError:
        raise ValueError(
            "parquet must be left out without the extra parquet (pip install 'slrlab[parquet]'), "
            f"got {path}"
        ) from None


def _listing(frame: pd.DataFrame) -> None:
    hidden = ["message", "versions", "finished", "key", "seconds"]
    shown = frame.drop(columns=[name for name in hidden if name in frame.columns])
    # what all rows share is said once, above them
    same = [
        name for name in shown.columns if len(shown) > 1 and shown[name].astype(str).nunique() <= 1
    ]
    told = [name for name in same if shown[name].notna().all()]
    common = ", ".join(f"{name} {_cell(shown[name].iloc[0])}" for name in told)
    shown = shown.drop(columns=same)
    rows = [[_cell(value) for value in row] for row in shown.head(_SHOWN).itertuples(index=False)]
    more = f", the first {_SHOWN} shown" if len(frame) > _SHOWN else ""
    title = f"{len(frame)} points{more}" + (f": {common}" if common else "")
    print_table(title, [str(name) for name in shown.columns], rows)


def _cell(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
