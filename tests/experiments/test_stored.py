"""Stored tables: they are complete, and rows of them are what the library computes today."""

import itertools

import pytest

from slrlab import MaxSLR, SpikedSLR, bayes_optimal, hit_rate, make_activation, minimal_risk
from slrlab.experiments import stored
from slrlab.experiments.atlas.activations import STANDARD
from slrlab.experiments.atlas.panel import PANEL
from slrlab.experiments.requirements.rows import is_trusted, population_row, trained_row
from slrlab.model.activations import ACTIVATIONS


def test_tables_are_complete():
    population = stored.table("population")
    points = sum(len(signals) for signals in stored.SIGNALS.values()) * len(stored.LENGTHS)
    assert len(population) == points * (1 + len(STANDARD))
    assert not population["status"].isin(["failed"]).any()
    keys = ["signal", "length", "activation", "alpha"]
    trained = stored.table("trained").drop_duplicates(keys)
    shape = (stored.TRAINED_SIGNALS, STANDARD, stored.ALPHAS)
    assert len(trained) == len(list(itertools.product(*shape)))
    ranked = stored.table("atlas").drop_duplicates(["activation", "setting"])
    names = set(ranked["activation"])
    assert len(ranked) == len(stored.table("atlas")) == len(PANEL) * len(names)
    assert names <= set(ACTIVATIONS)  # an activation registered later is computed when it is asked


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        (SpikedSLR(4.0, 10), "softmax"),
        (SpikedSLR(100.0, 10**6), "linear"),
        (SpikedSLR(0.1, 2), "erf"),
        (SpikedSLR(16.0, 1000), "softplus"),
        (SpikedSLR(16.0, 100, 0.3), None),
        (MaxSLR(5.0, 100), "linear"),
    ],
)
def test_stored_risks_are_computed_ones(task, kind):
    row, computed = stored.stored_population_row(task, kind), population_row(task, kind)
    for name in ("risk", "weight", "hit_rate"):
        assert row[name] == pytest.approx(computed[name], rel=1e-6), name
    if kind is not None:
        best = minimal_risk(task, kind)
        assert row["risk"] == pytest.approx(best.risk, rel=1e-6)
        assert row["weight"] == pytest.approx(best.m_v * best.A, rel=1e-6)
    assert row["hit_rate"] == pytest.approx(hit_rate(task), rel=1e-6)


def test_a_stored_bayes_optimal_risk_is_the_computed_one():
    task = SpikedSLR(4.0, 3)
    for alpha in (1.0, 4.0):
        row = stored.stored_trained_row(task, None, alpha)
        best = bayes_optimal(task, alpha=alpha)
        assert row["risk"] == pytest.approx(best.risk_it, rel=1e-6)
        assert row["risk_amp"] == pytest.approx(best.risk_amp, rel=1e-6)
    assert stored.stored_bayes_alphas(task) == pytest.approx(stored.bayes_alphas(task))


def test_a_training_is_trusted_only_where_the_theory_holds():
    rows = stored.rows_of(stored.table("trained"))
    doubtful = {"unstable", "not converged", "boundary", "inaccurate", "diverged", "failed"}
    assert not any(row["trusted"] for row in rows if row["status"] in doubtful)
    assert not any(row["trusted"] for row in rows if not row["stable"])
    assert [row["trusted"] for row in rows] == [is_trusted(row, stored.TOLERANCE) for row in rows]
    assert 100 < sum(row["trusted"] for row in rows) < len(rows)
    good = next(row for row in rows if row["trusted"])
    apart = {"high": good["high"] + 2.0 * stored.TOLERANCE}
    for change in (apart, {"stable": False}, {"status": "unstable"}, {"status": "not converged"}):
        assert not is_trusted(good | change, stored.TOLERANCE)


@pytest.mark.slow
def test_a_stored_training_is_the_computed_one_within_its_error():
    task = SpikedSLR(8.0, 3)
    row = stored.stored_trained_row(task, "linear", 16.0)
    computed = trained_row(task, "linear", 16.0, tolerance=stored.TOLERANCE)
    assert abs(row["risk"] - computed["risk"]) < 4.0 * (row["error"] + computed["error"])


def test_settings_that_are_not_stored_are_none():
    assert stored.stored_population_row(SpikedSLR(4.1, 10), "softmax") is None
    assert stored.stored_population_row(SpikedSLR(4.0, 10), "relu") is None
    assert stored.stored_trained_row(SpikedSLR(4.0, 3, 0.1), "softmax", 4.0) is None
    assert stored.stored_bayes_alphas(SpikedSLR(4.0, 3, 0.1)) == []


def test_a_hit_rate_of_another_activation_is_sampled_and_unknown_where_it_is_too_long():
    task = SpikedSLR(9.0, 10)
    row = population_row(task, "normalised: exp(x) + 1")
    assert row["hit_rate"] == pytest.approx(hit_rate(task), abs=5.0 * 0.5 / 2000**0.5)
    assert population_row(SpikedSLR(9.0, 20_000), "relu")["hit_rate"] != row["hit_rate"]
    assert make_activation("relu").name == "relu"
