"""The recipes of CONTRIBUTING, followed literally in a copy of the package; its walk is traced."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import slrlab

ROOT = Path(__file__).resolve().parents[1]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^## Copy me: an? ([\w ]+)\n(.*?)(?=^## |\Z)", GUIDE, re.S | re.M))

# quick tests that go through what is registered: files, and words of the names of the tests
LISTING = {
    "activation": (
        "cli/test_atlas.py experiments/atlas/test_panel.py experiments/test_stored.py "
        "experiments/comparison/test_training_protocol.py model/test_activations.py "
        "model/test_atlas.py model/test_traits.py",
        "ranked_among_the_shipped or every_entry_of_the_panel or tables_are_complete or "
        "compared_or_has_its_reason or have_a_card or traits or "
        "sigmoid-normalised and (derivatives_against or weights or travel)",
    ),
    "task": ("cli/test_main.py model/test_tasks.py", "spikey or unknown_tasks or narrow"),
}

QUICK = "sweep computation"
NAMES = [pytest.param(name, marks=[pytest.mark.slow] * (name != QUICK)) for name in RECIPES]


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package, and a command slrlab that runs it."""
    folder = tmp_path_factory.mktemp("copy")
    source = Path(slrlab.__file__).parent
    shutil.copytree(source, folder / "src" / "slrlab", ignore=shutil.ignore_patterns("*.nb[ci]"))
    script = folder / "slrlab"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -W error -m slrlab "$@"\n')
    script.chmod(0o755)
    return folder


def test_there_is_a_recipe_for_each_thing_to_add():
    assert list(RECIPES) == ["activation", "task", "figure", "sweep computation", "command"]


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_one_file_and_its_command_works(package, name, tmp_path):
    (path,) = re.findall(r"`(src/slrlab/\S+\.py)`", RECIPES[name])
    file, test = re.findall(r"^```python\n(.*?)^```", RECIPES[name], re.S | re.M)
    (commands,) = re.findall(r"^```sh\n(.*?)^```", RECIPES[name], re.S | re.M)
    with (package / path).open("a", encoding="utf-8") as target:
        target.write(f"\n\n{file}" if target.tell() else file)
    paths = {
        "PATH": f"{package}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(package / "src"),
        "SLRLAB_WORKERS": "1",
        "MPLBACKEND": "agg",
    }
    module = path.removeprefix("src/").removesuffix(".py").replace("/", ".")
    code = f"import {module} as module\nexec({test!r}, dict(vars(module)))"
    for command in (["sh", "-e", "-c", commands], [sys.executable, "-W", "error", "-c", code]):
        _run(command, tmp_path, paths)
    if name in LISTING:
        files, words = LISTING[name]
        pytest_run = [sys.executable, "-m", "pytest", "-rp", "-p", "no:cacheprovider", "-k", words]
        pytest_run += [str(ROOT / "tests" / path) for path in files.split()]
        added = commands.split()[3]  # slrlab population --task NAME
        assert re.search(rf"PASSED .*{added}\]", _run(pytest_run, ROOT, paths))


def _run(command, folder, paths):
    """Run a command that must succeed, and return what it prints."""
    done = subprocess.run(
        command, cwd=folder, env=os.environ | paths, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# prints the files of the package in the order in which functions of theirs are first called
TRACE = """
import sys
from pathlib import Path

import slrlab
from slrlab import make_task, minimal_risk
from slrlab.cli.main import main

source, seen = Path(slrlab.__file__).parent, {}

def note(frame, event, _):
    if event == "call" and frame.f_code.co_name != "<module>":
        seen.setdefault(frame.f_code.co_filename)

if __name__ == "__main__":  # and not in processes of a sweep
    sys.setprofile(note)
    try:
        CALL
    except SystemExit as end:
        sys.setprofile(None)
        assert end.code == 0
    sys.setprofile(None)
    paths = [Path(name) for name in seen]
    print(*[path.relative_to(source) for path in paths if path.is_relative_to(source)])
"""
(WALK,) = re.findall(r"^## A walk through the code\n(.*?)^## ", GUIDE, re.S | re.M)
STEPS = dict(re.findall(r"^`(.*)`:\n\n((?:- .*\n)+)", WALK, re.M))
BESIDE = ("gradient_reference.py", "cluster.py")  # named for completeness, beside another file
SMALL = {"simulate": ["--dim", "40", "--seeds", "2", "--test-samples", "100"]}


def test_the_walk_has_three_calls():
    assert len(STEPS) == 3
    assert {path.name for path in Path(slrlab.__file__).parent.rglob("*.py")}.issuperset(BESIDE)


CALLS = [pytest.param(call, marks=[pytest.mark.slow] * ("simulate" in call)) for call in STEPS]


@pytest.mark.parametrize("call", CALLS)
def test_the_walk_names_the_files_in_the_order_in_which_they_are_reached(call, tmp_path):
    words = call.split()
    if words[0] == "slrlab":
        call = f"main({words[1:] + SMALL.get(words[1], [])})"
    (tmp_path / "trace.py").write_text(TRACE.replace("CALL", call))
    curve = 'compute = "population"\n[grid]\nsignal = [1.0, 2.0]\n'
    (tmp_path / "curve.toml").write_text(curve)
    reached = _run([sys.executable, "-W", "error", "trace.py"], tmp_path, {})
    reached = reached.splitlines()[-1].split()
    named = re.findall(r"`([\w/]+\.py)`", STEPS[" ".join(words)])
    named = [path for path in named if path not in BESIDE]
    assert len(named) >= 8
    assert [path for path in reached if path in named] == named
