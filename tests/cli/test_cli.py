import json
import math
import subprocess
import sys

import pytest

from slrlab import SpikedSLR, bayes_optimal, make_task, minimal_risk
from slrlab.cli.main import main

KEYS = {"risk", "bayes_risk", "m_k", "m_v", "A", "B", "error", "status"}


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    out, err = capsys.readouterr()
    return stop.value.code, out, err


def test_population_json_is_one_object_with_the_contract_keys(capsys):
    code, out, err = run(capsys, "population", "--signal", "2", "--length", "3", "--json")
    assert code == 0
    assert err == ""
    found = json.loads(out)
    assert set(found) >= KEYS
    assert found["risk"] == minimal_risk(SpikedSLR(2.0, 3), "softmax").risk


def test_population_at_given_order_parameters(capsys):
    arguments = ["population", "--task", "max", "--signal", "inf", "--length", "1,2,3"]
    arguments += ["--activation", "erf", "--bias", "0", "--m-k", "1", "--R-k", "0.2", "--json"]
    code, out, _ = run(capsys, *arguments)
    best = json.loads(out)
    assert code == 0
    assert best["R_k"] == 0.2
    worse = json.loads(run(capsys, *arguments, "--m-v", "0.1")[1])
    assert worse["risk"] > best["risk"]


def test_infinities_are_strings_in_json(capsys):
    _, out, _ = run(capsys, "population", "--task", "max", "--signal", "inf", "--json")
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert found["m_k"] == "inf"
    assert found["signal"] == "inf"


def test_the_table_shows_the_risk(capsys):
    code, out, _ = run(capsys, "population", "--activation", "elementwise: 1 + tanh(x)")
    assert code == 0
    assert "risk" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--signal", "-1"], "signal must be a number >= 0 or inf, got -1.0"),
        (["--signal", "nan"], "signal must be a number >= 0 or inf, got nan"),
        (["--signal", "much"], "signal must be a number >= 0 or inf, got much"),
        (["--noise", "-1"], "noise must be a finite number >= 0, got -1.0"),
        (["--task", "spikey"], "task must be one of spiked, max, got spikey"),
        (["--length", "0"], "length must be a whole number >= 1 (3), a set"),
        (["--length", "1.5"], "length must be a whole number >= 1 (3), a set"),
        (["--length", "1:0.2,2:0.3"], "(the weights sum to 0.5)"),
        (["--activation", "sofmax"], "activation must be one of softmax, linear, erf, softplus"),
        (["--bias", "big"], "bias must be a finite number or optimal, got big"),
        (["--m-v", "1"], "m-k must be a finite number"),
        (["--m-k", "1", "--R-k", "-1"], "R_k must be a finite number >= 0, got -1.0"),
        (["--frob"], "No such option: --frob"),
        (["--signal"], "Option '--signal' requires an argument"),
    ],
)
@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_bad_input_is_one_line_and_code_2(capsys, arguments, message, extra):
    code, out, err = run(capsys, "population", *extra, *arguments)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert message in err


def test_the_same_text_from_python(capsys):
    _, _, err = run(capsys, "population", "--signal", "-1")
    with pytest.raises(ValueError) as raised:
        make_task("spiked", signal=-1.0, length=3)
    assert err == f"slrlab: {raised.value}\n"


def test_bayes_json_is_one_object_with_the_contract_keys(capsys):
    arguments = ["bayes", "--signal", "2", "--length", "3", "--alpha", "1.1", "--json"]
    code, out, err = run(capsys, *arguments)
    assert code == 0
    assert err == ""
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    overlaps = {"q_k", "q_v", "q_k_it", "q_v_it"}
    assert set(found) >= {"risk_it", "risk_amp", "free_entropy", "hard", "status"} | overlaps
    assert found["hard"] is True
    assert found["free_entropy"] == "inf"
    assert found["risk_it"] == bayes_optimal(SpikedSLR(2.0, 3), alpha=1.1).risk_it


ERM_KEYS = {"test_risk", "test_risk_error", "train_mse", "objective", "m_k", "m_v", "q_k", "q_v"}
ERM_KEYS |= {"V_k", "V_v", "ridge_k", "ridge_v", "replicon", "stable", "branch", "status"}


def test_erm_json_is_one_object_with_the_contract_keys(capsys):
    arguments = ["erm", "--alpha", "8", "--ridge-k", "0.4", "--ridge-v", "0.8"]
    arguments += ["--tolerance", "5e-3", "--json"]
    code, out, _ = run(capsys, *arguments)
    found = json.loads(out)
    assert code == 0
    assert set(found) >= ERM_KEYS
    assert found["stable"] is True
    assert found["test_risk"] == pytest.approx(0.4627, abs=0.02)


def test_simulate_json_is_one_object_with_the_contract_keys(capsys):
    arguments = ["--alpha", "4", "--dim", "60", "--seeds", "2", "--ridge-k", "0.5"]
    code, out, _ = run(capsys, "simulate", *arguments, "--ridge-v", "0.8", "--json")
    assert code == 0
    found = json.loads(out)
    wanted = "test_risk test_risk_error train_mse m_k m_v q_k q_v iterations seconds status"
    assert set(wanted.split()) <= set(found)
    assert found["samples"] == 240
    assert [row["status"] for row in found["runs"]] == ["converged"] * 2


def test_simulate_beside_theory(capsys):
    given = ["--activation", "linear", "--alpha", "3", "--dim", "50", "--seeds", "4"]
    given += ["--ridge-k", "1", "--ridge-v", "1", "--compare", "--test-samples", "0"]
    code, out, _ = run(capsys, "simulate", *given, "--json")
    assert code == 0
    found = json.loads(out)
    assert set(found["z"]) == {"m_k", "m_v", "q_k", "q_v", "test_risk", "train_mse"}
    assert found["theory"]["stable"]
    code, out, _ = run(capsys, "simulate", *given)
    assert code == 0
    assert "simulation" in out
    assert "train_mse" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--alpha", "0"], "alpha must be a finite number > 0, got 0.0"),
        (["--alpha", "4", "--dim", "2.5"], "dim must be a whole number >= 2, got 2.5"),
        (["--alpha", "4", "--dim", "1"], "dim must be a whole number >= 2, got 1"),
        (["--alpha", "4", "--seeds", "0"], "seeds must be a whole number >= 1, got 0"),
        (["--alpha", "4", "--init", "warm"], "init must be one of informed, random, got warm"),
        (["--alpha", "4", "--dtype", "half"], "dtype must be one of float32, float64, got half"),
        (["--alpha", "4", "--ridge-k", "-1"], "ridge_k must be a finite number >= 0, got -1.0"),
        (["--alpha", "4", "--signal", "inf"], "signal must be finite to draw tokens of this task"),
        (["--alpha", "4", "--dim", "9000000"], "dim must be at most "),
        ([], "alpha must be a finite number > 0, got nothing"),
    ],
)
def test_bad_input_to_simulate(capsys, arguments, message):
    code, out, err = run(
        capsys, "simulate", "--json", "--ridge-k", "1", "--ridge-v", "1", *arguments
    )
    assert code == 2
    assert out == ""
    assert err.startswith(f"slrlab: {message}")
    assert err.count("\n") == 1


def test_erm_table_with_the_best_ridge(capsys):
    arguments = ["erm", "--alpha", "4", "--ridge", "optimal", "--activation", "linear"]
    code, out, _ = run(capsys, *arguments, "--tolerance", "1e-2")
    assert code == 0
    assert "replicon" in out
    assert "±" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "alpha must be a finite number > 0, got nothing"),
        (["--alpha", "0"], "ridge_k must be a finite number >= 0 (or use --ridge optimal)"),
        (["--alpha", "0", "--ridge", "optimal"], "alpha must be a finite number > 0, got 0.0"),
        (["--alpha", "x"], "alpha must be a finite number > 0, got x"),
        (["--alpha", "1", "--ridge", "best"], "ridge must be optimal"),
        (["--alpha", "1", "--ridge", "optimal", "--ridge-k", "2"], "must be left out"),
        (["--alpha", "1", "--ridge-k", "-1", "--ridge-v", "1"], "ridge_k must be"),
        (["--alpha", "1", "--ridge-k", "1", "--ridge-v", "1", "--seed", "1.5"], "seed must be"),
        (["--alpha", "1", "--ridge", "optimal", "--tolerance", ""], "tolerance must be"),
    ],
)
def test_bad_input_to_erm(capsys, arguments, message):
    code, out, err = run(capsys, "erm", "--json", *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("slrlab: ")
    assert err.count("\n") == 1
    assert message in err


def test_bayes_thresholds_and_tables(capsys):
    found = json.loads(run(capsys, "bayes", "--thresholds", "--json")[1])
    assert found["alpha_it"] == 1.0
    assert found["alpha_alg"] == pytest.approx(1.240964, abs=1e-6)
    assert found["hard_phase"] is True
    code, out, _ = run(capsys, "bayes", "--length", "1", "--noise", "0.5", "--alpha", "2")
    assert code == 0
    assert "risk_amp" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "alpha must be a finite number > 0, got nothing"),
        (["--alpha", "0"], "alpha must be a finite number > 0, got 0.0"),
        (["--alpha", "nan"], "alpha must be a finite number > 0, got nan"),
        (["--alpha", "some"], "alpha must be a finite number > 0, got some"),
        (["--alpha", "1", "--thresholds"], "alpha must be left out with --thresholds, got 1"),
        (["--alpha", "1", "--task", "max", "--length", "65"], "length must be at most 64"),
        (["--alpha", "1", "--noise", "-1"], "noise must be a finite number >= 0, got -1.0"),
    ],
)
def test_bad_input_to_bayes(capsys, arguments, message):
    code, out, err = run(capsys, "bayes", "--json", *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith(f"slrlab: {message}")
    assert err.count("\n") == 1


def test_claims(capsys):
    code, out, err = run(capsys, "claims", "C6", "--json")
    found = json.loads(out)
    assert code == 0
    assert err == ""
    assert found["holds"] is True
    check = found["claims"][0]["checks"][0]
    assert {"left", "right", "relation", "margin", "holds"} <= set(check)
    code, out, _ = run(capsys, "claims", "C6", "--details")
    assert code == 0
    assert "C6" in out
    code, _, err = run(capsys, "claims", "C99")
    assert code == 2
    assert "claim must be one of C1" in err


def test_figure(capsys, tmp_path):
    code, out, _ = run(capsys, "figure", "length", "--profile", "toy", "--out", str(tmp_path))
    assert code == 0
    assert [line.split("-")[-1] for line in out.split()] == [
        "length.csv",
        "length.png",
        "length.pdf",
    ]
    stored, again = tmp_path / "figure-length.csv", tmp_path / "again"
    code, out, _ = run(capsys, "figure", "length", "--from", str(stored), "--out", str(again))
    assert code == 0
    assert out.split() == [str(again / f"figure-length.{kind}") for kind in ("png", "pdf")]
    code, _, err = run(capsys, "figure", "3", "--from", str(stored))
    assert code == 2
    assert err == f"slrlab: {stored} must be a table of figure 3, got one of figure length\n"
    code, _, err = run(capsys, "figure", "3", "--from", str(stored), "--profile", "full")
    assert code == 2
    assert err == "slrlab: profile must be left out with --from, got full\n"
    code, _, err = run(capsys, "figure", "9")
    assert code == 2
    names = (
        "2, 3, 4, 5, 6, 7, agreement, amp, basins, descent, length, "
        "minima, phases, tension, validity"
    )
    assert err == f"slrlab: figure must be one of {names}, got 9\n"
    blocked = tmp_path / "file"
    blocked.write_text("")
    code, _, err = run(capsys, "figure", "length", "--profile", "toy", "--out", str(blocked))
    assert code == 1
    assert "file" in err.lower()


COMMANDS = [
    "population",
    "bayes",
    "erm",
    "flow",
    "sweep",
    "results",
    "simulate",
    "amp",
    "claims",
    "figure",
    "reproduce",
]


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["population"],
        ["bayes"],
        ["amp"],
        ["erm"],
        ["flow"],
        ["results"],
        ["simulate"],
        ["sweep"],
        ["claims"],
        ["figure"],
        ["reproduce"],
    ],
)
def test_help_teaches(capsys, command):
    code, out, _ = run(capsys, *command, "--help")
    assert code == 0
    assert "Usage" in out
    assert not command or "Example" in out


def test_short_commands_import_no_heavy_library():
    heavy = ["matplotlib", "pandas", "sympy", "numba", "scipy.optimize", "scipy.stats", "rich"]
    code = (
        "import sys; from slrlab.cli.main import main\n"
        "try: main(['population', '--json'])\n"
        f"except SystemExit: print([m for m in {heavy} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert math.isfinite(json.loads(done.stdout)["risk"])


AMP_KEYS = {"q_k", "q_v", "risk", "q_k_error", "q_v_error", "risk_error"}
AMP_KEYS |= {"q_k_se", "q_v_se", "risk_se", "iteration"}


def test_amp_json_has_one_number_for_each_iteration(capsys):
    arguments = ["amp", "--alpha", "2", "--noise", "0.3", "--dim", "100", "--seeds", "2"]
    arguments += ["--steps", "3", "--test-samples", "200"]
    code, out, _ = run(capsys, *arguments, "--json")
    found = json.loads(out)
    assert code == 0
    assert all(len(found[key]) == 3 for key in AMP_KEYS)
    assert found["status"] == "sampled"
    assert found["dim"] == 100
    assert found["gap_q_v"] < 0.3
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "theory" in out
    assert f"{found['q_v_se'][2]:.4f}" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "alpha must be a finite number > 0, got nothing"),
        (["--alpha", "0"], "alpha must be a finite number > 0, got 0.0"),
        (["--alpha", "1", "--dim", "1"], "dim must be a whole number >= 2, got 1"),
        (["--alpha", "1", "--dim", "many"], "dim must be a whole number >= 2, got many"),
        (["--alpha", "1", "--steps", "0"], "steps must be a whole number >= 1, got 0"),
        (["--alpha", "1", "--seeds", "0"], "seeds must be a whole number >= 1, got 0"),
        (["--alpha", "1", "--signal", "inf"], "signal must be finite"),
        (["--alpha", "1", "--task", "max", "--length", "65"], "length must be at most 64"),
        (["--alpha", "1", "--dim", "10000000"], "dim must be at most"),
    ],
)
def test_bad_input_to_amp(capsys, arguments, message):
    code, out, err = run(capsys, "amp", "--json", *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith(f"slrlab: {message}")
    assert err.count("\n") == 1
