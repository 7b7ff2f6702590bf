"""The command capacity."""

import json

import pandas as pd


def test_a_table_json_and_files(run, written):
    arguments = ["--feature-map", "softmax,elu+1", "--pairs", "20", "--max-steps", "100"]
    out, table = written("capacity", *arguments)
    assert "Schlag et al. 2021" in out
    assert "softmax" in out
    assert "elu+1" in out
    assert pd.read_csv(table)["feature_map"].tolist() == ["elu+1", "softmax"]
    code, out, _ = run("capacity", *arguments, "--json")
    assert code == 0
    result = json.loads(out)
    assert [row["pairs"] for row in result["rows"]] == [20, 20]
    assert len(result["runs"]) == 2


def test_wrong_input_is_one_line(run):
    for arguments, word in (
        (["--feature-map", "cosine"], "--feature-map"),
        (["--pairs", "1"], "pairs"),
        (["--max-steps", "5"], "max-steps"),
    ):
        code, out, err = run("capacity", *arguments)
        assert code == 2
        assert not out
        assert word in err
