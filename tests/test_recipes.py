"""The recipes of CONTRIBUTING, followed literally in a copy of the package; its walk exists."""

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


def test_the_walk_names_files_that_exist():
    (walk,) = re.findall(r"^## A walk through the code\n(.*?)^## ", GUIDE, re.S | re.M)
    paths = re.findall(r"`([\w/]+\.py)`", walk)
    assert len(paths) > 30
    source = Path(slrlab.__file__).parent
    missing = [path for path in paths if not (source / path).exists()]
    assert missing == ["gradient_reference.py"]  # beside the kernel named before it
