import math

import numpy as np
import pytest

from slrlab import MaxSLR, OrderParameters, SpikedSLR, TiltedTask, make_task, register_task
from slrlab.model.task_registry import TASKS

TASK_CASES = [SpikedSLR(2.0, 4), MaxSLR(1.5, 4), MaxSLR(math.inf, 4), SpikedSLR(0.0, 3)]


@pytest.mark.parametrize("task", TASK_CASES, ids=str)
def test_the_posterior_is_calibrated(task):
    """Among locations given probability p, a fraction p is right (the Nishimori property)."""
    length = task.length.longest
    scores, location = task.sample_scores(np.random.default_rng(1), 60_000, length)
    posterior = task.posterior(scores)
    hit = posterior[np.arange(len(location)), location]
    squares = (posterior**2).sum(axis=1)
    gap = hit - squares
    assert abs(gap.mean()) <= 4 * gap.std() / math.sqrt(gap.size) + 1e-12
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)


@pytest.mark.parametrize("task", [SpikedSLR(3.0, 2)], ids=str)
def test_the_density_ratio_integrates_to_one(task):
    x = np.linspace(-12, 15, 4001)
    density = np.exp(task.log_ratio(x) - x**2 / 2) / math.sqrt(2 * math.pi)
    assert density.sum() * (x[1] - x[0]) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("signal", -1.0, r"^signal must be a (finite )?number >= 0( or inf)?, got -1.0$"),
        ("signal", math.nan, r"^signal must be a (finite )?number >= 0( or inf)?, got nan$"),
        ("noise", -0.5, r"^noise must be a finite number >= 0, got -0.5$"),
        ("noise", math.inf, r"^noise must be a finite number >= 0, got inf$"),
        ("length", 0, r"^length must be a whole number >= 1"),
    ],
)
def test_bad_values_name_the_argument(name, field, value, message):
    good = {"signal": 1.0, "length": 3, "noise": 0.0}
    with pytest.raises(ValueError, match=message):
        make_task(name, **{**good, field: value})


def test_wrong_types_and_unknown_tasks():
    with pytest.raises(TypeError, match=r"^signal must be a number >= 0 or inf, got 2$"):
        SpikedSLR("2", 3)
    with pytest.raises(ValueError, match=r"^task must be one of spiked, max.*, got spikey$"):
        make_task("spikey", signal=1.0, length=2)
    with pytest.raises(ValueError, match=r"^R_k must be a finite number >= 0, got -1.0$"):
        OrderParameters(1.0, 1.0, R_k=-1.0)


class _Wide(TiltedTask):
    name = "wide-for-test"

    def log_ratio(self, scores):
        return -0.5 * math.log(1 + self.signal) + scores**2 / 2 * (1 - 1 / (1 + self.signal))

    @property
    def relevant_interval(self):
        edge = 9.0 * math.sqrt(1 + self.signal)
        return -edge, edge

    def sample_relevant(self, rng, size):
        return math.sqrt(1 + self.signal) * rng.standard_normal(size)


def test_a_user_task_is_registered_and_refuses_an_infinite_signal():
    try:
        register_task(_Wide)
        assert make_task("wide-for-test", signal=2.0, length=2).signal == 2.0
        with pytest.raises(ValueError, match="signal must be a finite number >= 0, got inf"):
            make_task("wide-for-test", signal=math.inf, length=2)
    finally:
        TASKS.pop("wide-for-test", None)


def _moments(scores, rest):
    """Means with errors of what the scores of the relevant and of the other tokens are like."""
    others = np.column_stack([rest.mean(axis=1), (rest**2).mean(axis=1), rest.max(axis=1)])
    columns = np.column_stack(
        [scores, scores**2, others, scores * others[:, 0], scores > others[:, 2]]
    )
    return columns.mean(axis=0), columns.std(axis=0) / math.sqrt(len(columns))


@pytest.mark.parametrize(
    ("task", "draw"),
    [
        (SpikedSLR(2.0, 4), SpikedSLR.scores_from_uniforms),
        (SpikedSLR(2.0, 2), TiltedTask.scores_from_uniforms),
        (_Wide(2.0, 4), TiltedTask.scores_from_uniforms),
        (MaxSLR(1.5, 4), MaxSLR.scores_from_uniforms),
        (MaxSLR(0.0, 3), MaxSLR.scores_from_uniforms),
        (MaxSLR(math.inf, 4), MaxSLR.scores_from_uniforms),
    ],
    ids=lambda value: getattr(value, "__qualname__", None) or str(value),
)
def test_scores_from_uniforms_have_the_law_of_sampled_ones(task, draw):
    rng, size, length = np.random.default_rng(7), 200_000, task.length.longest
    ours = draw(task, rng.random((size, length + 1)))
    scores, location = task.sample_scores(rng, size, length)
    relevant = scores[np.arange(size), location]
    rest = scores[np.arange(length) != location[:, None]].reshape(size, length - 1)
    assert ours.shape == (size, length)
    (mean, error), (sampled, sampled_error) = (
        _moments(ours[:, 0], ours[:, 1:]),
        _moments(relevant, rest),
    )
    z = (mean - sampled) / np.hypot(error, sampled_error).clip(1e-12)
    assert np.abs(z).max() < 4.5, z


def test_the_shift_of_gaussian_scores():
    assert SpikedSLR(4.0, 2).gaussian_shift == 2.0
    assert MaxSLR(4.0, 2).gaussian_shift is None
