"""Everything there is, computed: what to show soon comes first, and no core waits for another.

Several items are under way at a time. They share the workers in the order of the items, so the
first ones end first, and the next ones fill the gaps. The page is written anew after each.
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
from slrlab.experiments.executors import default_workers
from slrlab.experiments.parallel import remember, set_rank, shared_workers
from slrlab.figures import FIGURES, PROFILES, TABLES, compute_figure, draw_figure, make_table
from slrlab.figures.report import CLAIMS_ITEM, Contents, figure_item, render, table_item

# seconds of one core in the quick profile, for the time left; labels are those of the stages
COSTS = {
    "figure 2": 10.0,
    "length": 8.0,
    "figure phases": 18.0,
    "figure 4": 16.0,
    "figure 5: mismatched": 32.0,
    "figure 5: matched": 12.0,
    "figure tension": 43.0,
    "figure basins": 18.0,
    "figure minima": 57.0,
    "figure 3: theory": 150.0,
    "figure 3: training": 14.0,
    "figure 3: thresholds": 16.0,
    "figure 3: Bayes-optimal": 32.0,
    "figure 6: theory": 57.0,
    "figure 6: training": 18.0,
    "figure 7: theory": 35.0,
    "figure 7: training": 8.0,
    "agreement: theory": 13.0,
    "agreement: training": 11.0,
    "message passing": 40.0,
    "figure descent": 17.0,
    "validity: theory": 54.0,
    "validity: training, informed start": 5.0,
    "validity: training, random start": 5.0,
    "rates": 2.0,
    "table 1: drawn tokens": 5.0,
    "claims": 7.0,
}
_OTHER = 5.0  # a stage that is not listed
_FIRST = ("2", "length", "phases", "4", "5", "tension", "basins", "minima")
_ABREAST = 4  # items under way at a time
_SURE = 20.0  # seconds after which the speed of this run counts as much as the expected one


class Overall:
    """One line about the whole run: which item, how much is done, how long it may still take."""

    def __init__(self, items: list[str], page: Path, report: Report | None = None) -> None:
        self._items, self._page, self._report = items, page, report
        self._done: dict[str, float] = {}  # shares of the stages
        self._found = 0.0  # cost of what was finished before this run
        self._ended: list[str] = []
        self._start, self._workers = time.monotonic(), default_workers()
        self._lock = threading.Lock()

    def stage(self, done: int, total: int, label: str) -> None:
        """Take note that a stage has got on; its first call says what was known before."""
        with self._lock:
            share = done / total if total else 1.0
            if label not in self._done:
                self._found += share * COSTS.get(label, _OTHER)
            self._done[label] = max(share, self._done.get(label, 0.0))
            self._show()

    def ended(self, item: str) -> None:
        """Take note that an item is complete."""
        with self._lock:
            self._ended.append(item)
            self._show()

    def _show(self) -> None:
        if self._report is not None:
            self._report(round(1000 * self._share()), 1000, str(self))

    def _costs(self) -> tuple[float, float]:
        """Return the cost of what is done and of everything, as far as it is known."""
        costs = COSTS | {label: COSTS.get(label, _OTHER) for label in self._done}
        done = sum(share * costs[label] for label, share in self._done.items())
        return done, sum(costs.values())

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
        speed = (done - self._found + _SURE * self._workers) / (spent + _SURE)
        left = _in_words((whole - done) / speed)
        share = f"{100.0 * self._share():.0f} %"
        look = f"; see {self._page}" if self._ended else ""
        return f"item {number} of {len(self._items)}: {waiting[0]}, {share}, {left} left{look}"


def _in_words(seconds: float) -> str:
    if seconds < 50.0:
        return f"about {max(10, 10 * round(seconds / 10.0))} s"
    minutes = round(seconds / 60.0)
    return f"about {minutes} min" if minutes < 100 else f"about {round(minutes / 60.0)} h"


def reproduce_all(
    out: Path, *, profile: str = "quick", report: Report | None = None
) -> tuple[list[Path], bool]:
    """Make every figure and table, check every claim, write ``report.html``.

    Returns the files and whether all claims hold. ``report(done, 1000, line)`` is called with one
    line about the whole run. The page is there as soon as the first figure is, and grows.

    Stopped and called again, it goes on with what is missing: finished points are kept in ``out``.

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
    overall = Overall(list(items), page, report)
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
    verdicts = contents.verdicts or []
    return [*paths, page], all(verdict.holds for verdict in verdicts)


Item = Callable[[Report], Any]


def _items(out: Path, profile: str) -> dict[str, Item]:
    """Return what to compute, in order: soon first, then the long ones, many short calls last."""
    names = sorted(FIGURES, key=_place)
    items: dict[str, Item] = {
        figure_item(name): partial(_figure, name, out, profile) for name in names
    }
    items |= {table_item(name): partial(_table, name, out, profile) for name in TABLES}
    return items | {CLAIMS_ITEM: lambda report: run_claims(report=report)}


def _place(name: str) -> int:
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)


def _figure(name: str, out: Path, profile: str, report: Report) -> Callable[[], list[Path]]:
    """Compute a figure; return how to draw it, which only one thread at a time can."""
    frame = compute_figure(name, out, profile=profile, report=report)
    return partial(draw_figure, (name, out, frame))


def _table(name: str, out: Path, profile: str, report: Report) -> Callable[[], list[Path]]:
    paths = make_table(name, out, profile=profile, report=report)
    return lambda: paths


def _in_turn(items: dict[str, Item], report: Report) -> Iterator[tuple[str, Any]]:
    """Yield what each item gives, one after another; several are under way at a time."""
    if default_workers() == 1:  # compiled code may use the cores by itself, from one thread
        for name, run in items.items():
            yield name, run(report)
        return
    threads = ThreadPoolExecutor(_ABREAST)
    try:
        found: dict[str, Future[Any]] = {}
        for rank, (name, run) in enumerate(items.items()):
            found[name] = _begin(threads, rank, partial(run, report))
        for name, future in found.items():
            yield name, future.result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _begin(threads: ThreadPoolExecutor, rank: int, run: Callable[[], Any]) -> Future[Any]:
    context = copy_context()
    context.run(set_rank, rank)
    return threads.submit(context.run, run)


def _replace(path: Path, text: str) -> None:
    """Write a file so that a reader meets the old or the new one, never a part."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
