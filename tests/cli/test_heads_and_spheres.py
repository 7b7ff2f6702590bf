"""The commands heads, specialise and marion."""

import json

import pandas as pd
import pytest

from slrlab import MarionSLR, minimal_risk


def test_heads_with_and_without_a_sink(run):
    where = ("heads", "--signals", "6", "--directions", "4", "--length", "5", "--json")
    risks = []
    for options in (
        ("--activation", "softmax"),
        ("--activation", "softmax-1", "--bias", "-4"),
        ("--activation", "bayes-softmax"),
    ):
        code, out, _ = run(*where, *options)
        assert code == 0
        risks.append(round(json.loads(out)["risk"], 4))
    # computed without slrlab, see tests/theory/heads/test_heads.py
    assert risks == [0.7214, 0.4964, 0.4058]
    code, out, _ = run("heads", "--signals", "9,4", "--probabilities", "0.7,0.3", "--heads", "1")
    assert code == 0
    assert "Several heads" in out


def test_specialise_prints_stages_and_writes_paths(run, tmp_path, only_progress):
    table = tmp_path / "paths.csv"
    options = ("--dim", "30", "--time", "0.5", "--samples", "64", "--seeds", "2")
    code, out, err = run("specialise", "--signals", "9,4", *options, "--csv", table)
    assert code == 0
    assert only_progress(err)
    assert "SGD" in out
    assert set(pd.read_csv(table)["seed"]) == {0, 1}
    code, out, _ = run("specialise", "--signals", "9,4", *options, "--overlap", "0.1", "--json")
    assert len(json.loads(out)["gap"]) == 2


def test_marion_follows_the_sphere(run, tmp_path):
    table = tmp_path / "paths.csv"
    options = ("--dim", "12", "--length", "3", "--time", "0.5", "--seeds", "2")
    code, out, _ = run("marion", *options, "--rate", "0.05", "--csv", table, "--json")
    result = json.loads(out)
    assert code == 0
    assert result["bayes_risk_keys"] >= result["bayes_risk_scores"] >= result["bayes_risk_tokens"]
    assert set(pd.read_csv(table)["method"]) == {"descent", "flow"}
    where = ("--task", "marion", "--relevant-std", "0.7", "--signal", "4", "--length", "3")
    code, out, _ = run("population", *where, "--json")
    exact = minimal_risk(MarionSLR(4.0, 3, relevant_std=0.7), "softmax").risk
    assert json.loads(out)["risk"] == pytest.approx(exact)


def test_too_many_dimensions_are_refused(run):
    code, out, err = run("specialise", "--dim", "900000000")
    assert (code, out) == (2, "")
    assert err.startswith("slrlab: --dim must be at most ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("heads", "--signals", "1,x"), "--signals must be numbers, got x"),
        (
            ("heads", "--signals", "1,2", "--probabilities", "0.5,0.6"),
            "--probabilities must be numbers that sum to 1, got [0.5, 0.6]",
        ),
        (
            ("heads", "--signals", "1,2", "--activation", "bayes-softmax", "--heads", "1"),
            "--heads must be at least the 2 directions for bayes-softmax, got 1",
        ),
        (
            ("heads", "--signals", "1", "--activation", "bayes-softmax", "--bias", "1"),
            "--bias must not be given with bayes-softmax, got 1.0",
        ),
        (
            ("heads", "--directions", "100"),
            "--directions must be a whole number <= 64, got 100",
        ),
        (("specialise", "--overlap", "-1"), "--overlap must be a finite number >= 0, got -1.0"),
        (("specialise", "--dim", "3"), "--dim must be a whole number >= 4, got 3"),
        (("marion", "--start", "here"), "--start must be one of random, manifold, got here"),
        (
            ("marion", "--relevant-std", "0"),
            "--relevant-std must be a number from 0.01 to 100, got 0.0",
        ),
    ],
)
def test_bad_input_is_one_line(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out, err) == (2, "", f"slrlab: {message}\n")
