import importlib.util
import json

import pandas as pd
import pytest


def test_without_the_extra_one_line_names_it(run, monkeypatch, tmp_path):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name == "torch" else real(name, *more),
    )
    code, out, err = run("retrieval", "--profile", "toy", "--out", tmp_path)
    assert code != 0
    assert out == ""
    assert err == "slrlab: training needs the extra retrieval: pip install 'slrlab[retrieval]'\n"


def test_an_unknown_profile_is_one_line(run, tmp_path):
    code, _, err = run("retrieval", "--profile", "huge", "--out", tmp_path)
    assert code == 2
    assert err == "slrlab: --profile must be one of toy, quick, full, got huge\n"


@pytest.mark.extra
@pytest.mark.slow
def test_the_toy_study_is_written_drawn_and_kept(run, only_progress, tmp_path):
    code, out, err = run("retrieval", "--profile", "toy", "--out", tmp_path, "--json")
    assert code == 0
    assert only_progress(err)
    names = [one.rsplit("/", 1)[-1] for one in json.loads(out)["files"]]
    assert names[:2] == ["retrieval.csv", "retrieval-heads.csv"]
    for name in ("retrieval", "prediction"):
        assert {f"figure-{name}.{kind}" for kind in ("csv", "png", "pdf")} <= set(names)
    tests = pd.read_csv(tmp_path / "retrieval.csv")
    assert set(tests["mixer"]) == {"softmax", "tnl", "linear"}
    assert set(tests["test"]) == {"recall", "needle", "markov", "max"}
    assert (tests["study"] == "toy").all()
    recall = tests[(tests["test"] == "recall") & (tests["size"] == 16) & (tests["width"] == 16)]
    assert recall["mixer"].value_counts().to_dict() == {"softmax": 2, "tnl": 2, "linear": 1}
    heads = pd.read_csv(tmp_path / "retrieval-heads.csv")
    assert set(heads["mixer"]) == {"softmax", "linear"}
    assert (heads["long_tokens"] >= 4 * heads["tokens"]).all()
    # a second start computes nothing again
    code, out, _ = run("retrieval", "--profile", "toy", "--out", tmp_path)
    assert code == 0
    assert "softmax" in out
    again = pd.read_csv(tmp_path / "retrieval.csv")
    pd.testing.assert_frame_equal(again.drop(columns="date"), tests.drop(columns="date"))
