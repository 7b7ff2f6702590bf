import pytest

from slrlab import SpikedSLR, hit_rate, minimal_risk
from slrlab.experiments.atlas.weights import NUMBERS, atlas_weights

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
