import os
import sqlite3
import time

import pytest

from slrlab._errors import StoreError
from slrlab.experiments import memo, parallel
from slrlab.experiments.memo import remember
from slrlab.experiments.parallel import default_workers, parallel_map, shared_workers


def _square(value):
    if value == 13:
        raise ValueError("unlucky")
    return value * value


@pytest.mark.parametrize("workers", [1, 2])
def test_parallel_map_keeps_order_and_reports(workers):
    seen = []
    values = parallel_map(
        _square, range(7), label="n", workers=workers, report=lambda *row: seen.append(row)
    )
    assert values == [0, 1, 4, 9, 16, 25, 36]
    assert seen[0] == (0, 7, "n")
    assert seen[-1] == (7, 7, "n")


@pytest.mark.parametrize("workers", [1, 2])
def test_parallel_map_raises_what_an_item_raised(workers):
    with pytest.raises(ValueError, match="unlucky"):
        parallel_map(_square, [1, 13, 2], workers=workers)


def test_the_number_of_workers_is_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("SLRLAB_WORKERS", "3")
    assert default_workers() == 3
    monkeypatch.setenv("SLRLAB_WORKERS", "none")
    with pytest.raises(ValueError, match=r"^SLRLAB_WORKERS must be a whole number >= 1, got"):
        default_workers()


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


def test_a_file_that_holds_no_calls(tmp_path):
    path = tmp_path / "bad.sqlite"
    path.write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(StoreError, match="cannot use the file of finished calls"), remember(path):
        pass


def _worker(_):
    import os

    return os.getpid()


def test_shared_workers_stay(monkeypatch):
    monkeypatch.setenv("SLRLAB_WORKERS", "2")
    with shared_workers():
        first = set(parallel_map(_worker, range(8)))
        second = set(parallel_map(_worker, range(8)))
        assert len(first | second) <= 2
        with pytest.raises(ValueError, match="unlucky"):
            parallel_map(_square, [1, 13, 2])
        assert parallel_map(_square, [1, 2, 3]) == [1, 4, 9]  # new workers, nothing left over
    assert set(parallel_map(_worker, range(2), workers=1)) == {os.getpid()}


def _slow_square(value):
    time.sleep(0.5 if value == 2 else 0.0)
    return _square(value)


def test_what_runs_beside_an_error_is_kept(tmp_path):
    with remember(tmp_path / "memo.sqlite") as kept:
        with pytest.raises(ValueError, match="unlucky"):
            parallel_map(_slow_square, [2, 13, 5], workers=2)
        assert kept.known(_slow_square, [2, 13]) == {0: 4}


def test_no_more_processes_than_memory_allows(monkeypatch):
    monkeypatch.setattr(parallel, "allowed_memory", lambda: 100)
    assert set(parallel_map(_worker, range(4), workers=2, size=60.0)) == {os.getpid()}
    assert os.getpid() not in parallel_map(_worker, range(4), workers=2, size=40.0)
