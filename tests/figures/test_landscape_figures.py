"""Figures of the landscape: each at a toy profile, from the table alone."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.interpolate import BarycentricInterpolator

from slrlab import SpikedSLR, follow_minimum, make_activation, make_task, minimal_risk
from slrlab.figures import make_figure
from slrlab.figures.registry import figure_module
from slrlab.theory.landscape.risk import make_landscape


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return what makes a figure once."""
    known = {}

    def make(name):
        if name not in known:
            paths = make_figure(name, tmp_path_factory.mktemp("figure"), profile="toy")
            known[name] = paths, pd.read_csv(paths[0])
        return known[name]

    return make


@pytest.fixture(scope="module")
def softmax_end():
    """Return the signal at which the mismatched minimum of softmax turns unstable at length 10.

    There the risk at the best values has no curvature along keys outside the plane of the teachers,
    by differences at signals close to it.
    """
    signals = [2.0, 1.5, 1.2, 1.0, 0.95, 0.93, 0.92, 0.915]
    tasks = [SpikedSLR(signal, 10) for signal in signals]
    path = follow_minimum(tasks, "softmax", "mismatched")[-3:]
    curvatures = []
    for task, minimum in zip(tasks[-3:], path, strict=True):
        landscape = make_landscape(task, make_activation("softmax"))
        keys = np.array([[minimum.order.m_kk, minimum.order.m_kv, out, 0.0] for out in (0.0, 5e-3)])
        inside, outside = (landscape.at_best_values(k, 0.0)[1].risk for k in keys)
        curvatures.append(outside - inside)
    return float(BarycentricInterpolator(curvatures, signals[-3:])(0.0))


LONG = [pytest.param(name, marks=pytest.mark.slow) for name in ("5", "basins", "minima", "tension")]


@pytest.mark.parametrize("name", ["4", *LONG])
def test_the_picture_comes_from_the_table_alone(made, name):
    import matplotlib.pyplot as plt

    paths, frame = made(name)
    module = figure_module(name)
    drawn = module.draw(frame)
    titled = [axes for axes in drawn.axes if axes.get_title()]
    assert len(titled) >= 2
    assert all(axes.lines or axes.images or axes.collections for axes in titled)
    assert any(axes.get_xlabel() for axes in titled)
    assert drawn.legends or any(axes.get_legend() for axes in titled)
    assert drawn.get_size_inches()[0] <= 6.5  # read at 500 pixels
    plt.close(drawn)
    picture = np.asarray(Image.open(paths[1]).convert("L"), dtype=int)
    assert (picture < 128).mean() > 0.003


def test_small_starts_forget_all_but_the_optimum(made):
    _, frame = made("4")
    assert (frame["runs"] >= 20).all()
    assert (frame["matched"] == frame["runs"]).all()
    gap = frame[["min", "max"]].sub(frame["optimum"], axis=0).abs().to_numpy()
    assert gap.max() < 1e-3
    learned = frame["quantity"].isin(["m_kk", "m_vv"])
    assert gap[~learned].max() < 1e-6


@pytest.mark.slow
def test_the_mismatched_minimum_lies_above(made, softmax_end):
    _, frame = made("5")
    mismatched = frame[(frame["minimum"] == "mismatched") & frame["exists"].astype(bool)]
    assert len(mismatched) > 12
    for row in mismatched.itertuples():
        task = make_task(row.task, signal=row.signal, length=row.length)
        assert row.risk > minimal_risk(task, row.activation).risk + 0.005
    ends = mismatched[mismatched["end"].isin(["fold", "plane"])].set_index("activation")["signal"]
    assert ends["softmax"] == pytest.approx(softmax_end, abs=1e-3)
    matched = frame[frame["minimum"] == "matched"]
    assert (matched["risk"] >= matched["bayes_risk"] - 1e-6).all()
    assert (matched["risk"] - matched["population_risk"]).abs().max() < 1e-4
    assert set(matched["activation"]) == {"softmax", "linear", "erf", "softplus"}
    endless = frame[frame["at_infinity"].astype(bool)]
    assert set(endless["activation"]) == {"linear"}
    spiked = endless[endless["task"] == "spiked"]
    assert np.allclose(spiked["risk"], 10.0 / (10.0 + spiked["signal"]), atol=1e-4)


def test_every_small_start_is_in_the_basin_of_the_matched_minimum(made):
    _, frame = made("basins")
    random = frame[frame["panel"] == "random"]
    small = random[random["size"] < 0.1]
    assert (small["matched"] == small["starts"]).all()
    ends = ["matched", "mismatched", "mirror", "reversed", "other"]
    assert (random[ends].sum(axis=1) == random["starts"]).all()
    angles = frame[(frame["panel"] == "angles") & (frame["size"] == 0.1)]
    assert (angles["end"] == "matched").all()
    assert angles["time"].gt(0.0).all()


@pytest.mark.slow
def test_minima_have_positive_curvature(made):
    _, frame = made("minima")
    finite = frame[frame["exists"].eq(True) & frame["at_infinity"].eq(False)]
    assert set(finite["panel"]) >= {"matched", "mismatched"}
    assert (finite["softest"] > -1e-8).all()
    grid = frame[frame["panel"] == "map"]
    best = frame[frame["panel"] == "map, matched"].set_index("activation")["risk"]
    for activation, part in grid.groupby("activation"):
        assert part["risk"].min() >= best[activation] - 1e-9


@pytest.mark.slow
def test_each_mismatched_minimum_has_its_ends(made, softmax_end):
    _, frame = made("minima")
    branches = frame[frame["panel"] == "branch"].set_index("activation")
    assert set(branches.index) == {"softmax", "linear", "erf", "softplus"}
    assert branches["low_end"]["softmax"] == "plane"
    assert branches["signal"]["softmax"] == pytest.approx(softmax_end, abs=1e-3)
    assert (branches["high"] == branches["high"].max()).all()


@pytest.mark.slow
def test_times_and_curvatures_are_there(made):
    _, frame = made("tension")
    flows = frame[frame["panel"] == "flow"]
    assert set(flows["activation"]) == {"softmax", "linear", "erf", "softplus"}
    assert (flows["matched"] == flows["runs"]).all()
    assert (flows["time_99"] > flows["time_90"]).all()
    assert (flows["time_99_low"] <= flows["time_99_high"]).all()
    assert (frame[frame["panel"] == "curvature"]["softest"] > 0.0).all()
