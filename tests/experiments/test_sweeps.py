import contextlib
import importlib.util
import itertools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from slrlab import NeedlesSLR, minimal_risk
from slrlab._errors import ClusterError, StoreError
from slrlab.experiments.running import runner
from slrlab.experiments.running.cluster import Cluster
from slrlab.experiments.running.store import Store
from slrlab.experiments.sweeps import run
from slrlab.experiments.sweeps.computations import (
    COMPUTATIONS,
    REQUIRED,
    Computation,
    computations_table,
)
from slrlab.experiments.sweeps.definition import Sweep, read_sweep
from slrlab.experiments.sweeps.run import run_sweep

TOML = """
compute = "population"
[settings]
length = "poisson(3)"
[grid]
signal = [1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0, 3.25]
activation = ["softmax", "softplus"]
"""
PATIENCE = 600.0  # seconds until a test takes silence for a hang, on the busiest machine
QUICK = Sweep("population", grid={"signal": [1.0, 2.0], "activation": ["softmax", "linear"]})


def rows(path):
    """Everything in a store but when and how fast it was computed, the results as columns."""
    with contextlib.closing(sqlite3.connect(path)) as base:
        frame = pd.read_sql("SELECT * FROM points ORDER BY key", base)
        leases = base.execute("SELECT count(*) FROM leases").fetchone()[0]
        assert base.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert leases == 0
    results = pd.json_normalize([json.loads(text) for text in frame.pop("result")])
    return frame.drop(columns=["seconds", "finished"]).join(results.add_prefix("result_"))


def same_rows(frame, expected):
    """Compare two stores: processes may differ in threads, and so in the last digits."""
    pd.testing.assert_frame_equal(frame, expected, rtol=1e-10, atol=1e-12)


@pytest.fixture(scope="module")
def sweep_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "sweep.toml"
    path.write_text(TOML)
    return path


@pytest.fixture(scope="module")
def undisturbed(sweep_file, tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "store.sqlite"
    summary = run_sweep(read_sweep(sweep_file), path, workers=1)
    assert summary.computed == summary.points == 20
    return rows(path)


def command(sweep_file, store, *more):
    line = [sys.executable, "-m", "slrlab", "sweep", str(sweep_file), "--store", str(store)]
    return [*line, "--json", *more]


def finished(path):
    if not path.exists():
        return 0
    with contextlib.closing(sqlite3.connect(path)) as base, contextlib.suppress(sqlite3.Error):
        return base.execute("SELECT count(*) FROM points").fetchone()[0]
    return 0


@contextlib.contextmanager
def held_back(path, sweep_file):
    """Lease the last points of a sweep, as another sweep would: no run can end meanwhile."""
    keys = [point.key for point in read_sweep(sweep_file).expand()][-4:]
    with Store(path) as other:
        assert other.claim([(key, 0) for key in keys], len(keys))[0] == keys
        yield


def wait_for(path, count, process):
    end = time.monotonic() + PATIENCE
    while finished(path) < count:
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.02)


def children(pid):
    line = ["ps", "-o", "pid=", "--ppid", str(pid)]
    return [int(word) for word in subprocess.run(line, capture_output=True).stdout.split()]


def test_a_second_run_computes_nothing(tmp_path):
    path = tmp_path / "store.sqlite"
    first = run_sweep(QUICK, path, workers=1)
    second = run_sweep(QUICK, path, workers=1)
    assert (first.computed, second.computed, second.points) == (4, 0, 4)
    wider = Sweep("population", grid={"signal": [1.0, 2.0, 3.0], "activation": ["linear"]})
    assert run_sweep(wider, path, workers=1).computed == 1
    changed = Sweep("population", settings={"noise": 0.1}, grid=QUICK.grid)
    assert run_sweep(changed, path, workers=1).computed == 4


def test_the_same_from_one_and_two_processes(sweep_file, undisturbed, tmp_path):
    run_sweep(read_sweep(sweep_file), tmp_path / "two.sqlite", workers=2)
    same_rows(rows(tmp_path / "two.sqlite"), undisturbed)


@contextlib.contextmanager
def started(sweep_file, path, count):
    """Start a sweep on two workers; yield its process when some points are finished."""
    line = command(sweep_file, path, "--workers", "2")
    with held_back(path, sweep_file):
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_for(path, count, process)
        yield process


def test_kill_the_main_process(sweep_file, undisturbed, tmp_path):
    path = tmp_path / "store.sqlite"
    with started(sweep_file, path, 4) as process:
        workers = children(process.pid)
        process.kill()
        process.communicate()
        before = finished(path)
    assert 4 <= before < 20
    again = subprocess.run(command(sweep_file, path), capture_output=True, text=True, check=True)
    # what was committed is not computed again, what was not is; dead leases do not hold it up
    assert json.loads(again.stdout)["computed"] == 20 - before
    same_rows(rows(path), undisturbed)
    end = time.monotonic() + PATIENCE
    while any(_command_line(worker) for worker in workers):  # nobody is left behind
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
def test_an_interrupt_is_one_line(sweep_file, undisturbed, tmp_path):
    path = tmp_path / "store.sqlite"
    line = command(sweep_file, path, "--workers", "2")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with held_back(path, sweep_file):
        # a shell lets its background jobs, and what they start, ignore interrupts
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        process = subprocess.Popen(line, start_new_session=True, **pipes)
        signal.signal(signal.SIGINT, before)
        wait_for(path, 3, process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "slrlab: interrupted"
    assert "Traceback" not in err
    subprocess.run(line, capture_output=True, check=True)
    same_rows(rows(path), undisturbed)


@pytest.mark.slow
def test_kill_a_worker(sweep_file, undisturbed, tmp_path):
    path = tmp_path / "store.sqlite"
    with started(sweep_file, path, 3) as process:
        victims = [pid for pid in children(process.pid) if "spawn_main" in _command_line(pid)]
        os.kill(victims[0], signal.SIGKILL)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    summary = json.loads(out)
    assert (summary["computed"], summary["failed"]) == (20, 0)
    same_rows(rows(path), undisturbed)


def _command_line(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def test_two_sweeps_share_a_store(sweep_file, undisturbed, tmp_path):
    path = tmp_path / "store.sqlite"
    line = command(sweep_file, path, "--workers", "1")
    both = [subprocess.Popen(line, stdout=subprocess.PIPE) for _ in range(2)]
    summaries = [json.loads(process.communicate(timeout=PATIENCE)[0]) for process in both]
    assert sum(item["computed"] for item in summaries) == 20
    same_rows(rows(path), undisturbed)


@pytest.fixture
def small_disk(tmp_path):
    """A function that mounts a disk of some KiB and fills it but for others."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("needs a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()

    def fill(size, free):
        line = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(disk)]
        if subprocess.run(line, capture_output=True).returncode:
            pytest.skip("mounting is not allowed here")
        with Store(disk / "store.sqlite"):
            pass
        ballast = disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            for _ in range(size):
                file.write(b"x" * 1024)
        with ballast.open("r+b") as file:
            file.truncate(ballast.stat().st_size - free * 1024)
        return disk / "store.sqlite", ballast

    yield fill
    subprocess.run(["umount", "-l", str(disk)], check=False)


def test_a_full_disk(sweep_file, undisturbed, small_disk):
    path, ballast = small_disk(512, free=110)
    line = command(sweep_file, path, "--workers", "1")
    stopped = subprocess.run(line, capture_output=True, text=True)
    assert stopped.returncode == 1
    assert stopped.stdout == ""
    assert stopped.stderr.strip().splitlines()[-1].startswith("slrlab: cannot write the store")
    assert "full" in stopped.stderr
    ballast.unlink()
    before = finished(path)
    assert 0 < before < 20
    again = subprocess.run(line, capture_output=True, text=True, check=True)
    assert json.loads(again.stdout)["computed"] == 20 - before
    same_rows(rows(path), undisturbed)


def test_what_is_finished_when_the_disk_is_full_is_kept(
    sweep_file, undisturbed, small_disk, monkeypatch
):
    path, ballast = small_disk(4096, free=1024 + 150)
    computed = []
    compute_point = run.compute_point

    def watched(compute, settings, seed):
        computed.append((settings["signal"], settings["activation"]))
        return compute_point(compute, settings, seed)

    monkeypatch.setattr(run, "compute_point", watched)
    with pytest.raises(StoreError, match="full"):
        run_sweep(read_sweep(sweep_file), path, workers=1)
    assert 0 < finished(path) < 20
    assert finished(path) == len(computed)  # nothing was computed for nothing
    ballast.unlink()
    run_sweep(read_sweep(sweep_file), path, workers=1)
    assert len(computed) == len(set(computed)) == 20
    same_rows(rows(path), undisturbed)


@contextlib.contextmanager
def local_cluster(**options):
    """A cluster on this machine that waits for busy cores."""
    import dask
    from distributed import LocalCluster

    waits = {f"distributed.comm.timeouts.{kind}": f"{PATIENCE}s" for kind in ("connect", "tcp")}
    with (
        dask.config.set(waits),
        LocalCluster(host="127.0.0.1", dashboard_address="127.0.0.1:0", **options) as cluster,
    ):
        yield cluster


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker(sweep_file, undisturbed, tmp_path):
    path = tmp_path / "store.sqlite"
    with local_cluster(n_workers=2, threads_per_worker=1) as cluster:
        line = command(sweep_file, path, "--cluster", cluster.scheduler_address)
        with held_back(path, sweep_file):
            process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            wait_for(path, 3, process)
            os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
    summary = json.loads(out)
    assert (summary["computed"], summary["failed"]) == (20, 0)
    same_rows(rows(path), undisturbed)


@pytest.mark.slow
def test_a_worker_with_threads_runs_one_point_at_a_time(tmp_path):
    given = {"ridge_k": 1.0, "ridge_v": 1.0, "alpha": 2.0, "test_samples": 50, "length": 2}
    sweep = Sweep("simulate", settings=given, grid={"dim": [40, 50]}, seeds=2)
    with local_cluster(n_workers=1, threads_per_worker=2, memory_limit="4GiB") as cluster:
        executor = Cluster(cluster.scheduler_address)
        try:
            # one call runs, the next one is there already
            assert (executor.slots, executor.own_memory) == (2, int(0.8 * 4 * 2**30))
            for i in range(4):
                executor.submit(str(i), _busy, 0.2)
            spans = []
            while len(spans) < 4:
                spans += [ended.value for ended in executor.finished(timeout=5.0)]
        finally:
            executor.close()
        # Numba's threads abort the process when two threads of Python use them at a time
        summary = run_sweep(sweep, tmp_path / "a.sqlite", cluster=cluster.scheduler_address)
    assert (summary.computed, summary.failed) == (4, 0)
    spans.sort()
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    run_sweep(sweep, tmp_path / "b.sqlite", workers=1)
    same_rows(rows(tmp_path / "a.sqlite"), rows(tmp_path / "b.sqlite"))


def _busy(seconds):
    start = time.monotonic()
    time.sleep(seconds)
    return start, time.monotonic()


def test_no_cluster_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "Cluster", partial(Cluster, timeout=0.5))
    with pytest.raises(ClusterError, match="no cluster answers at tcp://127"):
        run_sweep(QUICK, tmp_path / "store.sqlite", cluster="tcp://127.0.0.1:9")


def test_failures_are_rows_and_may_be_tried_again(tmp_path):
    path = tmp_path / "store.sqlite"
    sweep = Sweep("flow", points=[{"signal": 1.0, "start": "nowhere"}])
    first = run_sweep(sweep, path, workers=1)
    assert (first.computed, first.failed) == (1, 1)
    assert "start must be one of" in first.problems[0]
    with Store(path) as store:
        (row,) = store.frame().to_dict("records")
    assert row["status"] == "failed"
    assert "start must be one of" in row["message"]
    again = run_sweep(sweep, path, workers=1)
    assert (again.computed, again.failed, again.failed_before) == (0, 0, 1)
    assert again.status == "not converged"
    retried = run_sweep(sweep, path, workers=1, retry_failed=True)
    assert (retried.computed, retried.failed, retried.failed_before) == (1, 1, 0)
    with Store(path) as store:
        assert store.count() == 1


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """A store with the example of every computation."""
    path = tmp_path_factory.mktemp("examples") / "store.sqlite"
    for name, computation in COMPUTATIONS.items():
        shared = {"length": 2, **({"activation": "linear"} if computation.takes_activation else {})}
        sweep = Sweep(name, settings=shared | dict(computation.example))
        assert run_sweep(sweep, path, workers=1).failed == 0
    return path


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_every_computation_has_a_value_and_an_error(examples, name):
    with Store(examples) as store:
        (row,) = store.frame({"compute": name}).to_dict("records")
    low = -0.7 if name == "universality" else 0.0  # a difference has either sign
    assert low < row["value"] < 1.5
    assert (row["error"] >= 0.0) == bool(COMPUTATIONS[name].error)  # no error is nan


def test_rows_are_filtered(examples):
    with Store(examples) as store:
        assert len(store.frame()) == len(COMPUTATIONS)
        trained = {"erm", "simulate", "universality", "labels"}
        assert set(store.frame({"alpha": "4"})["compute"]) == trained
        with pytest.raises(ValueError, match="where must name a column"):
            store.frame({"nothing": "1"})


def test_settings_follow_from_the_function():
    simulate, bayes = COMPUTATIONS["simulate"], COMPUTATIONS["bayes"]
    required = {name for name, value in simulate.settings.items() if value is REQUIRED}
    assert required == {"alpha", "dim", "ridge_k", "ridge_v"}
    assert {"test_samples", "teacher", "dtype", "activation", "bias"} <= set(simulate.settings)
    assert not {"seed", "seeds", "strict", "report"} & set(simulate.settings)
    assert (simulate.takes_activation, simulate.seeded) == (True, True)
    assert (bayes.takes_activation, bayes.seeded) == (False, False)
    assert set(bayes.settings) == {"task", "signal", "length", "noise", "alpha", "tolerance"}


def test_a_task_may_have_settings_of_its_own(tmp_path):
    sweep = Sweep(
        "population",
        settings={"task": "needles", "length": 3, "activation": "linear"},
        grid={"needles": [1, 2.0]},
    )
    path = tmp_path / "store.sqlite"
    assert run_sweep(sweep, path, workers=1).failed == 0
    with Store(path) as store:
        rows = store.frame().sort_values("needles")
    exact = [minimal_risk(NeedlesSLR(2.0, 3, needles=count), "linear").risk for count in (1, 2)]
    assert rows["value"].tolist() == pytest.approx(exact)
    default = Sweep("population", settings={"task": "needles", "length": 3}).expand()[0]
    assert default.settings["needles"] == 2
    with pytest.raises(ValueError, match=r"^setting must be one of .*, got needles$"):
        Sweep("population", settings={"needles": 2}).expand()
    with pytest.raises(ValueError, match=r"^needles must be a whole number >= 1, got 1.5$"):
        Sweep("population", settings={"task": "needles", "needles": 1.5}).expand()


def test_a_computation_is_one_entry(tmp_path, monkeypatch):
    entry = Computation("slrlab.theory.population.minimal:minimal_risk", "largest A", "A")
    monkeypatch.setitem(COMPUTATIONS, "largest", entry)
    assert "| `largest` | largest A |  | `tolerance` |" in computations_table()
    sweep = Sweep("largest", grid={"signal": [1.0, 2.0]})
    assert run_sweep(sweep, tmp_path / "store.sqlite", workers=1).computed == 2


def test_the_guide_shows_every_computation():
    root = Path(__file__).parents[2]
    spec = importlib.util.spec_from_file_location("docs_table", root / "docs" / "_tables.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    page = (root / "docs" / "guide" / "sweeps.md").read_text(encoding="utf-8")
    assert computations_table() in hook.with_tables(page)


def test_points_know_their_memory():
    given = {"ridge_k": 1.0, "ridge_v": 1.0, "alpha": 2.0, "dim": 40}
    (point,) = Sweep("simulate", settings=given).expand()
    assert run._call(point).size > 40 * 80 * 4  # at least its data in single precision
    (point,) = Sweep("population").expand()
    assert run._call(point).size == 0


def test_a_simulation_too_large_for_now_is_no_result(tmp_path, monkeypatch):
    from slrlab.simulation.data import dataset

    settings = {"ridge_k": 1.0, "ridge_v": 1.0, "alpha": 2.0, "dim": 40, "test_samples": 50}
    sweep, path = Sweep("simulate", settings=settings), tmp_path / "store.sqlite"
    monkeypatch.setattr(dataset, "allowed_memory", lambda: 1000)
    summary = run_sweep(sweep, path, workers=1)
    assert (summary.computed, summary.failed) == (1, 1)
    assert "dim must be at most" in summary.problems[0]
    monkeypatch.undo()
    assert run_sweep(sweep, path, workers=1).failed == 0
    assert len(rows(path)) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('compute = "population"\nfoo = 1', "key of bad.toml must be one of .*, got foo"),
        ("seeds = 1", "compute must be one of population"),
        ('compute = "magic"', "compute must be one of .*, got magic"),
        ('compute = "erm"', "setting alpha must be given"),
        ('compute = "bayes"\n[settings]\nalpha = -1', "alpha must be a finite number > 0"),
        ('compute = "population"\n[settings]\nalpha = 1', "setting must be one of .*, got alpha"),
        ('compute = "population"\n[settings]\nsignal = -1', "signal must be a number >= 0"),
        (
            'compute = "population"\n[settings]\nactivation = "no"',
            "activation must be a name or an expression",
        ),
        ('compute = "population"\n[grid]\nsignal = 3', "grid signal must be a list of values"),
        ('compute = "population"\ngrid = 3', r"grid must be a table \[grid\]"),
        ('compute = "population"\npoints = 3', r"points must be tables \[\[points\]\]"),
        ('compute = "flow"\nseeds = 0', "seeds must be a whole number >= 1"),
        ("compute = ", "sweep must be a TOML file"),
        (
            'compute = "population"\n[settings]\nsignal = 1\n[grid]\nsignal = [1]',
            "setting signal must be shared or in the grid, got both",
        ),
    ],
)
def test_bad_files(tmp_path, text, words):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        run_sweep(read_sweep(path), tmp_path / "store.sqlite")
    assert not (tmp_path / "store.sqlite").exists()


def test_points_and_seeds():
    sweep = Sweep(
        "flow", settings={"signal": 1.0}, points=[{}, {"signal": 2.0}, {"signal": 1}], seeds=[3, 5]
    )
    points = sweep.expand()
    assert [(point.settings["signal"], point.seed) for point in points] == [
        (1.0, 3),
        (1.0, 5),
        (2.0, 3),
        (2.0, 5),
    ]
    assert len({point.key for point in points}) == 4
    assert len(Sweep("population", seeds=7).expand()) == 1
    (plain,) = Sweep("population").expand()
    (same,) = Sweep("population", settings={"tolerance": 1e-9, "signal": 2}).expand()
    assert plain == same  # a default that is written down is the same point
    whole, real = (Sweep("bayes", settings={"alpha": alpha}, seeds=[4]) for alpha in (1, 1.0))
    assert whole.expand()[0].key == real.expand()[0].key
    for one, other in (
        ({"bias": 1}, {"bias": 1.0}),
        ({"start": [[1, 0], [0, 1]]}, {"start": [[1.0, 0.0], [0.0, 1.0]]}),
    ):
        keys = {
            Sweep("flow", settings={"activation": "erf", "bias": 0.5} | item).expand()[0].key
            for item in (one, other)
        }
        assert len(keys) == 1
    (long,) = Sweep("population", settings={"length": "poisson(12.345678)"}).expand()
    assert long.settings["length"] == "poisson(12.345678)"
    with pytest.raises(ValueError, match=r"seeds must be a whole number <= 9223372036854775807"):
        Sweep("flow", seeds=[2**63]).expand()
    with pytest.raises(ValueError, match="seeds must be a number or a list of seeds"):
        Sweep("flow", seeds=[]).expand()
