"""Finished calls on disk: one SQLite file, one row for each call.

A row is committed at once, in a write-ahead log, so that a killed process loses only what it was
computing. A *lease* marks a call that a live process computes; processes that use one store share
the work and the memory of their machine. The file holds numbers and text only: reading a file of
unknown origin runs no code. It opens with plain pandas: ``pandas.read_sql("SELECT * FROM points",
sqlite3.connect(path))``. Independent of what is computed.
"""

from __future__ import annotations

import json
import math
import os
import platform
import socket
import sqlite3
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from slrlab._errors import StoreError
from slrlab._machine import process_birth
from slrlab._result import plain
from slrlab._types import DataFrame
from slrlab.experiments.running.encoding import decode

VERSION = 3
IN_MEMORY = ":memory:"
_STALE = 60.0  # seconds without a heartbeat after which a lease from another machine expires
_OPEN: set[str] = set()  # owners of leases in this process
_SPARE = 2**20  # bytes kept free on the disk for calls that end when it is full
_CURE = "; move it away to start a new store"
_INFINITE = ("inf", "-inf")  # infinite numbers as JSON holds them
_FINISHED = "SELECT 1 FROM points WHERE key = ?"
_LEASED = "SELECT owner, beat FROM leases WHERE key = ?"
_TABLES = {
    "points": "CREATE TABLE points(key TEXT PRIMARY KEY, compute TEXT NOT NULL, "
    "settings TEXT NOT NULL, seed INTEGER NOT NULL, value REAL, error REAL, status TEXT NOT NULL, "
    "message TEXT NOT NULL, result TEXT NOT NULL, seconds REAL NOT NULL, versions TEXT NOT NULL, "
    "finished TEXT NOT NULL) WITHOUT ROWID",
    "leases": "CREATE TABLE leases(key TEXT PRIMARY KEY, owner TEXT NOT NULL, beat REAL NOT NULL, "
    "bytes INTEGER NOT NULL) WITHOUT ROWID",
}


@cache
def versions() -> dict[str, str]:
    """Return the versions of what a number was computed with."""
    packages = {name: version(name) for name in ("slrlab", "numpy", "scipy", "numba")}
    return packages | {"python": platform.python_version()}


@dataclass(frozen=True)
class Row:
    """A finished call: what was computed, and what came out as JSON text (``result``)."""

    key: str
    compute: str
    settings: dict[str, Any]
    seed: int = 0
    value: float | None = None
    error: float | None = None
    status: str = "converged"
    message: str = ""
    result: str = "{}"
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=versions)
    finished: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))


_COLUMNS = [field.name for field in fields(Row)]


class Store:
    """A file of finished calls, open for reading and writing; threads may share it.

    Raises
    ------
    StoreError
        If the file is not a store of this version, is damaged, or cannot be written. A file that is
        refused is left as it was.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        own = f"{os.getpid()}:{process_birth(os.getpid())}:{uuid.uuid4().hex[:12]}"
        self.owner = f"{socket.gethostname()}:{own}"
        self._in_file = str(path) != IN_MEMORY
        self._lock, self._closed = threading.RLock(), threading.Event()
        self._beats: threading.Thread | None = None
        self._spare: ExitStack | None = None
        with self._guarded("open"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(
                path, timeout=60.0, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
            except BaseException:
                self._base.close()
                raise
        _OPEN.add(self.owner)

    def _prepare(self) -> None:
        """Make the tables of a new file, or check an old one before anything is written."""
        self._base.execute("PRAGMA trusted_schema=OFF")
        with self._transaction():
            number = self._base.execute("PRAGMA user_version").fetchone()[0]
            tables = dict(self._base.execute("SELECT name, sql FROM sqlite_master"))
            if number == 0 and not tables:
                for statement in _TABLES.values():
                    self._base.execute(statement)
                self._base.execute(f"PRAGMA user_version={VERSION}")
            elif "points" not in tables:
                raise self._refused("it is a database of something else")
            elif number != VERSION:
                raise self._refused(f"it has version {number}, this slrlab reads {VERSION}")
            elif tables != _TABLES:
                raise self._refused("its tables are not those of a store")
        problem = self._base.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise self._refused(f"it is damaged ({problem})")
        for attempt in range(50):  # another process may be opening the file
            try:
                self._base.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or attempt == 49:
                    raise
                time.sleep(0.1)
        self._base.execute("PRAGMA synchronous=NORMAL")

    def _refused(self, why: object, what: str = "open", cure: str = _CURE) -> StoreError:
        return StoreError(f"cannot {what} the store {self.path}: {why}{cure}")

    @contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        """Hold the lock, and turn errors of the database and the disk into a `StoreError`."""
        with self._lock:
            try:
                yield
            except (sqlite3.OperationalError, OSError) as error:  # locked, or a full disk
                raise self._refused(error, what, cure="") from None
            except sqlite3.DatabaseError as error:
                raise self._refused(error, what) from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._base.execute("BEGIN IMMEDIATE")
        with self._base:  # commits, or rolls back after an error
            yield

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all leases of this store and close the file."""
        _OPEN.discard(self.owner)
        self._closed.set()
        if self._beats is not None:
            self._beats.join()
        with suppress(sqlite3.Error):  # a full disk: the lease stays and expires
            self._base.execute("DELETE FROM leases WHERE owner = ?", (self.owner,))
        self._base.close()
        self.use_spare()

    def keep_spare(self) -> None:
        """Reserve some of the disk for calls that end when the rest of it is full.

        The space is an unnamed file: the system frees it when the process ends, however it ends.
        """
        if self._in_file and self._spare is None:
            with suppress(OSError), ExitStack() as opened:  # a disk may be too small for it
                spare = opened.enter_context(tempfile.TemporaryFile(dir=self.path.parent))
                spare.write(bytes(_SPARE))
                spare.flush()
                self._spare = opened.pop_all()

    def use_spare(self) -> bool:
        """Free the reserved space for the store; return whether there was any."""
        spare, self._spare = self._spare, None
        if spare is not None:
            spare.close()
        return spare is not None

    def done(self, keys: Iterable[str]) -> dict[str, str]:
        """Return the status of those calls that are finished."""
        query = "SELECT key, status FROM points WHERE key IN (SELECT value FROM json_each(?))"
        with self._guarded("read"):
            return dict(self._base.execute(query, (json.dumps(list(keys)),)))

    def value(self, key: str) -> Any:
        """Return the value of a finished call, written by `slrlab.experiments.running.encoding`."""
        with self._guarded("read"):
            query = "SELECT result FROM points WHERE key = ?"
            (text,) = self._base.execute(query, (key,)).fetchone()
        try:
            return decode(text)
        except ValueError as error:
            raise self._refused(f"a value in it is damaged ({error})", "read") from None

    def forget_failed(self, keys: Iterable[str]) -> None:
        """Remove those of these calls that have failed."""
        query = "DELETE FROM points WHERE status = 'failed' AND key = ?"
        with self._guarded("write"), self._transaction():
            self._base.executemany(query, [(key,) for key in keys])

    def held(self) -> int:
        """Return the bytes that calls under way on this machine need, of this and other stores."""
        moment, host = time.time(), socket.gethostname()
        with self._guarded("read"):
            query = "SELECT owner, beat, bytes FROM leases WHERE bytes > 0"
            leases = [row for row in self._base.execute(query) if row[0].startswith(f"{host}:")]
        return sum(size for owner, beat, size in leases if _alive(owner, beat, moment))

    def claim(
        self,
        calls: Iterable[tuple[str, int]],
        most: int,
        *,
        room: Callable[[int], float] = lambda held: math.inf,
    ) -> tuple[list[str], list[str]]:
        """Lease up to ``most`` calls, given by key and size, that no process computes or has done.

        A call that needs memory (size > 0, in bytes) is left out unless it fits, beside what is
        ``held`` by calls under way on this machine, into ``room(held)``, or nothing is held. Also
        return which of the calls that it looked at are finished.
        """
        taken: list[str] = []
        finished: list[str] = []
        used, most_bytes, moment = -1, 0.0, time.time()
        if self._in_file and self._beats is None:
            self._beats = threading.Thread(target=self._beat, daemon=True)
            self._beats.start()
        with self._guarded("write"), self._transaction():
            for key, size in calls:
                if len(taken) == most:
                    break
                if size and used < 0:
                    used = self.held()
                    most_bytes = room(used)
                if size and used and used + size > most_bytes:
                    continue
                if self._base.execute(_FINISHED, (key,)).fetchone():
                    finished.append(key)
                    continue
                leases = self._base.execute(_LEASED, (key,)).fetchall()
                if any(_alive(owner, beat, moment) for owner, beat in leases):
                    continue
                self._base.execute(
                    "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?)",
                    (key, self.owner, moment, size),
                )
                used += size
                taken.append(key)
        return taken, finished

    def release(self, key: str) -> None:
        """End a lease without a result."""
        with self._guarded("write"):
            self._base.execute("DELETE FROM leases WHERE key = ? AND owner = ?", (key, self.owner))

    def put(self, row: Row) -> None:
        """Commit a finished call and end its lease, both or neither; an existing row stays."""
        values = [
            json.dumps(plain(value), sort_keys=True) if isinstance(value, dict) else value
            for value in (getattr(row, name) for name in _COLUMNS)
        ]
        marks = ", ".join("?" * len(values))
        with self._guarded("write"), self._transaction():
            self._base.execute(
                f"INSERT INTO points VALUES ({marks}) ON CONFLICT(key) DO NOTHING", values
            )
            self.release(row.key)

    def count(self) -> int:
        """Return the number of finished calls."""
        with self._guarded("read"):
            return int(self._base.execute("SELECT count(*) FROM points").fetchone()[0])

    def frame(self, where: dict[str, str] | None = None) -> DataFrame:
        """Return one row a call: settings as columns, then the results.

        ``where`` keeps rows whose column, as text, is the given one (numbers: equal in value).
        """
        import pandas as pd

        names = [name for name in _COLUMNS if name not in ("settings", "compute", "result", "key")]
        columns = ", ".join(("compute", "settings", *names, "key"))
        rows = []
        with self._guarded("read"):
            query = f"SELECT {columns} FROM points ORDER BY compute, settings, seed"
            for compute, text, *rest in self._base.execute(query):
                try:
                    settings = dict(json.loads(text).items())
                except (AttributeError, TypeError, ValueError) as error:
                    raise self._refused(f"a row of it is damaged ({error})", "read") from None
                own = zip((*names, "key"), rest, strict=True)
                infinite = {key: float(item) for key, item in settings.items() if item in _INFINITE}
                rows.append({"compute": compute} | settings | infinite | dict(own))
        frame = pd.DataFrame(rows)
        for name, text in (where or {}).items():
            if name not in frame.columns:
                known = ", ".join(map(str, frame.columns)) or "none: the store is empty"
                raise ValueError(f"where must name a column ({known}), got {name}")
            frame = frame.loc[[_equal(value, text) for value in frame[name]] or slice(0)]
        return frame

    def _beat(self) -> None:
        """Show other machines, from a thread, that the leases are alive while calls run."""
        query = "UPDATE leases SET beat = ? WHERE owner = ?"
        while not self._closed.wait(_STALE / 6.0):
            with suppress(StoreError), self._guarded("write"):  # the next beat tries again
                self._base.execute(query, (time.time(), self.owner))


def _equal(value: Any, text: str) -> bool:
    try:
        return float(value) == float(text)
    except (TypeError, ValueError):
        return str(value) == text


def _alive(owner: str, beat: float, now: float) -> bool:
    """Return whether the process of a lease runs, by its start time or by its last beat."""
    if owner in _OPEN:
        return True
    try:
        host, pid, birth, _ = owner.rsplit(":", 3)
        if host != socket.gethostname() or birth == "unknown":
            return now - beat < _STALE
        return int(pid) != os.getpid() and process_birth(int(pid)) == birth
    except (TypeError, ValueError):  # not written by this package
        return False
