"""The command require."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from scipy import integrate, stats

from slrlab import require
from slrlab.cli.require import _closest


def test_json_is_that_of_the_function(run):
    arguments = ["--risk", "0.2", "--length", "20", "--activation", "linear", "--json"]
    code, out, _ = run("require", *arguments)
    wanted = require(risk=0.2, length=20, activations="linear")
    assert code == 0
    assert json.loads(out) == wanted.to_dict()


def test_a_table_and_files(written):
    arguments = ["--hit-rate", "0.8", "--length", "10", "--length", "100"]
    out, table = written("require", *arguments)
    assert "any increasing" in out
    assert len(pd.read_csv(table)) == 2


def test_an_impossible_demand_is_one_line_and_exit_code_1(run):
    arguments = ["--risk", "0.1", "--length", "100", "--task", "max", "--activation", "linear"]
    code, _, err = run("require", *arguments)
    assert code == 1
    line = [text for text in err.splitlines() if text.startswith("slrlab:")]
    # at infinite signal ``1 − (1 + μ̄²)/L`` with the mean μ̄ of the largest of 100 normals
    mean, _ = integrate.quad(
        lambda x: 100.0 * x * stats.norm.pdf(x) * stats.norm.cdf(x) ** 99, -10.0, 10.0
    )
    least = 1.0 - (1.0 + mean**2) / 100.0
    assert line == [
        "slrlab: none of these activations can; "
        f"closest is linear: its risk stays above {least:.4f}"
    ]


def test_an_impossible_demand_names_the_activation_that_comes_closest():
    found = require(risk=0.1, length=100, task="max", activations="linear")
    linear = found.needs[-1]
    other = {"activation": "other", "value": 0.5, "note": "impossible: its risk stays above 0.5"}
    both = replace(found, needs=(replace(linear, **other), linear))  # the last is not the closest
    expected = "none of these activations can; closest is other: its risk stays above 0.5"
    assert _closest(both) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--risk must be given, or hit_rate, but not both"),
        (["--risk", "x"], "--risk must be a finite number > 0, got x"),
        (["--hit-rate", "2"], "--hit-rate must be a number between 0 and 1, got 2"),
    ],
)
def test_bad_input_is_one_line(run, arguments, message):
    code, out, err = run("require", "--length", "5", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
