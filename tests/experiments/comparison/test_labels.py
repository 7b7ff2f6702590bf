"""Keys from labelled locations on simulated data, and what a label is worth."""

import math

import numpy as np
import pandas as pd
import pytest

from slrlab import Estimate, MaxSLR, NeedlesSLR, SpikedSLR, labels_worth, simulate_labels
from slrlab.experiments.comparison import labels as module
from slrlab.experiments.comparison.exchange_rate import exchange_rate, same_overlap
from slrlab.experiments.comparison.labels import labelled_overlap

TASK = SpikedSLR(2.0, 3)


def test_a_large_ridge_gives_the_mean_of_centred_tokens():
    """Its overlap is known; so is that of the best method, which softmax cannot reach."""
    result = simulate_labels(
        TASK, alpha=2.0, dim=200, ridge_k=1e4, ridge_v=1.0, seeds=8, test_samples=0
    )
    expected = labelled_overlap(TASK, 2.0, centred=True)
    assert result.key_overlap == pytest.approx(expected, abs=4.0 * result.key_overlap_error)
    assert result.key_overlap_error < 0.02
    assert labelled_overlap(TASK, 2.0, centred=False) == pytest.approx(0.8)
    assert expected == pytest.approx(8.0 / 11.0)
    assert math.isnan(result.test_risk)


def test_a_simulation_of_labels():
    given = {"alpha": 4.0, "dim": 60, "ridge_k": 1.0, "ridge_v": 1.0, "seeds": 3}
    result = simulate_labels(TASK, **given, test_samples=2000)
    assert result.status == "sampled"
    assert 0.4 < result.key_overlap < 1.0
    assert result.estimate("m_k").error == result.errors["m_k"]
    assert result.samples == 240
    assert np.mean(result.values["key_overlap"]) == pytest.approx(result.key_overlap)
    other = simulate_labels(TASK, **given, test_samples=2000, loss="least squares")
    assert other.test_risk == pytest.approx(result.test_risk, abs=0.1)
    assert len(result.plot().lines) == 1
    assert "key overlap" in str(result)


def test_separable_labels_are_a_status():
    given = {"alpha": 0.5, "dim": 40, "ridge_v": 1.0, "seeds": 2, "test_samples": 0}
    assert simulate_labels(TASK, ridge_k=0.0, **given).status == "diverged"
    assert simulate_labels(TASK, ridge_k=0.1, **given).status == "sampled"


@pytest.fixture
def quick(monkeypatch):
    """The theory of training from y alone as a formula."""

    def curve(task, alphas, tolerance, workers=1, report=None):
        alpha = np.geomspace(min(alphas) / 2.0, 100.0 * max(alphas), 30)
        whole = np.unique(np.concatenate([alpha, alphas]))
        rows = {"alpha": whole, "overlap": whole / (whole + 5.0), "risk": 1.0 / (1.0 + whole)}
        return pd.DataFrame(rows).assign(status="sampled")

    monkeypatch.setattr(module, "y_curve", curve)


def test_what_a_label_is_worth(quick):
    result = labels_worth(TASK, alpha=[4.0, 1.0], dim=40, seeds=2)
    few, many = result.points
    assert (few.alpha, many.alpha) == (1.0, 4.0)
    for one in result.points:
        # the overlap α/(α + 5) is reached at 5·overlap/(1 − overlap)
        assert one.worth == pytest.approx(
            5.0 * one.overlap / (1.0 - one.overlap) / one.alpha, rel=0.02
        )
        assert one.widest_overlap >= one.overlap
        assert one.y_overlap == pytest.approx(one.alpha / (one.alpha + 5.0))
        assert one.risk < 1.0
    assert many.overlap > few.overlap
    columns, rows = result.table()
    assert {len(row) for row in rows} == {len(columns)}
    assert result.to_frame()["alpha"].tolist() == [1.0, 4.0]
    assert len(result.to_dict()["curve"]) > 10
    assert result.plot().get_xscale() == "log"


def test_the_same_overlap_is_found_by_interpolation():
    curve = pd.DataFrame({"alpha": [1.0, 4.0, 16.0], "overlap": [0.2, 0.5, 0.8]})
    curve = curve.assign(status="sampled")
    assert same_overlap(curve, 0.5) == pytest.approx(4.0)
    assert same_overlap(curve, 1.0 / (1.0 + math.sqrt(4.0 * 1.0))) == pytest.approx(2.0)
    assert math.isnan(same_overlap(curve, 0.9))
    rate, status = exchange_rate(curve, 2.0, Estimate(0.5, 0.01))
    # log α is linear in the log odds with slope 1, and these have slope 1/(o(1 − o)) = 4
    assert rate.value == pytest.approx(2.0)
    assert rate.error == pytest.approx(2.0 * 4.0 * 0.01, rel=1e-3)
    assert status == "sampled"
    curve.loc[2, "status"] = "boundary"
    seen = [exchange_rate(curve, 1.0, Estimate(overlap, 0.01)) for overlap in (0.4, 0.6, 0.9)]
    assert [status for _, status in seen] == ["sampled", "boundary", "failed"]
    assert math.isnan(seen[-1][0].value)
    assert math.isnan(same_overlap(curve, 0.1))


@pytest.mark.slow
def test_labels_are_worth_more_than_one_y():
    result = labels_worth(TASK, alpha=[2.0], dim=150, seeds=4, tolerance=1e-2)
    (one,) = result.points
    assert one.status == "sampled"
    assert 2.0 < one.worth < 12.0
    assert one.risk < one.y_risk


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: simulate_labels(NeedlesSLR(2.0, 3), alpha=1.0, dim=9, ridge_k=1.0, ridge_v=1.0),
            r"^task must be one with a single relevant token, got needles$",
        ),
        (
            lambda: simulate_labels(TASK, alpha=0.0, dim=9, ridge_k=1.0, ridge_v=1.0),
            r"^alpha must be a finite number > 0, got 0.0$",
        ),
        (lambda: labels_worth(TASK, loss="hinge"), r"^loss must be one of cross entropy, least"),
        (
            lambda: labels_worth(TASK, alpha=[1.0], dim=1_000_000),
            r"^dim must be at most \d+ for Newton's method, got 1000000 \(its matrices would take",
        ),
        (
            lambda: labels_worth(TASK, alpha=[1e7], dim=2000),
            r"^dim must be at most \d+ at alpha 1e\+07, length 3 and float64, got 2000 \(the",
        ),
        (lambda: labels_worth(TASK, alpha=[]), r"^alpha must be one or more numbers > 0"),
        (
            lambda: labels_worth(SpikedSLR(0.0, 3)),
            r"^signal must be a number > 0: without a signal",
        ),
        (
            lambda: labels_worth(MaxSLR(2.0, 1)),
            r"^length must be at least 2: a single token is known",
        ),
        (lambda: labels_worth(TASK, seeds=1), r"^seeds must be a whole number >= 2, got 1$"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_closed_form_is_that_of_spiked():
    with pytest.raises(TypeError, match=r"^task must be SpikedSLR, got MaxSLR$"):
        labelled_overlap(MaxSLR(1.0, 2), 1.0, centred=True)
