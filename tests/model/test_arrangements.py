"""Tasks with several kinds of tokens: the posterior against enumeration, samples, parameters."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slrlab import (
    HardNegativeSLR,
    NeedlesSLR,
    Setting,
    SpikedSLR,
    VarianceSLR,
    make_activation,
    make_task,
)
from slrlab.model.arrangements import relevant_count, relevant_values
from slrlab.model.setting import Setting as Kept
from slrlab.simulation.data.dataset import draw_dataset

ARRANGED = [
    HardNegativeSLR(4.0, 5, similarity=0.5),
    HardNegativeSLR(2.0, 2, similarity=0.9),
    HardNegativeSLR(9.0, 4, similarity=1.0),
    NeedlesSLR(4.0, 5, needles=3),
    NeedlesSLR(1.0, 4, needles=1),
    NeedlesSLR(3.0, 4, needles=4),
]
NEIGHBOURS = [*ARRANGED, VarianceSLR(2.0, 4, variance=0.3), VarianceSLR(2.0, 4, variance=5.0)]


def label(task):
    own = [str(value) for name, value in task.parameters.items() if name not in ("noise", "signal")]
    return f"{task.name}-{'-'.join(own)}"


def enumerated(task, scores):
    """Return the posterior of one sequence as a sum over all arrangements."""
    shifts, count = task.shifts, relevant_count(task)
    mean = np.zeros(scores.size)
    total = 0.0
    for rows in itertools.permutations(range(scores.size), shifts.size):
        weight = math.exp(shifts @ scores[list(rows)])
        mean[list(rows[:count])] += weight / math.sqrt(count)
        total += weight
    return mean / total


@pytest.mark.parametrize("task", ARRANGED, ids=label)
def test_the_posterior_is_the_sum_over_arrangements(task):
    scores = 2.0 * np.random.default_rng(0).standard_normal((6, task.length.longest))
    expected = [enumerated(task, row) for row in scores]
    np.testing.assert_allclose(task.posterior(scores), expected, rtol=1e-12)
    np.testing.assert_allclose(np.exp(task.log_posterior(scores)), expected, rtol=1e-12)


@given(
    signal=st.floats(0.0, 1e4),
    needles=st.integers(1, 30),
    rest=st.integers(0, 30),
    seed=st.integers(0, 99),
)
def test_the_posterior_of_needles_is_finite_and_symmetric(signal, needles, rest, seed):
    """It sums to √J and is in (0, 1/√J); choosing J tokens is leaving out the others."""
    length = needles + rest
    task = NeedlesSLR(signal, length, needles=needles)
    scores, _ = task.sample_scores(np.random.default_rng(seed), 3, length)
    p = task.posterior(scores)
    root = math.sqrt(needles)
    np.testing.assert_allclose(p.sum(axis=1), root, rtol=1e-9)
    assert (p >= 0.0).all()
    assert (p <= (1.0 + 1e-9) / root).all()
    if rest:
        left = NeedlesSLR(signal, length, needles=rest).posterior(-scores) * math.sqrt(rest)
        np.testing.assert_allclose(root * p, 1.0 - left, atol=1e-9)


@given(signal=st.floats(0.0, 1e3), tau=st.floats(0.0, 1.0), seed=st.integers(0, 99))
def test_the_posterior_of_a_hard_negative(signal, tau, seed):
    """The weight of a token is e^{√νχ} times the sum of e^{τ√νχ} over the others."""
    task = HardNegativeSLR(signal, 5, similarity=tau)
    scores, _ = task.sample_scores(np.random.default_rng(seed), 3, 5)
    first = math.sqrt(signal) * scores
    apart = ~np.eye(5, dtype=bool)
    logs = np.array(
        [
            [first[i, n] + np.logaddexp.reduce(tau * first[i][apart[n]]) for n in range(5)]
            for i in range(3)
        ]
    )
    expected = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])
    np.testing.assert_allclose(task.posterior(scores), expected, atol=1e-9)


@pytest.mark.parametrize("task", NEIGHBOURS, ids=label)
def test_the_posterior_is_calibrated(task):
    rng, length = np.random.default_rng(1), task.length.longest
    scores, location = task.sample_scores(rng, 60_000, length)
    p = task.posterior(scores)
    gap = relevant_values(p, location) - (p**2).sum(axis=1)
    assert abs(gap.mean()) <= 4.0 * gap.std() / math.sqrt(gap.size) + 1e-12


@pytest.mark.parametrize("task", ARRANGED, ids=label)
def test_sampled_scores_have_the_law_of_the_task(task):
    rng, length, size = np.random.default_rng(2), task.length.longest, 40_000
    scores, location = task.sample_scores(rng, size, length)
    ours = task.scores_from_uniforms(rng.random((size, length + 1)))
    count = relevant_count(task)
    assert location.shape == ((size,) if count == 1 else (size, count))
    relevant = relevant_values(scores, location)
    for one in (relevant, ours[:, :count].sum(axis=1) / math.sqrt(count)):
        mean = math.sqrt(count * task.signal)
        assert one.mean() == pytest.approx(mean, abs=4.5 / math.sqrt(size))
        assert one.var() == pytest.approx(1.0, abs=4.5 * math.sqrt(2.0 / size))
    for total in (scores.sum(axis=1), ours.sum(axis=1)):
        assert total.mean() == pytest.approx(task.shifts.sum(), abs=4.5 * math.sqrt(length / size))


@pytest.mark.parametrize("task", ARRANGED, ids=label)
def test_drawn_tokens_have_these_scores(task):
    data = draw_dataset(task, dim=64, samples=2000, dtype="float64")
    keys = (data.tokens @ data.teacher.keys / 8.0).reshape(2000, -1)
    values = (data.tokens @ data.teacher.values / 8.0).reshape(2000, -1)
    np.testing.assert_allclose(data.labels, relevant_values(values, data.locations), atol=1e-10)
    mean = relevant_values(keys, data.locations).mean()
    assert mean == pytest.approx(math.sqrt(relevant_count(task) * task.signal), abs=0.1)


def test_values_of_the_relevant_tokens():
    values = np.array([[1.0, 2.0, 5.0], [3.0, 4.0, 0.0]])
    assert relevant_values(values, np.array([2, 0])).tolist() == [5.0, 3.0]
    both = relevant_values(values, np.array([[0, 2], [0, 1]]))
    np.testing.assert_allclose(both, [6.0 / math.sqrt(2.0), 7.0 / math.sqrt(2.0)])


def test_parameters_are_part_of_the_task_and_of_its_setting():
    task = make_task("needles", signal=4.0, length=5, needles=3)
    assert task == NeedlesSLR(4.0, 5, needles=3)
    assert task.is_named
    assert replace(task, length=task.length) == task
    setting = Setting(task, make_activation("softmax"))
    assert setting.to_dict()["needles"] == 3
    assert str(setting) == "softmax on needles (signal 4, length 5, needles 3)"
    assert "needles=3" in repr(setting)
    assert Kept.from_data(**setting.to_data()) == setting
    assert SpikedSLR(4.0, 5) != task


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NeedlesSLR(1.0, 3, needles=0), r"^needles must be a whole number >= 1, got 0$"),
        (
            lambda: NeedlesSLR(1.0, "3,5", needles=4),
            r"^length must be at least 4 for the task needles with these parameters, got 3,5$",
        ),
        (
            lambda: HardNegativeSLR(1.0, 1),
            r"^length must be at least 2 for the task hard-negative with these parameters, got 1$",
        ),
        (
            lambda: HardNegativeSLR(1.0, 3, similarity=1.5),
            r"^similarity must be a number from 0 to 1, got 1.5$",
        ),
        (
            lambda: VarianceSLR(1.0, 3, variance=0.0),
            r"^variance must be a number from 0.01 to 25, got 0.0$",
        ),
        (
            lambda: make_task("spiked", signal=1.0, length=3, needles=2),
            r"^needles must not be given for the task spiked, got 2$",
        ),
    ],
)
def test_bad_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
