import pickle
import sqlite3
import time
from pathlib import Path

import pytest

from slrlab._errors import StoreError
from slrlab.cli.main import main
from slrlab.experiments import memo
from slrlab.experiments.memo import VERSION, remember
from slrlab.experiments.parallel import parallel_map


def _square(value):
    if value == 13:
        raise ValueError("unlucky")
    return value * value


def test_finished_calls_are_remembered(tmp_path, monkeypatch):
    path = tmp_path / "finished.sqlite"
    with remember(path), pytest.raises(ValueError, match="unlucky"):
        parallel_map(_square, [1, 2, 13, 3], workers=1)
    with remember(path) as found:
        assert parallel_map(_square, [1, 2, 3], workers=1) == [1, 4, 9]
        assert found.reused == 2  # what came before the error
    with remember(path) as found:
        assert parallel_map(_square, [3, 2, 1, 4], workers=2) == [9, 4, 1, 16]
        assert found.reused == 3
    monkeypatch.setattr(memo, "source_digest", lambda: "other code")
    with remember(path) as found:
        parallel_map(_square, [1, 2], workers=1)
        assert found.reused == 0
    with sqlite3.connect(path) as base:
        assert base.execute("SELECT count(*) FROM calls").fetchone()[0] == 6
    base.close()


def _slow_square(value):
    time.sleep(0.5 if value == 2 else 0.0)
    return _square(value)


def test_what_runs_beside_an_error_is_kept(tmp_path):
    with remember(tmp_path / "memo.sqlite") as kept:
        with pytest.raises(ValueError, match="unlucky"):
            parallel_map(_slow_square, [2, 13, 5], workers=2)
        assert kept.known(_slow_square, [2, 13]) == {0: 4}


class _Payload:
    """What unpickling turns into a call."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def _finished(path, items=(1, 2)):
    with remember(path):
        parallel_map(_square, list(items), workers=1)


def _change(path, *statements):
    base = sqlite3.connect(path)
    for statement in statements:
        base.execute(*statement)
    base.commit()
    base.close()


def _planted(path, marker):
    """Plant a pickle that makes a file when it is loaded; return its bytes."""
    payload = pickle.dumps(_Payload(marker))
    pickle.loads(payload)
    assert marker.exists()  # it does what it is meant to
    marker.unlink()
    return payload


def test_a_planted_pickle_is_not_loaded(tmp_path):
    path, marker = tmp_path / "finished.sqlite", tmp_path / "marker"
    payload = _planted(path, marker)
    for value in (payload, payload.decode("latin-1")):
        path.unlink(missing_ok=True)
        _finished(path)
        _change(path, ("UPDATE calls SET value = ?", (value,)))
        before = path.read_bytes()
        with remember(path), pytest.raises(StoreError, match="a value in it is"):
            parallel_map(_square, [1, 2], workers=1)
        assert not marker.exists()
        assert path.read_bytes() == before


def test_a_file_of_pickles_from_before_is_refused(tmp_path, capsys):
    path, marker = tmp_path / "finished-toy.sqlite", tmp_path / "marker"
    columns = "key TEXT PRIMARY KEY, function TEXT NOT NULL, argument TEXT NOT NULL, value BLOB"
    row = ("INSERT INTO calls VALUES ('k', 'f', 'a', ?)", (_planted(path, marker),))
    _change(path, (f"CREATE TABLE calls({columns}) WITHOUT ROWID",), row)
    before = path.read_bytes()
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", "--out", str(tmp_path), "--profile", "toy"])
    assert stopped.value.code == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{path}: it has version 0, this slrlab reads {VERSION}; move it away" in said
    assert not marker.exists()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ([("PRAGMA user_version=99",)], r"has version 99, this slrlab reads \d+; move it away"),
        ([("DROP TABLE calls",), ("CREATE TABLE notes(x)",)], "a database of something else"),
        ([("CREATE TABLE notes(x)",)], "its tables are not those"),
        (
            [("CREATE TRIGGER t AFTER INSERT ON calls BEGIN DELETE FROM calls; END",)],
            "its tables are not those",
        ),
    ],
)
def test_files_of_others_are_refused_and_left_alone(tmp_path, statements, message):
    path = tmp_path / "finished.sqlite"
    _finished(path)
    _change(path, *statements)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=message), remember(path):
        pass
    assert path.read_bytes() == before


def test_a_foreign_database_keeps_its_journal(tmp_path):
    path = tmp_path / "finished.sqlite"
    _change(path, ("CREATE TABLE notes(x)",), ("INSERT INTO notes VALUES (1)",))
    before = path.read_bytes()
    with pytest.raises(StoreError, match="a database of something else"), remember(path):
        pass
    assert path.read_bytes() == before


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_truncated_file_is_refused(tmp_path, share):
    path = tmp_path / "finished.sqlite"
    _finished(path, [10**200 + i for i in range(100)])
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"finished calls .* move it away to start anew"):
        _finished(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "bad.sqlite"
    path.write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(StoreError, match="file is not a database; move it away"), remember(path):
        pass


def test_nothing_in_the_package_loads_pickles():
    root = Path(memo.__file__).parents[1]
    names = ("pickle.load", "Unpickler", "read_pickle", "allow_pickle=True", "joblib", "shelve")
    for path in root.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not [name for name in (*names, "marshal", "yaml.load") if name in text], path
