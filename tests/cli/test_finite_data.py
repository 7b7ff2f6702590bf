"""The commands bayes and erm: theory of finite data."""

import json

import pytest

from slrlab import SpikedSLR, bayes_optimal, bayes_thresholds

ERM_KEYS = {"test_risk", "test_risk_error", "train_mse", "objective", "m_k", "m_v", "q_k", "q_v"}
ERM_KEYS |= {"V_k", "V_v", "ridge_k", "ridge_v", "replicon", "stable", "branch", "status"}


def test_bayes_json_is_one_object_with_the_contract_keys(run):
    arguments = ["bayes", "--signal", "2", "--length", "3", "--alpha", "1.1", "--json"]
    code, out, err = run(*arguments)
    assert code == 0
    assert err == ""
    result = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    overlaps = {"q_k", "q_v", "q_k_it", "q_v_it"}
    assert set(result) >= {"risk_it", "risk_amp", "free_entropy", "hard", "status"} | overlaps
    assert result["hard"] is True
    assert result["free_entropy"] == "inf"
    exact = bayes_optimal(SpikedSLR(2.0, 3), alpha=1.1).risk_it
    assert result["risk_it"] == pytest.approx(exact, rel=1e-12)


def test_bayes_thresholds_and_tables(run):
    result = json.loads(run("bayes", "--thresholds", "--json")[1])
    assert result["alpha_it"] == 1.0
    assert result["alpha_alg"] == pytest.approx(bayes_thresholds(SpikedSLR(2.0, 3)).alpha_alg)
    assert result["hard_phase"] is True
    code, out, _ = run("bayes", "--length", "1", "--noise", "0.5", "--alpha", "2")
    assert code == 0
    assert "risk_amp" in out


def test_erm_json_is_one_object_with_the_contract_keys(run):
    arguments = ["erm", "--alpha", "8", "--ridge-k", "0.4", "--ridge-v", "0.8"]
    arguments += ["--tolerance", "5e-3", "--weights", "--json"]
    code, out, _ = run(*arguments)
    result = json.loads(out)
    assert code == 0
    assert set(result) >= ERM_KEYS
    assert result["stable"] is True
    # 0.46302 by independent code: tests/data/erm.json
    assert abs(result["test_risk"] - 0.46302) < 4.0 * result["test_risk_error"]
    assert result["test_risk_error"] <= 5e-3
    weights = result["weights"]  # of the trained keys
    assert weights["m_k"] == result["m_k"]
    assert weights["R_k"] == pytest.approx(result["q_k"] - result["m_k"] ** 2)


def test_erm_table_with_the_best_ridge(run):
    arguments = ["erm", "--alpha", "4", "--ridge", "optimal", "--activation", "linear"]
    code, out, _ = run(*arguments, "--tolerance", "1e-2")
    assert code == 0
    assert "replicon" in out
    assert "±" in out
