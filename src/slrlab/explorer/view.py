"""What a view is: words, a formula, calls of the library, a table, charts, and code to copy.

The live explorer and the static pages draw the same views. This module depends on neither.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from slrlab._types import DataFrame, Report
from slrlab.experiments.requirements.rows import Row
from slrlab.explorer.controls import Controls
from slrlab.explorer.tables import listed

if TYPE_CHECKING:
    import altair as alt

Chart: TypeAlias = "alt.Chart | alt.LayerChart"
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
    most: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The largest value, by another choice and its values."""

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
    """What a static page is made of: a table of all choices, and the charts that draw it.

    ``part`` and ``columns`` are what the page lists of the rows that are marked; those of the view
    by default. ``setting`` is what no choice changes.
    ``notes`` makes sentences from the rows of each combination of the choices.
    """

    frame: DataFrame
    choices: tuple[Choice, ...]
    variants: dict[str, Variant]
    part: str = ""
    columns: tuple[str, ...] = ()
    variant_label: str = ""
    setting: str = ""
    note: str = ""
    notes: Callable[[DataFrame, Controls], list[str]] | None = None


class View(ABC):
    """A view of the explorer: what it shows, and how its table, charts and script are made.

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
    part, columns
        The part of the table that the page lists, all of it by default, and its columns.
    drawn_by
        The controls on which the charts depend.
    legend
        Whether its colours are activations.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]
    formula: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    drawn_by: ClassVar[tuple[str, ...]]
    part: ClassVar[str] = ""
    controls: ClassVar[tuple[str, ...]] = ()
    start: ClassVar[Controls] = Controls()
    legend: ClassVar[bool] = True

    @abstractmethod
    def calls(self, controls: Controls) -> list[Call]:
        """Return the calls whose rows make the table, coarse ones first."""

    @abstractmethod
    def frame(self, rows: list[Row], controls: Controls) -> DataFrame:
        """Return the table, from the rows of the calls that have ended."""

    @abstractmethod
    def panels(self, controls: Controls, shape: Any) -> list[Panel]:
        """Return the charts of a table of some shape, not of its numbers: they are kept."""

    @abstractmethod
    def code(self, controls: Controls) -> str:
        """Return a script that computes what the page lists."""

    @abstractmethod
    def static(self, report: Report | None) -> StaticTable:
        """Return the table of the static page."""

    def setting(self, controls: Controls) -> str:
        """Return what determines the view, for the subtitle of its picture."""
        return controls.words()

    def shape(self, frame: DataFrame) -> Hashable:
        """Return what the charts depend on beside the controls."""
        return None

    def notes(self, frame: DataFrame, controls: Controls) -> list[str]:
        """Return sentences on the table, such as where the theory is not to be trusted."""
        return []

    def marked(self, frame: DataFrame) -> DataFrame:
        """Return the rows that the page lists."""
        return frame[frame["part"] == self.part]

    def numbers(self, frame: DataFrame, controls: Controls) -> DataFrame:
        """Return what the page lists, as text."""
        return listed(self.marked(frame), self.columns)

    def drawn(self, frame: DataFrame, controls: Controls) -> list[Panel]:
        """Return the panels of a table, those of an earlier one of the same shape if there are."""
        given = tuple((name, getattr(controls, name)) for name in self.drawn_by)
        return _panels(self, given, self.shape(frame))

    def table(self, controls: Controls) -> DataFrame:
        """Return the whole table, computed in this process."""
        return self.frame(self.rows(controls), controls)

    def rows(self, controls: Controls) -> list[Row]:
        """Return the rows of all calls but the coarse ones, which are replaced anyway."""
        return self.run(call for call in self.calls(controls) if call.stage)

    @staticmethod
    def run(calls: Iterable[Call]) -> list[Row]:
        """Return the rows of some calls, computed in this process."""
        return list(chain.from_iterable(call.run() for call in calls))


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
