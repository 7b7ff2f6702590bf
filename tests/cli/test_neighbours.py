"""The commands departure, universality and labels, and the options of the neighbouring tasks."""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from slrlab import HardNegativeSLR, NeedlesSLR, bayes_risk, minimal_risk
from slrlab.cli import labels as labels_command
from slrlab.experiments.comparison import labels as experiment


def test_the_parameter_of_a_task_is_an_option(run):
    options = ("--signal", "4", "--length", "3", "--json")
    code, out, _ = run("population", "--task", "needles", "--needles", "2", *options)
    result = json.loads(out)
    assert code == 0
    assert (result["task"], result["needles"]) == ("needles", 2)
    exact = minimal_risk(NeedlesSLR(4.0, 3, needles=2), "softmax")
    assert result["risk"] == pytest.approx(exact.risk)
    code, out, _ = run("population", "--task", "hard-negative", "--similarity", "0.25", *options)
    risk = bayes_risk(HardNegativeSLR(4.0, 3, similarity=0.25)).risk
    assert json.loads(out)["bayes_risk"] == pytest.approx(risk)


# in a process of its own: the options are made when the command line is imported
_OWN_TASK = """
import sys
from dataclasses import dataclass
from typing import ClassVar

from slrlab import SpikedSLR, register_task

@register_task
@dataclass(frozen=True, init=False)
class CountedSLR(SpikedSLR):
    '''Spiked-SLR with a number.

    Parameters
    ----------
    marks
        Number ``J`` of marks,
        which nothing depends on.
    '''

    marks: int = 1
    name: ClassVar[str] = "counted"

    def __init__(self, signal, length, noise=0.0, *, marks=1):
        object.__setattr__(self, "marks", marks)
        super().__init__(signal, length, noise)

from slrlab.cli.main import main
main(sys.argv[1:])
"""


def test_a_parameter_of_a_new_task_is_an_option_with_the_help_of_its_class():
    def printed(*words):
        command = [sys.executable, "-W", "error", "-c", _OWN_TASK, "population", *words]
        environment = os.environ | {"COLUMNS": "200"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    result = json.loads(printed("--task", "counted", "--marks", "3", "--json"))
    assert (result["task"], result["marks"]) == ("counted", 3)
    assert "Number J of marks, which nothing depends on. (Task counted.)" in printed("--help")


def test_a_direction_in_a_table_a_file_and_a_picture(written):
    arguments = ["--values", "1,2", "--signal", "4", "--length", "3", "--activation", "sigmoid"]
    out, table = written("departure", "needles", *arguments)
    assert "risks against needles, converged" in out
    frame = pd.read_csv(table)
    assert frame["best"].tolist() == ["softmax", "sigmoid"]


def test_laws_of_tokens(run):
    arguments = ["--alpha", "4", "--ridge-k", "1", "--ridge-v", "1", "--length", "2"]
    arguments += ["--activation", "linear", "--dims", "20,40", "--seeds", "3"]
    arguments += ["--test-samples", "100", "--tolerance", "0.05", "--token-law", "rademacher"]
    code, out, _ = run("universality", *arguments)
    assert code == 0
    assert "rademacher" in out
    assert "drift b" in out
    code, out, _ = run("universality", *arguments, "--json")
    result = json.loads(out)
    assert [one["law"] for one in result["verdicts"]] == ["rademacher"]
    assert {row["quantity"] for row in result["rows"]} >= {"test_risk", "q_v"}
    code, out, _ = run("simulate", *arguments[:8], "--dim", "20", "--token-law", "student(5)")
    assert code == 0


def test_what_labels_are_worth(run, monkeypatch):
    curve = pd.DataFrame({"alpha": [0.5, 2.0, 50.0], "overlap": [0.1, 0.3, 0.95]})
    curve = curve.assign(risk=0.5, risk_error=0.0, status="sampled")
    monkeypatch.setattr(experiment, "y_curve", lambda *given: curve)
    arguments = ["--alpha", "2", "--dim", "20", "--seeds", "2", "--length", "2"]
    code, out, _ = run("labels", *arguments)
    assert code == 0
    assert "keys by cross entropy" in out
    assert labels_command.ALPHAS
    code, out, _ = run("labels", *arguments, "--loss", "least squares", "--json")
    result = json.loads(out)
    assert (result["loss"], result["rows"][0]["alpha"]) == ("least squares", 2.0)
    assert result["rows"][0]["y_overlap"] == 0.3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("population", "--needles", "2"),
            "--needles must not be given for the task spiked, got 2",
        ),
        (
            ("population", "--task", "needles", "--needles", "0"),
            "--needles must be a whole number >= 1, got 0",
        ),
        (
            ("population", "--task", "hard-negative", "--similarity", "2"),
            "--similarity must be a number from 0 to 1, got 2.0",
        ),
        (
            ("population", "--task", "variance", "--variance", "0"),
            "--variance must be a number from 0.01 to 25, got 0.0",
        ),
        (
            ("population", "--task", "needles", "--needles", "4", "--length", "3"),
            "--length must be at least 4 for the task needles with these parameters, got 3",
        ),
        (
            ("erm", "--task", "needles", "--alpha", "4", "--ridge-k", "1", "--ridge-v", "1"),
            "--task must be one with a single relevant token at finite alpha, got needles",
        ),
        (
            ("bayes", "--task", "needles", "--alpha", "4"),
            "--task must be a TiltedTask or a SelectionTask, got NeedlesSLR",
        ),
        (
            ("departure", "depth"),
            "direction must be one of similarity, needles, variance, got depth",
        ),
        (
            ("departure", "needles", "--values", "0"),
            "--values must be a whole number >= 1, got 0.0",
        ),
        (
            ("departure", "similarity", "--values", "-1"),
            "--values must be a number from 0 to 1, got -1.0",
        ),
        (
            ("departure", "variance", "--values", "100"),
            "--values must be a number from 0.01 to 25, got 100.0",
        ),
        (
            ("labels", "--signal", "0"),
            "--signal must be a number > 0: without a signal there are no keys, got 0.0",
        ),
        (
            ("labels", "--length", "1"),
            "--length must be at least 2: a single token is known, got 1",
        ),
        (("departure", "needles", "--values", "1,x"), "--values must be numbers, got x"),
        (("labels", "--alpha", "0"), "--alpha must be a finite number > 0, got 0.0"),
        (
            ("labels", "--loss", "hinge"),
            "--loss must be one of cross entropy, least squares, got hinge",
        ),
        (
            ("universality", "--alpha", "4", "--ridge-k", "1", "--ridge-v", "1", "--dims", "50"),
            "--dims must be at least two different dimensions, got [50]",
        ),
    ],
)
def test_bad_input_is_one_line(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out, err) == (2, "", f"slrlab: {message}\n")


def test_an_unknown_law_is_one_line(run):
    ridges = ("--alpha", "4", "--ridge-k", "1", "--ridge-v", "1")
    code, _, err = run("simulate", *ridges, "--token-law", "normal")
    assert code == 2
    assert err.startswith("slrlab: --token-law must be one of gaussian, rademacher")
    assert err.endswith("got normal\n")
