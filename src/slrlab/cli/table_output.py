"""What a command with rows writes: a table on the terminal, a CSV file, a picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

from slrlab._result import Status
from slrlab._types import Axes, DataFrame
from slrlab.cli.console import Output, print_json, print_lines, print_table
from slrlab.cli.options import CSV, PLOT


class Shown(Protocol):
    """A result with rows for people, a table and a picture."""

    @property
    def status(self) -> Status: ...
    def to_dict(self) -> dict[str, Any]: ...
    def to_frame(self) -> DataFrame: ...
    def table(self) -> tuple[list[str], list[list[str]]]: ...
    def plot(self, ax: Axes | None = None) -> Axes: ...


@dataclass(frozen=True)
class TableOutput(Output):
    """A table for people or one JSON object on stdout, and files."""

    csv: Annotated[Path | None, CSV] = None
    plot: Annotated[Path | None, PLOT] = None

    def table(self, result: Shown, *notes: str) -> bool:
        """Print a result with notes for people, write its files; return whether it is usable."""
        if self.as_json:
            print_json(result.to_dict())
        else:
            print_table(str(result), *result.table())
            print_lines(notes)
        if self.csv is not None:
            result.to_frame().to_csv(self.csv, index=False)
        if self.plot is not None:
            _draw(result, self.plot)
        return result.status.usable


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
