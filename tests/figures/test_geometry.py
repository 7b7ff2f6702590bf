from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from slrlab.experiments.atlas.panel import stored_atlas
from slrlab.figures.figure_geometry import FIXED, RANDOM, compute, draw
from slrlab.model.activations import ACTIVATIONS

STORED = Path(__file__).parents[2] / "docs" / "assets" / "tables" / "figure-geometry-full.csv"


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


def test_the_picture_of_the_documentation_has_every_activation_with_an_excess():
    table, risks = pd.read_csv(STORED), stored_atlas()
    plane, shares = draw(table).axes[:2]
    named = {text.get_text() for text in plane.texts}
    bars = {label.get_text() for label in shares.get_yticklabels()}
    for length, drawn in ((FIXED, named & set(risks["activation"])), (RANDOM, bars)):
        setting = (risks["task"] == "spiked") & (risks["signal"] == 9.0) & (risks["noise"] == 0.0)
        own = risks[setting & (risks["length"] == length)].set_index("activation")
        # one that is registered later is not in the stored tables
        assert set(own.index) <= set(ACTIVATIONS)
        assert len(own) >= 43
        assert drawn == set(own.index[own["excess"] > 1e-9])
        rows = table[table["length"].astype(str) == length].set_index("activation")
        pd.testing.assert_series_equal(
            rows["excess"].sort_index(), own["excess"].sort_index(), rtol=1e-6, atol=1e-9
        )
    assert bars > {"budget-2", "normmax-2", "cosformer"}
