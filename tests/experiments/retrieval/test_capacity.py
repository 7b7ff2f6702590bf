"""The capacity test over maps, pairs and seeds, and the stored run beside the published one."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from slrlab import capacity_test
from slrlab.experiments.retrieval.capacity import KEY_SIZE, published_runs, summaries
from slrlab.figures.registry import figure_module
from slrlab.retrieval.feature_maps import FeatureMap

STORED = Path(__file__).parents[3] / "docs" / "assets" / "tables" / "figure-capacity-full.csv"


@pytest.fixture(scope="module")
def stored():
    return pd.read_csv(STORED)


def test_points_are_means_over_seeds():
    result = capacity_test(["softmax"], [8, 4], seeds=2, max_steps=200)
    assert [point.pairs for point in result.points] == [4, 8]
    runs = result.to_frame()
    assert runs["seed"].tolist() == [1, 2, 1, 2]
    first = result.points[0]
    assert first.loss == pytest.approx(runs["loss"][:2].mean())
    assert math.isnan(first.published)
    columns, rows = result.table()
    assert len(rows) == 2
    assert len(columns) == len(rows[0])
    assert result.to_dict()["rows"][0]["feature_map"] == "softmax"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"feature_map": ["cosine"]}, "^feature_map must be"),
        ({"feature_map": []}, "^feature_map and pairs must be"),
        ({"pairs": []}, "^feature_map and pairs must be"),
        ({"pairs": [1]}, "^pairs must be"),
        ({"seeds": 0}, "^seeds must be"),
        ({"max_steps": 10}, "^max_steps must be"),
    ],
)
def test_bad_input_is_named_before_any_work(given, message):
    with pytest.raises(ValueError, match=message):
        capacity_test(**given)


def test_the_stored_run_has_three_seeds_of_every_published_point(stored):
    counts = stored.groupby(["feature_map", "pairs"]).size()
    for point in published_runs():
        assert counts[point] == 3
    assert set(stored["seed"]) == {1, 2, 3}


def test_no_stored_mean_is_below_its_floor_and_long_trainings_end_near_it(stored):
    assert (stored["mean_loss"] > stored["floor"] - 1e-4).all()
    for name in ("elu+1", "dpfp-1"):
        crowded = stored[(stored["feature_map"] == name)]
        crowded = crowded[crowded["pairs"] > FeatureMap.of(name).dimension(KEY_SIZE)]
        assert len(crowded) >= 9
        assert (crowded["mean_loss"] - crowded["floor"]).max() < 0.02


def test_the_stored_run_is_close_to_the_published_one(stored):
    """The published loss is one seed whose evaluation weighs queries unequally: no error bar."""
    for point in summaries(stored):
        scatter = stored[
            (stored["feature_map"] == point.feature_map) & (stored["pairs"] == point.pairs)
        ]["loss"]
        width = max(np.ptp(scatter), 0.01)
        distance = max(scatter.min() - point.published, point.published - scatter.max(), 0.0)
        assert distance < 2.0 * width, point
    softmax = stored[stored["feature_map"] == "softmax"]
    assert (softmax["ended"] == "solved").all()
    assert softmax["steps"].max() <= 500


def test_stored_steps_are_those_beside_the_published_ones(stored):
    steps = {
        key: sorted(rows.loc[rows["ended"] == "solved", "steps"])
        for key, rows in stored.groupby(["feature_map", "pairs"])
    }
    published = {key: steps for key, (_, steps) in published_runs().items()}
    assert (steps["softmax", 200], published["softmax", 200]) == ([200, 300, 300], 200)
    assert (steps["softmax", 100], published["softmax", 100]) == ([200] * 3, 200)
    assert (steps["softmax", 400], published["softmax", 400]) == ([300, 400, 500], 400)
    assert (steps["dpfp-1", 60], published["dpfp-1", 60]) == ([200, 200, 600], 200)
    assert (steps["dpfp-1", 100], published["dpfp-1", 100]) == ([1400, 1800, 6000], 600)


def twenty_seeds(name):
    seeds = pd.read_csv(STORED.with_name("capacity-seeds.csv"))
    seeds = seeds[seeds["feature_map"] == name]
    assert seeds["seed"].tolist() == list(range(11, 31))
    assert set(seeds["pairs"]) == {100}
    return seeds


def test_twenty_seeds_of_dpfp_are_slower_than_the_published_run():
    seeds = twenty_seeds("dpfp-1")
    solved = seeds[seeds["ended"] == "solved"]
    assert len(solved) == 17
    assert (solved["steps"].min(), solved["steps"].max()) == (800, 4900)
    assert solved["steps"].median() == 2300
    assert published_runs()["dpfp-1", 100][1] == 600
    rest = seeds.drop(solved.index)["loss"]
    assert (rest.min(), rest.max()) == pytest.approx((0.004, 0.019), abs=5e-4)


def test_the_published_run_at_100_pairs_is_inside_twenty_seeds():
    seeds = twenty_seeds("elu+1")
    assert set(seeds["ended"]) == {"no progress"}
    published, _ = published_runs()["elu+1", 100]
    assert seeds["loss"].min() == pytest.approx(0.145, abs=5e-4)
    assert seeds["loss"].max() == pytest.approx(0.215, abs=5e-4)
    assert seeds["loss"].mean() == pytest.approx(0.181, abs=5e-4)
    assert (seeds["loss"] < published).sum() == 7
    assert (seeds["mean_loss"] > seeds["floor"]).all()
    assert seeds["mean_loss"].max() < 0.191


def test_the_picture_has_floors_and_published_runs(stored):
    figure = figure_module("capacity").draw(stored)
    axes, logarithmic = figure.axes
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"softmax", "elu+1", "dpfp-1", "favor-64", "published run"} <= set(labels)
    crosses = [line for line in axes.lines if line.get_marker() == "x" and len(line.get_xdata())]
    drawn = sum(np.isfinite(line.get_ydata()).sum() for line in crosses)
    assert drawn == len(published_runs())
    # what is hidden at loss 0 on the left is apart on the right
    assert logarithmic.get_yscale() == "log"
    assert logarithmic.get_ylim()[0] < stored[stored["feature_map"] == "softmax"]["mean_loss"].min()
