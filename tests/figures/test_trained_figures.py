"""Figures of trained attention: tables and pictures of theory beside simulation."""

from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest

from slrlab import Estimate, bayes_optimal, make_task
from slrlab.experiments.claims import CLAIMS, run_claims
from slrlab.experiments.comparison.student import difference, normal_score, p_value
from slrlab.experiments.comparison.training import QUANTITIES
from slrlab.figures import draw_figure, figure_3, figure_agreement, registry, reproduction
from slrlab.figures.registry import FIGURES, figure_module
from slrlab.figures.reproduction import reproduce_all


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


@pytest.mark.slow
def test_the_report_is_one_page_with_everything(tmp_path, monkeypatch):
    # the longest claims have tests of their own
    names = [name for name in CLAIMS if name not in ("C5", "C9", "C10")]
    monkeypatch.setattr(reproduction, "run_claims", partial(run_claims, names))
    # the figures of the landscape have tests of their own
    others = ("4", "5", "basins", "minima", "tension")
    kept = [name for name in registry.reported_figures("toy") if name not in others]
    monkeypatch.setattr(registry, "FIGURES", {name: FIGURES[name] for name in kept})
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
    points = figure_3._training_settings(rows, "quick", None)
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
