"""Run independent computations on the cores of this machine, and keep what they return."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from slrlab._machine import allowed_memory
from slrlab._types import Report
from slrlab.experiments.running.encoding import encode
from slrlab.experiments.running.executors import Executor, Outcome, Processes, default_workers
from slrlab.experiments.running.runner import Call, Runner, open_executor
from slrlab.experiments.running.store import IN_MEMORY, Row, Store

Item = TypeVar("Item")
Value = TypeVar("Value")
_kept: ContextVar[Store | None] = ContextVar("store of finished calls", default=None)
_shared: ContextVar[Runner | None] = ContextVar("shared workers", default=None)
_rank: ContextVar[int] = ContextVar("rank", default=0)


def parallel_map(
    function: Callable[[Item], Value],
    items: Sequence[Item],
    *,
    label: str = "",
    report: Report | None = None,
    workers: int | None = None,
    size: float = 0.0,
    key: Callable[[Item], str] | None = None,
) -> list[Value]:
    """Return ``[function(item) for item in items]``, computed by several processes.

    ``report(done, total, label)`` is called as results arrive. ``workers`` is the number of cores,
    or what the environment variable ``SLRLAB_WORKERS`` says, but no more than the memory allows if
    an item takes up to ``size`` bytes. With one worker, or one item, everything runs in this
    process. Inside `remember` no item is computed twice; ``key(item)`` identifies an item;
    without it, the function, the item and the source of the package do. After an error in one
    item no other is started; those under way are finished and kept before it is raised. A call
    whose worker died is started once more.
    """
    tell = report or (lambda done, total, text: None)
    store, shared = _kept.get(), _shared.get()
    if shared is not None and (
        workers not in (None, shared.slots) or store not in (None, shared.store)
    ):
        shared = None
    if store is None and shared is None:
        keys = [str(index) for index in range(len(items))]
    else:
        keys = [key(item) if key is not None else _key(function, item) for item in items]
    by_key = dict(zip(keys, items, strict=True))
    held = store.done(by_key) if store is not None else {}
    values = {known: store.value(known) for known in held} if store is not None else {}
    calls = [
        Call(
            *(known, function, (item,), int(size), _rank.get()),
            row=None if store is None else partial(_row, function, item),
        )
        for known, item in by_key.items()
        if known not in values
    ]
    errors: list[BaseException] = []

    def receive(ended: list[Outcome]) -> None:
        for outcome in ended:
            if outcome.error is not None:
                errors.append(outcome.error)
            elif outcome.elsewhere and store is not None:
                values[outcome.key] = store.value(outcome.key)
            else:
                values[outcome.key] = outcome.value
        if ended:
            tell(len(values), len(by_key), label)

    tell(len(values), len(by_key), label)
    if shared is not None:
        shared.run(calls, receive, until_error=True)
    elif calls:
        fitting = max(1, int(allowed_memory() / size)) if size else len(calls)
        executor = open_executor(min(fitting, len(calls)), workers)
        with _runner(executor, store) as runner:
            runner.run(calls, receive, until_error=True)
    if errors:
        raise errors[0]
    return [values[known] for known in keys]


@contextmanager
def _runner(executor: Executor, store: Store | None) -> Iterator[Runner]:
    """Run calls on an executor; without a store, one in memory records what is under way."""
    with (
        nullcontext(store) if store is not None else Store(IN_MEMORY) as base,
        Runner(executor, base) as runner,
    ):
        yield runner


@contextmanager
def _set(variable: ContextVar[Value | None], value: Value) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


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
    with _runner(Processes(count), _kept.get()) as runner, _set(_shared, runner):
        yield


def set_rank(rank: int) -> None:
    """Let calls in this context start before those of any higher rank."""
    _rank.set(rank)


@contextmanager
def remember(path: Path) -> Iterator[Store]:
    """Look calls up in a store, and keep each there when it ends, inside a ``with`` block.

    A call is known by its function, its argument and the source of the package: changed code
    computes again.

    Raises
    ------
    StoreError
        If the file is not a store of this version, is damaged or cannot be written.
    """
    with Store(path) as store, _set(_kept, store):
        yield store


def _key(function: Callable[..., Any], item: Any) -> str:
    name = f"{function.__module__}.{function.__qualname__}"
    return hashlib.sha256(f"{source_digest()} {name} {item!r}".encode()).hexdigest()


def _row(function: Callable[..., Any], item: Any, outcome: Outcome) -> Row:
    function = function.func if isinstance(function, partial) else function
    name, given = function.__qualname__, {"argument": repr(item)}
    result = encode(outcome.value)
    return Row(outcome.key, name, given, result=result, seconds=outcome.seconds)


@cache
def source_digest() -> str:
    """Return a digest of the package's source."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[2]
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()
