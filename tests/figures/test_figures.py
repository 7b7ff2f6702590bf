from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from slrlab import Estimate, __version__, bayes_optimal, make_task
from slrlab.experiments.claims import CLAIMS, run_claims
from slrlab.experiments.comparison import QUANTITIES
from slrlab.experiments.student import difference, normal_score, p_value
from slrlab.figures import (
    draw_figure,
    figure_3,
    figure_agreement,
    figure_amp,
    figure_phases,
    make_figure,
    make_table,
    redraw_figure,
    report,
    reproduction,
)
from slrlab.figures.registry import FIGURES, figure_module
from slrlab.figures.reproduction import reproduce_all
from slrlab.figures.style import MARKS


@pytest.fixture(scope="module", params=["2", pytest.param("length", marks=pytest.mark.slow)])
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
    picture = np.asarray(Image.open(paths[1]).convert("RGB"), dtype=int)
    for mark in MARKS.values():
        if mark.marker:  # the curve of each activation is there in its own colour
            colour = [int(mark.color[i : i + 2], 16) for i in (1, 3, 5)]
            assert (np.abs(picture - colour).sum(axis=-1) < 12).sum() > 50
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
    drawn = figure_module(name).draw(frame)
    marks = [line for axes in drawn.axes for line in axes.lines if line.get_marker() == "x"]
    wanted = int((frame["status"] == "boundary").sum())
    assert sum(len(line.get_xdata()) for line in marks) == wanted
    assert wanted > 0 or name != "length"


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
        with pytest.raises(ValueError, match="got a file that is no CSV table"):
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
    picture = np.asarray(Image.open(paths[1]).convert("RGB"), dtype=int)
    for color in (
        figure_phases.IMPOSSIBLE,
        figure_phases.HARD,
        figure_phases.EASY,
        figure_phases.AMP,
    ):
        wanted = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
        assert (np.abs(picture - wanted).sum(axis=-1) < 6).sum() > 500


def test_descent_lies_on_its_flow(tmp_path, monkeypatch):
    monkeypatch.setenv("SLRLAB_WORKERS", "1")
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


def synthetic_agreement(rng, seeds=4):
    """A table of figure agreement in which theory and simulation differ by chance alone."""
    rows = []
    for number, dim, name in product((1, 2), (40, 80), QUANTITIES):
        ours, exact = Estimate.of(rng.normal(size=seeds)), Estimate(0.0, 1e-3, 7.0)
        gap = difference(ours, exact)
        row = {"number": number, "setting": f"softmax, spiked ν={number}, L=3, α=4", "dim": dim}
        row |= {"quantity": name, "simulation": ours.value, "simulation_error": ours.error}
        row |= {"theory": 0.0, "theory_error": 1e-3, "seeds": seeds, "gap": gap.value}
        rows.append(row | {"p_value": p_value(gap), "z": normal_score(gap)})
    return pd.DataFrame(rows)


def test_agreement_draws_calibrated_scores(tmp_path):
    tested = synthetic_agreement(np.random.default_rng(7))
    limits = figure_agreement._limits(tested)
    assert set(limits["dim"]) == {np.inf}
    assert len(limits) == 2 * len(QUANTITIES)
    assert limits["p_value"].between(0.0, 1.0).all()
    one = tested.query("number == 1 and quantity == 'q_v'").set_index("dim")["gap"]
    fitted = limits.query("number == 1 and quantity == 'q_v'")["gap"].item()
    assert fitted == pytest.approx(2.0 * one[80] - one[40])
    frame = pd.concat([tested, limits], ignore_index=True)
    paths = draw_figure("agreement", tmp_path, frame)
    assert paths[1].stat().st_size > 10_000
    drawn = figure_agreement.draw(frame)
    scores, order = drawn.axes
    # 36 comparisons: 2.5 % of 36ths in each tail
    edges = {round(abs(line.get_xdata()[0]), 2) for line in scores.lines if len(line.get_ydata())}
    assert round(figure_agreement.bound(36), 2) in edges
    assert figure_agreement.bound(36) == pytest.approx(3.197, abs=1e-3)
    shown = sorted(value for line in order.lines[:3] for value in line.get_ydata())
    assert shown == pytest.approx(sorted(frame["p_value"]))
    assert [text.get_text() for text in drawn.legends[1].texts] == [
        "$D=40$, 4 seeds",
        "$D=80$, 4 seeds",
        "$D\\to\\infty$, fitted",
    ]
    assert not scores.texts  # nothing is written over the points


def test_message_passing_shows_intervals_and_a_corrected_p_value(monkeypatch):
    monkeypatch.setenv("SLRLAB_WORKERS", "1")
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


def test_the_marks_differ_without_colour():
    shapes = {(mark.marker, str(mark.dashes)) for mark in MARKS.values()}
    assert len(shapes) == len(MARKS)


def test_bad_names():
    names = (
        "2, 3, 4, 5, 6, 7, agreement, amp, basins, descent, length, "
        "minima, phases, tension, validity"
    )
    with pytest.raises(ValueError, match=f"figure must be one of {names}, got 9"):
        figure_module("9")


@pytest.mark.slow
def test_table_1_measures_what_is_predicted(tmp_path, monkeypatch):
    monkeypatch.setenv("SLRLAB_WORKERS", "1")
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


@pytest.mark.slow
def test_the_report_is_one_page_with_everything(tmp_path, monkeypatch):
    # starting processes takes longer than toys; the longest claims have tests of their own
    monkeypatch.setenv("SLRLAB_WORKERS", "1")
    names = [name for name in CLAIMS if name not in ("C5", "C9", "C10")]
    monkeypatch.setattr(reproduction, "run_claims", partial(run_claims, names))
    # the figures of the landscape have tests of their own
    kept = [name for name in FIGURES if name not in ("4", "5", "basins", "minima", "tension")]
    for module in (report, reproduction):
        monkeypatch.setattr(module, "FIGURES", {name: FIGURES[name] for name in kept})
    paths, holds = reproduce_all(tmp_path / "out", profile="toy")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert holds
    assert paths[-1].name == "report.html"
    assert page.count("data:image/png;base64,") == len(kept)
    assert page.count("<details>") == len(names)
    assert "http://" not in page
    assert "https://" not in page
    assert "<h2>Deviations</h2>" in page
    assert "unstable" in page.split("<h2>Deviations</h2>")[1].split("<h2>")[0]
    assert "Table 1" in page
    assert "Pending" not in page
    assert ">pending<" not in page
    assert "<td>figure 3</td>" in page.split("<h2>Settings</h2>")[1]
    _check_trained(tmp_path / "out")
    _check_simulated(tmp_path / "out")


def _check_simulated(out):
    """The figures that hold theory and simulation: both are there, and named."""
    trained = pd.read_csv(out / "figure-3.csv").query("curve != 'bayes'")
    assert trained["simulated_risk"].between(0.0, 1.5).all()
    starts = pd.read_csv(out / "figure-7.csv")
    assert set(starts["start"]) == {"informed", "random"}
    compared = pd.read_csv(out / "figure-agreement.csv")
    assert set(compared["quantity"]) == set(QUANTITIES)
    assert compared["dim"].nunique() == 3  # two and their limit
    assert compared["p_value"].between(0.0, 1.0).all()
    assert compared["z"].abs().median() < 2.0  # drift of order 1/D at such small dimensions
    validity = pd.read_csv(out / "figure-validity.csv")
    assert set(validity["stable"]) == {True, False}
    gap = validity["informed_risk"] - validity["test_risk"]
    assert gap[~validity["stable"]].abs().max() > 0.05
    passing = pd.read_csv(out / "figure-amp.csv")
    assert set(passing["task"]) == {"spiked", "max"}
    assert (passing["q_v"] - passing["q_v_se"]).abs().max() < 0.3
    for name in ("3", "6", "7", "agreement", "amp", "descent", "validity"):
        drawn = figure_module(name).draw(pd.read_csv(out / f"figure-{name}.csv"))
        panels = [axes for axes in drawn.axes if axes.get_title() or axes.get_title(loc="left")]
        assert panels
        assert any(axes.get_xlabel() for axes in drawn.axes)
        assert drawn.legends or any(axes.get_legend() for axes in panels)


def _check_trained(out):
    """Figures 3 and 6 of the report: order of the curves, and both sides of the theory's edge."""
    frame = pd.read_csv(out / "figure-3.csv")
    assert set(frame["curve"]) == {"bayes", "softmax", "linear"}
    assert set(frame["task"]) == {"spiked", "max"}
    trained = frame[frame["alpha"] == 16.0]
    curves = trained.pivot(index="task", columns="curve", values="risk")
    assert (curves["softmax"] < curves["linear"]).all()
    for row in trained[trained["curve"] == "softmax"].itertuples():
        task = make_task(row.task, signal=row.signal, length=3)
        assert bayes_optimal(task, alpha=16.0).risk_it < row.risk
    drawn = figure_module("3").draw(frame)
    assert all(axes.get_title() and axes.get_xlabel() for axes in drawn.axes)
    table = pd.read_csv(out / "figure-6.csv")
    assert set(table["activation"]) == {"softmax", "linear"}
    assert {"sampled", "unstable"} <= set(table["status"])
    stable = table[table["status"] == "sampled"]
    assert (stable["replicon"] < 1.0).all()
    panels = figure_module("6").draw(table).axes
    assert sum(bool(axes.get_title()) for axes in panels) == 6
    bars = [axes for axes in panels if not axes.get_title()]
    assert {axes.get_ylabel() for axes in bars} == {
        "test risk",
        "replicon (unstable above 1)",
        "difference of test risks",
    }


def _curve_row(alpha, status="sampled", stable=True, ridges=(0.4, 0.6)):
    return {
        "task": "max",
        "signal": 3.0,
        "curve": "softmax",
        "alpha": alpha,
        "risk": 0.5,
        "risk_low": 0.45,
        "risk_high": 0.5,
        "population_risk": 0.2,
        "status": status,
        "stable": stable,
        "ridge_k": ridges[0],
        "ridge_v": ridges[1],
    }


def test_training_has_its_own_best_ridge_where_the_theory_is_not_trusted(monkeypatch):
    rows = [
        _curve_row(4.0),
        _curve_row(1.0, status="boundary"),
        _curve_row(0.5, stable=False, ridges=(np.nan, np.nan)),
    ]

    def measured(points, **options):
        assert all(dim < figure_3.SIZE["quick"] for _, dim, *_ in points)
        return [
            {"simulated_risk": abs(np.log(point.ridge_k / 0.04)) + abs(np.log(point.ridge_v / 1.2))}
            for point, *_ in points
        ]

    monkeypatch.setattr(figure_3, "simulated_rows", measured)
    points = figure_3._own_ridges(rows, "quick", None)
    assert [row["ridge_from"] for row in rows] == ["theory", "training", "training"]
    assert (points[0].ridge_k, points[0].ridge_v) == (0.4, 0.6)
    assert points[1].ridge_k == pytest.approx(0.04)
    assert points[1].ridge_v == pytest.approx(1.2)
    assert points[2].ridge_k == pytest.approx(0.03)
    assert points[2].ridge_v == pytest.approx(1.0)


def test_figure_3_shows_whose_ridge_it_is_and_a_band():
    rows = [_curve_row(4.0) | {"ridge_from": "theory"}]
    rows.append(_curve_row(1.0, stable=False) | {"ridge_from": "training"})
    for row in rows:
        row |= {"simulated_risk": 0.6, "simulated_error": 0.01, "simulated_status": "sampled"}
    rows += [row | {"curve": "linear"} for row in rows]
    bayes = {"task": "max", "signal": 3.0, "curve": "bayes", "risk": 0.4, "risk_amp": 0.4}
    rows += [bayes | {"alpha": alpha, "status": "sampled"} for alpha in (1.0, 4.0)]
    drawn = figure_3.draw(pd.DataFrame(rows))
    (panel,) = drawn.axes
    labels = panel.get_legend_handles_labels()[1]
    assert "softmax, trained at its own best ridge" in labels
    assert "softmax, trained at the theory's best ridge" in labels
    band = panel.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(0.45)
    assert band[:, 1].max() == pytest.approx(0.5)
