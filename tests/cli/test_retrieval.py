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


def test_an_impossible_folder_is_one_line(run, tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        code, _, err = run("retrieval", "--profile", "toy", "--out", out)
        assert code == 2
        assert err.startswith("slrlab: --out must be a folder that can be made (")
        assert err.endswith(f"got {out}\n")
        assert err.count("\n") == 1


@pytest.mark.extra
@pytest.mark.parametrize("text", ["none.txt", "short.txt"])
def test_a_bad_text_is_one_line_before_any_work(run, tmp_path, text):
    short = tmp_path / "short.txt"
    short.write_text("too short")
    given = short if text == "short.txt" else text
    code, _, err = run("retrieval", "--profile", "toy", "--out", tmp_path, "--text", given)
    assert code == 2
    assert err.startswith("slrlab: --text must be a file")
    assert str(given) in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [short]


@pytest.mark.extra
@pytest.mark.slow
def test_the_toy_study_is_written_drawn_and_kept(run, only_progress, tmp_path):
    code, out, err = run("retrieval", "--profile", "toy", "--out", tmp_path, "--json")
    assert code == 0
    assert only_progress(err)
    names = [one.rsplit("/", 1)[-1] for one in json.loads(out)["files"]]
    assert names[:3] == ["retrieval.csv", "retrieval-heads.csv", "retrieval-pilots.csv"]
    for name in ("retrieval", "prediction"):
        assert {f"figure-{name}.{kind}" for kind in ("csv", "png", "pdf")} <= set(names)
    tests = pd.read_csv(tmp_path / "retrieval.csv")
    assert set(tests["mixer"]) == {"softmax", "tnl", "linear"}
    assert set(tests["test"]) == {"recall", "needle", "markov", "max"}
    assert (tests["study"] == "toy").all()
    # the figure shows activations of the atlas, too, as that of the stored run does
    drawn = pd.read_csv(tmp_path / "figure-retrieval.csv")
    assert set(drawn["mixer"]) == {"softmax", "tnl", "linear"}
    pilots = pd.read_csv(tmp_path / "retrieval-pilots.csv")
    assert pilots["learning_rate"].nunique() == 2
    assert pilots.groupby(["task", "mixer"])["chosen"].sum().eq(1).all()
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
    pd.testing.assert_frame_equal(again, tests)
