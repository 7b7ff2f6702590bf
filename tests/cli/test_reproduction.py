"""The commands claims, figure and table."""

import json
import math

import pandas as pd
import pytest

from slrlab.figures.registry import FIGURES


def test_claims(run, only_progress):
    code, out, err = run("claims", "C6", "--json")
    result = json.loads(out)
    assert code == 0
    assert only_progress(err)
    assert result["holds"] is True
    check = result["claims"][0]["checks"][0]
    assert {"left", "right", "relation", "margin", "holds"} <= set(check)
    code, out, _ = run("claims", "C6", "--details")
    assert code == 0
    assert "C6" in out
    code, out, _ = run("claims", "c6", "--json")
    assert code == 0
    assert json.loads(out)["claims"][0]["claim"] == "C6"
    code, _, err = run("claims", "C99")
    assert code == 2
    assert "claim must be one of C1" in err


@pytest.mark.slow
def test_figure(run, tmp_path):
    code, out, _ = run("figure", "length", "--profile", "toy", "--out", str(tmp_path))
    assert code == 0
    assert [line.split("-")[-1] for line in out.split()] == [
        "length.csv",
        "length.png",
        "length.pdf",
    ]
    stored, again = tmp_path / "figure-length.csv", tmp_path / "again"
    code, out, _ = run("figure", "length", "--from", str(stored), "--out", str(again))
    assert code == 0
    assert out.split() == [str(again / f"figure-length.{kind}") for kind in ("png", "pdf")]
    code, _, err = run("figure", "3", "--from", str(stored))
    assert code == 2
    assert err == f"slrlab: {stored} must be a table of figure 3, got one of figure length\n"
    code, _, err = run("figure", "3", "--from", str(stored), "--profile", "full")
    assert code == 2
    assert err == "slrlab: --profile must not be given with --from, got full\n"
    code, _, err = run("figure", "9")
    assert code == 2
    assert err == f"slrlab: figure must be one of {', '.join(FIGURES)}, got 9\n"
    blocked = tmp_path / "file"
    blocked.write_text("")
    code, _, err = run("figure", "length", "--profile", "toy", "--out", str(blocked))
    assert code == 1
    assert "file" in err.lower()


def test_table_1_ends_with_the_table_and_counts(run, tmp_path, monkeypatch):
    columns = ["task", "activation", "length", "quantity", "predicted", "measured"]
    columns += ["deviation", "error", "how"]
    rows = [
        ("spiked", "linear", 2, "prefactor C", 2.0, 1.99995, -5e-5, math.nan, "fit"),
        ("max", "softmax", "1,2", "risk", 0.25, 0.25, 1e-16, 1e-16, "quadrature"),
        ("spiked", "linear", 2, "risk", 0.25, 0.2497, -3e-4, 0.0045, "drawn, D=400"),
    ]
    table = pd.DataFrame(rows, columns=columns)
    monkeypatch.setattr("slrlab.figures.table_1.compute", lambda profile, report: table)
    code, out, _ = run("table", "1", "--out", str(tmp_path))
    assert code == 0
    assert out.splitlines()[-2:] == ["3 constants", str(tmp_path / "table-1.csv")]
    for words in ("fit: 1 constants", "spiked, linear, L=2", "1.99995", "0.2497 ± 0.0045"):
        assert words in out
    code, out, _ = run("table", "1", "--out", str(tmp_path), "--json")
    assert json.loads(out)["files"] == [str(tmp_path / "table-1.csv")]
