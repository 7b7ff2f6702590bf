import os

import pytest

from slrlab import _machine as machine


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000", 8), ("250000 100000", 3), ("50000 100000", 1), ("1600000 100000", 8), ("", 8)],
)
def test_cores_are_those_of_the_process_and_its_quota(monkeypatch, tmp_path, quota, cores):
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "cpu.max").write_text("max 100000")
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(machine, "_groups", lambda: [inner, tmp_path, tmp_path / "missing"])
    assert machine.cores() == cores
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    assert machine.cores() == 1


def test_a_process_is_known_by_its_birth():
    assert machine.process_birth(os.getpid()) == machine.process_birth(os.getpid())
    assert machine.process_birth(2**22 + 1) == machine.process_birth(2**22 + 2)
    assert machine.process_birth(os.getpid()) not in ("gone", machine.process_birth(1))
