"""One way to spread independent computations over the cores of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TypeVar

from slrlab.simulation.machine import cores

Item = TypeVar("Item")
Value = TypeVar("Value")
Report = Callable[[int, int, str], None]

_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


@contextmanager
def _single_threaded_children() -> Iterator[None]:
    """Let each worker process use one thread of linear algebra: cores are shared by processes."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


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
    everything runs in this process. An error in one item cancels the rest and is raised.
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
    found: dict[int, Value] = {}
    with _single_threaded_children():
        pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"))
        try:
            places = {pool.submit(function, item): place for place, item in enumerate(items)}
            for future in as_completed(places):
                found[places[future]] = future.result()
                tell(len(found), len(items), label)
        except BaseException:
            _stop(pool)
            raise
        pool.shutdown()
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


def _stop(pool: ProcessPoolExecutor) -> None:
    """End a pool at once: running items are abandoned, waiting ones dropped."""
    workers = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.terminate()
