"""The figure of length transfer."""

import numpy as np
import pandas as pd
import pytest

from slrlab.figures import figure_transfer, make_figure


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return make_figure("transfer", tmp_path_factory.mktemp("figure"), profile="toy")


@pytest.mark.slow
def test_the_maps_and_the_rules_after_training(paths):
    frame = pd.read_csv(paths[0])
    maps, trained = (frame[frame["panel"] == name] for name in ("map", "trained"))
    assert set(maps["activation"]) == set(figure_transfer.MAPS)
    softmax = maps[maps["activation"] == "softmax"]
    assert softmax["loss"].abs().max() < 1e-9
    diagonal = maps[maps["fit"] == maps["use"]]
    assert np.allclose(diagonal["loss"], diagonal["refitted_loss"], atol=1e-7)
    losses = trained.pivot(index="use", columns="rule", values="loss")
    assert (losses["best"] <= losses[["constant", "sqrt-log", "log"]].min(axis=1) + 1e-6).all()
    figure = figure_transfer.draw(frame)
    titles = [panel.get_title() for panel in figure.axes]
    assert set(figure_transfer.MAPS) < set(titles)
    grid = np.ravel(figure.axes[0].collections[0].get_array())
    assert np.allclose(grid, figure_transfer.LEAST)  # softmax: no loss anywhere
    factors = next(panel for panel in figure.axes if panel.get_ylabel().startswith("factor"))
    assert len(factors.lines) == 6  # four rules, the limit and the length of the fit
