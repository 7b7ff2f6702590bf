"""Printing for people: progress on stderr, tables on stdout. Imported only when needed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slrlab._result import Result, plain
from slrlab._types import Report

if TYPE_CHECKING:
    from rich.progress import Progress

_LINES = 6  # bars shown at once


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on stdout; infinities and nan become strings."""
    sys.stdout.write(json.dumps(plain(value), ensure_ascii=False, allow_nan=False) + "\n")


def print_lines(lines: Sequence[object]) -> None:
    """Print one thing a line on stdout."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def print_problems(lines: Sequence[object]) -> None:
    """Print one problem a line on stderr."""
    sys.stderr.write("".join(f"slrlab: {line}\n" for line in lines))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on stdout. Where the screen is wide enough, no word is broken."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.show_edge = False
    for head, width in zip(columns, _widths(columns, rows, console.width), strict=True):
        table.add_column(head, overflow="fold", width=width)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _widths(
    columns: Sequence[str], rows: Sequence[Sequence[str]], screen: int
) -> list[int] | list[None]:
    """Return widths that hold whole words, wider from the left; None each if there is no room."""
    widths, spare = [], screen - 2 * len(columns)
    texts = list(zip(columns, *rows, strict=True))
    for column in texts:
        widths.append(max(len(word) for text in column for word in text.split() or [""]))
    spare -= sum(widths)
    if spare < 0:
        return [None] * len(columns)
    for index, column in enumerate(texts):
        more = min(spare, max(map(len, column)) - widths[index])
        widths[index] += more
        spare -= more
    return widths


@dataclass(frozen=True)
class Output:
    """What a command prints on stdout: a table for people, or one JSON object."""

    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")
    ] = False

    def result(
        self,
        title: str,
        result: Result,
        special: dict[str, str] | None = None,
        **more: Result | None,
    ) -> bool:
        """Print a result; return whether it is usable. ``special`` words replace some values.

        What ``more`` holds is part of the JSON object under its name, or printed in a few lines.
        """
        given = {name: one for name, one in more.items() if one is not None}
        if self.as_json:
            print_json(result.to_dict() | {name: one.to_dict() for name, one in given.items()})
        else:
            shown = {name: _shown(value) for name, value in result.to_dict().items()}
            print_table(title, ("quantity", "value"), list((shown | (special or {})).items()))
            print_lines([f"{name.capitalize()} of {one.summary()}" for name, one in given.items()])
        return result.status.usable

    def files(self, paths: Sequence[Path], **more: Any) -> None:
        """Print the files written, one a line."""
        if self.as_json:
            print_json({**more, "files": [str(path) for path in paths]})
        else:
            print_lines(paths)


def _shown(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


@contextmanager
def progress(label: str = "computing") -> Iterator[Report]:
    """Yield ``report(done, total, label)``: bars on a terminal, else a line now and then.

    ``label`` is shown until the first report.
    """
    if not sys.stderr.isatty():
        yield _plain_report(5.0, "{label}: {done} of {total}")
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Bars(bar, label)


class Bars:
    """Bars that only go forward: a new count starts a new line."""

    def __init__(self, bar: Progress, label: str) -> None:
        self._bar = bar
        self._lines = [bar.add_task(label, total=None)]
        self._done, self._total, self._label = 0, 0, label

    def __call__(self, done: int, total: int, label: str) -> None:
        """Move the last bar, or begin another one."""
        restarted = total != self._total or (done < self._done and label != self._label)
        if self._total and restarted:
            self._bar.update(self._lines[-1], completed=self._total)
            self._lines.append(self._bar.add_task(label, total=total))
            self._done = 0
            if len(self._lines) > _LINES:
                self._bar.update(self._lines.pop(0), visible=False)
        # a point that is computed again does not move the bar back
        self._done, self._total, self._label = max(done, self._done), total, label
        self._bar.update(self._lines[-1], completed=self._done, total=total, description=label)


@contextmanager
def progress_line() -> Iterator[Report]:
    """Yield ``report(done, total, line)``: one bar for the whole work, and a line beside it."""
    if not sys.stderr.isatty():
        yield _plain_report(15.0, "{label}", by_item=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(bar_width=20), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def report(done: int, total: int, line: str) -> None:
            bar.update(task, completed=done, total=total, description=line)

        yield report


def _plain_report(every: float, line: str, *, by_item: bool = False) -> Report:
    """Print a line every few seconds and, ``by_item``, when the label changes before its comma."""
    last, item = time.monotonic(), ""

    def report(done: int, total: int, label: str) -> None:
        nonlocal last, item
        now, named = time.monotonic(), label.split(",")[0] if by_item else ""
        if named != item or now - last >= every:
            last, item = now, named
            sys.stderr.write(line.format(done=done, total=total, label=label) + "\n")
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
