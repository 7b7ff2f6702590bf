"""Activations side by side: every combination is a row, with the best predictor beside it."""

import math
from dataclasses import replace

import matplotlib.pyplot as plt
import pytest

from slrlab import (
    ComputationError,
    MaxSLR,
    Normalised,
    SpikedSLR,
    Status,
    TiltedTask,
    bayes_optimal,
    bayes_risk,
    compare,
    erm_theory,
    make_activation,
    minimal_risk,
    optimal_ridge,
)
from slrlab.experiments.atlas import activations as module


class Own(TiltedTask):
    """Spiked-SLR as a task of one's own, served by the general channel."""

    name = "own"
    log_ratio = SpikedSLR.log_ratio
    relevant_interval = SpikedSLR.relevant_interval
    sample_relevant = SpikedSLR.sample_relevant


RIDGES = {"ridge_k": 1.0, "ridge_v": 1.0, "tolerance": 0.02}


def test_rows_are_the_single_computations():
    task = SpikedSLR(9.0, 10)
    result = compare(task, ["softmax", "erf", "normalised: 1 + x + x**2/2"])
    frame = result.to_frame()
    assert frame["activation"].tolist() == ["softmax", "erf", "normalised: 1 + x + x**2/2"]
    for name, risk in zip(frame["activation"], frame["risk"], strict=True):
        assert risk == pytest.approx(minimal_risk(task, name).risk, rel=1e-12)
    assert (frame["bayes_risk"] == bayes_risk(task).risk).all()
    assert (frame["excess"] == frame["risk"] - frame["bayes_risk"]).all()
    assert (frame["alpha"] == math.inf).all()
    assert result.status is Status.CONVERGED
    assert result.to_dict()["rows"][0]["alpha"] == "inf"


def test_lists_give_every_combination():
    tasks = [SpikedSLR(signal, length) for signal in (1, 2) for length in (2, "1,3")]
    frame = compare([*tasks, MaxSLR(2.0, 2)], ["softmax", "linear"]).to_frame()
    assert len(frame) == 10
    assert frame["length"].tolist()[:4] == ["2", "2", "1,3", "1,3"]
    keys = frame[["task", "signal", "length", "activation"]].apply(tuple, axis=1)
    assert keys.is_unique


def test_finite_data_have_ridges_a_status_and_the_best_predictor_of_as_many_data():
    task = SpikedSLR(2.0, 2)
    result = compare(task, ["softmax", "linear"], alpha=[4.0, math.inf], **RIDGES)
    frame = result.to_frame().set_index(["alpha", "activation"])
    alone = erm_theory(task, "linear", alpha=4.0, **RIDGES)
    row = frame.loc[4.0, "linear"]
    assert row["risk"] == alone.test_risk
    assert row["error"] == alone.test_risk_error
    assert (row["ridge_k"], row["status"]) == (1.0, str(alone.status))
    best = bayes_optimal(task, alpha=4.0)
    assert (row["bayes_risk"], row["amp_risk"]) == (best.risk_it, best.risk_amp)
    assert math.isnan(frame.loc[math.inf, "linear"]["ridge_k"])
    assert (frame["excess"] > -1e-9).all()
    columns, texts = result.table()
    assert columns == ["alpha", "activation", "risk", "Bayes", "excess", "ridges", "status"]
    assert texts[1][2] == str(alone.risk)
    assert texts[1][5] == "1, 1"


def test_without_ridges_the_best_are_searched(monkeypatch):
    asked = []

    def search(task, activation, **given):
        asked.append((activation, given))
        return erm_theory(task, activation, alpha=given["alpha"], **RIDGES)

    monkeypatch.setattr(module, "optimal_ridge", search)
    compare(SpikedSLR(2.0, 2), "linear", alpha=4, seed=3)
    assert asked == [("linear", {"alpha": 4.0, "tolerance": 1e-3, "seed": 3})]
    assert set(asked[0][1]) <= set(optimal_ridge.__annotations__)


def test_activations_and_tasks_of_ones_own():
    sink = Normalised("sink", sink=0.5)
    frame = compare(SpikedSLR(2.0, 3), [sink, make_activation("erf", bias=0.5)]).to_frame()
    assert frame["activation"].tolist() == ["sink", "erf"]
    assert frame["bias"].tolist() == [0.0, 0.5]
    other = compare(Own(2.0, 2), "linear", alpha=4.0, **RIDGES).to_frame()
    assert other["task"].item() == "own"
    assert other["bayes_risk"].item() == bayes_optimal(Own(2.0, 2), alpha=4.0).risk_it
    assert other["bayes_risk"].item() < other["risk"].item()
    with pytest.raises(ValueError, match=r"^activations must be names with several workers, got s"):
        compare(SpikedSLR(2.0, 3), [sink], workers=2)


def test_strict_refuses_a_row_that_did_not_settle(monkeypatch):
    monkeypatch.setattr(module, "minimal_risk", _doubtful)
    result = compare(SpikedSLR(2.0, 3), ["softmax", "linear"])
    assert result.status is Status.INACCURATE
    assert [row.status for row in result.rows] == [Status.CONVERGED, Status.INACCURATE]
    with pytest.raises(ComputationError, match="status inaccurate"):
        compare(SpikedSLR(2.0, 3), ["softmax", "linear"], strict=True)


def _doubtful(task, activation):
    result = minimal_risk(task, activation)
    return result if activation == "softmax" else replace(result, status=Status.INACCURATE)


def test_summary_is_a_title_and_a_line_each():
    task = SpikedSLR(9.0, 10)
    lines = compare(task, ["softmax", "linear"]).summary().splitlines()
    bayes, linear = bayes_risk(task).risk, 9.0 / (10.0 + 9.0 * 9.0 / 10.0)
    assert lines[0] == "spiked-SLR, signal 9, length 10, infinite data"
    assert lines[1].split() == ["activation", "risk", "Bayes", "excess", "status"]
    texts = [f"{value:.6f}" for value in (bayes, linear, linear - bayes)]
    assert lines[2].split() == ["softmax", texts[0], texts[0], "0", "converged"]
    assert lines[3].split() == ["linear", texts[1], texts[0], texts[2], "converged"]


def test_the_picture_has_a_curve_for_each_activation_and_the_best_predictor():
    result = compare([SpikedSLR(signal, 3) for signal in (1, 2, 8)], ["softmax", "linear"])
    axes = result.plot()
    assert axes.get_xlabel() == "signal $\\nu$"
    assert axes.get_xscale() == "log"
    labels = axes.get_legend_handles_labels()[1]
    assert labels == ["Bayes", "softmax", "linear"]
    by_length = compare([SpikedSLR(2, 2), SpikedSLR(2, "3,5")], ["linear"]).plot()
    assert by_length.lines[0].get_xdata().tolist() == [2.0, 4.0]
    several = compare([SpikedSLR(1, 3), MaxSLR(1, 3)], ["linear"]).plot()
    assert several.get_legend_handles_labels()[1] == ["Bayes (task spiked)", "Bayes (task max)"]
    with pytest.raises(ValueError, match=r"^x must be one of alpha, signal, .*, got task$"):
        result.plot(x="task")
    plt.close("all")


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"task": 3}, TypeError, "task must be a Task such as .*, got 3"),
        ({"task": []}, ValueError, "task must be a Task such as .*, got an empty list"),
        ({"activations": [3]}, TypeError, "activations must be names or activations, got 3"),
        ({"activations": ["soft"]}, ValueError, "activation must be a name or an expression"),
        ({"alpha": 0}, ValueError, "alpha must be a number > 0 or inf, got 0"),
        ({"alpha": [1.0, "2"]}, TypeError, "alpha must be numbers > 0, got '2'"),
        ({"alpha": 2.0, "ridge_k": 1.0}, ValueError, "ridge_v must be a finite number >= 0 beside"),
        ({"ridge_k": 1.0, "ridge_v": 1.0}, ValueError, "alpha must be a finite number > 0 for a"),
        ({"alpha": 2, "ridge_k": -1, "ridge_v": 1}, ValueError, "ridge_k must be a finite number"),
        ({"tolerance": 0.0}, ValueError, "tolerance must be a finite number > 0, got 0.0"),
        ({"seed": -1}, ValueError, "seed must be a whole number >= 0, got -1"),
    ],
)
def test_bad_arguments_are_refused_before_any_work(given, kind, message, monkeypatch):
    monkeypatch.setattr(module, "parallel_map", lambda *_, **__: pytest.fail("work began"))
    with pytest.raises(kind, match=f"^{message}"):
        compare(**({"task": SpikedSLR(2.0, 3)} | given))
