"""Results on disk: one SQLite file, one row a finished point, nothing ever half written.

A row is committed at once, in a write-ahead log, so that a killed process loses only what it was
computing. A *lease* says that a live process is computing a point; two sweeps on one store share
the work and never repeat it. The file opens with plain pandas:
``pandas.read_sql("SELECT * FROM points", sqlite3.connect(path))``. This module must not know what
is computed.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sqlite3
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slrlab._errors import StoreError
from slrlab._result import plain

if TYPE_CHECKING:
    import pandas as pd

VERSION = 2  # 1 had leases without memory
_STALE = 60.0  # seconds without a sign of life after which a lease is void
_OPEN: set[str] = set()  # owners of leases in this process
_SPARE = 2**20  # bytes kept free on the disk for what is finished when it is full
_SCHEMA = """
CREATE TABLE IF NOT EXISTS points(
    key TEXT PRIMARY KEY,
    compute TEXT NOT NULL,
    settings TEXT NOT NULL,
    seed INTEGER NOT NULL,
    value REAL,
    error REAL,
    status TEXT NOT NULL,
    message TEXT NOT NULL,
    result TEXT NOT NULL,
    seconds REAL NOT NULL,
    versions TEXT NOT NULL,
    finished TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leases(
    key TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    beat REAL NOT NULL,
    bytes INTEGER NOT NULL
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Row:
    """A finished point."""

    key: str
    compute: str
    settings: dict[str, Any]
    seed: int
    value: float | None
    error: float | None
    status: str
    message: str
    result: dict[str, Any]
    seconds: float
    versions: dict[str, str]


class Store:
    """A file of finished points, open for reading and writing.

    Raises
    ------
    StoreError
        If the file is no store of this version, is damaged, or cannot be written.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        own = f"{os.getpid()}:{_birth(os.getpid())}:{uuid.uuid4().hex[:12]}"
        self.owner = f"{socket.gethostname()}:{own}"
        with self._guarded("open"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(self.path, timeout=60.0, isolation_level=None)
            try:
                self._prepare()
            except BaseException:
                self._base.close()
                raise
        self._spare: ExitStack | None = None
        _OPEN.add(self.owner)

    def _prepare(self) -> None:
        """Make the tables of a new file, or check those of an old one."""
        for attempt in range(50):  # two processes may make the same file
            try:
                self._base.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or attempt == 49:
                    raise
                time.sleep(0.1)
        self._base.execute("PRAGMA synchronous=NORMAL")
        with self._transaction():
            found = self._base.execute("PRAGMA user_version").fetchone()[0]
            tables = self._base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if found not in (0, 1, VERSION):
                raise StoreError(f"store {self.path} has version {found}, this is {VERSION}")
            if found == 0 and tables:
                raise StoreError(f"store {self.path} is a database of something else")
            if found == 1:
                self._base.execute("DROP TABLE leases")
            if found != VERSION:
                for statement in _SCHEMA.split(";"):
                    self._base.execute(statement)
                self._base.execute(f"PRAGMA user_version={VERSION}")
        problem = self._base.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise StoreError(f"store {self.path} is damaged: {problem}")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back all leases of this process and close the file."""
        _OPEN.discard(self.owner)
        with suppress(sqlite3.Error):  # on a full disk they are void all the same
            self._base.execute("DELETE FROM leases WHERE owner = ?", (self.owner,))
        self._base.close()
        self.use_spare()

    def keep_spare(self) -> None:
        """Hold some of the disk back, for results that are finished when the rest is full.

        The space is an unnamed file: it is given back when the process ends, however it ends.
        """
        with suppress(OSError), ExitStack() as opened:  # a disk may be too small for it
            spare = opened.enter_context(tempfile.TemporaryFile(dir=self.path.parent))
            spare.write(bytes(_SPARE))
            spare.flush()
            self._spare = opened.pop_all()

    def use_spare(self) -> bool:
        """Give the space held back to the store; return whether there was any."""
        spare, self._spare = self._spare, None
        if spare is not None:
            spare.close()
        return spare is not None

    @contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        """Turn errors of the database and the disk into one clear line."""
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            raise StoreError(f"cannot {what} the store {self.path}: {error}") from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._base.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._base.execute("COMMIT")
        except BaseException:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            raise

    def done(self, keys: Iterable[str], *, retry_before: str = "") -> set[str]:
        """Return which of these points are finished.

        Points that failed before the time ``retry_before`` (see `now`) do not count.
        """
        wanted = set(keys)
        query = "SELECT key FROM points WHERE NOT (status = 'failed' AND finished < ?)"
        with self._guarded("read"):
            return wanted & {key for (key,) in self._base.execute(query, (retry_before,))}

    def failed(self, keys: Iterable[str]) -> set[str]:
        """Return which of these points have failed."""
        wanted = set(keys)
        with self._guarded("read"):
            found = self._base.execute("SELECT key FROM points WHERE status = 'failed'")
            return wanted & {key for (key,) in found}

    def held(self) -> int:
        """Return the bytes that points under way on this machine need, of this and other sweeps."""
        moment, host = time.time(), socket.gethostname()
        query = "SELECT owner, beat, bytes FROM leases WHERE bytes > 0"
        with self._guarded("read"):
            found = self._base.execute(query).fetchall()
        return sum(
            size
            for owner, beat, size in found
            if owner.rsplit(":", 3)[0] == host and _alive(owner, beat, moment)
        )

    def claim(
        self,
        keys: Sequence[str],
        most: int,
        *,
        sizes: Mapping[str, int] | None = None,
        room: float = math.inf,
        retry_before: str = "",
    ) -> list[str]:
        """Lease up to ``most`` points that nobody has finished or is computing.

        A point that needs memory (``sizes``, bytes) is left out unless it fits into ``room``
        beside what is under way on this machine, or is the only one that needs any.
        """
        taken: list[str] = []
        moment, need = time.time(), sizes or {}
        with self._guarded("write"), self._transaction():
            used = self.held() if any(need.get(key) for key in keys) else 0
            for key in keys:
                if len(taken) == most:
                    break
                size = need.get(key, 0)
                if size and used and used + size > room:
                    continue
                finished = self._base.execute(
                    "SELECT 1 FROM points WHERE key = ? AND NOT (status = 'failed' "
                    "AND finished < ?)",
                    (key, retry_before),
                ).fetchone()
                if finished is not None:
                    continue
                lease = self._base.execute(
                    "SELECT owner, beat FROM leases WHERE key = ?", (key,)
                ).fetchone()
                if lease is not None and _alive(str(lease[0]), float(lease[1]), moment):
                    continue
                self._base.execute(
                    "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?)",
                    (key, self.owner, moment, size),
                )
                used += size
                taken.append(key)
        return taken

    def release(self, keys: Iterable[str]) -> None:
        """Give leases back without a result."""
        with self._guarded("write"), self._transaction():
            for key in keys:
                self._base.execute(
                    "DELETE FROM leases WHERE key = ? AND owner = ?", (key, self.owner)
                )

    def put(self, row: Row) -> None:
        """Commit a finished point and end its lease, both or neither.

        A row that is there stays, unless it has failed.
        """
        values = (
            row.key,
            row.compute,
            json.dumps(plain(row.settings), sort_keys=True),
            row.seed,
            row.value,
            row.error,
            row.status,
            row.message,
            json.dumps(row.result),
            row.seconds,
            json.dumps(row.versions, sort_keys=True),
            now(),
        )
        with self._guarded("write"), self._transaction():
            marks = ", ".join("?" * len(values))
            self._base.execute("DELETE FROM points WHERE key = ? AND status = 'failed'", (row.key,))
            self._base.execute(
                f"INSERT INTO points VALUES ({marks}) ON CONFLICT(key) DO NOTHING", values
            )
            self._base.execute(
                "DELETE FROM leases WHERE key = ? AND owner = ?", (row.key, self.owner)
            )

    def count(self) -> int:
        """Return the number of finished points."""
        with self._guarded("read"):
            return int(self._base.execute("SELECT count(*) FROM points").fetchone()[0])

    def frame(self, where: dict[str, str] | None = None) -> pd.DataFrame:
        """Return one row a point: settings as columns, then the results.

        ``where`` keeps rows whose column, as text, is the given one (numbers: equal in value).
        """
        import pandas as pd

        with self._guarded("read"):
            found = self._base.execute(
                "SELECT compute, settings, seed, value, error, status, message, seconds, versions, "
                "finished, key FROM points ORDER BY compute, settings, seed"
            ).fetchall()
        rows = []
        for compute, settings, *rest in found:
            names = ("seed", "value", "error", "status", "message", "seconds", "versions")
            own = dict(zip((*names, "finished", "key"), rest, strict=True))
            given = {name: _number(value) for name, value in json.loads(settings).items()}
            rows.append({"compute": compute} | given | own)
        frame = pd.DataFrame(rows)
        for name, text in (where or {}).items():
            if name not in frame.columns:
                known = ", ".join(map(str, frame.columns)) or "none: the store is empty"
                raise ValueError(f"where must name a column ({known}), got {name}")
            frame = frame.loc[[_equal(value, text) for value in frame[name]] or slice(0)]
        return frame


class Heartbeat:
    """Keeps the leases of a store alive from a thread of its own while computations run."""

    def __init__(self, store: Store, every: float = _STALE / 6.0) -> None:
        self._store, self._every = store, every
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _beat(self) -> None:
        base = sqlite3.connect(self._store.path, timeout=60.0, isolation_level=None)
        try:
            while not self._end.wait(self._every):
                with suppress(sqlite3.Error):  # a missed beat is made up by the next
                    base.execute(
                        "UPDATE leases SET beat = ? WHERE owner = ?",
                        (time.time(), self._store.owner),
                    )
        finally:
            base.close()


def now() -> str:
    """Return the time as a store writes it down."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _number(value: Any) -> Any:
    """Return infinities, which JSON holds as text, as numbers."""
    return float(value) if value in ("inf", "-inf") else value


def _equal(value: Any, text: str) -> bool:
    try:
        return float(value) == float(text)
    except (TypeError, ValueError):
        return str(value) == text


def _alive(owner: str, beat: float, now: float) -> bool:
    """Return whether the process behind a lease is there: known by its birth, or heard of."""
    host, pid, birth, _ = owner.rsplit(":", 3)
    if host == socket.gethostname() and int(pid) == os.getpid() and birth == _birth(os.getpid()):
        return owner in _OPEN
    if host == socket.gethostname() and birth != "unknown":
        return _birth(int(pid)) == birth
    return now - beat < _STALE


def _birth(pid: int) -> str:
    """Return when a process of this machine began, in ticks; a number may be used again."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return "gone" if state == "Z" else rest[18]
    except FileNotFoundError:
        return "gone" if Path("/proc/self/stat").exists() else "unknown"
    except OSError:
        return "unknown"
