"""Training on tokens of other laws, beside the theory of Gaussian ones."""

import math

import numpy as np
import pytest
from scipy import stats

from slrlab import MaxSLR, SpikedSLR, bayes_risk, universality
from slrlab._result import Estimate
from slrlab.experiments.comparison.law_gap import law_gap
from slrlab.experiments.comparison.student import Limit
from slrlab.experiments.comparison.universality import (
    CORRELATED,
    QUANTITIES,
    UNCORRELATED,
    LawVerdict,
)
from slrlab.model.activations import SOFTMAX

SETTING = {"alpha": 4.0, "ridge_k": 1.0, "ridge_v": 1.0}


@pytest.fixture(scope="module")
def result():
    return universality(
        SpikedSLR(2.0, 2, 0.3),
        "softmax",
        **SETTING,
        laws=["rademacher", "gaussian+ar1(0.5)", "laplace+ar1(0.5)+shared(0.2)"],
        dims=(80, 40),
        seeds=6,
        test_samples=400,
        tolerance=5e-3,
    )


def test_every_law_is_compared_with_the_theories_that_may_hold(result):
    pairs = [(one.law, one.theory) for one in result.verdicts]
    assert pairs == [
        ("rademacher", UNCORRELATED),
        ("gaussian+ar1(0.5)", UNCORRELATED),
        ("gaussian+ar1(0.5)", CORRELATED),
        ("laplace+ar1(0.5)+shared(0.2)", UNCORRELATED),  # no theory for tokens that share a part
    ]
    rows = result.to_frame()
    assert len(rows) == 4 * len(QUANTITIES) * 3
    assert set(rows["dim"]) == {40, 80, math.inf}
    finite = rows[np.isfinite(rows["dim"])]
    np.testing.assert_allclose(finite["gap"], finite["simulation"] - finite["theory_value"])
    deviates = abs(rows["gap"]) / rows["gap_error"]
    np.testing.assert_allclose(rows["p_value"], 2.0 * stats.t.sf(deviates, rows["freedom"]))
    assert "verdicts" in result.to_dict()
    columns, table = result.table()
    assert {len(row) for row in table} == {len(columns)}
    assert len(result.plot().containers) == 2


def test_the_fit_is_that_of_the_gaps(result):
    rows = result.to_frame()
    one = rows[(rows["law"] == "rademacher") & (rows["quantity"] == "q_v")].set_index("dim")
    # two dimensions: the line goes through both points
    line = one["gap"][math.inf] + one["drift"][math.inf] / np.array([40.0, 80.0])
    np.testing.assert_allclose(line, one["gap"][[40, 80]], atol=1e-12)
    fit = result.verdicts[0].limits["q_v"]
    assert fit.value.value == pytest.approx(one["gap"][math.inf])


def test_each_dimension_may_have_its_own_number_of_seeds():
    given = {"laws": ["rademacher"], "test_samples": 50, "tolerance": 5e-2}
    result = universality(
        SpikedSLR(2.0, 2), "linear", **SETTING, **given, dims=(40, 20, 30), seeds=(2, 6, 4)
    )
    rows = result.to_frame()
    risks = rows[rows["quantity"] == "test_risk"].set_index("dim")
    assert risks["seeds"][[20, 30, 40]].tolist() == [6, 4, 2]
    # the chi-square of the fit is that of the nearest line
    seen = risks.loc[[20, 30, 40]]
    line, rest, *_ = np.polyfit(
        1.0 / seen.index, seen["gap"], 1, w=1.0 / seen["simulation_error"], full=True
    )
    assert risks["chi_square"][math.inf] == pytest.approx(rest[0], rel=1e-6)
    assert risks["chi_freedom"][math.inf] == 1
    assert len(line) == 2


def test_a_verdict_counts_all_quantities():
    sure, none = Estimate(5.0, 1.0, 30.0), Estimate(0.0, 1.0, 30.0)
    held = LawVerdict("a", UNCORRELATED, {"x": Limit(none, none), "y": Limit(none, none)})
    assert (held.holds, held.family_p) == (True, 1.0)
    failed = LawVerdict("a", UNCORRELATED, {"x": Limit(none, none), "y": Limit(sure, none)})
    assert not failed.holds


def test_the_gap_of_one_law():
    given = {"dim": 30, "seeds": 2, "test_samples": 200, "tolerance": 5e-2}
    gap = law_gap(SpikedSLR(2.0, 2), "linear", **SETTING, token_law="student(5)", **given)
    assert gap.gap == pytest.approx(gap.test_risk - gap.theory_risk)
    assert gap.gap_error > 0.0
    assert gap.to_dict()["token_law"] == "student(5)"


@pytest.mark.parametrize("kind", ["spiked", "max"])
def test_a_common_part_with_infinite_data(kind):
    """Softmax does not see it: what remains is a task of another signal, with smaller labels."""
    rng, size, rho, signal = np.random.default_rng(3), 200_000, 0.3, 2.0
    draw = lambda: (
        math.sqrt(1.0 - rho) * rng.standard_normal((size, 3))
        + math.sqrt(rho) * rng.standard_normal((size, 1))
    )
    keys, values, location = draw(), draw(), np.zeros(size, dtype=int)
    if kind == "spiked":
        keys[:, 0] += math.sqrt(signal)
        slope, same = math.sqrt(signal) / (1.0 - rho), SpikedSLR(signal / (1.0 - rho), 3)
    else:
        location = MaxSLR(signal, 3).select(rng, keys)
        slope, same = signal, MaxSLR(signal * math.sqrt(1.0 - rho), 3)
    answers = (SOFTMAX.weights(slope * keys) * values).sum(axis=1)
    losses = (values[np.arange(size), location] - answers) ** 2
    expected = (1.0 - rho) * bayes_risk(same).risk
    assert losses.mean() == pytest.approx(expected, abs=4.0 * losses.std() / math.sqrt(size))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"laws": ["normal"]}, r"^token_law must be one of gaussian"),
        ({"laws": []}, r"^laws must be one or more laws of tokens"),
        ({"test_samples": 0}, r"^test_samples must be a whole number >= 1, got 0$"),
        ({"dims": (50,)}, r"^dims must be at least two different dimensions, got \[50\]$"),
        ({"seeds": 1}, r"^seeds must be a whole number >= 2, got 1$"),
        ({"seeds": (8, 1)}, r"^seeds must be a whole number >= 2, got 1$"),
        ({"seeds": (8, 4, 2)}, r"^seeds must be one number, or one for each of dims, got \[8"),
    ],
)
def test_bad_input(given, message):
    with pytest.raises(ValueError, match=message):
        universality(SpikedSLR(2.0, 2), "linear", **SETTING, **given)
