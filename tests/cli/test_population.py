"""The command population."""

import json

import pytest

from slrlab import SpikedSLR, hit_rate, make_task, minimal_risk

KEYS = {"risk", "bayes_risk", "m_k", "m_v", "A", "B", "error", "status"}


def test_population_json_is_one_object_with_the_contract_keys(run):
    code, out, err = run("population", "--signal", "2", "--length", "3", "--json")
    assert code == 0
    assert err == ""
    result = json.loads(out)
    assert set(result) >= KEYS
    exact = minimal_risk(SpikedSLR(2.0, 3), "softmax").risk
    assert result["risk"] == pytest.approx(exact, rel=1e-12)


def test_population_at_given_order_parameters(run):
    arguments = ["population", "--task", "max", "--signal", "inf", "--length", "1,2,3"]
    arguments += ["--activation", "erf", "--bias", "0", "--m-k", "1", "--R-k", "0.2", "--json"]
    code, out, _ = run(*arguments)
    best = json.loads(out)
    assert code == 0
    assert best["R_k"] == 0.2
    worse = json.loads(run(*arguments, "--m-v", "0.1")[1])
    assert worse["risk"] > best["risk"]


def test_population_says_what_the_weights_do(run):
    arguments = ["population", "--activation", "hardmax", "--weights"]
    code, out, _ = run(*arguments, "--json")
    result = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert code == 0
    assert result["weights"]["hit_rate"] == pytest.approx(hit_rate(SpikedSLR(2.0, 3)))
    assert result["weights"]["scaled_distance"] == pytest.approx(result["excess"], abs=1e-8)
    _, out, _ = run(*arguments)
    assert "Weights of hardmax" in out
    assert "miscalibration" in out


def test_infinities_are_strings_in_json(run):
    _, out, _ = run("population", "--task", "max", "--signal", "inf", "--json")
    result = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert result["m_k"] == "inf"
    assert result["signal"] == "inf"


def test_the_table_shows_the_risk(run):
    code, out, _ = run("population", "--activation", "elementwise: 1 + tanh(x)")
    assert code == 0
    assert "risk" in out


def test_the_same_text_from_python_but_for_the_option_as_typed(run):
    _, _, err = run("population", "--signal", "-1")
    with pytest.raises(ValueError) as raised:
        make_task("spiked", signal=-1.0, length=3)
    assert err == f"slrlab: --{raised.value}\n"
