import json
import shutil

import pandas as pd
import pytest
from PIL import Image

from slrlab.experiments.sweeps import read_sweep, run_sweep
from slrlab.experiments.sweeps.computations import COMPUTATIONS
from slrlab.figures.style import MARKS
from slrlab.figures.sweep_plot import plot_sweep, series_looks

TOML = """
compute = "population"
[settings]
length = 2
[grid]
signal = [1.0, 2.0]
activation = ["softmax", "linear"]
"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """A sweep and its store, which tests may only read."""
    folder = tmp_path_factory.mktemp("sweep")
    path, store = folder / "sweep.toml", folder / "store.sqlite"
    path.write_text(TOML)
    assert run_sweep(read_sweep(path), store, workers=1).computed == 4
    return path, store


@pytest.fixture
def own_store(sweep, tmp_path):
    """A copy of the store that a test may write."""
    return shutil.copy(sweep[1], tmp_path / "own.sqlite")


def test_results_are_listed_filtered_and_exported(sweep, tmp_path, run):
    _, store = sweep
    code, out, _ = run("results", "--store", store)
    assert code == 0
    assert "4 points" in out
    assert "linear" in out
    where = ("--where", "activation=softmax", "--where", "signal=2")
    code, out, _ = run("results", "--store", store, *where, "--json")
    (row,) = json.loads(out)["rows"]
    assert (code, row["signal"], row["status"]) == (0, 2.0, "converged")
    files = [tmp_path / name for name in ("t.csv", "t.parquet", "t.png")]
    given = ("--csv", files[0], "--parquet", files[1], "--plot", files[2], "--x", "signal")
    code, out, _ = run("results", "--store", store, *given)
    assert code == 0
    assert out.split() == [str(path) for path in files]
    assert len(pd.read_csv(files[0])) == len(pd.read_parquet(files[1])) == 4
    with Image.open(files[2]) as picture:
        assert picture.size[0] > 300


def test_a_sweep_ends_with_its_table_counts_and_store(own_store, tmp_path, run):
    store = own_store
    other = tmp_path / "other.toml"
    other.write_text(TOML.replace("[1.0, 2.0]", "[1.0, 4.0]"))
    code, out, _ = run("sweep", other, "--store", store, "--workers", "1")
    lines = out.splitlines()
    assert code == 0
    assert lines[-2:] == ["4 points: 2 computed now, 2 there before, 0 failed", str(store)]
    assert "4 points: compute population" in out  # those of this sweep, of six in the store
    assert out.count("converged") == 1
    assert out.count("linear") == 2


def test_a_sweep_fails_loudly(tmp_path, run):
    store = tmp_path / "store.sqlite"
    bad = tmp_path / "bad.toml"
    bad.write_text('compute = "flow"\n[settings]\nstart = "nowhere"')
    code, out, _ = run("sweep", bad, "--store", store, "--workers", "1", "--json")
    assert code == 1
    assert json.loads(out)["failed"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("sweep", "{tmp}/none.toml"), 1, "No such file or directory"),
        (("sweep", "{tmp}/sweep.toml", "--workers", "0"), 2, "workers must be a whole number >= 1"),
        (
            ("sweep", "{tmp}/sweep.toml", "--workers", "2", "--cluster", "tcp://127.0.0.1:9"),
            2,
            "workers must not be given with a cluster, got 2",
        ),
        (("results", "--store", "{tmp}/none.sqlite"), 2, "store must be a file of results"),
        (
            ("results", "--store", "{tmp}/store.sqlite", "--where", "x"),
            2,
            "--where must be COLUMN=VALUE",
        ),
        (("results", "--store", "{tmp}/store.sqlite", "--where", "x=1"), 2, "name a column"),
        (
            ("results", "--store", "{tmp}/store.sqlite", "--plot", "{tmp}/a.txt"),
            2,
            "plot must end with .png",
        ),
        (
            ("results", "--store", "{tmp}/store.sqlite", "--plot", "{tmp}/a.png", "--x", "task"),
            2,
            "x must be a number of every point, got task: 4 of 4 points have none",
        ),
        (("results", "--store", "{tmp}/sweep.toml"), 1, "cannot open the store"),
    ],
)
def test_wrong_input_is_one_line(sweep, run, arguments, code, words):
    given = [item.format(tmp=sweep[0].parent) for item in arguments]
    result, out, err = run(*given)
    assert (result, out) == (code, "")
    assert err.startswith("slrlab: ")
    assert len(err.splitlines()) == 1
    assert words in err


def test_the_help_names_every_computation(run):
    code, out, _ = run("sweep", "--help")
    assert code == 0
    assert [name for name in COMPUTATIONS if name not in out] == []


def test_a_plot_tells_its_series_apart(tmp_path):
    rows = [
        {"compute": "population", "activation": name, "length": length, "signal": signal}
        | {"noise": noise, "seed": 0, "value": 1.0 / signal, "error": 0.0}
        for name in ("softmax", "linear", "elementwise: 1 + x", "elementwise: x")
        for length in (2, 3, 10)
        for noise in (0.0, 0.3, 0.6)
        for signal in (1.0, 2.0)
    ]
    frame = pd.DataFrame(rows)
    for part in (frame, frame.query("activation == 'softmax'"), frame.query("length == 2")):
        varied = [name for name in ("activation", "length", "noise") if part[name].nunique() > 1]
        series = [names for names, _ in part.groupby(varied)]
        looks = series_looks(varied, series)
        assert len({str(look) for look in looks}) == len(looks) == len(series)
        for names, look in zip(series, looks, strict=True):
            if names[0] == "linear":
                assert look["color"] == MARKS["linear"].color
    # black on white: markers and dashes alone tell the series of an activation apart
    looks = series_looks(["activation", "length"], [("softmax", n) for n in range(30)])
    assert len({(look["marker"], str(look["linestyle"])) for look in looks}) == 30
    plot_sweep(frame, "signal", tmp_path / "many.png")
    with Image.open(tmp_path / "many.png") as picture:
        assert picture.size[0] > picture.size[1]


def test_infinite_signals_and_mixed_columns_are_exported(tmp_path, run):
    path, store = tmp_path / "sweep.toml", tmp_path / "store.sqlite"
    path.write_text(
        'compute = "population"\n[settings]\nactivation = "erf"\n'
        '[grid]\nsignal = [1.0, inf]\nbias = ["optimal", 0.5]'
    )
    code, _, _ = run("sweep", path, "--store", store, "--workers", "1")
    assert code == 0
    table = tmp_path / "t.parquet"
    code, out, _ = run("results", "--store", store, "--json", "--parquet", table)
    assert code == 0
    assert [row["signal"] for row in json.loads(out)["rows"]].count("inf") == 2
    assert set(pd.read_parquet(table)["bias"]) == {"optimal", "0.5"}
    code, out, _ = run("results", "--store", store, "--json", "--where", "signal=inf")
    assert len(json.loads(out)["rows"]) == 2
