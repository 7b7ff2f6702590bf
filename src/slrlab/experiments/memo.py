"""Values of finished calls on disk, so that a long reproduction goes on where it was stopped.

Inside ``with remember(path):`` every call of `slrlab.experiments.parallel.parallel_map` is looked
up first and kept, the moment it ends, in one SQLite file. A call is known by its function, its
argument and the source of the package: changed code computes again. Values are pickled, so a file
is to be trusted as code is. This module must not know what is computed.
"""

from __future__ import annotations

import hashlib
import pickle
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

from slrlab._errors import StoreError

_current: ContextVar[Memo | None] = ContextVar("memo", default=None)


@cache
def source_digest() -> str:
    """Return a digest of the package's source."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()


class Memo:
    """A file of finished calls.

    Raises
    ------
    StoreError
        If the file is no such file, is damaged or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reused = 0
        with self._guarded():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(path, timeout=60.0, isolation_level=None)
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=NORMAL")
            self._base.execute(
                "CREATE TABLE IF NOT EXISTS calls(key TEXT PRIMARY KEY, function TEXT NOT NULL, "
                "argument TEXT NOT NULL, value BLOB NOT NULL) WITHOUT ROWID"
            )

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            raise StoreError(
                f"cannot use the file of finished calls {self.path}: {error}"
            ) from None

    def _key(self, function: Callable[..., Any], item: Any) -> str:
        name = f"{function.__module__}.{function.__qualname__}"
        return hashlib.sha256(f"{source_digest()} {name} {item!r}".encode()).hexdigest()

    def known(self, function: Callable[..., Any], items: Sequence[Any]) -> dict[int, Any]:
        """Return the values of those items that were computed before, by their place."""
        found: dict[int, Any] = {}
        with self._guarded():
            for place, item in enumerate(items):
                row = self._base.execute(
                    "SELECT value FROM calls WHERE key = ?", (self._key(function, item),)
                ).fetchone()
                if row is not None:
                    found[place] = pickle.loads(row[0])
        self.reused += len(found)
        return found

    def keep(self, function: Callable[..., Any], item: Any, value: Any) -> None:
        """Commit the value of a call."""
        given = (function.__qualname__, repr(item), pickle.dumps(value))
        with self._guarded():
            self._base.execute(
                "INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?)",
                (self._key(function, item), *given),
            )

    def close(self) -> None:
        """Close the file."""
        self._base.close()


@contextmanager
def remember(path: Path) -> Iterator[Memo]:
    """Look calls up in a file, and keep them there, inside a ``with`` block."""
    memo = Memo(path)
    token = _current.set(memo)
    try:
        yield memo
    finally:
        _current.reset(token)
        memo.close()


def remembered() -> Memo | None:
    """Return the file in use, if there is one."""
    return _current.get()
