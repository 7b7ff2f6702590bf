import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

from slrlab.experiments.running import parallel
from slrlab.experiments.running.executors import default_workers
from slrlab.experiments.running.parallel import parallel_map, remember, set_rank, shared_workers
from slrlab.experiments.running.store import Store


def square(value):
    if value == 13:
        raise ValueError("unlucky")
    return value * value


@pytest.mark.parametrize("workers", [1, 2])
def test_parallel_map_keeps_order_and_reports(workers):
    seen = []
    values = parallel_map(
        square, range(7), label="n", workers=workers, report=lambda *row: seen.append(row)
    )
    assert values == [0, 1, 4, 9, 16, 25, 36]
    assert seen[0] == (0, 7, "n")
    assert seen[-1] == (7, 7, "n")
    assert parallel_map(square, [], workers=workers) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_parallel_map_raises_what_an_item_raised(workers):
    with pytest.raises(ValueError, match="unlucky"):
        parallel_map(square, [1, 13, 2], workers=workers)


class Alike:
    """Items that look the same."""

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return "Alike()"


def value_of(item):
    return item.value


def test_items_that_look_the_same_are_different_calls():
    assert parallel_map(value_of, [Alike(1), Alike(2)], workers=1) == [1, 2]


def test_the_number_of_workers_is_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("SLRLAB_WORKERS", "3")
    assert default_workers() == 3
    monkeypatch.setenv("SLRLAB_WORKERS", "none")
    with pytest.raises(ValueError, match=r"^SLRLAB_WORKERS must be a whole number >= 1, got"):
        default_workers()


def worker(_):
    return os.getpid()


def nested(_):
    return {os.getpid(), *parallel_map(worker, range(3))}


def test_shared_workers_stay(monkeypatch):
    monkeypatch.setenv("SLRLAB_WORKERS", "2")
    with shared_workers():
        first = set(parallel_map(worker, range(8)))
        second = set(parallel_map(worker, range(8)))
        assert len(first | second) <= 2
        assert all(len(pids) == 1 for pids in parallel_map(nested, range(2)))
        with pytest.raises(ValueError, match="unlucky"):
            parallel_map(square, [1, 13, 2])
        assert parallel_map(square, [1, 2, 3]) == [1, 4, 9]  # nothing is left over
        assert set(parallel_map(worker, range(2), workers=1)) == {os.getpid()}
    assert set(parallel_map(worker, range(2), workers=1)) == {os.getpid()}


def test_no_more_processes_than_memory_allows(monkeypatch):
    monkeypatch.setattr(parallel, "allowed_memory", lambda: 100)
    assert set(parallel_map(worker, range(4), workers=2, size=60.0)) == {os.getpid()}
    assert os.getpid() not in parallel_map(worker, range(4), workers=2, size=40.0)


def test_threads_share_workers(monkeypatch):
    monkeypatch.setenv("SLRLAB_WORKERS", "2")

    def item(rank):
        set_rank(rank)
        return parallel_map(square, [rank, 5, 6])

    with shared_workers(), ThreadPoolExecutor() as threads:
        futures = [threads.submit(copy_context().run, item, rank) for rank in range(4)]
        assert [future.result() for future in futures] == [[r * r, 25, 36] for r in range(4)]
        futures = [threads.submit(copy_context().run, parallel_map, worker, [r]) for r in range(4)]
        pids = {pid for future in futures for pid in future.result()}
        assert os.getpid() not in pids
        assert len(pids) <= 2


def computed(items):
    """Return which items a run in this process computes, by its progress at the start."""
    seen = []
    parallel_map(square, items, workers=1, report=lambda *row: seen.append(row))
    return len(items) - seen[0][0]


def pause(seconds):
    time.sleep(seconds)


def test_the_time_of_each_call_is_remembered(tmp_path):
    with remember(tmp_path / "store.sqlite") as store:
        began = time.perf_counter()
        parallel_map(pause, [0.1, 0.3], workers=1)
        whole = time.perf_counter() - began
        seconds = store.frame().set_index("argument")["seconds"]
    assert seconds["0.1"] > 0.099
    assert seconds["0.3"] > 0.299
    assert seconds.sum() < whole


def test_finished_calls_are_remembered(tmp_path, monkeypatch):
    path = tmp_path / "store.sqlite"
    with remember(path), pytest.raises(ValueError, match="unlucky"):
        parallel_map(square, [1, 2, 13, 3], workers=1)
    with remember(path):
        assert computed([1, 2, 3]) == 1  # the error came after 1 and 2
    with remember(path) as store:
        assert parallel_map(square, [3, 2, 1, 4], workers=2) == [9, 4, 1, 16]
        assert computed([3, 2, 1, 4]) == 0
        frame = store.frame()
        assert set(frame["argument"]) == {"1", "2", "3", "4"}
    monkeypatch.setattr(parallel, "source_digest", lambda: "other code")
    with remember(path) as store:
        assert computed([1, 2]) == 2
        assert store.count() == 6


def test_shared_workers_remember(tmp_path, monkeypatch):
    monkeypatch.setenv("SLRLAB_WORKERS", "2")
    path = tmp_path / "store.sqlite"
    with remember(path), shared_workers():
        assert parallel_map(square, [1, 2, 2]) == [1, 4, 4]
        with remember(tmp_path / "other.sqlite"):
            assert parallel_map(square, [5], workers=1) == [25]
    with remember(path):
        assert computed([1, 2, 5]) == 1


def test_what_another_process_finishes_is_read(tmp_path):
    """Calls that are leased elsewhere are waited for, and their values read from the store."""
    path, log = tmp_path / "store.sqlite", []
    key = parallel._key(square, 3)

    def report(done, total, label):
        log.append(done)
        if done == 1:  # the other process finishes its call now
            other.put(parallel.Row(key, "square", {"argument": "3"}, result="9"))

    with Store(path) as other, remember(path):
        assert other.claim([(key, 0)], 1)[0] == [key]
        assert parallel_map(square, [3, 4], workers=1, report=report) == [9, 16]
    assert log == [0, 1, 2]


def wait_and_square(item):
    value, gate = item
    while gate is not None and not gate.exists():
        time.sleep(0.01)
    return value * value


def raise_and_open(gate):
    gate.touch()
    raise ValueError("unlucky")


def either(item):
    function, given = item
    return function(given)


def test_what_runs_beside_an_error_is_kept(tmp_path):
    gate = tmp_path / "gate"
    items = [(wait_and_square, (2, gate)), (raise_and_open, gate), (wait_and_square, (5, None))]
    with remember(tmp_path / "store.sqlite") as store:
        with pytest.raises(ValueError, match="unlucky"):
            parallel_map(either, items, workers=2)
        assert list(store.done([parallel._key(either, item) for item in items[:2]])) == [
            parallel._key(either, items[0])
        ]


def test_a_value_that_is_no_data_is_an_error(tmp_path):
    with remember(tmp_path / "store.sqlite"), pytest.raises(TypeError, match="cannot be kept"):
        parallel_map(set, [(1, 2)], workers=1)
