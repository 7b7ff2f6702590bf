"""One way to spread independent computations over the cores of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from slrlab._machine import allowed_memory, cores
from slrlab._types import Report
from slrlab.experiments.executors import InProcess, Processes
from slrlab.experiments.memo import remembered
from slrlab.experiments.pool import Share, SharedPool

Item = TypeVar("Item")
Value = TypeVar("Value")


def parallel_map(
    function: Callable[[Item], Value],
    items: Sequence[Item],
    *,
    label: str = "",
    report: Report | None = None,
    workers: int | None = None,
    size: float = 0.0,
    keep: bool = True,
) -> list[Value]:
    """Return ``[function(item) for item in items]``, computed by several processes.

    ``report(done, total, label)`` is called as results arrive. ``workers`` is the number of cores,
    or what the environment variable ``SLRLAB_WORKERS`` says, but no more than the memory allows if
    an item takes up to ``size`` bytes. With one worker, or one item, everything runs in this
    process. Inside `slrlab.experiments.memo.remember` what was computed before is not computed
    again, unless ``keep`` is false. After an error in one item no other is started; those under way
    are finished and kept before it is raised. The death of a worker is no error.
    """
    tell = report or (lambda done, total, text: None)
    memo = remembered() if keep else None
    found: dict[Any, Value] = {} if memo is None else dict(memo.known(function, items))
    missing = [place for place in range(len(items)) if place not in found]
    tell(len(found), len(items), label)
    executor = _executor(workers, len(missing), size)
    error: BaseException | None = None
    try:
        for place in missing:
            executor.submit(place, function, items[place])
        waiting: set[Any] = set(missing)
        while waiting:
            for ended in executor.finished(timeout=60.0):
                waiting.discard(ended.tag)
                if ended.error is not None:
                    error = error or ended.error
                    waiting.difference_update(executor.drop())
                    continue
                found[ended.tag] = ended.value
                if memo is not None:
                    memo.keep(function, items[cast(int, ended.tag)], ended.value)
                tell(len(found), len(items), label)
    finally:
        executor.close()
    if error is not None:
        raise error
    return [found[place] for place in range(len(items))]


_shared: ContextVar[SharedPool | None] = ContextVar("shared workers", default=None)
_rank: ContextVar[int] = ContextVar("rank", default=0)


@contextmanager
def shared_workers() -> Iterator[None]:
    """Keep worker processes from one `parallel_map` to the next inside a ``with`` block.

    A new process takes seconds to import and to load compiled code. Threads that run in a copy of
    the context share the workers too.
    """
    count = default_workers()
    if count == 1:
        yield
        return
    pool = SharedPool(count)
    token = _shared.set(pool)
    try:
        yield
    finally:
        _shared.reset(token)
        pool.close()


def set_rank(rank: int) -> None:
    """Let calls in this context start before those of any higher rank."""
    _rank.set(rank)


def _executor(workers: int | None, count: int, size: float) -> InProcess | Processes | Share:
    """Return where to compute some calls of a size."""
    shared = _shared.get()
    if shared is not None and workers in (None, shared.slots):
        return shared.share(_rank.get(), size)
    most = max(1, int(allowed_memory() / size)) if size else count
    fitting = min(workers or default_workers(), most, count)
    return Processes(fitting) if fitting > 1 else InProcess()


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
