import re

import pytest

from slrlab import SpikedSLR, lacks, minimal_risk, properties

TASKS = [SpikedSLR(9.0, 10), SpikedSLR(9.0, "2,10", noise=0.5)]
NAMES = ["relu-over-length", "softmax", "sigmoid", "normalised: exp(x) + x**2"]


@pytest.fixture(scope="module")
def frame():
    return properties(TASKS, NAMES, samples=4096)


def test_a_row_for_each_task_and_activation_least_excess_first(frame):
    assert len(frame) == len(TASKS) * len(NAMES)
    for task in TASKS:
        rows = frame[frame["length"] == str(task.length)]
        assert rows["excess"].is_monotonic_increasing
        assert rows["activation"].iloc[0] == "softmax"
        last = rows.iloc[-1]
        best = minimal_risk(task, last["activation"])
        attainable = task.trivial_risk - best.bayes_risk
        assert last["loss"] == pytest.approx(best.excess / attainable)
        shares = rows[["shape_share", "size_share", "length_share"]].sum(axis=1)
        assert shares[rows["excess"] > 1e-9].to_numpy() == pytest.approx(1.0)


def test_random_lengths_cost_a_division_by_the_length(frame):
    rows = frame[(frame["length"] == "2,10") & (frame["activation"] == "relu-over-length")].iloc[0]
    assert rows["length_share"] > 0.3
    assert rows["retuned"] < rows["per_length"] < 0.7 * rows["excess"]


def test_the_sentence_says_what_is_lacking():
    assert lacks("softmax").startswith("Lacks nothing on spiked (signal 9, length 10)")
    assert "100 % because one factor does not fit all sequences" in lacks("sigmoid")
    linear = lacks("linear")
    assert linear.startswith("Loses 0.41 of the attainable gain")
    shares = [int(number) for number in re.findall(r"(\d+) %", linear)]
    assert sum(shares) == 100
    assert shares[0] > 90
    assert "is not linear in the score" in linear.partition("%,")[0]
    assert "all lengths" in lacks("relu-over-length", TASKS[1])


def test_what_cannot_be_read_is_refused_before_any_work():
    with pytest.raises(ValueError, match="activation must be"):
        properties(TASKS[0], ["softmax", "softmaxx"])
