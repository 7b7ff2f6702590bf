"""The command `results`: what is in a store of finished points."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from slrlab._result import as_text
from slrlab._types import DataFrame
from slrlab.cli.app import command
from slrlab.cli.console import Output, print_json, print_lines, print_table
from slrlab.cli.options import CSV, STORE, option
from slrlab.experiments.running.store import Store
from slrlab.experiments.sweeps.run import run_sweep

_SHOWN = 40  # rows of a listing on the terminal
_PLOT = "Draw value against a column: .png or .pdf."


@command(run_sweep)
def results(
    *,
    store: Annotated[Path, STORE],
    where: Annotated[
        list[str] | None, option("Keep rows with this value; may repeat.", str, "COL=VALUE")
    ] = None,
    csv: Annotated[Path | None, CSV] = None,
    parquet: Annotated[Path | None, option("Write a Parquet file.", Path, "FILE")] = None,
    plot: Annotated[Path | None, option(_PLOT, Path, "FILE")] = None,
    x: Annotated[str, option("Column of --plot.", str, "COL")] = "signal",
    output: Output,
) -> None:
    """List, filter, export and plot the points of a store.

    Example: slrlab results --where activation=softmax --plot curve.png --x signal
    """
    if not store.exists():
        raise ValueError(f"store must be a file of results, got {store}: no such file")
    pairs = dict(_pair(text) for text in where or [])
    with Store(store) as base:
        frame = base.frame(pairs)
    if csv is not None:
        frame.to_csv(csv, index=False)
    if parquet is not None:
        _parquet(frame, parquet)
    if plot is not None:
        from slrlab.figures.sweep_plot import plot_sweep

        plot_sweep(frame, x, plot)
    written = [path for path in (csv, parquet, plot) if path is not None]
    if output.as_json:
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
        print_json({"rows": rows, "files": [str(path) for path in written]})
    elif written:
        print_lines(written)
    else:
        print_points(frame)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(f"where must be COLUMN=VALUE, got {text}")
    return name, value


def _parquet(frame: DataFrame, path: Path) -> None:
    kinds = {name: frame[name].dropna().map(type).nunique() for name in frame.columns}
    mixed = [name for name, count in kinds.items() if count > 1]  # a column has one type
    try:
        frame.astype(dict.fromkeys(mixed, str)).to_parquet(path, index=False)
    except ImportError:
        raise ValueError(
            "parquet must not be given without the extra parquet (pip install 'slrlab[parquet]'), "
            f"got {path}"
        ) from None


def print_points(frame: DataFrame) -> None:
    """Print points as a table; what all of them share is said once, above."""
    hidden = ["message", "versions", "finished", "key", "seconds"]
    shown = frame.drop(columns=[name for name in hidden if name in frame.columns])
    same = [
        name for name in shown.columns if len(shown) > 1 and shown[name].astype(str).nunique() <= 1
    ]
    shared = [name for name in same if shown[name].notna().all()]
    common = ", ".join(f"{name} {as_text(shown[name].iloc[0])}" for name in shared)
    shown = shown.drop(columns=same)
    rows = [[as_text(value) for value in row] for row in shown.head(_SHOWN).itertuples(index=False)]
    more = f", the first {_SHOWN} shown" if len(frame) > _SHOWN else ""
    title = f"{len(frame)} points{more}" + (f": {common}" if common else "")
    print_table(title, [str(name) for name in shown.columns], rows)
