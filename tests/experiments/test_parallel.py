import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path

import pytest

from slrlab._errors import ClusterError
from slrlab.experiments import executors, parallel, pool
from slrlab.experiments.parallel import default_workers, parallel_map, set_rank, shared_workers


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


def test_no_more_processes_than_memory_allows(monkeypatch):
    monkeypatch.setattr(parallel, "allowed_memory", lambda: 100)
    assert set(parallel_map(_worker, range(4), workers=2, size=60.0)) == {os.getpid()}
    assert os.getpid() not in parallel_map(_worker, range(4), workers=2, size=40.0)


def _logged(path, name):
    with Path(path).open("a", encoding="utf-8") as log:
        log.write(f"{name}\n")
    return name


def _until(path):
    while not path.exists():
        time.sleep(0.01)


def test_calls_start_in_the_order_of_ranks_and_once(tmp_path):
    log, gate = str(tmp_path / "log"), tmp_path / "gate"
    shared = pool.SharedPool(1)
    try:
        early, late, other = (shared.share(rank, 0.0) for rank in (0, 2, 1))
        early.submit("gate", _until, gate)  # the only worker is busy until all is queued
        for share, names in ((late, "abc"), (other, "dce"), (early, "fe")):
            for name in names:
                share.submit(f"tag {name}", _logged, log, name)
        late.submit("tag x", _logged, log, "x")
        assert late.drop() == ["tag a", "tag b", "tag c", "tag x"]
        late.submit("tag a", _logged, log, "a")
        gate.touch()
        for share, names in ((early, "fe"), (other, "dce"), (late, "a")):
            waiting = {f"tag {name}": name for name in names}
            while waiting:
                for ended in share.finished(60.0):
                    assert ended.error is None
                    assert ended.tag == "gate" or waiting.pop(ended.tag) == ended.value
    finally:
        shared.close()
    # e is early by its second caller, c came before d; each was computed once
    assert "".join(Path(log).read_text().split()) == "efcda"


def test_threads_share_workers(monkeypatch):
    monkeypatch.setenv("SLRLAB_WORKERS", "2")

    def item(rank):
        set_rank(rank)
        return parallel_map(_square, [rank, 5, 6])

    with shared_workers(), ThreadPoolExecutor() as threads:
        found = [threads.submit(copy_context().run, item, rank) for rank in range(4)]
        assert [future.result() for future in found] == [[r * r, 25, 36] for r in range(4)]
        pids = [threads.submit(copy_context().run, parallel_map, _worker, [r]) for r in range(4)]
        found = {pid for future in pids for pid in future.result()}
        assert os.getpid() not in found
        assert len(found) <= 2


def test_calls_under_way_leave_the_environment_alone(tmp_path, monkeypatch):
    # other threads read the number of cores from it
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    shared = pool.SharedPool(1)
    try:
        seen = []
        monkeypatch.setattr(executors, "single_threaded_children", lambda: seen.append(1))
        share = shared.share(0, 0.0)
        share.submit("tag", os.getenv, "NUMBA_NUM_THREADS")
        (ended,) = share.finished(60.0)
        assert ended.value == "1"
        assert seen == []
    finally:
        shared.close()


def test_calls_of_a_pool_wait_for_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "allowed_memory", lambda: 100)
    monkeypatch.setenv("SLRLAB_WORKERS", "2")
    with shared_workers():
        assert len(set(parallel_map(_worker, range(6), size=60.0))) == 1
        assert os.getpid() not in parallel_map(_worker, range(4), size=200.0)


def test_who_waits_for_a_closed_pool_is_told(monkeypatch):
    shared = pool.SharedPool(1)
    share = shared.share(0, 0.0)
    share.submit("tag", time.sleep, 60.0)
    shared.close()
    (ended,) = share.finished(timeout=10.0)
    assert isinstance(ended.error, ClusterError)
    with pytest.raises(ClusterError, match="the worker processes have ended"):
        share.submit("late", time.sleep, 1.0)
