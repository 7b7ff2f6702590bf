import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slrlab import LengthLaw


@pytest.mark.parametrize(
    ("text", "mean", "longest"),
    [
        ("3", 3.0, 3),
        ("1,2,3", 2.0, 3),
        ("1:0.2,2:0.3,3:0.5", 2.3, 3),
        ("uniform(1,10)", 5.5, 10),
        ("poisson(5)", 5.0 / (1.0 - math.exp(-5.0)), None),
        ("geometric(20)", 20.0, None),
    ],
)
def test_reads_what_the_command_line_accepts(text, mean, longest):
    law = LengthLaw.of(text)
    assert law.mean == pytest.approx(mean, abs=1e-12)
    assert longest is None or law.longest == longest
    assert LengthLaw.of(law.label).probabilities == law.probabilities


@pytest.mark.parametrize("value", [3, [1, 2], {2: 0.5, 4: 0.5}, np.array([2, 5])])
def test_reads_python_values(value):
    law = LengthLaw.of(value)
    assert math.fsum(law.probabilities) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    "value",
    [0, 1.5, -2, True, math.nan, math.inf, "0", "1.5", "nan", "", "1,1", "1:0.2,2:0.3", "1:-1,2:2"]
    + [
        "1:nan",
        "a",
        "uniform(5,2)",
        "poisson(-1)",
        "geometric(0.5)",
        "poisson(1,2)",
        [],
        {},
        [0],
        {1: "a"},
    ]
    + ["geometric(1e12)", "poisson(1e8)", "uniform(1,100000000000)"],
)
def test_bad_lengths_are_named_with_what_is_accepted(value):
    with pytest.raises(ValueError, match=r"^length must be a whole number >= 1 \(3\), a set"):
        LengthLaw.of(value)


@pytest.mark.parametrize(
    "law", ["3", "1", "2", "1,2,3", "4,9,1000", "uniform(1,40)", "poisson(6)", "geometric(7)"]
)
def test_generating_function_is_the_sum_over_lengths(law):
    result = LengthLaw.of(law)
    log_z = np.array([[-3.0, -0.7], [-0.01, 0.0]])
    n = np.array(result.lengths, dtype=float) - 1.0
    z = np.exp(log_z)[..., None]
    p = np.array(result.probabilities)
    with np.errstate(divide="ignore"):
        expected = [
            (p * z**n).sum(-1),
            (p * n * z ** np.maximum(n - 1, 0)).sum(-1),
            (p * n * (n - 1) * z ** np.maximum(n - 2, 0)).sum(-1),
        ]
    for got, want in zip(result.generating(log_z), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-12, atol=1e-300)


def test_generating_function_keeps_the_small_complement_at_a_million():
    law = LengthLaw.of(10**6)
    g0, _, _ = law.generating(np.array([-1e-9]))
    assert g0[0] == pytest.approx(math.exp(-1e-9 * (10**6 - 1)), rel=1e-15)


@given(st.dictionaries(st.integers(1, 60), st.floats(0.01, 1.0), min_size=1, max_size=8))
def test_any_weights_make_a_law_whose_samples_have_its_mean(weights):
    total = math.fsum(weights.values())
    law = LengthLaw.of({n: w / total for n, w in weights.items()})
    drawn = law.sample(np.random.default_rng(0), 4000)
    std = math.sqrt(
        sum(p * (n - law.mean) ** 2 for n, p in zip(law.lengths, law.probabilities, strict=True))
    )
    assert abs(drawn.mean() - law.mean) <= 5 * std / math.sqrt(4000) + 1e-12


def test_lengths_of_probability_zero_are_dropped():
    assert LengthLaw.of({1: 1.0, 50: 0.0}).longest == 1
