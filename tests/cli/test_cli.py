import io
import json
import math
import os
import re
import subprocess
import sys
from functools import partial

import pandas as pd
import pytest

from slrlab import (
    SpikedSLR,
    bayes_optimal,
    bayes_thresholds,
    erm_theory,
    make_task,
    minimal_risk,
)
from slrlab.cli.console import Bars, progress
from slrlab.cli.main import main

KEYS = {"risk", "bayes_risk", "m_k", "m_v", "A", "B", "error", "status"}


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    out, err = capsys.readouterr()
    return stop.value.code, out, err


def only_progress(err):
    """Return whether stderr holds nothing, or what slow machines add: lines of progress."""
    return all(re.search(r": \d+ of \d+$", line) for line in err.splitlines())


def test_population_json_is_one_object_with_the_contract_keys(capsys):
    code, out, err = run(capsys, "population", "--signal", "2", "--length", "3", "--json")
    assert code == 0
    assert err == ""
    found = json.loads(out)
    assert set(found) >= KEYS
    exact = minimal_risk(SpikedSLR(2.0, 3), "softmax").risk
    assert found["risk"] == pytest.approx(exact, rel=1e-12)


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
        (["--signal", "-1"], "slrlab: --signal must be a number >= 0 or inf, got -1.0"),
        (["--signal", "nan"], "signal must be a number >= 0 or inf, got nan"),
        (["--signal", "much"], "signal must be a number >= 0 or inf, got much"),
        (["--noise", "-1"], "noise must be a finite number >= 0, got -1.0"),
        (["--task", "spikey"], "task must be one of spiked, max, got spikey"),
        (["--length", "0"], "length must be a whole number >= 1 (3), a set"),
        (["--length", "1.5"], "length must be a whole number >= 1 (3), a set"),
        (["--length", "1:0.2,2:0.3"], "(the weights sum to 0.5)"),
        (["--activation", "sofmax"], "activation must be one of softmax, linear, erf, softplus"),
        (["--bias", "big"], "bias must be a finite number or optimal, got big"),
        (["--m-v", "1"], "--m-k must be a finite number if --m-v, --R-k or --R-v is given"),
        (["--m-k", "1", "--R-k", "-1"], "--R-k must be a finite number >= 0, got -1.0"),
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


def test_the_same_text_from_python_but_for_the_option_as_typed(capsys):
    _, _, err = run(capsys, "population", "--signal", "-1")
    with pytest.raises(ValueError) as raised:
        make_task("spiked", signal=-1.0, length=3)
    assert err == f"slrlab: --{raised.value}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("simulate --alpha 1 --ridge-k -1 --ridge-v 1", "--ridge-k must be a finite number >= 0"),
        ("simulate --alpha 1 --ridge-k 1 --ridge-v 1 --test-samples -1", "--test-samples must be"),
        ("erm --alpha 1 --ridge optimal --ridge-k 2", "--ridge-k, --ridge-v must be left out"),
        ("erm --alpha 1 --ridge best", "--ridge must be optimal (or give --ridge-k and --ridge-v)"),
        ("flow --sgd-rate 0", "--sgd-rate must be a finite number > 0, got 0.0"),
        ("flow --animate film.mp4", "--animate must be a file name ending in .gif"),
        ("figure 2 --profile best", "--profile must be one of toy, quick, full, got best"),
        ("figure 99", "figure must be one of 2, 3"),  # an argument, not an option
        (f"results --where x --store {__file__}", "--where must be COLUMN=VALUE, got x"),
    ],
)
def test_messages_name_options_as_they_are_typed(capsys, arguments, message):
    code, out, err = run(capsys, *arguments.split())
    assert (code, out) == (2, "")
    assert err.startswith(f"slrlab: {message}")


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
    exact = bayes_optimal(SpikedSLR(2.0, 3), alpha=1.1).risk_it
    assert found["risk_it"] == pytest.approx(exact, rel=1e-12)


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
    # 0.46302 by independent code: tests/data/erm.json
    assert abs(found["test_risk"] - 0.46302) < 4.0 * found["test_risk_error"]
    assert found["test_risk_error"] <= 5e-3


def test_simulate_json_is_one_object_with_the_contract_keys(capsys):
    arguments = ["--alpha", "4", "--dim", "60", "--seeds", "2", "--ridge-k", "0.5"]
    code, out, _ = run(capsys, "simulate", *arguments, "--ridge-v", "0.8", "--json")
    assert code == 0
    found = json.loads(out)
    wanted = "test_risk test_risk_error train_mse m_k m_v q_k q_v iterations seconds status"
    assert set(wanted.split()) <= set(found)
    assert found["samples"] == 240
    assert [row["status"] for row in found["runs"]] == ["converged"] * 2


COMPARE = ["simulate", "--activation", "linear", "--alpha", "3", "--ridge-k", "1"]
COMPARE += ["--ridge-v", "1", "--compare", "--test-samples", "100"]
QUANTITIES = {"m_k", "m_v", "q_k", "q_v", "order_risk", "test_risk", "train_mse"}


@pytest.fixture
def rough_theory(monkeypatch):
    rough = partial(erm_theory, tolerance=1e-2)
    monkeypatch.setattr("slrlab.experiments.comparison.erm_theory", rough)


@pytest.mark.usefixtures("rough_theory")
def test_simulate_beside_theory(capsys):
    code, out, _ = run(capsys, *COMPARE, "--dim", "40", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["seeds"] == 16  # enough for a test, without being asked
    for key in ("gaps", "gap_errors", "freedom", "gap_intervals", "p_values", "z"):
        assert set(found[key]) == QUANTITIES
    assert found["family_p"] == pytest.approx(min(1.0, 7.0 * min(found["p_values"].values())))
    assert found["theory"]["stable"]
    assert found["order_risk"] != found["test_risk"]
    code, out, _ = run(capsys, *COMPARE, "--dim", "40", "--seeds", "4")
    assert code == 0
    assert "order_risk: test risk computed from the trained order parameters" in out
    assert "test_risk: test risk measured on 100 fresh sequences" in out
    assert "smallest p of 7" in out
    assert "--dims 10,40 estimates it" in out
    assert " z " not in out


@pytest.mark.usefixtures("rough_theory")
def test_simulate_at_two_dimensions(capsys):
    given = [*COMPARE, "--dims", "60,30", "--seeds", "4"]
    code, out, _ = run(capsys, *given, "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["dim"], found["dims"], len(found["comparisons"])) == (60, [30, 60], 2)
    assert set(found["limits"]) == QUANTITIES
    fit = found["limits"]["q_v"]
    gaps = [one["gaps"]["q_v"] for one in found["comparisons"]]
    assert fit["gap"] == pytest.approx(2.0 * gaps[1] - gaps[0])
    assert {"gap_interval", "p_value", "drift", "drift_p_value"} <= set(fit)
    code, out, _ = run(capsys, *given)
    assert code == 0
    assert "D 30, 4 seeds" in out
    assert "D 60, 4 seeds" in out
    assert "As D → ∞" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--alpha", "0"], "alpha must be a finite number > 0, got 0.0"),
        (["--alpha", "4", "--dim", "2.5"], "dim must be a whole number >= 2, got 2.5"),
        (["--alpha", "4", "--dim", "1"], "dim must be a whole number >= 2, got 1"),
        (["--alpha", "4", "--seeds", "0"], "seeds must be a whole number >= 1, got 0"),
        (["--alpha", "4", "--init", "warm"], "init must be one of informed, random, got warm"),
        (["--alpha", "4", "--dtype", "half"], "dtype must be one of float32, float64, got half"),
        (["--alpha", "4", "--ridge-k", "-1"], "ridge-k must be a finite number >= 0, got -1.0"),
        (["--alpha", "4", "--signal", "inf"], "signal must be finite to draw tokens of this task"),
        (["--alpha", "4", "--dim", "9000000"], "dim must be at most "),
        (["--alpha", "4", "--dims", "9,8"], "dims must be left out without --compare, got 9,8"),
        (["--alpha", "4", "--compare", "--dims", "9,x"], "dims must be a whole number >= 2, got x"),
        (["--alpha", "4", "--compare", "--dims", "9"], "dims must be at least two different"),
        (["--alpha", "4", "--compare", "--dims", "9,8", "--dim", "7"], "dim must be left out with"),
        (["--alpha", "4", "--compare", "--seeds", "1"], "seeds must be a whole number >= 2, got 1"),
        ([], "alpha must be a finite number > 0, got nothing"),
    ],
)
def test_bad_input_to_simulate(capsys, arguments, message):
    code, out, err = run(
        capsys, "simulate", "--json", "--ridge-k", "1", "--ridge-v", "1", *arguments
    )
    assert code == 2
    assert out == ""
    assert err.startswith(f"slrlab: --{message}")
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
        (["--alpha", "0"], "--ridge-k must be a finite number >= 0 (or use --ridge optimal)"),
        (["--alpha", "0", "--ridge", "optimal"], "alpha must be a finite number > 0, got 0.0"),
        (["--alpha", "x"], "alpha must be a finite number > 0, got x"),
        (["--alpha", "1", "--ridge", "best"], "ridge must be optimal"),
        (["--alpha", "1", "--ridge", "optimal", "--ridge-k", "2"], "must be left out"),
        (["--alpha", "1", "--ridge-k", "-1", "--ridge-v", "1"], "--ridge-k must be"),
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
    assert found["alpha_alg"] == pytest.approx(bayes_thresholds(SpikedSLR(2.0, 3)).alpha_alg)
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
    assert err.startswith(f"slrlab: --{message}")
    assert err.count("\n") == 1


def test_claims(capsys):
    code, out, err = run(capsys, "claims", "C6", "--json")
    found = json.loads(out)
    assert code == 0
    assert only_progress(err)
    assert found["holds"] is True
    check = found["claims"][0]["checks"][0]
    assert {"left", "right", "relation", "margin", "holds"} <= set(check)
    code, out, _ = run(capsys, "claims", "C6", "--details")
    assert code == 0
    assert "C6" in out
    code, out, _ = run(capsys, "claims", "c6", "--json")
    assert code == 0
    assert json.loads(out)["claims"][0]["claim"] == "C6"
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
    assert err == "slrlab: --profile must be left out with --from, got full\n"
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


def test_table_1_ends_with_the_table_and_counts(capsys, tmp_path, monkeypatch):
    columns = ["task", "activation", "length", "quantity", "predicted", "measured"]
    columns += ["deviation", "error", "how"]
    rows = [
        ("spiked", "linear", 2, "prefactor C", 2.0, 1.99995, -5e-5, math.nan, "fit"),
        ("max", "softmax", "1,2", "risk", 0.25, 0.25, 1e-16, 1e-16, "quadrature"),
        ("spiked", "linear", 2, "risk", 0.25, 0.2497, -3e-4, 0.0045, "drawn, D=400"),
    ]
    table = pd.DataFrame(rows, columns=columns)
    monkeypatch.setattr("slrlab.figures.table1.compute", lambda profile, report: table)
    code, out, _ = run(capsys, "table", "1", "--out", str(tmp_path))
    assert code == 0
    assert out.splitlines()[-2:] == ["3 constants", str(tmp_path / "table-1.csv")]
    for words in ("fit: 1 constants", "spiked, linear, L=2", "1.99995", "0.2497 ± 0.0045"):
        assert words in out
    code, out, _ = run(capsys, "table", "1", "--out", str(tmp_path), "--json")
    assert json.loads(out)["files"] == [str(tmp_path / "table-1.csv")]


def test_a_new_shell_completes_commands_and_options():
    def completed(words, at):
        given = {"_SLRLAB_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(at)}
        code = "from slrlab.cli.main import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | given
        )
        return done.stdout.split()

    assert completed("slrlab pop", 1) == ["population"]
    assert "--ridge-k" in completed("slrlab erm --rid", 2)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bars_are_labelled_from_the_first_moment(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress("best ridge"):
        pass
    assert "best ridge" in screen.getvalue()


def test_bars_never_go_back():
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(file=io.StringIO()))
    bars, before = Bars(bar, "sweep"), {}
    calls = [(0, 3, "a"), (2, 3, "a: 1 failed"), (1, 3, "a: 1 failed"), (3, 3, "a")]
    calls += [(0, 5, "b"), (4, 5, "b"), (0, 5, "c"), *((0, 2, str(number)) for number in range(9))]
    for call in calls:
        bars(*call)
        assert bar.tasks[-1].total == call[1]
        for task in bar.tasks:
            assert task.completed >= before.get(task.id, 0)
            before[task.id] = task.completed
    shown = [task for task in bar.tasks if task.visible]
    assert [task.description for task in bar.tasks][:3] == ["a", "b", "c"]
    assert all(task.completed == task.total for task in bar.tasks[:-1])
    assert len(shown) <= 6


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


def test_help_of_sweep_shows_a_whole_file(capsys):
    code, out, _ = run(capsys, "sweep", "--help")
    assert code == 0
    assert "\\b" not in out
    for line in (
        "[settings]",
        "[grid]",
        "signal = [1, 2, 4]",
        'activation = ["softmax", "linear"]',
    ):
        assert line in out


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
    assert all(len(found[f"{name}_p_value"]) == 3 for name in ("q_k", "q_v", "risk"))
    assert set(found["family_p"]) == {"q_k", "q_v", "risk"}
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "theory" in out
    assert f"{found['q_v_se'][2]:.4f}" in out
    assert "smallest p of 3 iterations, after Bonferroni: q_k" in out


def test_amp_at_two_dimensions(capsys):
    arguments = ["amp", "--alpha", "2", "--noise", "0.3", "--dims", "40,80", "--seeds", "3"]
    arguments += ["--steps", "2", "--test-samples", "100"]
    code, out, _ = run(capsys, *arguments, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["dim"], found["dims"]) == (80, [40, 80])
    assert len(found["q_k"]) == len(found["limits"]["q_k"]) == 2
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "Iteration 2 as D → ∞" in out


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
    assert err.startswith(f"slrlab: --{message}")
    assert err.count("\n") == 1
