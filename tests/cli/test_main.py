"""All commands: how they are result, what they teach, how they refuse."""

import inspect
import json
import math
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from slrlab.cli.main import app
from slrlab.model.task_registry import TASKS

COMMANDS = [command.callback.__name__ for command in app.registered_commands]
BAD_INPUT = """
population --signal -1 => --signal must be a number >= 0 or inf, got -1.0
population --signal nan => --signal must be a number >= 0 or inf, got nan
population --signal much => --signal must be a number >= 0 or inf, got much
population --noise -1 => --noise must be a finite number >= 0, got -1.0
population --task spikey => --task must be one of TASKS, got spikey
population --length 0 => --length must be a whole number >= 1 (3), a set
population --length 1.5 => --length must be a whole number >= 1 (3), a set
population --length 1:0.2,2:0.3 => …(the weights sum to 0.5)
population --activation sofmax => --activation must be a name or an expression
population --bias big => --bias must be a finite number or optimal, got big
population --m-v 1 => --m-k must be a finite number if --m-v, --R-k or --R-v is given
population --m-k 1 --R-k -1 => --R-k must be a finite number >= 0, got -1.0
population --frob => No such option: --frob
population --signal => Option '--signal' requires an argument

bayes => --alpha must be a finite number > 0, got nothing
bayes --alpha 0 => --alpha must be a finite number > 0, got 0.0
bayes --alpha nan => --alpha must be a finite number > 0, got nan
bayes --alpha some => --alpha must be a finite number > 0, got some
bayes --alpha 1 --thresholds => --alpha must not be given with --thresholds, got 1
bayes --alpha 1 --task max --length 65 => --length must be at most 64
bayes --alpha 1 --noise -1 => --noise must be a finite number >= 0, got -1.0

erm => --alpha must be a finite number > 0, got nothing
erm --alpha 0 => --ridge-k must be a finite number >= 0 (or use --ridge optimal)
erm --alpha 0 --ridge optimal => --alpha must be a finite number > 0, got 0.0
erm --alpha x => --alpha must be a finite number > 0, got x
erm --alpha 1 --ridge optimal --ridge-k 2 => --ridge-k, --ridge-v must not be given with --ridge
erm --alpha 1 --ridge-k -1 --ridge-v 1 => --ridge-k must be
erm --alpha 1 --ridge-k 1 --ridge-v 1 --seed 1.5 => --seed must be
erm --alpha 1 --ridge optimal --tolerance '' => --tolerance must be

simulate --ridge-k 1 --ridge-v 1 --alpha 0 => --alpha must be a finite number > 0, got 0.0
simulate RIDGES --alpha 4 --dim 2.5 => --dim must be a whole number >= 2, got 2.5
simulate RIDGES --alpha 4 --dim 1 => --dim must be a whole number >= 2, got 1
simulate RIDGES --alpha 4 --seeds 0 => --seeds must be a whole number >= 1, got 0
simulate RIDGES --alpha 4 --init warm => --init must be one of informed, random, got warm
simulate RIDGES --alpha 4 --start warm => --start must be one of informed, random, got warm
simulate RIDGES --alpha 4 --dtype half => --dtype must be one of float32, float64, got half
simulate RIDGES --alpha 4 --ridge-k -1 => --ridge-k must be a finite number >= 0, got -1.0
simulate RIDGES --alpha 4 --signal inf => --signal must be finite to draw tokens of this task
simulate RIDGES --alpha 4 --dim 9000000 => --dim must be at most
simulate RIDGES --alpha 4 --dims 9,8 => --dims must not be given without --compare, got 9,8
simulate RIDGES --alpha 4 --compare --dims 9,x => --dims must be a whole number >= 2, got x
simulate RIDGES --alpha 4 --compare --dims 9 => --dims must be at least two different
simulate RIDGES --alpha 4 --compare --dims 9,8 --dim 7 => --dim must not be given with
simulate RIDGES --alpha 4 --compare --seeds 1 => --seeds must be a whole number >= 2, got 1
simulate RIDGES => --alpha must be a finite number > 0, got nothing
simulate --alpha 1 --ridge-v 1 => --ridge-k must be a finite number >= 0, got nothing
simulate --seed=1.5 => --seed must be a whole number >= 0, got 1.5

amp => --alpha must be a finite number > 0, got nothing
amp --alpha 0 => --alpha must be a finite number > 0, got 0.0
amp --alpha 1 --dim 1 => --dim must be a whole number >= 2, got 1
amp --alpha 1 --dim many => --dim must be a whole number >= 2, got many
amp --alpha 1 --steps 0 => --steps must be a whole number >= 1, got 0
amp --alpha 1 --seeds 0 => --seeds must be a whole number >= 1, got 0
amp --alpha 1 --signal inf => --signal must be finite
amp --alpha 1 --task max --length 65 => --length must be at most 64
amp --alpha 1 --dim 10000000 => --dim must be at most

compare --signal much => --signal must be a number >= 0 or inf, got much
compare --alpha 0 => --alpha must be a number > 0 or inf, got 0
compare --activation sofmax => --activation must be a name or an expression
compare --ridge-k 1 => --ridge-v must be a finite number >= 0
compare --csv nowhere/a.csv => --csv must be a file that ends with .csv in a folder that
compare --plot a.txt => --plot must be a file that ends with .png, .pdf, .svg

flow --start warm => --start must be random, matched, mismatched or eight numbers
flow --start '' => --start must be random, matched, mismatched or eight numbers
flow --start 1,2,3 => --start must be random, matched, mismatched or eight numbers
flow --start EIGHT,1 => --start must be random, matched, mismatched or eight
flow --start nan,0,0,0,0,0,0,0 => --start must hold finite numbers only, got nan or inf
flow --start 1e9,0,0,0,0,0,0,0 => --start must have |k| and |v| of at most
flow --start EIGHT --size 1 => --size must not be given with a start of your own
flow --size -1 => --size must be a finite number > 0, got -1.0
flow --size big => --size must be a finite number > 0, got big
flow --seed -1 => --seed must be a whole number >= 0, got -1
flow --time 0 => --time must be a finite number > 0, got 0.0
flow --time nan => --time must be a finite number > 0, got nan
flow --tolerance -1 => --tolerance must be a finite number > 0, got -1.0
flow --sgd-rate 0 => --sgd-rate must be a finite number > 0, got 0.0
flow --sgd-rate fast => --sgd-rate must be a finite number > 0, got fast
flow --signal inf => --signal must be at most 10000
flow --animate film.mp4 => --animate must be a file name ending in .gif, got film.mp4
simulate --alpha 1 --ridge-k 1 --ridge-v 1 --test-samples -1 => --test-samples must be
erm --alpha 1 --ridge best => --ridge must be optimal (or give --ridge-k and --ridge-v)
figure 2 --profile best => --profile must be one of toy, quick, full, got best
figure 99 => figure must be one of 2, 3
"""
SHORT = {"RIDGES": "--ridge-k 1 --ridge-v 1", "EIGHT": "0.5,0.3,0.3,0,0.1,0.2,-0.1,0.2"}
CASES = [
    line.replace("TASKS", ", ".join(TASKS)).split(" => ") for line in BAD_INPUT.splitlines() if line
]


@pytest.mark.parametrize(("words", "message"), CASES)
@pytest.mark.parametrize("extra", [[], ["--json"]], ids=["", "json"])
def test_bad_input_is_one_line_and_code_2(run, tmp_path, monkeypatch, words, message, extra):
    monkeypatch.chdir(tmp_path)
    for short, whole in SHORT.items():
        words = words.replace(short, whole)
    command, *arguments = shlex.split(words)
    code, out, err = run(command, *extra, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("slrlab: ")
    if message.startswith("…"):
        assert message[1:] in err
    else:
        assert err.startswith(f"slrlab: {message}")
    assert not list(tmp_path.iterdir())


def test_a_path_in_a_message_stays_as_it_is(run, tmp_path):
    table = tmp_path / "out must be, from.csv"
    table.write_text("a,b")
    code, _, err = run("figure", "2", "--from", table)
    assert code == 2
    assert err.startswith(f"slrlab: {table} must be a table of figure 2")


def test_every_command_is_a_file_of_its_name(run):
    from slrlab.cli import main as module

    files = {path.stem for path in Path(module.__file__).parent.glob("[a-z]*.py")}
    assert set(COMMANDS) == files - {
        "app",
        "comparisons",
        "console",
        "main",
        "options",
        "table_output",
    }
    code, out, _ = run("--help")
    assert code == 0
    assert "Usage" in out
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert "Usage" in out
    assert f"Example: slrlab {command}" in out


def test_defaults_come_from_the_functions_that_options_go_to():
    from slrlab import simulate_erm

    wanted = inspect.signature(simulate_erm).parameters
    (command,) = [item for item in app.registered_commands if item.callback.__name__ == "simulate"]
    shown = inspect.signature(command.callback).parameters
    for name in ("seed", "test_samples", "dtype", "teacher", "max_steps"):
        assert shown[name].default == wanted[name].default
    assert shown["alpha"].default is inspect.Parameter.empty


def test_help_of_sweep_shows_a_whole_file(run):
    code, out, _ = run("sweep", "--help")
    assert code == 0
    assert "\\b" not in out
    for line in (
        "[settings]",
        "[grid]",
        "signal = [1, 2, 4]",
        'activation = ["softmax", "linear"]',
    ):
        assert line in out


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
    assert completed("slrlab figure phas", 2) == ["phases"]


HEAVY = [
    "matplotlib",
    "pandas",
    "numba",
    "scipy.optimize",
    "scipy.integrate",
    "scipy.stats",
]


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ("--help", []),
        ("flow --help", []),
        ("figure --help", []),
        ("population --json", ["rich"]),
        ("flow --time 0.01 --json", ["rich"]),
    ],
)
def test_short_commands_import_no_heavy_library(tmp_path, words, more):
    heavy = [name for name in HEAVY if not (name.startswith("scipy") and "--time" in words)] + more
    code = (
        "import sys; from slrlab.cli.main import main\n"
        f"try: main({words.split()})\n"
        f"except SystemExit: print([m for m in {heavy} if m in sys.modules], file=sys.stderr)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stderr.splitlines()[-1] == "[]"
    if words == "population --json":
        assert math.isfinite(json.loads(done.stdout)["risk"])
