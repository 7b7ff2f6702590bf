import os

import pytest

from slrlab.experiments import parallel
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
