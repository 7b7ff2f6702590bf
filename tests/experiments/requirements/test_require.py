"""What a demand requires: roots against closed forms, impossible demands, bad input."""

import math

import pytest

from slrlab import (
    MaxSLR,
    SpikedSLR,
    bayes_optimal,
    bayes_risk,
    erm_theory,
    hit_rate,
    minimal_risk,
    require,
)
from slrlab._result import Estimate, Status
from slrlab.experiments.requirements.demands import Demand, Value, least_meeting
from slrlab.model.activations import ACTIVATIONS


def test_signals_against_the_closed_form_and_by_evaluation():
    length, risk, noise = 50, 0.3, 0.2
    result = require(
        risk=risk, length=length, noise=noise, activations=["softmax", "erf", "linear"]
    )
    by_name = {need.activation: need for need in result.needs}
    assert list(by_name) == ["Bayes", "softmax", "erf", "linear"]
    # E = Δ² + (L − 1)/(L + ν(L − 1)/L), solved for ν
    exact = ((length - 1.0) / (risk - noise**2) - length) * length / (length - 1.0)
    assert by_name["linear"].signal == pytest.approx(exact, rel=1e-6)
    assert by_name["softmax"].signal == pytest.approx(by_name["Bayes"].signal, rel=1e-6)
    for name, need in by_name.items():
        task = SpikedSLR(need.signal, length, noise)
        at = bayes_risk(task) if name == "Bayes" else minimal_risk(task, name)
        assert at.risk == pytest.approx(need.value, rel=1e-9)
        assert at.risk <= risk * (1.0 + 1e-9)
        below = SpikedSLR(0.999 * need.signal, length, noise)
        less = bayes_risk(below) if name == "Bayes" else minimal_risk(below, name)
        assert less.risk > risk
    assert result.possible
    assert result.status == "converged"


def test_hit_rates_are_one_row_for_all_activations():
    result = require(hit_rate=0.9, length=[10, 1000])
    assert [need.activation for need in result.needs] == ["any increasing"] * 2
    for need, length in zip(result.needs, (10, 1000), strict=True):
        assert hit_rate(SpikedSLR(need.signal, length)) == pytest.approx(0.9, abs=1e-6)
        assert need.value >= 0.9 - 1e-12


def test_a_floor_is_an_impossible_demand():
    result = require(risk=0.5, length=10, task="max", activations="linear")
    bayes, linear = result.needs
    assert bayes.possible
    assert not result.possible
    assert math.isnan(linear.signal)
    floor = minimal_risk(MaxSLR(math.inf, 10), "linear").risk
    assert linear.value == pytest.approx(floor, rel=1e-9)
    assert linear.note == f"impossible: its risk stays above {floor:.4g}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_has_the_demanded_risk_at_its_answer(name):
    """Some have no limit of infinite signal: that does not make a demand impossible."""
    need = require(risk=0.3, length=10, activations=name).needs[-1]
    assert need.possible, need.note
    at = minimal_risk(SpikedSLR(need.signal, 10), name)
    assert at.risk == pytest.approx(need.value, rel=1e-9)
    assert at.risk == pytest.approx(0.3, abs=1e-6)


def test_a_failed_computation_is_not_an_impossible_demand():
    edges, demand = (1e-6, 4.0, 1e9, math.inf), Demand("risk", 0.1)

    def falling(largest):
        def at(x):
            if x > largest:
                return Value(Estimate(math.nan, math.nan), Status.FAILED, "no limit")
            return Value(Estimate(0.05 + 1.0 / x, 0.0), Status.CONVERGED)

        return at

    answer, value, note = least_meeting(falling(1e7), edges, demand, 1e-7)
    assert answer == pytest.approx(20.0, rel=1e-6)
    assert (value.status, note) == ("converged", "")
    answer, value, note = least_meeting(falling(10.0), edges, demand, 1e-7)
    assert note == "its risk stays above 0.15 up to 10, beyond which: no limit"
    answer, value, note = least_meeting(falling(0.1), edges, demand, 1e-7)
    assert math.isnan(answer)
    assert (value.status, note) == ("failed", "could not be computed: no limit")


def test_what_is_met_without_any_signal():
    (bayes, softmax) = require(risk=0.95, length=3, activations="softmax").needs
    assert softmax.signal < 1e-5  # risk 2/3 at signal 0
    assert "or less" in bayes.note


@pytest.mark.slow
def test_samples_against_the_theory_of_training():
    result = require(risk=0.6, length=2, signal=4.0, activations="linear", tolerance=5e-3)
    bayes, linear = result.needs
    assert result.unknown == "alpha"
    task = SpikedSLR(4.0, 2)
    assert bayes_optimal(task, alpha=bayes.alpha).risk_it <= 0.6
    assert bayes_optimal(task, alpha=0.95 * bayes.alpha).risk_it > 0.6
    assert linear.alpha > bayes.alpha
    assert linear.value == pytest.approx(0.6, abs=0.02)
    # at no ridges does half the data meet the demand
    for ridge_k, ridge_v in ((0.1, 1.0), (0.5, 2.0), (2.0, 4.0)):
        half = erm_theory(
            task, "linear", alpha=linear.alpha / 2, ridge_k=ridge_k, ridge_v=ridge_v, tolerance=0.01
        )
        assert half.test_risk > 0.6


def test_too_little_signal_is_impossible_for_any_number_of_samples():
    bayes, linear = require(risk=0.1, length=3, signal=2.0, activations="linear").needs
    assert not linear.possible
    assert math.isnan(linear.alpha)
    assert linear.value == pytest.approx(minimal_risk(SpikedSLR(2.0, 3), "linear").risk, rel=1e-9)
    assert not bayes.possible  # 0.352 with infinite data


def test_tables_and_pictures():
    result = require(risk=0.4, length=[5, 50], activations=["softmax", "linear"])
    frame = result.to_frame()
    assert len(frame) == 6
    axes = result.plot()
    assert len(axes.lines) == 3
    assert axes.get_xlabel() == "length"
    assert str(result) == "signal for a risk of at most 0.4"
    columns, rows = result.table()
    assert columns[:3] == ["length", "activation", "signal"]
    assert [row[0] for row in rows] == ["5"] * 3 + ["50"] * 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "risk must be given, or hit_rate"),
        ({"risk": 0.1, "hit_rate": 0.5}, "risk must be given, or hit_rate"),
        ({"risk": 0.01, "noise": 0.2}, "risk must be a finite number > 0.04"),
        ({"hit_rate": 1.0}, "hit_rate must be a number between 0 and 1"),
        ({"risk": 0.1, "signal": 2.0, "alpha": 3.0}, "alpha must not be given if signal is given"),
        ({"risk": 0.1, "alpha": -1.0}, "alpha must be a number > 0 or inf, got -1"),
        ({"risk": 0.1, "signal": -1.0}, "signal must be a finite number >= 0, got -1"),
        ({"risk": 0.1, "task": "none"}, "task must be one of"),
        ({"risk": 0.1, "activations": "nothing"}, "activation must be"),
        ({"risk": 0.1, "tolerance": 0.0}, "tolerance must be a finite number > 0"),
    ],
)
def test_bad_input_names_the_argument(given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        require(length=3, **given)
