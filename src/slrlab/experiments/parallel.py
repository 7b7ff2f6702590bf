"""One way to spread independent computations over the cores of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from slrlab.experiments.executors import Processes
from slrlab.simulation.machine import cores

Item = TypeVar("Item")
Value = TypeVar("Value")
Report = Callable[[int, int, str], None]


def parallel_map(
    function: Callable[[Item], Value],
    items: Sequence[Item],
    *,
    label: str = "",
    report: Report | None = None,
    workers: int | None = None,
) -> list[Value]:
    """Return ``[function(item) for item in items]``, computed by several processes.

    ``report(done, total, label)`` is called as results arrive. ``workers`` is the number of cores,
    or what the environment variable ``SLRLAB_WORKERS`` says. With one worker, or one item,
    everything runs in this process. An error in one item cancels the rest and is raised; the death
    of a worker does not.
    """
    count = min(workers or default_workers(), len(items))
    tell = report or (lambda done, total, text: None)
    tell(0, len(items), label)
    if count <= 1:
        values = []
        for done, item in enumerate(items, start=1):
            values.append(function(item))
            tell(done, len(items), label)
        return values
    found: dict[Any, Value] = {}
    executor = Processes(count)
    try:
        for place, item in enumerate(items):
            executor.submit(place, function, item)
        while len(found) < len(items):
            for ended in executor.finished(timeout=60.0):
                if ended.error is not None:
                    raise ended.error
                found[ended.tag] = ended.value
                tell(len(found), len(items), label)
    finally:
        executor.close()
    return [found[place] for place in range(len(items))]


def default_workers() -> int:
    """Return how many processes to use.

    Raises
    ------
    ValueError
        If the environment variable is set to anything but a whole number >= 1.
    """
    given = os.environ.get("SLRLAB_WORKERS")
    if given is None:
        return cores()
    if not given.isdecimal() or int(given) < 1:
        raise ValueError(f"SLRLAB_WORKERS must be a whole number >= 1, got {given!r}")
    return int(given)
