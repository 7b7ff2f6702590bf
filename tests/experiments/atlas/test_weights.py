from pathlib import Path

import pandas as pd
import pytest

from slrlab import SpikedSLR, hit_rate, minimal_risk
from slrlab.experiments.atlas.weights import NUMBERS, atlas_weights
from slrlab.model.activations import ACTIVATIONS

TASK = SpikedSLR(2.0, 3)


def test_one_row_for_each_activation():
    names = ["softmax", "hardmax", "linear", "elementwise: 1 + tanh(x)"]
    frame = atlas_weights(names, task=TASK, workers=1)
    assert frame["activation"].tolist() == names
    assert (frame["status"] == "sampled").all()
    assert frame["hit_rate"].tolist() == pytest.approx([hit_rate(TASK)] * 4)
    assert frame["scaled_distance"].tolist() == pytest.approx(frame["excess"].tolist(), abs=1e-8)
    assert {f"{name}_error" for name in NUMBERS} <= set(frame)
    row = frame.set_index("activation").loc["linear"]
    assert row["mean_weight"] == pytest.approx(minimal_risk(TASK, "linear").A)


def test_the_page_has_the_numbers_of_the_stored_table():
    docs = Path(__file__).parents[3] / "docs"
    table = pd.read_csv(docs / "assets" / "tables" / "atlas-weights.csv").set_index("activation")
    assert set(table.index) == set(ACTIVATIONS)
    page = (docs / "theory" / "population.md").read_text(encoding="utf-8")
    for name in ("softmax", "sparsemax", "hardmax", "sigmoid", "softplus", "linear"):
        row = table.loc[name]
        read, distance = row["scale"] * row["mean_weight"], row["scaled_distance"]
        line = f"{name:9} hit rate {row['hit_rate']:.4f}, mean weight x factor {read:.4f}, "
        assert f"{line}distance {distance:.4f}" in page
    ordered = table.loc[["softmax", "sparsemax", "sigmoid"], "miscalibration"]
    assert (ordered <= [1e-9, 0.0027, 1e-4]).all()
    assert abs(table.loc["linear", "miscalibration"] - 0.2433) < 0.004  # what bins do not see
