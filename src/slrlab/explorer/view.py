"""What a view is: words, a formula, calls of the library, a table, charts, and code to copy.

The live explorer and the static pages draw the same views. This module must not know either.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from slrlab._types import DataFrame, Report
from slrlab.experiments.rows import Row
from slrlab.explorer.controls import Controls

if TYPE_CHECKING:
    import altair as alt

Chart: TypeAlias = "alt.Chart | alt.LayerChart"
_TINY = 1e-15  # rounding errors are listed as 0
_NOT_OURS = ("config", "$schema", "data")  # what Altair adds to a chart without data


@dataclass(frozen=True)
class Call:
    """A call of an importable function that returns rows; ``quick`` if it takes no time.

    ``stage`` is 0 for a first, coarse table, and 1 for the rows that replace or complete it.
    """

    function: Callable[..., list[Row]]
    given: tuple[Any, ...]
    quick: bool = False
    stage: int = 1

    def run(self) -> list[Row]:
        """Return the rows."""
        return self.function(*self.given)


@dataclass(frozen=True)
class Panel:
    """A chart without data, and the parts of the table that it draws (column ``part``).

    ``selects`` is the name of the selection by which a user clicks into the chart.
    """

    chart: Chart
    parts: tuple[str, ...] = ()
    selects: str = ""

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The chart as Vega-Lite, without what every chart has."""
        spec: dict[str, Any] = _without_data(self.chart.to_dict())
        return spec


@dataclass(frozen=True)
class Choice:
    """A control of a static page: the values of a column among which a reader chooses."""

    name: str
    label: str
    values: tuple[Any, ...]
    value: Any
    changes: tuple[dict[str, Any], ...] = ()
    """What each value means for `Controls`; that of the control of its name by default."""

    def controls(self, base: Controls, value: Any) -> Controls:
        """Return controls with one of the values."""
        if not self.changes:
            return replace(base, **{self.name: value})
        return replace(base, **self.changes[self.values.index(value)])


@dataclass(frozen=True)
class Variant:
    """Charts of a static page: they draw the rows whose columns ``match`` the choices.

    A row without a value in such a column matches all. Rows whose columns have the values of the
    choices in ``here`` are those that a chart marks and the page lists. The script depends on the
    choices of ``match`` and ``coded``.
    """

    controls: Controls
    match: tuple[str, ...]
    here: dict[str, str] = field(default_factory=dict)
    coded: tuple[str, ...] = ()


@dataclass(frozen=True)
class StaticTable:
    """What a static page is made of: a table of all choices, and the charts that draw it."""

    frame: DataFrame
    choices: tuple[Choice, ...]
    variants: dict[str, Variant]
    columns: tuple[str, ...]
    """What the page lists of the rows that are marked, those of ``part`` if it is given."""
    part: str = ""
    variant_label: str = ""
    note: str = ""


@dataclass(frozen=True)
class View:
    """A view of the explorer.

    Attributes
    ----------
    name, title
        Name in addresses and on the command line, and heading.
    about
        What one sees, in three sentences.
    formula
        The equation behind it, in LaTeX that Matplotlib can draw.
    controls, start
        Names of the controls that it has beside those that all views share, and what a session
        that begins with this view shows first.
    calls
        The calls whose rows make its table, coarse ones first.
    frame
        The table, from the rows of the calls that have ended.
    panels, drawn_by, shape
        Charts of the table. They depend on some controls and on what ``shape`` returns of the
        table, not on its numbers: charts take long to make, and are kept.
    numbers
        The rows and columns that the page lists.
    code
        A script that computes the table.
    notes
        Sentences on what the table shows, such as where the theory is not to be trusted.
    static
        The table of its static page.
    legend
        Whether its colours are activations.
    """

    name: str
    title: str
    about: str
    formula: str
    calls: Callable[[Controls], list[Call]]
    frame: Callable[[list[Row], Controls], DataFrame]
    panels: Callable[[Controls, Any], list[Panel]]
    drawn_by: tuple[str, ...]
    numbers: Callable[[DataFrame, Controls], DataFrame]
    code: Callable[[Controls], str]
    static: Callable[[Report | None], StaticTable]
    controls: tuple[str, ...] = ()
    start: Controls = Controls()
    legend: bool = True
    shape: Callable[[DataFrame], Hashable] = field(default=lambda frame: None)
    notes: Callable[[DataFrame, Controls], list[str]] = field(default=lambda frame, controls: [])

    def drawn(self, frame: DataFrame, controls: Controls) -> list[Panel]:
        """Return the panels of a table, those of an earlier one of the same shape if there are."""
        given = tuple((name, getattr(controls, name)) for name in self.drawn_by)
        return _panels(self, given, self.shape(frame))

    def table(self, controls: Controls) -> DataFrame:
        """Return the whole table, computed in this process."""
        return self.frame(self.rows(controls), controls)

    def rows(self, controls: Controls) -> list[Row]:
        """Return the rows of all calls but the coarse ones, which are replaced anyway."""
        final = [call for call in self.calls(controls) if call.stage]
        return list(chain.from_iterable(call.run() for call in final))


def _without_data(spec: Any) -> Any:
    if isinstance(spec, list):
        return [_without_data(part) for part in spec]
    if isinstance(spec, dict):
        kept = {name: part for name, part in spec.items() if name not in _NOT_OURS}
        return {name: _without_data(part) for name, part in kept.items()}
    return spec


@lru_cache(maxsize=64)
def _panels(view: View, given: tuple[tuple[str, Any], ...], shape: Hashable) -> list[Panel]:
    return view.panels(Controls(**dict(given)), shape)


def literal(values: Iterable[Any]) -> str:
    """Return numbers or texts as a list in code, in lines of a readable length."""
    import textwrap

    line = ", ".join(repr(value) for value in values)
    if len(line) < 80:
        return f"[{line}]"
    body = textwrap.fill(line, 88, initial_indent="    ", subsequent_indent="    ")
    return f"[\n{body},\n]"


def script(text: str, controls: Controls, **values: Any) -> str:
    """Return a script in which ``$name`` stands for a value, a list or an expression.

    ``$task``, ``$signal``, ``$length`` and ``$noise`` are those of the controls.
    """
    from string import Template

    given = {name: repr(getattr(controls, name)) for name in ("task", "signal", "length", "noise")}
    shown = {name: literal(x) if isinstance(x, list) else str(x) for name, x in values.items()}
    return Template(text.lstrip("\n")).substitute(given | shown)


def listed(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return columns of a table for people: numbers with five digits, spaces in names."""
    shown = frame[list(columns)].copy()
    for column in columns:
        values = [_text(value) for value in shown[column].tolist()]
        shown[column] = values
    return shown.rename(columns=words)


def words(name: Any) -> str:
    """Return the name of a column for people; symbols stay as they are.

    >>> words("hit_rate"), words("m_k")
    ('hit rate', 'm_k')
    """
    text = str(name)
    return text if len(text.partition("_")[0]) == 1 else text.replace("_", " ")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "" if value != value else f"{0.0 if abs(value) < _TINY else value:.5g}"
    return "" if value is None else str(value)
