import csv
import json
from pathlib import Path

import pytest
from PIL import Image

from slrlab import SpikedSLR, gradient_flow, minimal_risk
from slrlab.theory.landscape.path import COLUMNS

KEYS = {"m_kk", "m_kv", "m_vk", "m_vv", "q_kk", "q_kv", "q_vv", "bias", "risk", "minimum"}
KEYS |= {"destination", "time", "status", "trajectory"}
EIGHT = "0.5,0.3,0.3,0,0.1,0.2,-0.1,0.2"


def test_json_has_the_contract_keys_and_the_path_is_on_disk(run, tmp_path):
    target = tmp_path / "new" / "path.csv"
    arguments = ["flow", "--start", EIGHT, "--tolerance", "1e-3", "--out", str(target)]
    code, out, _ = run(*arguments, "--json")
    result = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert code == 0
    assert set(result) >= KEYS
    start = ([0.5, 0.3, 0.3, 0.0], [0.1, 0.2, -0.1, 0.2])
    exact = gradient_flow(SpikedSLR(2.0, 3), "softmax", start=start, tolerance=1e-3)
    ends = exact.risk[-1], exact.m_kk[-1], exact.times[-1]
    assert (result["risk"], result["m_kk"], result["time"]) == pytest.approx(ends, rel=1e-9)
    assert result["minimum"] == "matched"
    # the flow ends on the manifold M, where the risk is that of the best predictor
    least = minimal_risk(SpikedSLR(2.0, 3), "softmax").risk
    assert result["destination"]["risk"] == pytest.approx(least, abs=1e-7)
    assert result["destination"]["status"] == "converged"
    assert result["trajectory"] == str(target)
    rows = list(csv.DictReader(target.read_text().splitlines()))
    assert tuple(rows[0]) == COLUMNS
    assert [float(row["risk"]) for row in rows] == pytest.approx(exact.risk.tolist(), rel=1e-9)


def test_a_table_for_people_and_the_default_file(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = ["--activation", "linear", "--start", "matched", "--size", "0.5", "--time", "2"]
    code, out, _ = run("flow", *given)
    assert code == 0
    assert "matched minimum" in out
    assert "not converged" in out  # time ran out on the way: still a path to read
    assert (tmp_path / "results" / "flow.csv").exists()


def test_a_runaway_ends_with_1_and_its_path_is_kept(run, only_progress, tmp_path):
    target = tmp_path / "flow.csv"
    given = ["--activation", "linear", "--length", "10", "--start", "mismatched", "--time", "2"]
    code, out, err = run("flow", *given, "--out", str(target), "--json")
    result = json.loads(out)
    assert code == 1
    assert only_progress(err)
    assert result["status"] == "diverged"
    assert result["minimum"] == "mismatched"
    assert result["destination"]["status"] == "boundary"
    assert len(target.read_text().splitlines()) > 5


def test_online_sgd(run, tmp_path):
    target = tmp_path / "sgd.csv"
    given = ["--start", EIGHT, "--sgd-rate", "0.3", "--time", "1", "--out", str(target)]
    code, out, _ = run("flow", *given, "--json")
    result = json.loads(out)
    assert code == 0
    assert result["rate"] == 0.3
    assert result["method"] == "online sgd"
    assert result["time"] == 1.0
    assert set(result) >= KEYS


def test_a_film(run, tmp_path):
    film = tmp_path / "film.gif"
    given = ["--activation", "linear", "--start", EIGHT, "--time", "3"]
    given += ["--out", str(tmp_path / "flow.csv"), "--animate", str(film), "--json"]
    code, out, _ = run("flow", *given)
    assert code == 0
    assert json.loads(out)["animation"] == str(film)
    with Image.open(film) as picture:
        assert picture.n_frames > 20


def test_a_place_that_cannot_be_written_is_found_before_any_work(run, tmp_path, monkeypatch):
    monkeypatch.setattr("slrlab.cli.flow.gradient_flow", None)
    blocked = tmp_path / "file"
    blocked.write_text("")
    # permissions do not show that nothing can be made in /proc, nor that a name is too long
    long = tmp_path / "new" / ("n" * 300) / "flow.csv"
    for target in (blocked / "flow.csv", tmp_path, Path("/proc/none/flow.csv"), long):
        code, out, err = run("flow", "--length", "1000", "--out", str(target), "--json")
        assert code == 1
        assert out == ""
        assert err.startswith("slrlab: ")
        assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [blocked]
