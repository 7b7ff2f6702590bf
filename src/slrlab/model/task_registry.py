"""The tasks by their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from slrlab import _checks
from slrlab.model.lengths import LengthLike
from slrlab.model.tasks import TASKS as TASKS
from slrlab.model.tasks import Task
from slrlab.model.tasks import register_task as register_task


def make_task(
    name: str, *, signal: float, length: LengthLike, noise: float = 0.0, **own: Any
) -> Task:
    """Return the task called ``name``.

    Parameters
    ----------
    name
        A registered name, such as ``"spiked"`` or ``"max"``.
    signal, length, noise
        As for every `slrlab.Task`.
    own
        Parameters that only this kind of task has.

    Returns
    -------
    Task
        An instance of the class of this name.

    Raises
    ------
    ValueError
        If there is no such task, it does not have a parameter, or a number is out of range.

    Examples
    --------
    >>> from slrlab import make_task
    >>> make_task("needles", signal=4.0, length=3, needles=2).kinds[0].count
    2
    >>> make_task("max", signal=3.0, length="1,2,3").length.mean
    2.0
    """
    build: Callable[..., Task] = TASKS[_checks.choice(name, "task", TASKS)]
    for word in own.keys() - {one.name for one in fields(TASKS[name])}:
        _checks.refuse(word, f"for the task {name}", own[word])
    return build(signal=signal, length=length, noise=noise, **own)
