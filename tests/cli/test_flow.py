import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from slrlab import SpikedSLR, gradient_flow
from slrlab.cli.main import main
from slrlab.theory.landscape.path import COLUMNS

KEYS = {"m_kk", "m_kv", "m_vk", "m_vv", "q_kk", "q_kv", "q_vv", "bias", "risk", "minimum"}
KEYS |= {"destination", "time", "status", "trajectory"}
EIGHT = "0.5,0.3,0.3,0,0.1,0.2,-0.1,0.2"


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    out, err = capsys.readouterr()
    return stop.value.code, out, err


def only_progress(err):
    """Return whether stderr holds nothing, or what slow machines add: lines of progress."""
    return all(re.search(r": \d+ of \d+$", line) for line in err.splitlines())


def test_json_has_the_contract_keys_and_the_path_is_on_disk(capsys, tmp_path):
    target = tmp_path / "new" / "path.csv"
    arguments = ["flow", "--start", EIGHT, "--tolerance", "1e-3", "--out", str(target)]
    code, out, _ = run(capsys, *arguments, "--json")
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert code == 0
    assert set(found) >= KEYS
    start = ([0.5, 0.3, 0.3, 0.0], [0.1, 0.2, -0.1, 0.2])
    exact = gradient_flow(SpikedSLR(2.0, 3), "softmax", start=start, tolerance=1e-3)
    ends = exact.risk[-1], exact.m_kk[-1], exact.times[-1]
    assert (found["risk"], found["m_kk"], found["time"]) == pytest.approx(ends, rel=1e-9)
    assert found["minimum"] == "matched"
    assert found["destination"]["risk"] == pytest.approx(0.3524232689, abs=1e-7)
    assert found["destination"]["status"] == "converged"
    assert found["trajectory"] == str(target)
    rows = list(csv.DictReader(target.read_text().splitlines()))
    assert tuple(rows[0]) == COLUMNS
    assert [float(row["risk"]) for row in rows] == pytest.approx(exact.risk.tolist(), rel=1e-9)


def test_a_table_for_people_and_the_default_file(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = ["--activation", "linear", "--start", "matched", "--size", "0.5", "--time", "2"]
    code, out, _ = run(capsys, "flow", *given)
    assert code == 0
    assert "matched minimum" in out
    assert "not converged" in out  # time ran out on the way: still a path to read
    assert (tmp_path / "results" / "flow.csv").exists()


def test_a_runaway_ends_with_1_and_its_path_is_kept(capsys, tmp_path):
    target = tmp_path / "flow.csv"
    given = ["--activation", "linear", "--length", "10", "--start", "mismatched", "--time", "2"]
    code, out, err = run(capsys, "flow", *given, "--out", str(target), "--json")
    found = json.loads(out)
    assert code == 1
    assert only_progress(err)
    assert found["status"] == "diverged"
    assert found["minimum"] == "mismatched"
    assert found["destination"]["status"] == "boundary"
    assert len(target.read_text().splitlines()) > 5


def test_online_sgd(capsys, tmp_path):
    target = tmp_path / "sgd.csv"
    given = ["--start", EIGHT, "--sgd-rate", "0.3", "--time", "1", "--out", str(target)]
    code, out, _ = run(capsys, "flow", *given, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["rate"] == 0.3
    assert found["method"] == "online sgd"
    assert found["time"] == 1.0
    assert set(found) >= KEYS


def test_a_film(capsys, tmp_path):
    film = tmp_path / "film.gif"
    given = ["--activation", "linear", "--start", EIGHT, "--time", "3"]
    given += ["--out", str(tmp_path / "flow.csv"), "--animate", str(film), "--json"]
    code, out, _ = run(capsys, "flow", *given)
    assert code == 0
    assert json.loads(out)["animation"] == str(film)
    with Image.open(film) as picture:
        assert picture.n_frames > 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--start", "warm"], "start must be random, matched, mismatched or eight numbers"),
        (["--start", ""], "start must be random, matched, mismatched or eight numbers"),
        (["--start", "1,2,3"], "start must be random, matched, mismatched or eight numbers"),
        (["--start", EIGHT + ",1"], "start must be random, matched, mismatched or eight"),
        (["--start", "nan,0,0,0,0,0,0,0"], "start must hold finite numbers only, got nan or inf"),
        (["--start", "1e9,0,0,0,0,0,0,0"], "start must have |k| and |v| of at most"),
        (["--start", EIGHT, "--size", "1"], "size must be left out with a start of your own"),
        (["--size", "-1"], "size must be a finite number > 0, got -1.0"),
        (["--size", "big"], "size must be a finite number > 0, got big"),
        (["--seed", "-1"], "seed must be a whole number >= 0, got -1"),
        (["--time", "0"], "time must be a finite number > 0, got 0.0"),
        (["--time", "nan"], "time must be a finite number > 0, got nan"),
        (["--tolerance", "-1"], "tolerance must be a finite number > 0, got -1.0"),
        (["--sgd-rate", "0"], "sgd-rate must be a finite number > 0, got 0.0"),
        (["--sgd-rate", "fast"], "sgd-rate must be a finite number > 0, got fast"),
        (["--signal", "inf"], "signal must be at most 10000"),
        (["--animate", "film.mp4"], "animate must be a file name ending in .gif, got film.mp4"),
    ],
)
def test_bad_input_to_flow(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "flow", "--json", *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith(f"slrlab: --{message}")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_found_before_any_work(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("slrlab.cli.flow.gradient_flow", None)
    blocked = tmp_path / "file"
    blocked.write_text("")
    # permissions do not show that nothing can be made in /proc, nor that a name is too long
    long = tmp_path / "new" / ("n" * 300) / "flow.csv"
    for target in (blocked / "flow.csv", tmp_path, Path("/proc/none/flow.csv"), long):
        code, out, err = run(capsys, "flow", "--length", "1000", "--out", str(target), "--json")
        assert code == 1
        assert out == ""
        assert err.startswith("slrlab: ")
        assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [blocked]


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], ["matplotlib", "pandas", "numba", "scipy.optimize", "scipy.integrate"]),
        (["--time", "0.01", "--json"], ["matplotlib", "pandas", "numba", "sympy", "rich"]),
    ],
)
def test_it_imports_no_library_that_it_does_not_need(tmp_path, arguments, heavy):
    code = (
        "import sys; from slrlab.cli.main import main\n"
        f"try: main(['flow', *{arguments}])\n"
        f"except SystemExit: print([m for m in {heavy} if m in sys.modules], file=sys.stderr)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    *progress, loaded = done.stderr.splitlines()
    assert only_progress("\n".join(progress))
    assert loaded == "[]"
