"""Tests of differences are calibrated: under a true null their p-values are uniform."""

import math

import numpy as np
import pytest
from scipy import stats

from slrlab import Estimate
from slrlab.experiments.comparison.dimensions import gap_limit
from slrlab.experiments.comparison.student import (
    combined,
    difference,
    family_p,
    half_width,
    interval,
    limit,
    normal_score,
    p_value,
)

MANY = 4000
# of 4000 uniform numbers the distance to the uniform law exceeds 0.03 once in 1000
FAR = 0.03


def draw(rng, count, mean=0.0, scale=1.0):
    return Estimate.of(rng.normal(mean, scale, count))


def far_from_uniform(values):
    return stats.kstest(values, "uniform").statistic


def test_p_values_of_four_seeds_are_uniform_and_z_scores_are_not():
    rng = np.random.default_rng(1)
    gaps = [difference(draw(rng, 4), Estimate(0.0, 0.0)) for _ in range(MANY)]
    assert {gap.freedom for gap in gaps} == {3.0}
    assert far_from_uniform([p_value(gap) for gap in gaps]) < FAR
    scores = np.abs([normal_score(gap) for gap in gaps])
    raw = np.abs([gap.value / gap.error for gap in gaps])
    assert np.mean(scores > 3.0) < 0.006  # 0.0027 expected
    assert np.mean(raw > 3.0) > 0.04  # 0.058: what looks like a refutation one time in 17


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_errors_of_both_sides_are_taken_in(scale):
    """Four seeds against eight blocks: Welch's approximation is a little off, not more."""
    rng = np.random.default_rng(2)
    gaps = [difference(draw(rng, 4), draw(rng, 8, scale=scale)) for _ in range(MANY)]
    values = np.array([p_value(gap) for gap in gaps])
    assert far_from_uniform(values) < FAR
    assert 0.035 < np.mean(values < 0.05) < 0.065
    covered = [low < 0.0 < high for low, high in map(interval, gaps)]
    assert 0.935 < np.mean(covered) < 0.965


@pytest.mark.parametrize("dims", [(100, 400), (100, 200, 400)])
def test_the_limit_is_calibrated_where_each_dimension_is_off(dims):
    """The drift is ten standard errors at the smallest dimension; the theory errs for all alike."""
    rng = np.random.default_rng(3)
    limits, ends = [], []
    for _ in range(MANY // 2):
        theory = draw(rng, 8, scale=0.5 / math.sqrt(400))
        pairs = [(draw(rng, 6, 40.0 / dim, 1.0 / math.sqrt(dim)), theory) for dim in dims]
        limits.append(gap_limit(pairs, dims))
        ends.append(p_value(difference(*pairs[0])))
    values = np.array([p_value(fit.value) for fit in limits])
    assert far_from_uniform(values) < 1.5 * FAR
    assert 0.03 < np.mean(values < 0.05) < 0.07
    assert np.mean(np.array(ends) < 0.001) > 0.9
    drifts = [difference(fit.drift, Estimate(40.0, 0.0)) for fit in limits]
    assert far_from_uniform([p_value(drift) for drift in drifts]) < 1.5 * FAR


def test_the_smallest_of_many_is_judged_as_such():
    rng = np.random.default_rng(4)
    # six numbers that depend on each other
    shared = rng.normal(size=(MANY, 1))
    values = 2.0 * stats.norm.sf(np.abs(0.6 * shared + 0.8 * rng.normal(size=(MANY, 6))))
    rate = np.mean([family_p(row) < 0.05 for row in values])
    assert 0.03 < rate < 0.06
    assert np.mean(values.min(axis=1) < 0.05) > 0.2
    assert math.isnan(family_p([0.5, math.nan]))
    assert math.isnan(family_p([]))
    assert family_p([0.4, 0.5]) == 0.8


def test_a_real_difference_is_found():
    rng = np.random.default_rng(5)
    values = [p_value(difference(draw(rng, 16, 2.0), Estimate(0.0, 0.0))) for _ in range(50)]
    assert max(values) < 1e-3


def test_numbers_without_error_and_without_number():
    assert p_value(Estimate(0.0, 0.0)) == 1.0
    assert normal_score(Estimate(0.0, 0.0)) == 0.0
    assert p_value(Estimate(1.0, 0.0)) == 0.0
    assert normal_score(Estimate(-1.0, 0.0)) == -math.inf
    one = Estimate.of([2.0])
    assert one.freedom == 0.0
    assert math.isnan(p_value(difference(one, Estimate(0.0, 0.1, 7.0))))
    assert half_width(one) == math.inf
    exact = difference(Estimate(1.0, 0.0), Estimate(1.0, 0.0))
    assert (exact.value, exact.error, exact.freedom) == (0.0, 0.0, math.inf)


def test_known_values():
    assert p_value(Estimate(2.353363, 1.0, 3.0)) == pytest.approx(0.1, abs=1e-6)
    assert half_width(Estimate(0.0, 2.0)) == pytest.approx(2.0 * 1.959964, abs=1e-5)
    tiny = combined((1.0, 1.0), (Estimate(0.0, 1e-120, 3.0), Estimate(0.0, 1e-120, 3.0)))
    assert tiny.freedom == pytest.approx(6.0)
    equal = combined((1.0, -1.0), (Estimate(1.0, 0.1, 5.0), Estimate(0.0, 0.1, 5.0)))
    assert equal.freedom == pytest.approx(10.0)


def test_the_limit_of_two_means_goes_through_them():
    means = [Estimate(1.0 + 30.0 / dim, 0.1, 3.0) for dim in (150, 600, 1200)]
    for chosen in (means[:2], means):
        fit = limit(chosen, (150, 600, 1200)[: len(chosen)])
        assert fit.value.value == pytest.approx(1.0)
        assert fit.drift.value == pytest.approx(30.0)
    assert limit(means, (150, 600, 1200)).value.error < limit(means[:2], (150, 600)).value.error
