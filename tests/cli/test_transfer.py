"""The command transfer."""

import json

import pandas as pd
import pytest

from slrlab import SpikedSLR, length_transfer


def test_pairs_of_lengths_in_a_table_a_file_and_a_picture(written):
    arguments = ["--signal", "4", "--activation", "linear", "--fit", "2,4", "--use", "3,8"]
    arguments += ["--rule", "log", "--rule", "constant", "--noise", "0.1"]
    out, table = written("transfer", *arguments)
    assert "linear on spiked-SLR, signal 4, noise 0.1, infinite data" in out
    wanted = length_transfer(
        SpikedSLR(4.0, 2, 0.1), "linear", fit=(2, 4), use=(3, 8), rule=["log", "constant"]
    )
    frame = pd.read_csv(table, keep_default_na=False)
    assert len(frame) == 8
    pd.testing.assert_frame_equal(frame, wanted.to_frame(), check_dtype=False)


def test_json_has_the_points(run):
    code, out, _ = run("transfer", "--fit", "3", "--use", "12", "--no-refit", "--json")
    (point,) = json.loads(out)["points"]
    assert code == 0
    assert (point["fit"], point["use"], point["rule"], point["factor"]) == (3, 12, "constant", 1.0)
    assert point["risk"] == pytest.approx(point["bayes_risk"], rel=1e-9)
    assert point["refitted_risk"] == "nan"
    assert "length" not in point


def test_all_activations_at_once(run, monkeypatch, tmp_path):
    from slrlab.experiments.atlas import transfer as atlas_transfer

    few = {name: atlas_transfer.ACTIVATIONS[name] for name in ("softmax", "linear")}
    monkeypatch.setattr(atlas_transfer, "ACTIVATIONS", few)
    table = tmp_path / "all.csv"
    code, out, _ = run("transfer", "--atlas", "--fit", "4", "--use", "2,9", "--csv", table)
    assert code == 0
    assert "9, best" in out
    assert set(pd.read_csv(table)["activation"]) == {"softmax", "linear"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fit", "1"], "--fit must be a whole number >= 2, got 1"),
        (["--use", "3,x"], "--use must be a whole number >= 2, got x"),
        (["--rule", "twice"], "--rule must be one of constant, sqrt-log, log, best, got twice"),
        (["--alpha", "-1"], "--alpha must be a number > 0 or inf, got -1.0"),
        (["--signal", "inf"], "--signal must be finite: else the best keys are infinite, got inf"),
        (
            ["--csv", "a.txt"],
            "--csv must be a file that ends with .csv in a folder that exists, got a.txt",
        ),
        (["--atlas", "--fit", "2,3"], "--fit must be one length with --atlas, got 2,3"),
        (["--atlas", "--alpha", "2"], "--alpha must be inf with --atlas, got 2.0"),
    ],
)
def test_wrong_input_is_refused_in_one_line(run, arguments, message):
    code, out, err = run("transfer", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"slrlab: {message}")
    assert err.count("\n") == 1
