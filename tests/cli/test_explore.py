"""The command explore, as far as it goes without its extra."""

import importlib.util

import pytest

from slrlab.explorer import server


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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--static", "pages", "--view", "plan"), "--view must not be given with --static"),
        (("--static", "pages", "--port", "9000"), "--port must not be given with --static"),
        (("--view", "map"), "--view must be one of retrieve, population"),
    ],
)
def test_what_static_pages_would_ignore_is_refused(run, monkeypatch, tmp_path, words, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("explore", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert not (tmp_path / "pages").exists()


def test_a_bad_number_of_workers_is_refused_before_the_server_starts(run, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(server, "serve", lambda port: pytest.fail("it has started"))
    monkeypatch.setenv("SLRLAB_WORKERS", "two")
    code, out, err = run("explore")
    assert (code, out) == (2, "")
    assert err == "slrlab: SLRLAB_WORKERS must be a whole number >= 1, got 'two'\n"


def test_port_and_view_are_those_that_were_asked_for(run, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(server, "serve", lambda port: 0 if port in (8501, 9000) else 1)
    assert run("explore")[:2] == (0, "http://localhost:8501/\n")
    asked = run("explore", "--port", "9000", "--view", "plan")
    assert asked[:2] == (0, "http://localhost:9000/plan\n")
