"""The command compare."""

import json

import pandas as pd

from slrlab import SpikedSLR, compare


def test_every_combination_in_a_table_a_file_and_a_picture(written):
    arguments = ["--signal", "1", "--signal", "4", "--length", "1,3", "--noise", "0.1"]
    arguments += ["--activation", "softmax", "--activation", "linear"]
    out, table = written("compare", *arguments)
    assert "spiked-SLR, length 1,3, noise 0.1, infinite data" in out
    tasks = [SpikedSLR(signal, "1,3", 0.1) for signal in (1.0, 4.0)]
    wanted = compare(tasks, ["softmax", "linear"]).to_frame()
    pd.testing.assert_frame_equal(pd.read_csv(table), wanted, check_dtype=False)


def test_finite_data_at_given_ridges(run):
    arguments = ["--activation", "linear", "--alpha", "4", "--ridge-k", "1", "--ridge-v", "1"]
    code, out, _ = run("compare", *arguments, "--tolerance", "0.05", "--json")
    (row,) = json.loads(out)["rows"]
    assert code == 0
    assert (row["alpha"], row["ridge_k"], row["status"]) == (4.0, 1.0, "sampled")
    assert row["risk"] > row["bayes_risk"]
