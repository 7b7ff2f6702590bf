"""The commands on the pages: every one is parsed, the cheap ones run."""

import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
import typer

import slrlab
from slrlab import read_sweep
from slrlab.cli.main import app, main

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])  # CONTRIBUTING: test_recipes
RETRIEVAL = ROOT / "docs" / "guide" / "retrieval.md"
HERE = re.compile(r"^python - <<'EOF'\n(.*?)^EOF$", re.S | re.M)
SWEEPS = (ROOT / "docs" / "guide" / "sweeps.md").read_text(encoding="utf-8")
GROUP = typer.main.get_command(app)
# not run: what takes minutes, waits for a user or needs more than the package
NOT_RUN = {
    "atlas --out results": "all activations on all settings take minutes",
    "explore": "serves until it is stopped; the tests of the explorer open it",
    "explore --view population": "as above",
    "explore --static pages": "needs an extra; the tests of the static pages run it",
    "reproduce --out results": "all figures take minutes; the tests of the report run it",
    "reproduce --explorer": "as above",
    "retrieval --profile quick --out results": "needs an extra; run below at a smaller size",
    "retrieval --profile quick --text novel.txt": "as above",
    "sweep curve.toml --cluster tcp://127.0.0.1:8786": "the tests of the cluster start one",
    "sweep sgd.toml": "trains sixteen times; `sgd_retrieval` has its own tests",
    "transfer --atlas --csv transfer.csv": "fits all activations, which takes a minute",
    "transfer --atlas --use 2,100,1000 --csv transfer.csv": "as above",
}
# the others run at smaller sizes, by command
SMALLER = {
    "amp": {"--dim": "100", "--dims": "50,100", "--seeds": "3", "--test-samples": "1000"},
    "claims": {"C2": ""},
    "capacity": {"--pairs": "8", "--seeds": "2", "--max-steps": "200"},
    "departure": {"--values": "1", "--activation": "linear"},
    "erm": {"--tolerance": "0.1"},
    "figure": {"--profile": "toy"},
    "labels": {"--alpha": "4", "--dim": "50", "--seeds": "3"},
    "marion": {"--dim": "20", "--time": "5", "--seeds": "2"},
    "simulate": {"--dim": "40", "--dims": "30,60", "--seeds": "3", "--test-samples": "1000"},
    "retrieval": {"--profile": "toy"},
    "specialise": {"--dim": "40", "--time": "1"},
    "sweep": {"--workers": "1"},
    "table": {"--profile": "toy"},
    "universality": {"--dims": "30,60,90", "--seeds": "3", "--tolerance": "0.1"},
}
SIZES = ("--dim", "--dims", "--pairs", "--time")  # changed only where they are given


def blocks(language, text):
    """Return the code blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)


def lines_of(page):
    """Return the lines of the shell blocks of a page as lists of words."""
    shell = "".join(blocks("sh", page.read_text(encoding="utf-8"))).replace("\\\n", " ")
    shell = re.sub(r"<<'EOF'\n.*?^EOF$", "", shell, flags=re.S | re.M)
    lines = [shlex.split(line, comments=True) for line in shell.splitlines()]
    return [[*line[:-1]] if line[-1] == "&" else line for line in lines if line]


def inline_of(page):
    """Return the commands with an option that stand in the text of a page, complete ones."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    found = re.findall(r"`(slrlab [^`]* --[^`]*)`", text)
    return [shlex.split(part) for part in found if not re.search(r"\b[A-Z]{3,}\b|…", part)]


def commands_of(lines):
    """Return the arguments of each call of slrlab."""
    return [words for program, *words in lines if Path(program).name == "slrlab"]


def parse(words):
    """Parse the arguments of slrlab as the command does, without running it."""
    name, *rest = words
    return GROUP.commands[name].make_context(name, rest).params


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_on_the_pages_are_understood(page):
    for words in commands_of([*lines_of(page), *inline_of(page)]):
        if words[0] in GROUP.commands:
            parse(words)
        else:
            assert words[0] in {"--version", "--help", "--install-completion"}, words


def test_a_wrong_command_is_noticed():
    for words in (["results", "--store"], ["erm", "--alpha", "x"], ["compare", "--no-such", "1"]):
        with pytest.raises(Exception, match=r"(?i)store|alpha|no such|requires|number"):
            parse(words)


def test_other_commands_on_the_pages_name_what_exists():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    seen = set()
    for program, *words in (line for page in PAGES for line in lines_of(page)):
        seen.add(program)
        if program == "make":
            assert set(words) <= set(targets), words
        elif program == "pip":
            assert words[0] == "install"
            extras = re.findall(r"\[(.*)\]", words[-1])
            named = {name for group in extras for name in group.split(",")}
            assert named <= set(project["optional-dependencies"]), words
    assert seen <= {"slrlab", ".venv/bin/slrlab", "make", "pip", "source", "dask", "python", "cat"}


def prepare(folder):
    """Write the files that the commands read: a sweep of two points and the scores of a head."""
    settings = '[settings]\nactivation = "softmax"\ntolerance = 0.05\n'
    sweep = f'compute = "optimal-ridge"\n{settings}[grid]\nalpha = [4, 8]\n'
    (folder / "curve.toml").write_text(sweep)
    rng = np.random.default_rng(0)
    scores, locations = rng.standard_normal((200, 8)), rng.integers(8, size=200)
    scores[np.arange(200), locations] += 2.0
    np.savez(folder / "head.npz", scores=scores, locations=locations)
    rows = [
        f"{n},{score},{int(index == locations[n])}"
        for n, line in enumerate(scores)
        for index, score in enumerate(line)
    ]
    (folder / "head.csv").write_text("\n".join(["sequence,score,relevant", *rows]))


def smaller(words):
    """Return a command at the sizes of ``SMALLER``, for the options it has or would need."""
    name, *rest = words
    changed = {} if "--from" in rest else SMALLER.get(name, {})
    for option, value in changed.items():
        if option in rest:
            rest[rest.index(option) + 1] = value
        elif option not in SIZES:
            rest += [word for word in (option, value) if word]
    return [name, *rest]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_cheap_commands_on_the_pages_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    commands = [words for words in commands_of(lines_of(page)) if words[0] in GROUP.commands]
    commands = [words for words in commands if shlex.join(words) not in NOT_RUN]
    if commands:
        prepare(tmp_path)
    for words in commands:
        with pytest.raises(SystemExit) as stop:
            main(smaller(words))
        assert stop.value.code == 0, (words, capsys.readouterr().err)


@pytest.mark.extra
@pytest.mark.slow
def test_training_of_models_runs_as_the_guide_says(tmp_path, monkeypatch):
    retrieval = pytest.importorskip("slrlab.retrieval")
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (command,) = [words for words in commands_of(lines_of(RETRIEVAL)) if words[0] == "retrieval"]
    with pytest.raises(SystemExit) as stop:
        main(smaller(command))
    assert stop.value.code == 0
    train, short = retrieval.train, retrieval.Training(steps=5, check_every=5, check_sequences=8)
    fewer = lambda *given, **options: train(*given, **options | {"settings": short})
    (tmp_path / "text").write_text("In the beginning was the word. " * 3000, encoding="utf-8")
    monkeypatch.setattr(retrieval, "train", fewer)
    monkeypatch.setattr(retrieval, "find_text", lambda name: tmp_path / "text")
    scripts = HERE.findall(RETRIEVAL.read_text(encoding="utf-8"))
    assert len(scripts) == 2
    for script in scripts:
        exec(compile(script, "guide", "exec"), {})


def test_every_script_in_a_shell_block_is_run():
    """Those of the guide to trained models by the test above."""
    with_scripts = [page for page in PAGES if HERE.search(page.read_text(encoding="utf-8"))]
    assert with_scripts == [RETRIEVAL]


def test_what_is_not_run_is_on_a_page():
    there = {shlex.join(words) for page in PAGES for words in commands_of(lines_of(page))}
    assert set(NOT_RUN) <= there


def test_the_sweep_of_the_guide_is_a_sweep(tmp_path):
    (written,) = blocks("toml", SWEEPS)
    (tmp_path / "curve.toml").write_text(written, encoding="utf-8")
    points = read_sweep(tmp_path / "curve.toml").expand()
    assert len(points) == 2 * (3 * 4 * 2 + 1)


def test_the_script_for_slurm_uses_what_exists():
    (script,) = [block for block in blocks("text", SWEEPS) if "SLURMCluster" in block]
    compile(script, "slurm", "exec")
    names = re.search(r"^from slrlab import (.+)$", script, re.M)[1].split(", ")
    assert set(names) <= set(slrlab.__all__)
