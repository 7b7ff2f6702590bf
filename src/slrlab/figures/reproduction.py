"""All figures, tables and claims in one run; items that take little time come first.

Several items run at a time and share the workers in the order of the items: the first ones end
first, and the next ones use the workers that are free. The page is rewritten after each item.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any

from slrlab import _checks
from slrlab._types import Report
from slrlab.experiments.claims import run_claims
from slrlab.experiments.running.executors import default_workers
from slrlab.experiments.running.parallel import parallel_map, remember, set_rank, shared_workers
from slrlab.experiments.running.warm_up import compile_kernels
from slrlab.figures import compute_figure, draw_figure, make_table
from slrlab.figures.registry import (
    PROFILES,
    TABLES,
    figure_module,
    reported_figures,
    table_module,
)
from slrlab.figures.report import CLAIMS_ITEM, Contents, figure_item, render, table_item

# seconds of one core, for the time left; the modules of figures and tables have theirs
COSTS = {"compiling": 44.0, CLAIMS_ITEM: 7.0}
_OTHER = 5.0  # a stage without a cost
_ITEMS_AT_ONCE = 4
_SURE = 20.0  # seconds after which the measured speed has the same weight as the expected one


class Overall:
    """One line about the whole run: item, share that is done, estimate of the time left."""

    def __init__(
        self, items: list[str], page: Path, costs: dict[str, float], report: Report | None = None
    ) -> None:
        self._items, self._page, self._report = items, page, report
        self._known = costs  # of the stages
        self._done: dict[str, float] = {}  # shares of the stages
        self._before = 0.0  # cost of what was finished before this run
        self._ended: list[str] = []
        self._start, self._workers = time.monotonic(), default_workers()
        self._lock = threading.Lock()

    def stage(self, done: int, total: int, label: str) -> None:
        """Record the progress of a stage; its first call counts as done before this run."""
        with self._lock:
            share = done / total if total else 1.0
            if label not in self._done:
                self._before += share * self._known.setdefault(label, _OTHER)
            self._done[label] = max(share, self._done.get(label, 0.0))
            self._show()

    def ended(self, item: str) -> None:
        """Record that an item is complete."""
        with self._lock:
            self._ended.append(item)
            self._show()

    def _show(self) -> None:
        if self._report is not None:
            self._report(round(1000 * self._share()), 1000, str(self))

    def _costs(self) -> tuple[float, float]:
        """Return the cost of what is done and the cost of all known stages."""
        done = sum(share * self._known[label] for label, share in self._done.items())
        return done, sum(self._known.values())

    def _share(self) -> float:
        if len(self._ended) == len(self._items):
            return 1.0
        done, whole = self._costs()
        return min(0.99, done / whole)

    def __str__(self) -> str:
        waiting = [item for item in self._items if item not in self._ended]
        if not waiting:
            return f"all {len(self._items)} items"
        number = len(self._ended) + 1
        done, whole = self._costs()
        spent = time.monotonic() - self._start
        speed = (done - self._before + _SURE * self._workers) / (spent + _SURE)
        left = _in_words((whole - done) / speed)
        share = f"{100.0 * self._share():.0f} %"
        page = f"; see {self._page}" if self._ended else ""
        return f"item {number} of {len(self._items)}: {waiting[0]}, {share}, {left} left{page}"


def _in_words(seconds: float) -> str:
    if seconds < 50.0:
        return f"about {max(10, 10 * round(seconds / 10.0))} s"
    minutes = round(seconds / 60.0)
    return f"about {minutes} min" if minutes < 100 else f"about {round(minutes / 60.0)} h"


def reproduce_all(
    out: Path, *, profile: str = "quick", report: Report | None = None
) -> tuple[list[Path], bool]:
    """Make the figures of a profile and every table, check every claim, write ``report.html``.

    Returns the files and whether all claims hold. ``report(done, 1000, line)`` is called with one
    line about the whole run. The page exists as soon as the first figure does, and grows.

    Finished points are kept in ``out``: stopped and called again, it computes only missing ones.

    Raises
    ------
    ValueError
        If the profile is unknown.
    StoreError
        If the file of finished points is not of this version, is damaged or cannot be written.
    """
    _checks.choice(profile, "profile", PROFILES)
    out.mkdir(parents=True, exist_ok=True)
    items = _items(out, profile)
    page = out / "report.html"
    overall = Overall(list(items), page, _all_costs(profile), report)
    contents = Contents(out, profile)
    paths: list[Path] = []
    start = time.perf_counter()
    with remember(out / f"finished-{profile}.sqlite"), shared_workers():
        for item, value in _in_turn(items, overall.stage):
            if item == CLAIMS_ITEM:
                contents.verdicts = value
            else:
                paths += value()
            contents.finished[item] = time.perf_counter() - start
            _replace(page, render(contents))
            overall.ended(item)
    return [*paths, page], all(verdict.holds for verdict in contents.verdicts or [])


Item = Callable[[Report], Any]


def _items(out: Path, profile: str) -> dict[str, Item]:
    """Return what to compute, in order: figures, tables, claims."""
    items: dict[str, Item] = {
        figure_item(name): partial(_figure, name, out, profile)
        for name in sorted(reported_figures(profile), key=_turn)
    }
    items |= {table_item(name): partial(_table, name, out, profile) for name in TABLES}
    return items | {CLAIMS_ITEM: lambda report: run_claims(report=report)}


def _turn(name: str) -> tuple[bool, float]:
    """Return the key that sorts figures: uncompiled from short to long, compiled from long."""
    about = figure_module(name).ABOUT
    cost = sum(about.costs.values())
    return about.compiled, -cost if about.compiled else cost


def _all_costs(profile: str) -> dict[str, float]:
    """Return the cost of every stage."""
    modules = [*map(figure_module, reported_figures(profile)), *map(table_module, TABLES)]
    return COSTS | {label: cost for module in modules for label, cost in module.ABOUT.costs.items()}


def _figure(name: str, out: Path, profile: str, report: Report) -> Callable[[], list[Path]]:
    """Compute a figure; return a function that draws it, for one thread at a time."""
    frame = compute_figure(name, out, profile=profile, report=report)
    return partial(draw_figure, name, out, frame)


def _table(name: str, out: Path, profile: str, report: Report) -> Callable[[], list[Path]]:
    paths = make_table(name, out, profile=profile, report=report)
    return lambda: paths


def _in_turn(items: dict[str, Item], report: Report) -> Iterator[tuple[str, Any]]:
    """Yield the value of each item in order; several items run at a time."""
    if default_workers() == 1:  # compiled code may use all cores from one thread
        for name, run in items.items():
            yield name, run(report)
        return
    threads = ThreadPoolExecutor(_ITEMS_AT_ONCE)
    try:
        compiled = _begin(threads, -1, partial(_compile, report))
        futures: dict[str, Future[Any]] = {}
        names = reported_figures("full")
        soon = [figure_item(name) for name in names if not figure_module(name).ABOUT.compiled]
        for rank, (name, run) in enumerate(items.items()):
            before = None if name in soon else compiled
            futures[name] = _begin(threads, rank, partial(_after, before, run, report))
        for name, future in futures.items():
            yield name, future.result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _begin(threads: ThreadPoolExecutor, rank: int, run: Callable[[], Any]) -> Future[Any]:
    context = copy_context()
    context.run(set_rank, rank)
    return threads.submit(context.run, run)


def _compile(report: Report) -> None:
    """Compile in one worker: workers that need a kernel at the same time would all compile it."""
    parallel_map(_compile_kernels, [None], label="compiling", report=report)


def _compile_kernels(_: None) -> None:
    compile_kernels()


def _after(before: Future[Any] | None, run: Item, report: Report) -> Any:
    if before is not None:
        before.result()
    return run(report)


def _replace(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old or the new text, never a part."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
