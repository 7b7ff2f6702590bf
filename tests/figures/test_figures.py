import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from slrlab import __version__, hit_rate, minimal_risk
from slrlab.figures import (
    figure_amp,
    figure_phases,
    figure_reliability,
    make_figure,
    make_table,
    redraw_figure,
)
from slrlab.figures.registry import FIGURES, figure_module
from slrlab.figures.style import MARKS


def pixels(path, color, tolerance):
    """Return the number of pixels of a picture whose colour is within a tolerance."""
    picture = np.asarray(Image.open(path).convert("RGB"), dtype=int)
    wanted = 255.0 * np.array(to_rgb(color))
    return (np.abs(picture - wanted).sum(axis=-1) < tolerance).sum()


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.slow) for name in ("2", "length")]
)
def toy(request, tmp_path_factory):
    paths = make_figure(request.param, tmp_path_factory.mktemp("figure"), profile="toy")
    return request.param, paths


def test_a_toy_figure_has_curves_and_labels(toy):
    _, paths = toy
    assert [path.suffix for path in paths] == [".csv", ".png", ".pdf"]
    frame = pd.read_csv(paths[0])
    assert set(frame["activation"]) == {"softmax", "linear", "erf", "softplus"}
    assert (frame["risk"] >= frame["bayes_risk"] - 1e-9).all()
    assert frame["risk"].between(-1e-12, 1.0 + 1e-9).all()
    for mark in MARKS.values():
        if mark.marker:  # the curve of each activation is there in its own colour
            assert pixels(paths[1], mark.color, 12) > 50
    assert paths[2].read_bytes().startswith(b"%PDF")


def test_the_picture_comes_from_the_table_alone(toy):
    name, paths = toy
    module = figure_module(name)
    drawn = module.draw(pd.read_csv(paths[0]))
    for axes in drawn.axes:
        assert axes.get_title()
        curves = [line for line in axes.lines if line.get_linestyle() != "None"]
        assert len(curves) == 5
        assert all(len(line.get_xdata()) >= 4 for line in curves)
    assert drawn.legends


def test_every_point_with_a_status_is_marked(toy):
    name, paths = toy
    frame = pd.read_csv(paths[0])
    fine = frame["status"].isin(["converged", "limit"])
    frame.loc[frame.index[fine][:3], "status"] = "boundary"
    drawn = figure_module(name).draw(frame)
    marks = [line for axes in drawn.axes for line in axes.lines if line.get_marker() == "x"]
    wanted = int((frame["status"] == "boundary").sum())
    assert wanted >= 3
    assert sum(len(line.get_xdata()) for line in marks) == wanted


def test_a_table_says_how_it_was_made(toy):
    name, paths = toy
    frame = pd.read_csv(paths[0], dtype={"figure": str})
    assert set(frame["figure"]) == {name}
    assert set(frame["profile"]) == {"toy"}
    assert set(frame["version"]) == {__version__}
    sizes = {"2": "profile_signals", "length": "profile_points"}
    assert frame[sizes[name]].nunique() == 1


def test_a_stored_table_is_drawn_again(toy, tmp_path):
    name, paths = toy
    drawn = redraw_figure(name, paths[0], tmp_path)
    assert [path.suffix for path in drawn] == [".png", ".pdf"]
    assert drawn[0].read_bytes() == paths[1].read_bytes()


def test_a_table_that_is_not_of_the_figure_is_refused(toy, tmp_path):
    name, paths = toy
    with pytest.raises(ValueError, match=rf"must be a table of figure 7, got one of figure {name}"):
        redraw_figure("7", paths[0], tmp_path)
    frame = pd.read_csv(paths[0])
    file = tmp_path / "table.csv"
    frame.drop(columns=["bayes_risk"]).to_csv(file, index=False)
    with pytest.raises(ValueError, match=rf"table of figure {name}, got one without bayes_risk$"):
        redraw_figure(name, file, tmp_path)
    frame.head(0).to_csv(file, index=False)
    with pytest.raises(ValueError, match="got one without rows"):
        redraw_figure(name, file, tmp_path)
    for content in (b"", b"\x89PNG\xff\xfe"):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="got a file that is not a CSV table"):
            redraw_figure(name, file, tmp_path)


@pytest.mark.slow
def test_the_phases_are_filled_named_and_bounded(tmp_path):
    paths = make_figure("phases", tmp_path, profile="toy")
    frame = pd.read_csv(paths[0])
    assert set(frame["panel"]) == {"risk", "signal", "length"}
    assert (frame["status"] == "converged").all()
    jumps = frame[(frame["panel"] != "risk") & (frame["noise"] == 0.0)]
    assert (jumps["alpha_it"] == 1.0).all()
    assert (jumps["alpha_alg"] > 1.0).all()
    risks = frame[frame["panel"] == "risk"]
    assert (risks["risk_amp"] >= risks["risk_it"] - 1e-12).all()
    assert (risks["risk_it"] >= risks["bayes_risk"]).all()
    drawn = figure_phases.draw(frame)
    assert len(drawn.axes) == 3
    for axes in drawn.axes:
        assert axes.get_title()
        assert {text.get_text() for text in axes.texts} == {"impossible", "hard", "easy"}
    assert drawn.legends
    for name in ("IMPOSSIBLE", "HARD", "EASY", "AMP"):
        assert pixels(paths[1], getattr(figure_phases, name), 6) > 500


def test_descent_lies_on_its_flow(tmp_path):
    paths = make_figure("descent", tmp_path, profile="toy")
    frame = pd.read_csv(paths[0])
    assert set(frame["method"]) == {"descent", "online SGD"}
    assert (frame["status"] == "sampled").all()
    begin = frame[frame["times"] == 0.0]
    for name in ("m_kk", "m_kv", "m_vk", "m_vv", "q_kk", "q_kv", "q_vv"):
        assert (begin[name] - begin[f"{name}_flow"]).abs().max() < 1e-9
        # √(rate/D) times a few at 60 dimensions
        assert (frame[name] - frame[f"{name}_flow"]).abs().max() < 0.4
    drawn = figure_module("descent").draw(frame)
    assert len(drawn.axes) == 4
    titles = [axes.get_title(loc="left") for axes in drawn.axes]
    assert [bool(title) for title in titles] == [True, False, True, False]
    assert "largest gap" in drawn.axes[0].texts[0].get_text()
    assert drawn.legends


def test_message_passing_shows_intervals_and_a_corrected_p_value():
    frame = figure_amp.compute("toy")
    drawn = figure_amp.draw(frame)
    panel = drawn.axes[0]
    assert "p = " in panel.get_title()
    assert not panel.texts
    bars = [bar for bar in panel.containers if bar.has_yerr]
    assert len(bars) == 3
    first = frame.iloc[0]
    low, high = bars[0][2][0].get_segments()[0][:, 1]
    # two seeds: Student's t with one degree of freedom
    assert (high - low) / 2.0 == pytest.approx(12.706 * first["q_k_error"], rel=1e-3)


def test_softmax_is_on_the_diagonal_of_the_reliability_diagram(monkeypatch):
    monkeypatch.setattr(figure_reliability, "RIDGES", (1.0,))
    frame = figure_reliability.compute("toy")
    best = frame[(frame["activation"] == "softmax") & (frame["panel"] == "infinite")]
    assert (best["bin_weight"] - best["bin_posterior"]).abs().max() < 1e-12
    linear = frame[frame["activation"] == "linear"]
    assert (linear["scale"] * linear["bin_weight"] - linear["bin_posterior"]).abs().max() > 0.2
    trained = frame[frame["panel"] == "trained"].iloc[-1]
    assert trained["bin_posterior"] > trained["bin_weight"]  # a strong ridge makes it unsure
    drawn = figure_reliability.draw(frame)
    titles = [axes.get_title() for axes in drawn.axes]
    words = ("infinite data, six activations", "infinite data, hit rates")
    assert titles == [words[0], "softmax, $\\alpha=16$", words[1]]
    assert [len(axes.containers) for axes in drawn.axes] == [6, 1, 0]
    rates = frame[frame["panel"] == "hit rate"].set_index("activation")
    rate = hit_rate(figure_reliability.TASK)
    assert rates["hit_rate"].tolist() == pytest.approx([rate] * 3, rel=1e-9)  # the same for all
    risks = [minimal_risk(figure_reliability.TASK, name).risk for name in rates.index]
    assert rates["read"].tolist() == pytest.approx([1.0 - risk for risk in risks], rel=1e-6)
    texts = [text.get_text() for text in drawn.axes[2].texts]
    assert texts == ["softmax and 1 more", "linear"]  # with sparsemax


def test_the_marks_differ_without_colour():
    shapes = {(mark.marker, str(mark.dashes)) for mark in MARKS.values()}
    assert len(shapes) == len(MARKS)


def test_bad_names():
    names = ", ".join(FIGURES)
    assert names.startswith("2, 3, 4, 5, 6, 7, agreement, amp, atlas")
    with pytest.raises(ValueError, match=f"figure must be one of {names}, got 9"):
        figure_module("9")


@pytest.mark.slow
def test_table_1_measures_what_is_predicted(tmp_path):
    (path,) = make_table("1", tmp_path, profile="toy")
    table = pd.read_csv(path)
    exact = table[table["how"] == "quadrature"]
    risks = exact[exact["quantity"].str.startswith("risk")]
    assert len(risks) > 10
    assert risks["deviation"].abs().max() < 1e-10
    assert exact["deviation"].abs().max() < 1e-5  # places of minima
    fitted = table[table["how"].str.startswith("fit")]
    assert (fitted["deviation"] / fitted["predicted"]).abs().max() < 0.02
    drawn = table[table["how"].str.startswith("drawn")]
    assert (drawn["deviation"] / drawn["error"]).abs().max() < 4.0
    with pytest.raises(ValueError, match="table must be one of 1, got 2"):
        make_table("2", tmp_path)
