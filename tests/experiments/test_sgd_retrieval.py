"""Single-location regression learned by SGD: the theory's risk, and its signal in the scores."""

import math

import numpy as np
import pytest
from scipy import stats

from slrlab import SpikedSLR, diagnose_scores, draw_dataset, minimal_risk, online_sgd
from slrlab._result import Status
from slrlab.simulation.data.dataset import Teacher

TASK, DIM = SpikedSLR(signal=4.0, length=3), 50
STAGES = ((0.05, 100.0), (0.01, 10.0), (0.002, 6.0), (5e-4, 6.0), (2e-4, 4.0))
"""Rates and times. The noise of SGD adds to the risk in proportion to the rate."""

TESTS, SCORED, UNSEEN = 50_000, 4000, 10**6


def trained_head(activation, seed, stages=STAGES):
    """Return the path of the last stage and the teacher, from a small random start."""
    teacher, weights = Teacher.draw(DIM, seed=seed), "random"
    for number, (rate, time) in enumerate(stages, start=1):
        path = online_sgd(
            TASK,
            activation,
            dim=DIM,
            rate=rate,
            time=time,
            start=weights,
            teacher=teacher,
            record=2,
            seed=seed + 1000 * number,
            test_samples=TESTS,
        )
        assert path.status is Status.SAMPLED
        weights = path.weights
    return path, teacher


def diagnosed(activation, path, teacher, seed):
    """Diagnose the scores of the trained keys on sequences that training has not seen."""
    data = draw_dataset(
        TASK, dim=DIM, samples=SCORED, seed=seed + 7000, teacher=teacher, stream=UNSEEN
    )
    scores = data.tokens.astype(float) @ path.weights.k / math.sqrt(DIM) + path.weights.bias
    return diagnose_scores(scores.reshape(SCORED, -1), data.locations, activation=activation)


def measured(activation, seeds, stages=STAGES):
    """Return the risk, the effective signal and the error of the signal of each seed."""
    rows = []
    for seed in seeds:
        path, teacher = trained_head(activation, seed, stages)
        signal = diagnosed(activation, path, teacher, seed).estimate("signal")
        rows.append((path.loss[-1], signal.value, signal.error))
    return np.array(rows)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_sgd_reaches_the_risk_of_the_theory_and_its_scores_hold_the_signal(activation):
    risks, signals, errors = measured(activation, range(4)).T
    goal = minimal_risk(TASK, activation).risk
    error = stats.sem(risks)
    # Student's t of three degrees of freedom: outside of this in one of 1000 repetitions
    assert abs(risks.mean() - goal) < stats.t.ppf(0.9995, df=3) * error
    assert error < 0.01 * (1.0 - goal)
    assert abs(signals.mean() - TASK.signal) < 3.5 * math.sqrt(np.mean(errors**2) / 4)
    assert errors.max() < 0.1 * TASK.signal


def test_at_a_large_rate_the_noise_of_sgd_stays_in_the_risk():
    path, _ = trained_head("linear", 0, ((0.05, 100.0),))
    goal = minimal_risk(TASK, "linear").risk
    assert path.loss[-1] > goal + 0.1  # 0.27 to 0.35 above at four seeds
    assert path.loss[-1] > goal + 10.0 * path.loss_error[-1]
