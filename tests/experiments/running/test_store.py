"""The file of finished calls: what it keeps, what it refuses, who may write."""

import contextlib
import pickle
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from slrlab._errors import StoreError
from slrlab.cli.main import main
from slrlab.experiments.running import store as module
from slrlab.experiments.running.parallel import parallel_map, remember
from slrlab.experiments.running.store import VERSION, Row, Store


def square(value):
    return value * value


def finish(path, items=(1, 2)):
    with remember(path):
        parallel_map(square, list(items), workers=1)


def change(path, *statements):
    with contextlib.closing(sqlite3.connect(path)) as base:
        for statement in statements:
            base.execute(*statement)
        base.commit()


def claimed(store, keys, most=99, **options):
    """Claim calls without size; return the keys that were leased."""
    return store.claim([(key, 0) for key in keys], most, **options)[0]


class Payload:
    """What unpickling turns into a call."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def planted(marker):
    """Return a pickle that makes a file when it is loaded."""
    payload = pickle.dumps(Payload(marker))
    pickle.loads(payload)
    assert marker.exists()  # it does what it is meant to
    marker.unlink()
    return payload


def test_a_planted_pickle_is_not_loaded(tmp_path):
    path, marker = tmp_path / "store.sqlite", tmp_path / "marker"
    payload = planted(marker)
    for value in (payload, payload.decode("latin-1")):
        path.unlink(missing_ok=True)
        finish(path)
        change(path, ("UPDATE points SET result = ?, settings = ?", (value, value)))
        before = path.read_bytes()
        with pytest.raises(StoreError, match="a value in it is damaged"):
            finish(path)
        with Store(path) as store, pytest.raises(StoreError, match="a row of it is damaged"):
            store.frame()
        assert not marker.exists()
        assert path.read_bytes() == before


def test_a_file_of_pickles_is_refused(tmp_path, capsys):
    path, marker = tmp_path / "finished-toy.sqlite", tmp_path / "marker"
    columns = "key TEXT PRIMARY KEY, function TEXT NOT NULL, argument TEXT NOT NULL, value BLOB"
    row = ("INSERT INTO calls VALUES ('k', 'f', 'a', ?)", (planted(marker),))
    change(path, (f"CREATE TABLE calls({columns}) WITHOUT ROWID",), row)
    before = path.read_bytes()
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", "--no-explorer", "--out", str(tmp_path), "--profile", "toy"])
    assert stopped.value.code == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{path}: it is a database of something else; move it away" in said
    assert not marker.exists()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ([("PRAGMA user_version=2",)], f"has version 2, this slrlab reads {VERSION}; move it away"),
        ([("PRAGMA user_version=99",)], f"has version 99, this slrlab reads {VERSION}; move it"),
        ([("DROP TABLE points",), ("CREATE TABLE notes(x)",)], "a database of something else"),
        ([("CREATE TABLE notes(x)",)], "its tables are not those"),
        (
            [("CREATE TRIGGER t AFTER INSERT ON points BEGIN DELETE FROM points; END",)],
            "its tables are not those",
        ),
    ],
)
def test_files_of_others_are_refused_and_left_alone(tmp_path, statements, message):
    path = tmp_path / "store.sqlite"
    finish(path)
    change(path, *statements)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=message):
        Store(path)
    assert path.read_bytes() == before


def test_a_foreign_database_keeps_its_journal(tmp_path):
    path = tmp_path / "store.sqlite"
    change(path, ("CREATE TABLE notes(x)",), ("INSERT INTO notes VALUES (1)",))
    before = path.read_bytes()
    with pytest.raises(StoreError, match="a database of something else"):
        Store(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_truncated_file_is_refused(tmp_path, share):
    path = tmp_path / "store.sqlite"
    finish(path, [10**200 + i for i in range(100)])
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    before = path.read_bytes()
    with pytest.raises(StoreError, match="move it away to start a new store"):
        Store(path)
    assert path.read_bytes() == before


def test_a_file_with_damaged_pages_is_refused(tmp_path):
    path = tmp_path / "store.sqlite"
    finish(path, range(50))
    whole = bytearray(path.read_bytes())
    whole[4096:12288] = b"\xff" * 8192
    path.write_bytes(bytes(whole))
    with pytest.raises(StoreError, match=r"damaged|malformed"):
        Store(path)


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "bad.sqlite"
    path.write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(StoreError, match=r"cannot open the store .* not a database; move it away"):
        Store(path)
    assert path.read_bytes().startswith(b"nothing of the kind")
    with pytest.raises(StoreError, match="cannot open the store"):
        Store(path / "inside.sqlite")


def test_nothing_in_the_package_loads_pickles():
    root = Path(module.__file__).parents[2]
    names = ("pickle.load", "Unpickler", "read_pickle", "allow_pickle=True", "joblib", "shelve")
    for path in root.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not [name for name in (*names, "marshal", "yaml.load") if name in text], path


def test_leases_are_exclusive_and_end_with_their_process(tmp_path):
    path, keys = tmp_path / "store.sqlite", list("abcdef")
    with Store(path) as one, Store(path) as two:
        first, second = claimed(one, keys, 2), claimed(two, keys)
        assert (first, second) == (["a", "b"], ["c", "d", "e", "f"])
        one.release("a")
        assert claimed(two, keys) == ["a"]
        dead = subprocess.Popen([sys.executable, "-c", ""])
        dead.wait()
        here, there = f"{socket.gethostname()}:{dead.pid}:1:0", "elsewhere:1:1:0"
        change_owner = "UPDATE leases SET owner = ?, beat = 0 WHERE key = ?"
        one._base.execute(change_owner, (here, "c"))
        one._base.execute(change_owner, (there, "d"))
        one._base.execute(change_owner, ("nonsense", "e"))
        one._base.execute("UPDATE leases SET beat = 0 WHERE key = 'f'")
        # c has ended, d was silent for long, e is damaged; f is in this process and needs no beat
        assert claimed(one, keys) == ["c", "d", "e"]
    with Store(path) as three:
        assert claimed(three, keys) == keys  # closing gives back


def test_a_lease_that_could_not_be_given_back_is_void(tmp_path):
    path = tmp_path / "store.sqlite"
    first = Store(path)
    assert claimed(first, "a") == ["a"]
    first._base.execute("PRAGMA query_only = 1")  # as on a full disk
    first.close()
    with Store(path) as second:
        assert claimed(second, "a") == ["a"]


def test_leases_beat_while_calls_run(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_STALE", 0.06)
    with Store(tmp_path / "store.sqlite") as store:
        assert claimed(store, "a") == ["a"]
        query = "SELECT beat FROM leases"
        (first,) = store._base.execute(query).fetchone()
        while store._base.execute(query).fetchone()[0] == first:
            store._closed.wait(0.01)


def test_two_processes_share_the_memory(tmp_path):
    path = tmp_path / "store.sqlite"
    a, b, c, d = ("a", 6), ("b", 5), ("c", 4), ("d", 20)
    room = {"room": lambda held: 10}
    with Store(path) as one, Store(path) as two:
        assert one.claim([a], 1, **room)[0] == ["a"]
        assert two.held() == 6
        assert two.claim([b, c, d, ("free", 0)], 9, **room)[0] == ["c", "free"]
        one.release("a")
        assert two.claim([b, d], 9, **room)[0] == ["b"]
        two.release("b")
        two.release("c")
        assert one.claim([d], 1, **room)[0] == ["d"]  # alone, rather than never


def test_a_row_is_written_whole_or_not_at_all(tmp_path):
    with Store(tmp_path / "store.sqlite") as store:
        assert claimed(store, "ab") == ["a", "b"]
        store.put(Row("a", "population", {}, value=1.0))
        store.put(Row("a", "population", {}, value=2.0))  # a row that is there stays
        with pytest.raises(StoreError, match="NOT NULL"):
            store.put(Row("b", "population", {}, status=None))
        assert store.count() == 1
        assert store.done(["a", "b"]) == {"a": "converged"}
        assert store.frame()["value"].tolist() == [1.0]
        assert store.claim([("a", 0), ("b", 0), ("c", 0)], 9) == (["c"], ["a"])  # b is leased


def test_failed_rows_can_be_forgotten(tmp_path):
    with Store(tmp_path / "store.sqlite") as store:
        for key in "abc":
            store.put(Row(key, "flow", {}, status="converged" if key == "b" else "failed"))
        store.forget_failed(["a", "b"])
        assert store.done("abc") == {"b": "converged", "c": "failed"}
