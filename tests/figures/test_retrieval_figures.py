"""Figures of the stored study of retrieval; drawing needs no extra."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection, PathCollection

from slrlab.experiments.retrieval.runs import PROFILES
from slrlab.experiments.retrieval.study import TRAINED_SIZES
from slrlab.experiments.stored import table
from slrlab.figures import figure_prediction, figure_retrieval, make_figure, redraw_figure
from slrlab.retrieval.attention_maps import MAPS
from slrlab.retrieval.mixers import MIXERS


@pytest.fixture(scope="module")
def tests():
    return table("retrieval")


def mixers_of(panel):
    """Return the lines of the mixers that have a colour of their own."""
    looks = figure_retrieval.LOOKS | figure_retrieval.MORE_LOOKS
    names = {look["label"] for look in looks.values()}
    return [line for line in panel.lines if line.get_label() in names]


def test_the_stored_study_has_every_run_of_the_full_profile(tests):
    full = PROFILES["full"]
    runs = tests[["task", "mixer", "width", "seed"]].drop_duplicates()
    counts = runs.groupby(["task", "mixer", "width"]).size().to_dict()
    for mixer in {*MIXERS, *MAPS}:
        seeds = full.seeds if mixer in MIXERS else full.map_seeds
        assert counts["recall", mixer, 16] == seeds
        assert counts["markov", mixer, 16] == full.map_seeds
        assert counts["max", mixer, 16] == full.other_seeds
        for width in (8, 24, 32):
            assert counts["recall", mixer, width] == full.other_seeds
            assert counts["markov", mixer, width] == full.other_seeds
    assert (tests["study"] == "full").all()
    assert tests["date"].str.fullmatch(r"\d{4}-\d\d-\d\d").all()
    assert tests["accuracy"].between(0.0, 1.0).all()
    guessing = (tests["test"] == "recall") & (tests["size"] == 16) & (tests["accuracy"] < 0.125)
    assert (tests.loc[guessing, "failed"]).all()
    assert (tests["steps"] <= full.steps).all()


def test_only_softmax_recalls_at_width_16_in_the_means(tests):
    chosen = (tests["task"] == tests["test"]) & (tests["test"] == "recall")
    own = tests[chosen & (tests["size"] == 16) & (tests["width"] == 16)]
    seeds = own[own["mixer"].isin(MIXERS)].groupby("mixer")["accuracy"]
    means, best = seeds.mean(), seeds.max()
    assert set(means.index) == set(MIXERS)
    assert seeds.count().min() >= 5
    assert means.pop("softmax") >= 0.99
    assert means.max() <= 0.99 - 0.4
    # single seeds come closer than the means
    assert best.drop("softmax").max() == pytest.approx(0.688, abs=5e-4)


def test_the_page_says_what_the_maps_recall_at_other_widths(tests):
    own = tests[(tests["test"] == "recall") & (tests["size"] == 16) & tests["mixer"].isin(MAPS)]
    seeds = own.groupby(["mixer", "width"])
    means, failed = seeds["accuracy"].mean().unstack(), seeds["failed"].sum().unstack()
    assert means.loc[["softmax-sink", "softmax-1", "ssmax"]].min().min() > 0.997
    assert means.loc["entmax15", [8, 24]].min() > 0.997
    narrow = {"relu2": 0.98, "softplus": 0.87, "elu1": 0.85, "relu": 0.68}
    assert means.loc[list(narrow), 8].to_dict() == pytest.approx(narrow, abs=6e-3)
    assert means.loc[list(narrow), [24, 32]].min().min() > 0.99
    assert means.loc["linear", [8, 24, 32]].tolist() == pytest.approx([0.08, 0.56, 0.93], abs=6e-3)
    lost = {
        8: {"linear": 2, "relu-normalised": 2, "relu2-normalised": 2, "sigmoid": 1, "erf": 1},
        16: {"relu-normalised": 3, "erf": 2, "relu": 1},
        24: {"relu-normalised": 2, "erf": 2},
        32: {"sigmoid": 2, "erf": 2, "entmax15": 1},
    }
    assert {width: row[row > 0].to_dict() for width, row in failed.items()} == lost


def test_all_mixers_and_maps_model_the_source_alike_at_width_16(tests):
    own = tests[(tests["test"] == "markov") & (tests["width"] == 16)]
    losses = own.groupby("mixer")["loss"].mean()
    assert set(losses.index) == {*MIXERS, *MAPS}
    assert (losses - losses["softmax"]).abs().max() < 0.1


def test_all_mixers_model_a_text_alike():
    path = Path(__file__).parents[2] / "docs" / "assets" / "tables" / "retrieval-text.csv"
    rows = pd.read_csv(path)
    assert rows.groupby("mixer").size().to_dict() == dict.fromkeys(MIXERS, 2)
    losses = rows.groupby("mixer")["loss"].mean()
    stated = {"hgrn2": 2.170, "silu-linear": 2.203, "tnl": 2.209}
    stated |= {"cosformer2": 2.219, "softmax": 2.221}
    assert losses.to_dict() == pytest.approx(stated, abs=6e-4)
    assert losses.max() < 3.089 - 0.8  # bytes without context


def test_figure_retrieval_draws_means_over_seeds(tests):
    frame = figure_retrieval.compute("toy")
    assert set(frame["mixer"]) == {*MIXERS, *MAPS}
    figure = figure_retrieval.draw(frame)
    recall, markov, per_width, items = figure.axes[:4]
    chosen = (tests["mixer"] == "softmax") & (tests["test"] == "recall") & (tests["size"] == 16)
    means = tests[chosen].groupby("parameters")["accuracy"].mean()
    lines = {line.get_label(): line for line in mixers_of(recall)}
    assert np.asarray(lines["softmax"].get_xdata()) == pytest.approx(means.index)
    assert np.asarray(lines["softmax"].get_ydata()) == pytest.approx(means)
    assert len(lines) == len(mixers_of(markov)) == len(MIXERS)
    assert len(mixers_of(items)) == len(MIXERS) + 1
    assert "SSMax (items only)" in {line.get_label() for line in mixers_of(items)}
    everything = len({*MAPS, *MIXERS})
    legend_only = 1  # the cross of seeds that failed
    assert len(recall.lines) == everything + legend_only
    assert len(markov.lines) == len(items.lines) == everything
    for line in (*recall.lines[:everything], *markov.lines):
        assert len(line.get_xdata()) == 4
        assert np.isfinite(line.get_ydata()).all()
    assert markov.get_yscale() == "log"
    assert [text.get_text() for text in per_width.get_xticklabels()] == ["1/4", "1/2", "1", "2"]
    labels = {text.get_text() for text in figure.legends[0].get_texts()}
    assert {"seed that failed to learn", "other activations", "softmax"} <= labels
    assert len(per_width.lines) == 2 * len(MIXERS)
    assert list(np.asarray(items.lines[0].get_xdata())) == [16, 64, 256, 1024, 4096]
    shares = [float(x) for x in np.asarray(per_width.lines[0].get_xdata())]
    assert {0.5, 1.0, 2.0} <= set(shares)
    assert "full run of 2026-" in figure.get_suptitle()


def test_a_seed_that_failed_is_a_cross():
    frame = figure_retrieval.compute("toy").assign(failed=False)
    before = _crosses(figure_retrieval.draw(frame))
    chosen = (frame["task"] == "recall") & (frame["mixer"] == "tnl") & (frame["width"] == 16)
    after = _crosses(figure_retrieval.draw(frame.assign(failed=chosen & (frame["seed"] == 0))))
    assert before == 0
    # against parameters; against pairs per width with 16 pairs; and there with 4, 8 and 16
    assert after == 1 + 1 + 3


def test_bars_are_ranges_over_seeds_and_mixers_stand_side_by_side(tests):
    panel = figure_retrieval.draw(figure_retrieval.compute("toy")).axes[0]
    bars = [one for one in panel.collections if isinstance(one, LineCollection)]
    places = [tuple(np.asarray(line.get_xdata())) for line in mixers_of(panel)]
    assert len(set(places)) == len(bars) == len(MIXERS)
    own = tests[(tests["test"] == "recall") & (tests["size"] == 16) & (tests["mixer"] == "tnl")]
    ends = own.groupby("width")["accuracy"].agg(["min", "max"]).to_numpy()
    (of_tnl,) = [bars[at] for at, line in enumerate(panel.lines) if line.get_label() == "TNL"]
    assert np.array(of_tnl.get_segments())[:, :, 1] == pytest.approx(ends)


def _crosses(figure):
    collections = [one for panel in figure.axes for one in panel.collections]
    marked = [one for one in collections if isinstance(one, PathCollection)]
    return sum(len(one.get_offsets()) for one in marked)


def recall_of(frame):
    return frame[frame["panel"] == "recall"]


def places_of(figure):
    """Return where the activations stand in the panel of recall."""
    return np.array([float(line.get_xdata()[0]) for line in figure.axes[0].lines])


def test_figure_prediction_has_a_dot_for_each_activation(tests):
    frame = figure_prediction.compute("toy")
    for name in TRAINED_SIZES:
        own = frame[frame["panel"] == name]
        assert set(own["mixer"]) == set(MAPS)
        assert own["correlation"].nunique() == 1
        low, value, high = (
            own[key].iloc[0] for key in ("correlation_low", "correlation", "correlation_high")
        )
        assert low <= value <= high
        assert value == pytest.approx(own[["predicted", "measured"]].corr("spearman").iloc[0, 1])
    figure = figure_prediction.draw(frame)
    assert [len(panel.lines) for panel in figure.axes[:2]] == [len(MAPS)] * 2
    looks = {(line.get_color(), line.get_marker()) for line in figure.axes[0].lines}
    assert len(looks) == len(MAPS)
    # what is clipped is left of all that is not
    small = recall_of(frame)["predicted"] <= 1.01e-6
    assert max(places_of(figure)[small]) < 1e-6 < min(places_of(figure)[~small])
    assert figure.axes[0].get_xticklabels()[0].get_text().startswith("≤")
    assert {text.get_text() for text in figure.legends[0].get_texts()} == set(MAPS)
    assert len(set(places_of(figure))) == len(MAPS)
    assert "rank correlation" in figure.axes[0].get_title()
    heads = frame[frame["panel"] == "heads"]
    drawn = sum(len(line.get_xdata()) for line in figure.axes[2].lines[1:])
    assert drawn == len(heads) > 0
    legend = [text.get_text() for text in figure.axes[2].get_legend().get_texts()]
    assert legend[-2:] == ["fit agrees with its own hit rate", "fit does not (hollow)"]


def test_few_activations_have_no_correlation_and_are_drawn():
    frame = figure_prediction.compute("toy")
    names = ["correlation", "correlation_low", "correlation_high"]
    few = frame[frame["mixer"].isin(["softmax", "linear"])].assign(**dict.fromkeys(names, math.nan))
    assert len(figure_prediction.draw(few).axes[0].lines) == 2


@pytest.mark.parametrize("name", ["retrieval", pytest.param("prediction", marks=pytest.mark.slow)])
def test_the_files_are_written_and_drawn_again(name, tmp_path):
    paths = make_figure(name, tmp_path, profile="toy")
    assert [path.suffix for path in paths] == [".csv", ".png", ".pdf"]
    assert min(path.stat().st_size for path in paths) > 1000
    again = redraw_figure(name, paths[0], tmp_path / "again")
    assert len(pd.read_csv(paths[0])) > 0
    assert all(path.exists() for path in again)
