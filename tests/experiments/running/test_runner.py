"""The one loop behind all calls: order, memory, lost workers, several threads."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from slrlab._errors import ClusterError
from slrlab.experiments.running import executors, runner
from slrlab.experiments.running.executors import InProcess, Processes
from slrlab.experiments.running.runner import Call, Runner
from slrlab.experiments.running.store import IN_MEMORY, Store

PATIENCE = 600.0  # seconds until a test takes silence for a hang, on the busiest machine


@contextmanager
def running(executor):
    with Store(IN_MEMORY) as store, Runner(executor, store) as runner:
        yield runner


def outcomes(used, calls, **options):
    """Run calls; return their outcomes by key."""
    results = {}
    used.run(calls, lambda ended: results.update({item.key: item for item in ended}), **options)
    return results


def wait_until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def logged(path, name, gate=None):
    """Write down that a call began, and wait for a file if there is one to wait for."""
    with Path(path).open("a", encoding="utf-8") as log:
        log.write(f"{name} {os.getpid()}\n")
    while gate is not None and not gate.exists():
        time.sleep(0.02)
    return name


def begun(path):
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split() for line in lines]


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def double(x):
    return 2 * x


def test_a_call_that_kills_its_worker_does_not_stop_the_others():
    calls = [Call(str(i), double, (i,)) for i in range(10)]
    calls.insert(6, Call("bad", die, ()))
    with running(Processes(2)) as used:
        ended = outcomes(used, calls)
    error = ended.pop("bad").error
    assert isinstance(error, ClusterError)
    assert "died again and again" in str(error)
    assert {key: item.value for key, item in ended.items()} == {str(i): 2 * i for i in range(10)}


def test_the_death_of_a_worker_costs_its_call_alone(tmp_path):
    path, gate = tmp_path / "calls", tmp_path / "gate"
    calls = [Call(name, logged, (path, name, gate)) for name in ("long", "victim")]
    calls += [Call(str(i), logged, (path, str(i))) for i in range(4)]
    with running(Processes(2)) as used, ThreadPoolExecutor() as threads:
        future = threads.submit(outcomes, used, calls)
        wait_until(lambda: "victim" in dict(begun(path)))
        os.kill(int(dict(begun(path))["victim"]), signal.SIGKILL)
        gate.touch()
        ended = future.result(PATIENCE)
    assert {key: item.value for key, item in ended.items()} == {
        call.key: call.key for call in calls
    }
    names = sorted(name for name, _ in begun(path))
    assert names == ["0", "1", "2", "3", "long", "victim", "victim"]


def test_a_worker_that_dies_without_a_call_is_replaced():
    with running(Processes(1)) as used:
        pid = outcomes(used, [Call("pid", os.getpid, ())])["pid"].value
        os.kill(pid, signal.SIGKILL)
        assert outcomes(used, [Call("x", double, (3,))])["x"].value == 6


@pytest.mark.slow
def test_workers_that_never_work_are_reported():
    with (
        running(Processes(1)) as used,
        pytest.raises(ClusterError, match="die before they compute anything"),
    ):
        outcomes(used, [Call(str(i), die, ()) for i in range(9)])


def unsendable():
    return lambda: 0


class Unreadable(Exception):
    """An error that another process cannot build again."""

    def __init__(self, one, two):
        super().__init__(one)


def raise_unreadable():
    raise Unreadable(1, 2)


def raise_value_error():
    raise ValueError("unlucky")


def test_what_cannot_pass_between_processes_is_an_error_of_its_call():
    calls = [
        Call("sent", lambda: 0, ()),
        Call("returned", unsendable, ()),
        Call("raised", raise_unreadable, ()),
        Call("wrong", raise_value_error, ()),
        Call("fine", double, (4,)),
    ]
    with running(Processes(1)) as used:
        ended = outcomes(used, calls)
    assert ended["fine"].value == 8
    assert all(ended[key].error is not None for key in ("sent", "returned", "raised"))
    assert isinstance(ended["wrong"].error, ValueError)
    assert "raise_value_error" in "".join(ended["wrong"].error.__notes__)  # where it came from


def test_calls_start_in_the_order_of_ranks_and_once(tmp_path):
    log, gate = tmp_path / "log", tmp_path / "gate"

    def batch(rank, names):
        return [Call(name, logged, (log, name), rank=rank) for name in names]

    with running(Processes(1)) as used, ThreadPoolExecutor(8) as threads:
        first = threads.submit(outcomes, used, [Call("gate", logged, (log, "gate", gate))])
        wait_until(lambda: begun(log))
        futures = []
        for rank, names, waiting in ((2, "abc", 3), (1, "dce", 5), (0, "fe", 6)):
            futures.append(threads.submit(outcomes, used, batch(rank, names)))
            # the only worker is busy
            wait_until(lambda count=waiting: len(used._waiting) == count)
        gate.touch()
        for names, future in zip(("abc", "dce", "fe"), futures, strict=True):
            ended = future.result(PATIENCE)
            assert {key: item.value for key, item in ended.items()} == {n: n for n in names}
        assert set(first.result(PATIENCE)) == {"gate"}
    # c and e have the lower rank of two callers; each call was computed once
    assert "".join(name for name, _ in begun(log)) == "gate" + "efcdab"


def test_after_an_error_nothing_else_is_started(tmp_path):
    log = tmp_path / "log"
    calls = [Call("bad", raise_value_error, ()), *(Call(n, logged, (log, n)) for n in "abc")]
    with running(InProcess()) as used:
        assert set(outcomes(used, calls, until_error=True)) == {"bad"}
        assert not begun(log)
        assert set(outcomes(used, calls[1:])) == set("abc")  # nothing is left over


class Watching(InProcess):
    """Counts the calls that are under way together."""

    slots = 4

    def __init__(self):
        super().__init__()
        self.together = []

    def submit(self, key, function, *given):
        super().submit(key, function, *given)
        self.together.append(len(self._calls))


@pytest.mark.parametrize(
    ("room", "other", "together"),
    [(25, 0, 2), (1, 0, 1), (35, 10, 2), (100, 0, 4)],
    ids=["two fit", "each alone rather than never", "beside another process", "all fit"],
)
def test_large_calls_wait_for_each_other(tmp_path, monkeypatch, room, other, together):
    monkeypatch.setattr(runner, "allowed_memory", lambda: room)
    executor, path = Watching(), tmp_path / "store.sqlite"
    calls = [Call(str(i), double, (i,), size=10) for i in range(6)]
    with Store(path) as theirs, Store(path) as ours, Runner(executor, ours) as used:
        theirs.claim([("theirs", other)], 1)
        assert len(outcomes(used, calls)) == 6
    assert max(executor.together) == together


def test_without_room_it_sleeps(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "allowed_memory", lambda: 10)
    naps, path = [], tmp_path / "store.sqlite"
    with Store(path) as theirs, Store(path) as ours, Runner(InProcess(), ours) as used:
        theirs.claim([("theirs", 10)], 1)

        def nap(seconds):
            naps.append(seconds)
            theirs.release("theirs")

        monkeypatch.setattr(runner.time, "sleep", nap)
        assert len(outcomes(used, [Call(str(i), double, (i,), size=10) for i in range(6)])) == 6
    assert len(naps) == 1


def test_a_call_too_large_for_a_worker_is_refused():
    class Small(InProcess):
        own_memory = 100

    with running(Small()) as used:
        ended = outcomes(used, [Call("big", double, (1,), size=101), Call("x", double, (1,), 99)])
    assert "a worker of the cluster has" in str(ended["big"].error)
    assert ended["x"].value == 2


def test_calls_under_way_leave_the_environment_alone(monkeypatch):
    # other threads read the number of cores from it
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    with running(Processes(1)) as used:
        monkeypatch.setattr(executors, "single_threaded_children", None)  # a call would fail
        ended = outcomes(used, [Call("key", os.getenv, ("NUMBA_NUM_THREADS",))])
    assert ended["key"].value == "1"


FIRST_WORKER = """
import signal
from slrlab.experiments.running.executors import Processes

if __name__ == "__main__":
    processes = Processes(1)
    processes.submit("mask", signal.pthread_sigmask, signal.SIG_BLOCK, ())
    print(signal.SIGINT in processes.finished(600.0)[0].value)
    print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    processes.close()
"""


def test_interrupts_do_not_reach_the_first_worker(tmp_path):
    # the start of the first worker starts multiprocessing's resource tracker, which unblocks them
    script = tmp_path / "first.py"
    script.write_text(FIRST_WORKER)
    line = [sys.executable, str(script)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout.split(), done.stderr) == (["True", "False"], "")


def test_threads_that_wait_for_closed_workers_get_an_error(tmp_path):
    log = tmp_path / "log"
    with ThreadPoolExecutor() as threads:
        with running(Processes(1)) as used:
            future = threads.submit(
                outcomes, used, [Call("key", logged, (log, "x", tmp_path / "never"))]
            )
            wait_until(lambda: begun(log))
        with pytest.raises(ClusterError, match="the worker processes have ended"):
            future.result(PATIENCE)
    with pytest.raises(ClusterError, match="the worker processes have ended"):
        outcomes(used, [Call("late", double, (1,))])
