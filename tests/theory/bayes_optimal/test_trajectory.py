"""The path of message passing."""

import math

import numpy as np
import pytest

from slrlab import MaxSLR, SpikedSLR, amp_state_evolution, bayes_optimal


@pytest.mark.parametrize(
    ("task", "alpha"),
    [
        (SpikedSLR(2.0, 3, 0.3), 2.0),
        pytest.param(SpikedSLR(2.0, 3), 0.9, marks=pytest.mark.slow),
        (SpikedSLR(2.0, 3), 1.5),
        (SpikedSLR(0.0, "1,2,3", 0.5), 1.0),
        (SpikedSLR(1.0, 1, 0.5), 2.0),
        (SpikedSLR(math.inf, 4, 0.5), 2.0),
        (MaxSLR(1.0, 1, 0.5), 2.0),
        pytest.param(MaxSLR(2.0, 2, 0.5), 2.0, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_path_ends_at_the_amp_branch(task, alpha):
    sampled = isinstance(task, MaxSLR) and task.length.longest > 1
    path = amp_state_evolution(task, alpha=alpha, steps=30 if sampled else 80)
    end = bayes_optimal(task, alpha=alpha)
    assert path.status == ("sampled" if sampled else end.status)
    tolerance = 4.0 * (path.error + end.error) if sampled else 1e-6
    assert path.q_k[-1] == pytest.approx(end.q_k, abs=tolerance)
    assert path.q_v[-1] == pytest.approx(end.q_v, abs=tolerance)
    assert path.risk[-1] == pytest.approx(end.risk_amp, abs=tolerance)
    if not sampled:
        assert (np.diff(path.q_v) > -1e-9).all()  # the map is monotone
        assert (np.diff(path.risk) < 1e-9).all()
        assert path.error < 1e-7


def test_the_first_step_of_the_path():
    """From the inputs alone, q̂_k = αν E[1/L]; from the labels, q̂_v = α E[1/L]/(1 + Δ²)."""
    hint = 2.0 * (1.0 + 1.0 / 2.0 + 1.0 / 3.0) / 3.0
    path = amp_state_evolution(SpikedSLR(3.0, "1,2,3", 0.5), alpha=2.0, steps=1)
    assert path.q_k[0] == pytest.approx(3.0 * hint / (1.0 + 3.0 * hint), abs=1e-9)
    assert path.q_v[0] == pytest.approx(hint / (1.25 + hint), abs=1e-9)
    path = amp_state_evolution(MaxSLR(3.0, "1,2,3", 0.5), alpha=2.0, steps=1)
    assert path.q_k[0] == pytest.approx(0.0, abs=1e-9)
    assert path.q_v[0] == pytest.approx(hint / (1.25 + hint), abs=5e-3)


def test_a_path_without_noise_may_be_long():
    path = amp_state_evolution(SpikedSLR(3.0, 1), alpha=4.0, steps=1000)
    assert path.q_v[-1] == 1.0
    assert path.risk[-1] == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": -1.0}, "alpha must be a finite number > 0, got -1.0"),
        ({"steps": 0}, "steps must be a whole number >= 1, got 0"),
        ({"task": MaxSLR(1.0, 65)}, "length must be at most 64"),
        ({"task": 3}, "task must be a TiltedTask or a SelectionTask, got 3"),
    ],
)
def test_bad_input_to_the_path(change, message):
    options = {"task": SpikedSLR(2.0, 3), "alpha": 1.0, "steps": 2} | change
    with pytest.raises((ValueError, TypeError), match=message):
        amp_state_evolution(options.pop("task"), **options)
