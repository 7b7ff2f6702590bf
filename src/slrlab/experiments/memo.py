"""Values of finished calls on disk, so that a long reproduction goes on where it was stopped.

Inside ``with remember(path):`` every call of `slrlab.experiments.parallel.parallel_map` is looked
up first and kept, the moment it ends, in one SQLite file. A call is known by its function, its
argument and the source of the package: changed code computes again. Values are kept as data (see
`slrlab.experiments.encoding`): reading a file that somebody else made runs no code. This module
must not know what is computed.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

from slrlab._errors import StoreError
from slrlab.experiments.encoding import decode, encode

VERSION = 1
_SCHEMA = (
    "CREATE TABLE calls(key TEXT PRIMARY KEY, function TEXT NOT NULL, argument TEXT NOT NULL, "
    "value TEXT NOT NULL) WITHOUT ROWID"
)
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
    """A file of finished calls; several threads may share it.

    Raises
    ------
    StoreError
        If the file is no such file, is of another version, is damaged or cannot be written. It is
        left as it was.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reused = 0
        self._lock = threading.RLock()
        with self._guarded():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(
                path, timeout=60.0, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
            except BaseException:
                self._base.close()
                raise

    def _prepare(self) -> None:
        """Make the table of a new file, or check an old one before anything is written."""
        self._base.execute("PRAGMA trusted_schema=OFF")
        self._base.execute("BEGIN IMMEDIATE")
        found = self._base.execute("PRAGMA user_version").fetchone()[0]
        tables = dict(self._base.execute("SELECT name, sql FROM sqlite_master"))
        if found == 0 and not tables:
            self._base.execute(_SCHEMA)
            self._base.execute(f"PRAGMA user_version={VERSION}")
        elif "calls" not in tables:
            raise self._refused("it is a database of something else")
        elif found != VERSION:
            raise self._refused(f"it has version {found}, this slrlab reads {VERSION}")
        elif tables != {"calls": _SCHEMA}:
            raise self._refused("its tables are not those of finished calls")
        self._base.execute("COMMIT")
        problem = self._base.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise self._refused(f"it is damaged ({problem})")
        self._base.execute("PRAGMA journal_mode=WAL")
        self._base.execute("PRAGMA synchronous=NORMAL")

    def _refused(self, why: object, cure: str = "; move it away to start anew") -> StoreError:
        return StoreError(f"cannot use the file of finished calls {self.path}: {why}{cure}")

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except (sqlite3.OperationalError, OSError) as error:  # locked, a full disk
                raise self._refused(error, cure="") from None
            except sqlite3.Error as error:
                raise self._refused(error) from None

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
                    found[place] = self._value(row[0])
            self.reused += len(found)
        return found

    def _value(self, text: object) -> Any:
        try:
            if isinstance(text, str):
                return decode(text)
        except ValueError as error:
            raise self._refused(f"a value in it is damaged ({error})") from None
        raise self._refused("a value in it is no text")

    def keep(self, function: Callable[..., Any], item: Any, value: Any) -> None:
        """Commit the value of a call."""
        given = (function.__qualname__, repr(item), encode(value))
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
