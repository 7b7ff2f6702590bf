import json
import subprocess
import sys
from functools import partial

import pytest

from slrlab import SpikedSLR
from slrlab.experiments.atlas import panel as atlas
from slrlab.experiments.atlas import properties
from slrlab.experiments.atlas import training as atlas_training
from slrlab.experiments.atlas import transfer as atlas_transfer
from slrlab.experiments.atlas import weights as atlas_weights

FEW = ["softmax", "linear"]
TASK = SpikedSLR(5.0, 3)


@pytest.fixture
def small(monkeypatch):
    """Let the command compute two activations on few settings, without finite data."""
    infinite, training = atlas.atlas, atlas_training.atlas_training
    options = {"workers": 1}
    monkeypatch.setattr(
        atlas, "atlas", lambda kinds, report: infinite(FEW, panel=[TASK], **options)
    )
    monkeypatch.setattr(
        atlas_training, "atlas_training", lambda kinds, report: training(FEW, alphas=[], **options)
    )
    for module, name in (
        (properties, "properties"),
        (atlas_weights, "atlas_weights"),
        (atlas_transfer, "atlas_transfer"),
    ):
        whole = getattr(module, name)
        monkeypatch.setattr(module, name, partial(_few, whole))


def _few(whole, *tasks, report, samples=None, workers=None):
    *tasks, _ = tasks
    return whole(*tasks, activations=FEW, workers=1)


@pytest.mark.slow
def test_the_atlas_prints_training_and_writes_its_files(run, small, tmp_path):
    code, out, _ = run("atlas", "--out", str(tmp_path))
    assert code == 0
    assert "After training, spiked ν=5 L=3" in out
    tables = ("training", "parts-of-the-excess", "weights", "length-transfer")
    written = {path.name for path in tmp_path.iterdir()}
    assert written >= {"atlas.md", "atlas-training.png", *(f"atlas-{name}.csv" for name in tables)}
    page = (tmp_path / "atlas" / "linear.html").read_text(encoding="utf-8")
    for heading in ("Parts of the excess", "Weights", "Length transfer", "Training"):
        assert f"<h2>{heading}</h2>" in page
    assert "training time" in (tmp_path / "atlas.html").read_text(encoding="utf-8")


def test_a_second_start_computes_only_what_is_missing(run, small, tmp_path, monkeypatch):
    def again(*given, **options):
        raise AssertionError("computed again")

    def interrupted(*given, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(atlas_training, "gradient_flow", interrupted)
        code, _, _ = run("atlas", "--out", str(tmp_path))
        assert code == 130
    for module, name in (
        (atlas, "minimal_risk"),
        (atlas_transfer, "length_transfer"),
        (atlas_weights, "minimal_risk"),
        (properties, "excess_parts"),
    ):
        monkeypatch.setattr(module, name, again)
    code, out, _ = run("atlas", "--out", str(tmp_path))
    assert code == 0
    assert "After training" in out


def test_the_atlas_of_infinite_data_alone_has_no_training(run, small, tmp_path):
    code, out, _ = run("atlas", "--population", "--json", "--out", str(tmp_path))
    assert code == 0
    answer = json.loads(out)
    assert "training" not in answer
    assert [row["activation"] for row in answer["ranking"]] == FEW
    assert not (tmp_path / "atlas-training.csv").exists()
    assert "training time" not in (tmp_path / "atlas.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["normalised: x", "exp(", "softmaxx", "1/0 + x"])
def test_an_expression_that_cannot_be_read_is_refused_before_any_work(run, text, tmp_path):
    code, out, err = run("atlas", "--add", text, "--out", str(tmp_path))
    assert code == 2
    assert out == ""
    assert err.startswith("slrlab: --add must be")
    assert not list(tmp_path.iterdir())


def test_complete_is_refused_where_nothing_is_added(run, tmp_path):
    code, out, err = run("atlas", "--complete", "--out", str(tmp_path))
    assert (code, out) == (2, "")
    assert err == "slrlab: --complete must not be given without --add, got --complete\n"
    assert not list(tmp_path.iterdir())


REFUSED_FIRST = """
import sys
from slrlab.cli.main import main
heavy = {"pandas", "numba", "matplotlib", "slrlab.experiments.atlas.panel"}
try:
    main(["atlas", "--add", "exp("])
finally:
    print(sorted(heavy & set(sys.modules)))
"""


def test_an_expression_is_refused_before_what_takes_long_is_imported(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", REFUSED_FIRST], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stdout == "[]\n"
    assert "(not an expression); the names are" in done.stderr


def test_an_expression_is_ranked_among_the_shipped_risks(run, tmp_path):
    text = "elementwise: exp(x)"  # consmax under another name
    code, out, _ = run("atlas", "--add", text, "--json", "--out", str(tmp_path))
    assert code == 0
    answer = json.loads(out)
    rows = {row["activation"]: row for row in answer["ranking"]}
    assert set(rows) == {*atlas.stored_atlas()["activation"], text}
    assert rows[text]["mean_loss"] == pytest.approx(rows["consmax"]["mean_loss"], rel=1e-6)
    assert rows[text]["rank"] == rows["consmax"]["rank"]
    (words,) = answer["answers"]
    assert words.startswith(f"{text}: rank {rows[text]['rank']} of {len(rows)}. Loses")
    assert "one factor does not fit all sequences" in words
    assert {path.name for path in tmp_path.iterdir()} == {"atlas.csv", "atlas-ranking.csv"}
