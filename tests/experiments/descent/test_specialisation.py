"""Stages of the training of several heads, found in made-up paths and in trained ones."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from slrlab import MultiHeadSLR, specialisation, stages_of

TASK = MultiHeadSLR([16.0, 6.0], 3, probabilities=[0.6, 0.4])


def path(values):
    """A path with the given value overlaps ``(T, H, K)`` at times 0, 1, …"""
    values = np.array(values, dtype=float)
    times = np.arange(len(values), dtype=float)
    return SimpleNamespace(values=values, times=times, task=TASK, heads=values.shape[1])


def test_stages_of_a_made_up_path():
    asleep, mean = [[0.01, 0.0], [0.0, 0.01]], [[0.6, 0.4], [0.3, 0.2]]
    first, both = [[1.0, 0.1], [0.3, 0.3]], [[1.0, 0.0], [0.1, 1.0]]
    result = stages_of(path([asleep, mean, mean, first, both, both]))
    assert result.common == (1.0, 2.0)
    assert result.order == (0, 1)
    assert [tuple(stage) for stage in result.learned] == [(0, 0, 3.0), (1, 1, 4.0)]
    assert result.redundant == 0
    assert str(result) == "mean 1–2, direction 1 by head 1 at 3, direction 2 by head 2 at 4"


def test_a_direction_that_is_lost_again_is_not_learned():
    one, other = [[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]
    result = stages_of(path([one, other, other]))
    assert result.common is None
    assert [tuple(stage) for stage in result.learned] == [(1, 1, 0.0)]
    assert result.redundant == 1
    assert str(stages_of(path([[[0.0, 0.0]]]))) == "none"


def test_limits_of_the_stages_exclude_each_other():
    """No direction of value overlaps is both close to the mean and on one direction."""
    angle = np.linspace(0.0, np.pi / 2.0, 200)
    for shares in ([0.5, 0.5], [0.6, 0.4]):
        task = MultiHeadSLR([4.0, 4.0], 3, probabilities=shares)
        seen = set()
        for x in angle:
            one = path([[[np.cos(x), np.sin(x)]]])
            one.task = task
            result = stages_of(one)
            stages = [*(["mean"] if result.common else []), *result.order]
            assert len(stages) <= 1
            seen |= set(stages)
        assert seen == {"mean", 0, 1}


@pytest.fixture(scope="module")
def trained():
    given = {"heads": 2, "dim": 300, "time": 6.0, "overlap": 0.1, "samples": 512, "record": 25}
    return specialisation(TASK, "bayes-softmax", **given, seeds=2, seed=2)


def test_descent_has_the_overlaps_and_stages_of_the_flow(trained):
    for run in trained.runs:
        assert run.gap < 0.35
        assert run.stages.order == run.predicted.order
        assert len(run.stages.learned) == 2
        assert run.descent.risk[-1] < 0.6 * run.descent.risk[0]


def test_what_it_tells(trained):
    shown = json.loads(json.dumps(trained.to_dict()))
    assert len(shown["learned_flow"]) == 2
    assert shown["reproduced"] == trained.reproduced
    frame = trained.to_frame()
    assert set(frame["method"]) == {"descent", "flow"}
    assert len(frame) == 2 * 2 * 25 * 4
    assert "2 heads of bayes-softmax on 2 directions, D 300" in str(trained)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 0}, r"^heads must be a whole number >= 1, got 0$"),
        ({"overlap": -0.1}, r"^overlap must be a finite number >= 0, got -0.1$"),
        ({"seeds": 0}, r"^seeds must be a whole number >= 1, got 0$"),
    ],
)
def test_bad_input_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        specialisation(TASK, "softmax", **({"heads": 2} | change))
