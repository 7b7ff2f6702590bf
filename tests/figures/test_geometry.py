import numpy as np
import pytest

from slrlab.figures.figure_geometry import FIXED, RANDOM, compute, draw


@pytest.fixture(scope="module")
def frame():
    return compute("toy")


def test_every_activation_is_named_and_placed(frame):
    figure = draw(frame)
    plane, shares = figure.axes[:2]
    rows = frame[frame["length"] == FIXED]
    texts = {text.get_text(): text for text in plane.texts}
    for name in rows.loc[rows["excess"] > 0.0, "activation"]:
        assert name in texts
    assert "softmax" in next(text for text in texts if text.startswith("on the posterior"))
    drawn = np.concatenate(
        [np.column_stack(line.get_data()) for line in plane.lines if line.get_label()[0] != "_"]
    )
    wanted = rows.loc[rows["excess"] > 0.0, ["shape_part", "size_part"]].to_numpy()
    assert np.allclose(np.sort(drawn, axis=0), np.sort(wanted, axis=0))
    names = [label.get_text() for label in shares.get_yticklabels()]
    assert names == list(
        frame.loc[(frame["length"] == RANDOM) & (frame["excess"] > 0), "activation"]
    )


def test_bars_fill_the_excess(frame):
    shares = draw(frame).axes[1]
    widths = np.array([[bar.get_width() for bar in group] for group in shares.containers])
    assert widths.shape == (3, 4)
    assert widths.min() > -1e-9
    np.testing.assert_allclose(widths.sum(axis=0), 1.0, atol=1e-12)
