"""All figures and tables, listed by the names of their files and imported when needed.

``figure_NAME.py`` makes figure NAME, ``table_NAME.py`` table NAME. Each has ``ABOUT``, ``compute``
and, for a figure, ``draw``; a new one is registered nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from math import inf
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING

from slrlab import _checks

if TYPE_CHECKING:
    from pandas import DataFrame

PROFILES = ("toy", "quick", "full")


@dataclass(frozen=True)
class About:
    """Description of a figure or table.

    ``caption`` says in two to four sentences what is drawn and what to see. ``costs`` are the
    seconds of one core that each stage (a label of its progress) takes in the quick profile.
    ``compiled`` is true if it calls compiled kernels. ``section`` is the part of the report that
    shows it; ``report`` are the profiles whose report has it (``toy`` is as ``quick``).
    ``rows`` makes of the table of a figure a short one, which the report shows below the picture.
    """

    title: str
    caption: str = ""
    costs: Mapping[str, float] = field(default_factory=dict)
    compiled: bool = False
    section: str = "Figures"
    report: tuple[str, ...] = ("quick", "full")
    rows: Callable[[DataFrame], DataFrame] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "caption", " ".join(self.caption.split()))


def _modules(kind: str) -> dict[str, str]:
    """Return the module of each name, numbers first."""
    package, prefix = __name__.rpartition(".")[0], f"{kind}_"
    stems = [item.name for item in iter_modules([str(Path(__file__).parent)])]
    names = {
        stem.removeprefix(prefix).replace("_", "-"): f"{package}.{stem}"
        for stem in stems
        if stem.startswith(prefix)
    }
    return dict(
        sorted(names.items(), key=lambda item: float(item[0]) if item[0].isdigit() else inf)
    )


FIGURES, TABLES = _modules("figure"), _modules("table")


def depends_on_profile(value: object) -> bool:
    """Return whether a constant of a module has one value for each profile."""
    return isinstance(value, dict) and set(value) == set(PROFILES)


def reported_figures(profile: str) -> list[str]:
    """Return the names of the figures that the report of a profile has."""
    chosen = "quick" if profile == "toy" else profile
    return [name for name in FIGURES if chosen in figure_module(name).ABOUT.report]


def figure_module(name: str) -> ModuleType:
    """Return the module of a figure."""
    return import_module(FIGURES[_checks.choice(name, "figure", FIGURES)])


def table_module(name: str) -> ModuleType:
    """Return the module of a table."""
    return import_module(TABLES[_checks.choice(name, "table", TABLES)])
