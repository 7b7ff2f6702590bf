"""Single-location regression learned by SGD: the theory's risk, and its signal in the scores."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from slrlab import SpikedSLR, minimal_risk
from slrlab.experiments.retrieval.sgd import sgd_retrieval, staged_sgd

TASK = SpikedSLR(signal=4.0, length=3)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_sgd_reaches_the_risk_of_the_theory_and_its_scores_hold_the_signal(activation):
    runs = [sgd_retrieval(TASK, activation, seed=seed) for seed in range(4)]
    assert {str(run.status) for run in runs} == {"sampled"}
    rows = [(run.risk, run.signal, run.signal_error) for run in runs]
    risks, signals, errors = np.array(rows).T
    goal = minimal_risk(TASK, activation).risk
    assert {run.goal for run in runs} == {goal}
    error = stats.sem(risks)
    # Student's t of three degrees of freedom: outside of this in one of 1000 repetitions
    assert abs(risks.mean() - goal) < stats.t.ppf(0.9995, df=3) * error
    assert error < 0.01 * (1.0 - goal)
    assert abs(signals.mean() - TASK.signal) < 3.5 * math.sqrt(np.mean(errors**2) / 4)
    assert errors.max() < 0.1 * TASK.signal


def test_the_stored_runs_are_the_rows_of_the_page():
    docs = Path(__file__).parents[3] / "docs"
    page = (docs / "guide" / "retrieval.md").read_text(encoding="utf-8")
    stored = pd.read_csv(docs / "assets" / "tables" / "retrieval-sgd.csv")
    for activation, runs in stored.groupby("activation"):
        assert len(runs) == 8
        risk, error = runs["risk"].mean(), stats.sem(runs["risk"])
        goal = minimal_risk(TASK, activation).risk
        assert runs["goal"].to_numpy() == pytest.approx(goal, rel=1e-6)
        signal = runs["signal"].mean()
        signal_error = math.sqrt(np.mean(runs["signal_error"] ** 2) / 8)
        t = (risk - goal) / error
        assert f"| {activation} | {risk:.4f} ± {error:.4f} | {goal:.4f} | {t:.1f} |" in page
        assert f"| {signal:.2f} ± " in page
        assert abs(t) < stats.t.ppf(0.975, df=7)
        assert abs(signal - TASK.signal) < 2.0 * signal_error


def test_at_a_large_rate_the_noise_of_sgd_stays_in_the_risk():
    given = {"dim": 50, "test_samples": 50_000, "seed": 0}
    path, _ = staged_sgd(TASK, "linear", [(0.05, 100.0)], **given)
    goal = minimal_risk(TASK, "linear").risk
    assert path.loss[-1] > goal + 0.1  # 0.27 to 0.35 above at four seeds
    assert path.loss[-1] > goal + 10.0 * path.loss_error[-1]
