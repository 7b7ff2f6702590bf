"""The commands simulate and amp: simulated data beside the theory."""

import json
from functools import partial

import pytest

from slrlab import erm_theory

COMPARE = ["simulate", "--activation", "linear", "--alpha", "3", "--ridge-k", "1"]
COMPARE += ["--ridge-v", "1", "--compare", "--test-samples", "100"]
QUANTITIES = {"m_k", "m_v", "q_k", "q_v", "order_risk", "test_risk", "train_mse"}
AMP_KEYS = {"q_k", "q_v", "risk", "q_k_error", "q_v_error", "risk_error"}
AMP_KEYS |= {"q_k_se", "q_v_se", "risk_se", "iteration"}


def test_simulate_json_is_one_object_with_the_contract_keys(run):
    arguments = ["--alpha", "4", "--dim", "60", "--seeds", "2", "--ridge-k", "0.5"]
    code, out, _ = run("simulate", *arguments, "--ridge-v", "0.8", "--json")
    assert code == 0
    result = json.loads(out)
    wanted = "test_risk test_risk_error train_mse m_k m_v q_k q_v iterations seconds status"
    assert set(wanted.split()) <= set(result)
    assert result["samples"] == 240
    assert [row["status"] for row in result["runs"]] == ["converged"] * 2


def test_start_is_another_name_of_init(run):
    given = ["simulate", "--alpha", "2", "--dim", "20", "--seeds", "1", "--ridge-k", "1"]
    given += ["--ridge-v", "1", "--test-samples", "10", "--json"]
    risks = [json.loads(run(*given, name, "random")[1])["q_k"] for name in ("--init", "--start")]
    assert risks[0] == risks[1]
    assert risks[0] != json.loads(run(*given)[1])["q_k"]
    _, _, err = run(*given, "--start", "warm")
    assert err == "slrlab: --start must be one of informed, random, got warm\n"


@pytest.fixture
def rough_theory(monkeypatch):
    rough = partial(erm_theory, tolerance=1e-2)
    monkeypatch.setattr("slrlab.experiments.comparison.training.erm_theory", rough)


@pytest.mark.usefixtures("rough_theory")
def test_simulate_beside_theory(run):
    code, out, _ = run(*COMPARE, "--dim", "40", "--json")
    assert code == 0
    result = json.loads(out)
    assert result["seeds"] == 16  # enough for a test, without being asked
    for key in ("gaps", "gap_errors", "freedom", "gap_intervals", "p_values", "z"):
        assert set(result[key]) == QUANTITIES
    assert result["family_p"] == pytest.approx(min(1.0, 7.0 * min(result["p_values"].values())))
    assert result["theory"]["stable"]
    assert result["order_risk"] != result["test_risk"]
    code, out, _ = run(*COMPARE, "--dim", "40", "--seeds", "4")
    assert code == 0
    assert "order_risk: test risk computed from the trained order parameters" in out
    assert "test_risk: test risk measured on 100 fresh sequences" in out
    assert "smallest p of 7" in out
    assert "--dims 10,40 estimates it" in out
    assert " z " not in out


@pytest.mark.usefixtures("rough_theory")
def test_simulate_at_two_dimensions(run):
    given = [*COMPARE, "--dims", "60,30", "--seeds", "4"]
    code, out, _ = run(*given, "--json")
    assert code == 0
    result = json.loads(out)
    assert (result["dim"], result["dims"], len(result["comparisons"])) == (60, [30, 60], 2)
    assert set(result["limits"]) == QUANTITIES
    fit = result["limits"]["q_v"]
    gaps = [one["gaps"]["q_v"] for one in result["comparisons"]]
    assert fit["gap"] == pytest.approx(2.0 * gaps[1] - gaps[0])
    assert {"gap_interval", "p_value", "drift", "drift_p_value"} <= set(fit)
    code, out, _ = run(*given)
    assert code == 0
    assert "D 30, 4 seeds" in out
    assert "D 60, 4 seeds" in out
    assert "As D → ∞" in out


def test_amp_json_has_one_number_for_each_iteration(run):
    arguments = ["amp", "--alpha", "2", "--noise", "0.3", "--dim", "100", "--seeds", "2"]
    arguments += ["--steps", "3", "--test-samples", "200"]
    code, out, _ = run(*arguments, "--json")
    result = json.loads(out)
    assert code == 0
    assert all(len(result[key]) == 3 for key in AMP_KEYS)
    assert result["status"] == "sampled"
    assert result["dim"] == 100
    assert result["gap_q_v"] < 0.3
    assert all(len(result[f"{name}_p_value"]) == 3 for name in ("q_k", "q_v", "risk"))
    assert set(result["family_p"]) == {"q_k", "q_v", "risk"}
    code, out, _ = run(*arguments)
    assert code == 0
    assert "theory" in out
    assert f"{result['q_v_se'][2]:.4f}" in out
    assert "smallest p of 3 iterations, after Bonferroni: q_k" in out


def test_amp_at_two_dimensions(run):
    arguments = "amp --alpha 2 --noise 0.3 --dims 40,80 --seeds 3 --steps 2 --test-samples 100"
    code, out, _ = run(*arguments.split(), "--json")
    assert code == 0
    result = json.loads(out)
    assert (result["dim"], result["dims"]) == (80, [40, 80])
    assert len(result["q_k"]) == len(result["limits"]["q_k"]) == 2
    code, out, _ = run(*arguments.split())
    assert code == 0
    assert "Iteration 2 as D → ∞" in out
