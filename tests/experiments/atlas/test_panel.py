import html
import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from slrlab import (
    MaxSLR,
    OrderParameters,
    SpikedSLR,
    hit_rate,
    make_activation,
    minimal_risk,
    weight_statistics,
)
from slrlab.experiments.atlas.panel import (
    PANEL,
    WEIGHTS,
    advice,
    atlas,
    ranked_among_stored,
    ranking,
    setting_labels,
    stored_atlas,
    verdict,
)
from slrlab.figures.atlas import write_atlas
from slrlab.model.activations import ACTIVATIONS, Projection
from slrlab.model.cards import ABSENT, CARDS
from slrlab.model.families import NormMax, TopK
from slrlab.model.traits import increasing

NAMES = ["linear", "softmax", "sparsemax", "hedgehog", "normalised: exp(x) + x**2"]
TASKS = [SpikedSLR(9.0, 10, noise=0.5), MaxSLR(3.0, "1,2,5")]


TABLE = Path(__file__).parents[3] / "docs" / "assets" / "tables" / "atlas.csv"
DISGUISES = ("softmax", "softplus-biased", "softmax-sink", "elu1-biased", "hedgehog")


@pytest.fixture(scope="module")
def stored():
    """Return the table of the documentation: each activation in it on the whole panel."""
    table = pd.read_csv(TABLE).astype({"length": str})
    shipped = stored_atlas()
    pd.testing.assert_frame_equal(shipped[table.columns], table)  # one table, in two places
    assert set(shipped["setting"]) == set(setting_labels(table))
    names = set(table["activation"])
    assert names <= set(ACTIVATIONS)
    assert len(table) == len(names) * len(PANEL)
    return table


def test_every_entry_of_the_panel_is_softmax_or_has_an_excess_above_its_error(stored):
    assert set(stored["status"]) <= {"converged", "limit", "boundary", "inaccurate"}
    assert stored["error"].max() < 1e-6
    # softmax at one length, softmax of no more tokens than are kept, and the argmax where it is
    # the location: infinitely long keys find it
    same = stored["activation"].isin(DISGUISES)
    same |= (stored["activation"] == "ssmax") & stored["length"].str.isdigit()
    same |= (stored["activation"] == "top2-softmax") & (stored["length"] == "2")
    same |= (stored["signal"] == math.inf) & (stored["m_k"] == math.inf) & (stored["risk"] == 0.0)
    assert stored[same]["excess"].abs().max() < 1e-11
    others = stored[~same]
    assert (others["excess"] > 3.0 * others["error"]).all()
    assert len(others) > 500


def assert_computed(stored, points):
    """Compare rows of the table, given by activation and task, with what the code computes."""
    by_key = stored.set_index(["activation", "task", "signal", "length", "noise"])["excess"]
    for name, task in points:
        key = (name, task.name, task.signal, str(task.length), task.noise)
        excess = minimal_risk(task, name).excess
        assert excess == pytest.approx(by_key[key], rel=1e-6, abs=1e-8), key


def test_the_stored_table_is_what_the_code_computes(stored):
    names = ("budget-2", "cosformer", "laplace", "relu2-normalised", "sparsemax")
    assert_computed(stored, zip(names, PANEL[2:], strict=False))


@pytest.mark.slow
def test_every_ninth_row_of_the_stored_table_is_what_the_code_computes(stored):
    points = [*itertools.product(ACTIVATIONS, PANEL)][::9]
    names, tasks = zip(*points, strict=True)
    assert (set(names), set(tasks)) == (set(ACTIVATIONS), set(PANEL))
    assert_computed(stored, points)


def test_the_page_says_how_many_are_published_as_they_are():
    sources = [CARDS[name].source for name in ACTIVATIONS]
    kinds = [sum(word in source for source in sources) for word in ("variant of", "an ablation")]
    assert (len(sources), kinds) == (43, [3, 1])


KINKED = [
    name
    for name, activation in ACTIVATIONS.items()
    if (getattr(activation, "base", activation).bends)
    or isinstance(getattr(activation, "base", activation), Projection | NormMax | TopK)
]


@pytest.mark.slow
def test_stored_rows_of_kinked_and_projected_maps_against_plain_monte_carlo(stored):
    tasks = dict(zip(_labels(), PANEL, strict=True))
    finite = np.isfinite(stored[["m_k", "bias"]]).all(axis=1)
    rows = stored[stored["activation"].isin(KINKED) & finite]
    gaps = []
    for seed, row in enumerate(rows.to_dict("records")):
        task = tasks[(row["task"], row["signal"], row["length"], row["noise"])]
        rng = np.random.default_rng(seed)
        size = max(300, round(200_000 / task.length.mean))
        lengths, counts = np.unique(task.length.sample(rng, size), return_counts=True)
        errors = []
        for length, count in zip(lengths.tolist(), counts.tolist(), strict=True):
            scores, _ = task.sample_scores(rng, count, length)
            activation = make_activation(row["activation"]).with_bias(row["bias"])
            sigma, p = activation.weights(row["m_k"] * scores), task.posterior(scores)
            read = row["m_v"] * sigma
            errors.append(1.0 - 2.0 * (read * p).sum(axis=1) + (read**2).sum(axis=1))
        drawn = np.concatenate(errors)
        gap = drawn.mean() - (row["risk"] - task.noise**2)
        gaps.append(gap / (drawn.std() / math.sqrt(size) + 1e-12))
    assert len(gaps) > 250
    assert np.abs(gaps).max() < 3.5
    assert 0.85 < np.sqrt(np.mean(np.square(gaps))) < 1.15


def _labels():
    return [(task.name, task.signal, str(task.length), task.noise) for task in PANEL]


def test_the_page_has_the_losses_of_the_longest_sequences(stored):
    loss = stored[stored["length"] == "10000"].set_index("activation")["loss"]
    three = [f"{loss[name]:.2f}" for name in ("entmax15", "normmax-2", "sparsemax")]
    page = (TABLE.parents[2] / "atlas.md").read_text(encoding="utf-8")
    assert "({}, {} and {})".format(*three) in page
    assert f"not at 10,000 ({three[0]} and {three[2]})" in page


def test_the_paragraph_to_quote_has_the_losses_of_the_table(stored):
    nine = stored[(stored["task"] == "spiked") & (stored["signal"] == 9.0)]
    loss = nine[nine["noise"] == 0.0].set_index(["activation", "length"])["loss"]
    page = " ".join((TABLE.parents[2] / "atlas.md").read_text(encoding="utf-8").split())
    paragraph = page.partition("## In one paragraph")[2].partition(" ## ")[0]
    ten = loss.xs("10", level="length")
    assert (
        f"misses {ten['entmax15']:.4f} of what can be gained, sparsemax {ten['sparsemax']:.3f})"
        in (paragraph)
    )
    assert f"misses {ten['sigmoid']:.2f} at length 10 in its best form" in paragraph
    assert f"and {ten['linear']:.2f} as linear attention" in paragraph
    for name in ("softplus", "elu1"):
        short, middle, long = (loss[name, length] for length in ("10", "100", "10000"))
        assert f"miss {short:.2f} at length 10, {middle:.2f} at 100 and {long:.2f} at 10,000" in (
            paragraph
        )
    divided, plain = (loss[name, "uniform(1,10)"] for name in ("relu-over-length", "relu"))
    assert f"misses {divided:.2f} instead of {plain:.2f}" in paragraph


def test_increasing_maps_find_the_same_tokens_and_the_others_have_a_sampled_hit_rate(stored):
    rows = stored[["task", "signal", "length", "noise"]].itertuples(index=False)
    tasks = {(task.name, task.signal, str(task.length), task.noise): task for task in PANEL}
    exact = pd.Series([hit_rate(tasks[tuple(row)]) for row in rows], index=stored.index)
    increases = pd.Series([increasing(make_activation(name)) for name in stored["activation"]])
    assert (stored.loc[increases, "hit_rate"] - exact[increases]).abs().max() < 1e-9
    assert stored.loc[increases, "hit_rate_error"].max() == 0.0
    assert increases.sum() > 0.5 * len(stored)
    others = stored[~increases]
    # no weights find more than the posterior, whose largest is that of the largest score
    assert (others["hit_rate"] <= exact[~increases] + 3.0 * others["hit_rate_error"] + 1e-9).all()
    assert (others["hit_rate_error"] > 0.0).mean() > 0.8
    assert stored["hit_rate_error"].max() < 0.02


def test_every_risk_has_what_the_weights_do(stored):
    known = stored[[name + end for name in WEIGHTS for end in ("", "_error")]]
    assert known.notna().all(axis=None)
    assert stored["mean_weight_error"].max() == 0.0
    # m_v A = 1 - risk without noise
    read = stored["m_v"] * stored["mean_weight"]
    assert (read - (1.0 - stored["risk"] + stored["noise"] ** 2)).abs().max() < 1e-6
    # a map of each weight alone removes no more than there is
    spare = 5.0 * stored["miscalibration_error"] + 1e-9
    assert (stored["miscalibration"] <= stored["excess"] + spare).all()
    lengths = stored["length"].replace("uniform(1,10)", "10").astype(float)
    assert (stored["entropy"] <= lengths.map(math.log) + 1e-9).all()


def test_a_stored_row_of_weights_is_what_a_larger_sample_has(stored):
    keys = ["activation", "task", "signal", "length", "noise"]
    rows = stored.set_index(keys)
    for name, task in (("relu", PANEL[2]), ("budget-2", PANEL[10])):
        row = rows.loc[(name, task.name, task.signal, str(task.length), task.noise)]
        found = weight_statistics(task, name, seed=5)
        for number in WEIGHTS:
            error = math.hypot(row[f"{number}_error"], found.errors[number])
            gap = abs(row[number] - getattr(found, number))
            assert gap < 3.5 * error + 1e-6, (name, number)


@pytest.mark.parametrize("name", ["sparsemax", "sigmoid", "l2-softmax", "relu", "budget-2"])
def test_a_map_is_increasing_where_its_sampled_hit_rate_is_that_of_the_scores(name):
    task = SpikedSLR(2.0, 3)
    order = OrderParameters(m_k=math.sqrt(2.0), m_v=1.0, R_k=0.0)
    fixed = make_activation(name).with_bias(-1.0)
    found = weight_statistics(task, fixed, order, samples=4000)
    rate = found.hit_rate
    assert (abs(rate - hit_rate(task)) < 1e-12) == increasing(make_activation(name))


@pytest.fixture(scope="module")
def frame():
    return atlas(NAMES, panel=TASKS, workers=1)


def test_losses_are_parts_of_what_can_be_gained(frame):
    assert len(frame) == len(NAMES) * len(TASKS)
    row = frame[(frame["activation"] == "linear") & (frame["task"] == "spiked")].iloc[0]
    result = minimal_risk(TASKS[0], "linear")
    bayes = result.bayes_risk
    assert row["loss"] == pytest.approx((result.risk - bayes) / (1.25 - bayes))
    assert row["setting"] == "spiked ν=9 L=10 Δ=0.5"
    assert frame["loss"].between(-1e-9, 1.0).all()


def test_ranking_names_the_best_and_where_each_is_worst(frame):
    table = ranking(frame)
    assert list(table["rank"]) == [1, 1, 3, 4, 5]
    assert set(table["activation"][:2]) == {"softmax", "hedgehog"}
    assert table["activation"].iloc[-1] == "linear"
    own = table.set_index("activation").loc["normalised: exp(x) + x**2"]
    assert not own["same_as_best"]
    assert own["worst_setting"] in verdict(own)
    assert "every setting" in verdict(table.iloc[0])
    rates = [hit_rate(task) for task in TASKS]
    assert own["hit_rate"] < 0.999 * sum(rates) / 2.0  # the square is larger at low scores
    others = table[table["activation"] != "normalised: exp(x) + x**2"]["hit_rate"].tolist()
    assert others == pytest.approx([sum(rates) / 2.0] * 4, rel=1e-12)


def test_equal_losses_share_a_rank():
    """Activations that contain softmax as a limit, and two activations under another name."""
    _, table = ranked_among_stored(["softmax", "normalised: exp(x)", "elementwise: exp(x)"])
    ranks = table.set_index("activation")["rank"]
    assert {*ranks[list(DISGUISES)], ranks["normalised: exp(x)"]} == {1}
    assert ranks["elementwise: exp(x)"] == ranks["consmax"]
    # the next rank counts all before it, and different losses have different ranks
    assert sorted(ranks)[6] == 7
    assert len(set(ranks)) == len(table) - 5 - 1
    assert ranks.max() == len(table)


def test_the_atlas_as_files(frame, tmp_path):
    from PIL import Image

    own = pd.DataFrame({"activation": ["linear", "softmax"], "share": [0.125, math.nan]})
    paths = write_atlas(frame, tmp_path / "new", {"weights read": own})
    names = ["atlas.csv", "atlas-ranking.csv", "atlas.md", "atlas.html", "atlas.png"]
    assert [path.name for path in paths[:6]] == [*names, "atlas-weights-read.csv"]
    assert len(paths) == 6 + len(NAMES)
    page, text = (paths[index].read_text(encoding="utf-8") for index in (3, 2))
    for name in (*NAMES, *(one.name for one in ABSENT)):
        assert name in page
        assert name in text
    assert "http" not in page
    for name, path in zip(ranking(frame)["activation"], paths[6:], strict=True):
        assert f"href='atlas/{path.name}'" in page
        text = path.read_text(encoding="utf-8")
        assert html.escape(advice(ranking(frame).set_index("activation").loc[name])) in text
        if name in CARDS:
            assert html.escape(f"Source: {CARDS[name].source}.") in text
        assert text.count("data:image/png") == 1
        assert text.count("data:image/svg") == (name in CARDS)  # the formula
        assert ("0.125" in text) == (name == "linear")
        assert "http" not in text.replace("http://www.w3.org", "")
    with Image.open(paths[4]) as image:
        colours = image.convert("RGB").getcolors(1 << 24)
    assert len(colours) > 50


def test_a_page_says_once_what_is_the_same_in_all_rows_and_has_reasons_below(frame, tmp_path):
    reason = "the prox jumps <somewhere>"
    rows = {"activation": ["linear"] * 2, "task": ["spiked"] * 2, "alpha": [2.0, 8.0]}
    own = pd.DataFrame(rows | {"reason": ["", reason]})
    write_atlas(frame, tmp_path, {"training": own})
    text = (tmp_path / "atlas" / "linear.html").read_text(encoding="utf-8")
    table = text[text.index("<h2>Training</h2>") :]
    assert "<th>alpha</th></tr>" in table
    assert "<th>task</th>" not in table
    assert "<p class='note'>In all rows: task spiked.</p>" in table
    assert f"<p class='note'>Reason: {html.escape(reason)}.</p>" in table


def test_advice_warns_of_a_large_loss_away_from_signal_nine():
    row = pd.Series({"same_as_best": False, "breaks_at": "", "worst_loss": 0.24})
    row["worst_setting"] = "max ν=3 L=2"
    assert "0.24 at max ν=3 L=2: avoid it" in advice(row)
    row["worst_loss"] = 0.05
    assert "worth the loss" in advice(row)


def test_the_panel_covers_both_tasks_all_lengths_and_noise():
    lengths = {str(task.length) for task in PANEL}
    assert {"2", "10", "100", "10000", "uniform(1,10)"} <= lengths
    assert {task.name for task in PANEL} == {"spiked", "max"}
    assert any(task.noise for task in PANEL)


def test_an_activation_breaks_where_it_misses_a_tenth():
    frame = atlas(["linear", "softmax"], panel=PANEL[1:7], workers=1)
    table = ranking(frame).set_index("activation")
    at_nine = frame[(frame["signal"] == 9.0) & (frame["loss"] > 0.1)]
    assert set(at_nine["activation"]) == {"linear"}
    assert table.loc["linear", "breaks_at"] == "2, 10, 100, 10,000"
    assert table.loc["softmax", "breaks_at"] == ""
    assert "two tokens" in advice(table.loc["linear"])
    assert "nothing is lost" in advice(table.loc["softmax"])
