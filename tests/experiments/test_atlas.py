import html
import math

import pandas as pd
import pytest

from slrlab import MaxSLR, SpikedSLR, minimal_risk
from slrlab.experiments.atlas import PANEL, advice, atlas, ranking, verdict
from slrlab.figures.atlas import write_atlas
from slrlab.model.cards import ABSENT, CARDS

NAMES = ["linear", "softmax", "sparsemax", "hedgehog", "normalised: exp(x) + x**2"]
TASKS = [SpikedSLR(9.0, 10, noise=0.5), MaxSLR(3.0, "1,2,5")]


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
    assert list(table["rank"]) == [1, 2, 3, 4, 5]
    assert set(table["activation"][:2]) == {"softmax", "hedgehog"}
    assert table["activation"].iloc[-1] == "linear"
    own = table.set_index("activation").loc["normalised: exp(x) + x**2"]
    assert not own["same_as_best"]
    assert own["worst_setting"] in verdict(own)
    assert "every setting" in verdict(table.iloc[0])


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
        assert text.count("data:image/png") == 1
        assert text.count("data:image/svg") == (name in CARDS)  # the formula
        assert ("0.125" in text) == (name == "linear")
        assert "http" not in text.replace("http://www.w3.org", "")
    with Image.open(paths[4]) as image:
        colours = image.convert("RGB").getcolors(1 << 24)
    assert len(colours) > 50


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
