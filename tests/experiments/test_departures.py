"""Away from spiked-SLR: risks along each direction."""

import math

import numpy as np
import pytest
from scipy import special

from slrlab import NeedlesSLR, SpikedSLR, bayes_risk, best_activation, departure, minimal_risk
from slrlab.experiments.departures import DIRECTIONS
from slrlab.model.activations import SOFTMAX
from slrlab.theory.moments import attention_moments
from slrlab.theory.population.closed_forms import needles_softmax_risk

KINDS = ["sigmoid", "linear"]
SETTING = {"signal": 4.0, "length": 3, "activations": KINDS}


@pytest.mark.parametrize(
    ("direction", "values"),
    [("similarity", [0.0, 0.6]), ("needles", [1, 2]), ("variance", [1.0, 6.0])],
)
def test_the_risks_along_a_direction(direction, values):
    result = departure(direction, values, **SETTING)
    origin, away = result.points
    assert origin.value == DIRECTIONS[direction].origin
    spiked = bayes_risk(SpikedSLR(4.0, 3)).risk
    assert origin.bayes_risk == pytest.approx(spiked, abs=1e-12)
    assert origin.softmax_excess == pytest.approx(0.0, abs=1e-12)
    assert origin.best == "softmax"
    assert away.softmax_excess > 1e-4
    task = DIRECTIONS[direction].task(4.0, 3, **{direction: values[1]})
    risks = {name: minimal_risk(task, name).risk for name in ("softmax", *KINDS)}
    assert away.best_risk == pytest.approx(min(risks.values()))
    assert away.best == min(risks, key=risks.get)
    assert len(result.activations) == 6
    frame = result.to_frame()
    assert frame[direction].tolist() == values
    assert result.to_dict()["rows"][1]["softmax_excess"] == pytest.approx(away.softmax_excess)
    columns, rows = result.table()
    assert len(columns) == len(rows[0])
    assert result.plot().get_xlabel() == direction


def test_elementwise_maps_overtake_softmax_with_two_needles():
    best = best_activation(NeedlesSLR(9.0, 10, needles=2), "softmax,sigmoid,linear")
    assert best.setting.activation_name == "sigmoid"
    assert best.risk < 0.75 * minimal_risk(NeedlesSLR(9.0, 10, needles=2), "softmax").risk


@pytest.mark.parametrize(("length", "needles"), [(3, 2), (10, 2), (10, 5)])
def test_the_rate_of_softmax_with_several_needles(length, needles):
    """Its closed form is approached faster than 1/√ν: the risk is a power of the signal."""
    gaps = []
    for signal in (1e4, 1e6):
        task = NeedlesSLR(signal, length, needles=needles)
        w = float(special.lambertw(2.0 * signal * (length - needles) / (needles - 1)).real)
        risk = attention_moments(task, SOFTMAX, w / (2.0 * math.sqrt(signal))).best_risk
        gaps.append(abs(risk / needles_softmax_risk(signal, length, needles) - 1.0))
    assert gaps[0] < 2e-3
    assert gaps[1] < 1e-4


def test_the_default_values_include_spiked():
    for name, one in DIRECTIONS.items():
        values = list(one.values(SpikedSLR(1.0, 7).length))
        assert np.isclose(values, one.origin).any(), name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("depth",), r"^direction must be one of similarity, needles, variance, got depth$"),
        (("needles", [5]), r"^length must be at least 5 for the task needles"),
        (("needles", []), r"^values must be one or more numbers, got an empty list$"),
        (("similarity", [2.0]), r"^values must be a number from 0 to 1, got 2.0$"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        departure(*arguments, length=3)


def test_no_activation_is_refused():
    with pytest.raises(ValueError, match=r"^activations must be names or activations"):
        best_activation(SpikedSLR(1.0, 2), [])
    with pytest.raises(ValueError, match=r"^activation must be a name or an expression"):
        best_activation(SpikedSLR(1.0, 2), "softmax,nothing")
