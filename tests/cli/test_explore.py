"""The command explore, as far as it goes without its extra."""

import importlib.util

import pytest


@pytest.mark.parametrize(
    "words", [("explore",), ("explore", "--static", "pages"), ("reproduce", "--explorer")]
)
def test_without_the_extra_it_says_so_in_one_line(run, monkeypatch, tmp_path, words):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*words)
    assert (code, out) == (1, "")
    assert err == "slrlab: the explorer needs the extra explorer: pip install 'slrlab[explorer]'\n"
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_view_is_refused(run):
    code, _, err = run("explore", "--view", "map")
    assert code == 2
    assert "--view must be one of retrieve, population" in err
