"""Parts of tables and scripts that the views share. Independent of what is drawn."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from string import Template
from typing import Any, TypeVar

from slrlab._errors import ComputationError
from slrlab._types import DataFrame, Report
from slrlab.experiments.requirements.rows import Row
from slrlab.explorer.controls import Controls

T = TypeVar("T")
_TINY = 1e-12  # rounding errors are listed as 0
REFUSED = "refused"  # the part of rows that say why there is no number


def rows_or_reason(activation: str, function: Callable[..., list[Row]], *given: Any) -> list[Row]:
    """Return the rows of a function; a row with the reason if the theory has no solution."""
    try:
        return function(*given)
    except (ComputationError, ValueError) as error:
        return [{"part": REFUSED, "activation": activation, "reason": str(error)}]


def reasons(frame: DataFrame) -> list[str]:
    """Return the reasons in a table, each once."""
    refused = frame[frame["part"] == REFUSED]
    if refused.empty:
        return []
    kept = refused[["activation", "reason"]].drop_duplicates()
    return [f"{name}: {reason}" for name, reason in kept.itertuples(index=False)]


def reported(items: Iterable[T], report: Report | None, label: str) -> Iterator[T]:
    """Yield items, and say before each how many are done."""
    kept = list(items)
    for done, item in enumerate(kept):
        if report is not None:
            report(done, len(kept), label)
        yield item


def literal(values: Iterable[Any]) -> str:
    """Return numbers or texts as a list in code, in lines of a readable length."""
    line = ", ".join(repr(value) for value in values)
    if len(line) < 80:
        return f"[{line}]"
    body = textwrap.fill(line, 88, initial_indent="    ", subsequent_indent="    ")
    return f"[\n{body},\n]"


def script(text: str, controls: Controls, **values: Any) -> str:
    """Return a script in which ``$name`` stands for a control, a value, a list or an expression.

    ``$make_task`` is a call that makes the task, and ``$print`` one that prints the table.
    """
    given = {name: repr(value) for name, value in vars(controls).items()}
    given["make_task"] = task_call(controls)
    given["activations"] = literal(controls.activations)
    given["print"] = "print(table.to_csv(index=False))"
    shown = {name: literal(x) if isinstance(x, list) else str(x) for name, x in values.items()}
    body = Template(text.lstrip("\n")).substitute(given | shown)
    return f"from math import inf\n\n{body}" if re.search(r"\binf\b", body) else body


def task_call(controls: Controls) -> str:
    """Return the call that makes the task, as code.

    >>> task_call(Controls(signal=2.0))
    "make_task('spiked', signal=2.0, length='10', noise=0.0)"
    """
    names = ("signal", "length", "noise")
    given = ", ".join(f"{name}={getattr(controls, name)!r}" for name in names)
    return f"make_task({controls.task!r}, {given})"


def plain(text: str) -> str:
    r"""Return a text whose signs Markdown would read as formats, such as ``x*y*2``, escaped.

    >>> print(plain("1+x*y*2"))
    1\+x\*y\*2
    """
    return re.sub(r"([\\`*_{}\[\]()<>#+\-!|~$:^])", r"\\\1", text)


def listed(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return columns of a table for people: numbers with five digits, spaces in names."""
    shown = frame.reindex(columns=list(columns))
    for column in columns:
        shown[column] = [_text(value) for value in shown[column].tolist()]
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
