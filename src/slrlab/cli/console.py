"""Printing for people: progress on stderr, tables on stdout. Imported only when needed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from slrlab._result import Report as Report

if TYPE_CHECKING:
    from slrlab._result import Result


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")


def print_lines(lines: Sequence[object]) -> None:
    """Print one thing a line on stdout."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def print_problems(lines: Sequence[object]) -> None:
    """Print one problem a line on stderr."""
    sys.stderr.write("".join(f"slrlab: {line}\n" for line in lines))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on stdout."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def print_result(
    title: str, result: Result, as_json: bool, special: dict[str, str] | None = None
) -> None:
    """Print a result as JSON or as a table; exit with 1 if it is unusable.

    ``special`` replaces the wording of some rows.
    """
    if as_json:
        print_json(result.to_dict())
    else:
        shown = {name: _shown(value) for name, value in result.to_dict().items()}
        print_table(title, ("quantity", "value"), list((shown | (special or {})).items()))
    if not result.status.usable:
        raise typer.Exit(1)


def _shown(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


@contextmanager
def progress() -> Iterator[Report]:
    """Yield ``report(done, total, label)``: a bar on a terminal, else a line now and then."""
    if not sys.stderr.isatty():
        yield _plain_report()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def report(done: int, total: int, label: str) -> None:
            bar.update(task, completed=done, total=total, description=label)

        yield report


@contextmanager
def progress_line() -> Iterator[Report]:
    """Yield ``report(done, total, line)``: one line that never starts again, with a bar for it."""
    if not sys.stderr.isatty():
        yield _plain_lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(bar_width=20), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def report(done: int, total: int, line: str) -> None:
            bar.update(task, completed=done, total=total, description=line)

        yield report


def _plain_lines(every: float = 15.0) -> Report:
    """Print a line when the item, named before the first comma, changes, and now and then."""
    last, item = time.monotonic(), ""

    def report(done: int, total: int, line: str) -> None:
        nonlocal last, item
        now, named = time.monotonic(), line.split(",")[0]
        if named != item or now - last >= every:
            last, item = now, named
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    return report


def _plain_report(every: float = 5.0) -> Report:
    last = time.monotonic()

    def report(done: int, total: int, label: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= every:
            last = now
            sys.stderr.write(f"{label}: {done} of {total}\n")
            sys.stderr.flush()

    return report


@contextmanager
def waiting(label: str) -> Iterator[None]:
    """Show a spinner on a terminal while one computation runs."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(label):
        yield
