"""The house itself: layers, documentation, the built wheel."""

import ast
import graphlib
import inspect
import json
import os
import re
import runpy
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import grimp
import pytest

import slrlab
from slrlab.cli.main import app

ROOT = Path(__file__).resolve().parents[1]
NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[-+]?\d+)?(?!\w)")
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])  # others: test_recipes


def test_imports_run_one_way():
    run(Path(sys.executable).parent / "lint-imports")


def test_no_import_cycle_hides_in_a_function_or_in_types():
    graph = grimp.build_graph("slrlab", cache_dir=None)  # of all imports, wherever they are
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    graphlib.TopologicalSorter(imports).prepare()  # it raises CycleError


def test_public_names_exist_and_are_documented():
    for name in slrlab.__all__:
        assert getattr(slrlab, name).__doc__, name


FUNCTIONS = [name for name in slrlab.__all__ if inspect.isfunction(getattr(slrlab, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_has_all_sections_and_describes_its_parameters(name):
    function = getattr(slrlab, name)
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", inspect.getdoc(function), flags=re.M)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert {"Parameters", "Returns", "Examples"} <= set(sections), sorted(sections)
    assert ">>> " in sections["Examples"]
    assert re.match(r"\S.*\n    \S", sections["Returns"])  # a type and what it is
    named = re.findall(r"^\*{0,2}\w.*$", sections["Parameters"], re.M)
    names = {part.strip("* ") for line in named for part in line.partition(":")[0].split(",")}
    parameters = inspect.signature(function).parameters.values()
    assert {one.name for one in parameters if one.kind is not one.VAR_KEYWORD} <= names


def run(*command, **options):
    """Run a command in the folder of the project and return what it prints."""
    options = {"cwd": ROOT, "capture_output": True, "text": True} | options
    done = subprocess.run(command, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def last_digit(number):
    """Return what one unit in the last digit of a printed number is worth."""
    digits, _, power = number.partition("e")
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


def same_print(printed, expected):
    """Return whether texts agree, their decimal numbers up to one unit in the last digit shown."""
    if NUMBER.sub("#", printed) != NUMBER.sub("#", expected):
        return False
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(expected), strict=True)
    units = ((one, two, max(last_digit(one), last_digit(two))) for one, two in pairs)
    return all(abs(float(one) - float(two)) < 1.5 * unit for one, two, unit in units)


def test_printed_numbers_are_compared_as_far_as_they_are_shown():
    for printed in ("risk 0.3524, 7 of 8", "risk 0.3525, 7 of 8"):
        assert same_print(printed, "risk 0.3524, 7 of 8")
    assert same_print("error 1.4e-07", "error 1.5e-07")
    for printed in ("risk 0.3526, 7 of 8", "risk 0.3524, 6 of 8", "test risk 0.3524, 7 of 8"):
        assert not same_print(printed, "risk 0.3524, 7 of 8")


def _pages():
    for page in PAGES:
        marks = [pytest.mark.slow] * (page.name != "README.md")
        yield pytest.param(page, marks=marks, id=page.relative_to(ROOT).as_posix())


@pytest.mark.parametrize("page", list(_pages()))
def test_code_on_the_pages_runs_and_prints_what_they_say(page, tmp_path):
    """A text block right after a python block is what the python block prints."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```\n(?:\s*^```text\n(.*?)^```)?", text, re.S | re.M)
    if not blocks:
        return
    script = "import contextlib, io, json\n_all = []\n"
    for code, _ in blocks:
        script += "_out = io.StringIO()\n"
        script += f"with contextlib.redirect_stdout(_out):\n    exec({code!r})\n"
        script += "_all.append(_out.getvalue())\n"
    script += "print(json.dumps(_all))"
    environment = os.environ | {"MPLBACKEND": "agg"}
    output = run(sys.executable, "-W", "error", "-c", script, cwd=tmp_path, env=environment)
    for (_, expected), printed in zip(blocks, json.loads(output), strict=True):
        assert not expected or same_print(printed, expected), printed


def test_the_first_pages_show_a_picture_and_how_to_use_the_environment():
    readme, home = (ROOT / name for name in ("README.md", "docs/index.md"))
    for page in (readme, home):
        text = page.read_text(encoding="utf-8")
        pictures = re.findall(r"!\[.+?\]\((.+?)\)", text)
        assert pictures
        assert all((page.parent / picture).exists() for picture in pictures)
        for words in (".venv/bin", "source .venv/bin/activate", "pip install ."):
            assert words in text, words
    assert ".venv/bin/slrlab" in readme.read_text(encoding="utf-8")


def test_make_help_lists_every_target():
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.search(r"^\.PHONY: (.*)$", rules, re.M).group(1).split()
    lines = run("make", "--no-print-directory", "help").splitlines()
    assert [line.split()[0] for line in lines] == targets


def test_older_processors_are_derived_from_what_numpy_finds():
    sets = runpy.run_path(str(ROOT / "tests" / "portable.py"))["instruction_sets"]
    new = sets("x86_64", ["X86_V3", "X86_V4", "AVX512_ICL"])
    assert list(new) == ["oldest", "haswell"]
    assert new["oldest"]["NPY_DISABLE_CPU_FEATURES"] == "X86_V3 X86_V4 AVX512_ICL"
    assert new["haswell"]["NPY_DISABLE_CPU_FEATURES"] == "X86_V4 AVX512_ICL"
    old_names = sets("AMD64", ["AVX2", "FMA3", "AVX512F", "AVX512_SKX"])
    assert old_names["haswell"]["NPY_DISABLE_CPU_FEATURES"] == "AVX512F AVX512_SKX"
    assert sets("x86_64", ["X86_V3"])["haswell"]["NPY_DISABLE_CPU_FEATURES"] == ""
    assert list(sets("x86_64", [])) == ["oldest"]
    assert list(sets("aarch64", ["SVE"])) == ["oldest"]


def test_a_release_is_tried_with_the_bounds_of_the_project():
    release = runpy.run_path(str(ROOT / "tests" / "release.py"))
    dependencies = release["PROJECT"]["dependencies"]
    pinned = release["lowest_versions"](dependencies)
    assert [pin.replace("==", ">=") for pin in pinned] == dependencies
    found = {(3, 10): "a", (3, 11): "b", (3, 12): "c", (3, 13): "d"}
    assert release["choose"](found, (3, 11)) == ("b", ((3, 13), "d"))
    for few, lacking in (({(3, 10): "a", (3, 12): "c"}, "3.11"), ({(3, 11): "b"}, "a newer")):
        with pytest.raises(SystemExit, match=f"{lacking}.*was not found"):
            release["choose"](few, (3, 11))


def test_the_source_archive_holds_the_whole_project():
    if not (ROOT / ".git").exists():
        pytest.skip("no clone")
    tracked = {line.partition("/")[0] for line in run("git", "ls-files").splitlines()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    held = {"pyproject.toml", *project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]}
    assert held == {name for name in tracked if not name.startswith(".")}


def test_the_example_prints_what_the_pages_say():
    script = ROOT / "examples" / "needle_in_a_haystack.py"
    environment = os.environ | {"MPLBACKEND": "agg"}
    output = run(sys.executable, script, "-f", "kernel.json", env=environment)  # as a notebook
    assert len(output.splitlines()) == 4
    for page in (ROOT / "README.md", ROOT / "docs" / "index.md"):
        text = page.read_text(encoding="utf-8")
        assert f"```text\n{output}```" in text
        assert "examples/needle_in_a_haystack.py" in text


def test_the_guide_lists_every_command_and_has_no_section_too_many():
    guide = (ROOT / "docs" / "guide" / "command-line.md").read_text(encoding="utf-8")
    assert "<!-- commands -->" in guide
    assert "<!-- figures -->" in guide
    titles = re.findall(r"^## slrlab (\w+)$", guide, re.M)
    assert set(titles) <= {command.callback.__name__ for command in app.registered_commands}


def _imports(tree, inside=False):
    """Yield the top-level names that a module imports, and whether only when a function runs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.partition(".")[0], inside
        deeper = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from _imports(node, inside or deeper)


UNLIKE = {"vl_convert": "vl-convert-python"}  # names of packages that differ from their module


def test_what_is_imported_is_declared():
    """Modules need what every installation has; functions may need what an extra brings."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name_of = lambda line: re.split(r"[^\w-]", line)[0].replace("_", "-").lower()
    core = {name_of(line) for line in project["dependencies"]}
    extras = {name_of(x) for group in project["optional-dependencies"].values() for x in group}
    providers = metadata.packages_distributions()
    seen = set()
    for path in sorted((ROOT / "src").rglob("*.py")):
        for name, inside in _imports(ast.parse(path.read_text(encoding="utf-8"))):
            if name in sys.stdlib_module_names or name == "slrlab":
                continue
            given = providers.get(name, [UNLIKE.get(name, name)])  # an extra may not be installed
            packages = {package.replace("_", "-").lower() for package in given}
            assert packages & (core | extras if inside else core), (path, name)
            seen |= packages
    assert {"numpy", "scipy", "numba", "typer"} <= seen


@pytest.mark.slow
def test_the_wheel_installs_in_a_clean_environment(tmp_path):
    """Its dependencies are those of this environment: another test compares them with imports."""
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    tables = {
        f"slrlab/experiments/stored/{name}.csv" for name in ("population", "trained", "atlas")
    }
    held = set(zipfile.ZipFile(wheel).namelist())
    assert tables | {"slrlab/py.typed", "slrlab/explorer/static.js"} <= held
    venv.create(tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    inside = {"cwd": tmp_path}
    inside["env"] = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    folder = Path(run(python, "-c", where, **inside).strip())
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, **inside)
    (folder / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    shown = run(python, "-c", "import slrlab; print(slrlab.__file__)", **inside)
    assert Path(shown.strip()).parent == folder / "slrlab"
    command = tmp_path / "env" / "bin" / "slrlab"
    run(command, "--help", **inside)
    assert '"risk"' in run(command, "population", "--json", **inside)
