"""What depends on the class of a task: whether a computation takes it, and its entry in a table.

It does not depend on what the entries are.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TypeVar

from slrlab.model.tasks import SelectionTask, Task, TiltedTask

_Entry = TypeVar("_Entry")


def check_task(task: Task) -> None:
    """Refuse what is not a task of either family, and an inconsistent task.

    Raises
    ------
    TypeError, ValueError
        If the task is of neither family; if a density ratio has not mean 1, or a weight decreases.
    """
    if not isinstance(task, TiltedTask | SelectionTask):
        given = type(task).__name__ if isinstance(task, Task) else repr(task)
        raise TypeError(f"task must be a TiltedTask or a SelectionTask, got {given}")
    task.check()


def lookup(task: Task, registry: Mapping[type, _Entry]) -> _Entry:
    """Return the entry of the task's own class; if there is none, that of its nearest family.

    A class that can be instantiated is not a family: a subclass of `SpikedSLR` may have another
    density ratio, so it has the entry of `TiltedTask`.

    Raises
    ------
    TypeError
        If neither the class nor a family of it has an entry.
    """
    own, *bases = type(task).__mro__
    for kind in (own, *filter(inspect.isabstract, bases)):
        if kind in registry:
            return registry[kind]
    accepted = ", ".join(kind.__name__ for kind in registry)
    raise TypeError(f"task must be one of {accepted}, or of their families, got {own.__name__}")
