"""A task in one class of at most 25 lines works in every computation, and theory and data agree."""

import inspect
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from slrlab import (
    OrderParameters,
    SelectionTask,
    TiltedTask,
    bayes_optimal,
    bayes_thresholds,
    compare_amp,
    minimal_risk,
    risk_and_gradient,
    run_amp,
)
from slrlab._result import Estimate
from slrlab.experiments.comparison.student import difference, normal_score
from slrlab.experiments.comparison.training import compare_erm
from slrlab.simulation.data.monte_carlo import monte_carlo_risk


@dataclass(frozen=True, init=False)
class NarrowSLR(TiltedTask):
    """The relevant token is shifted by ``√ν`` and has half the variance."""

    name: ClassVar[str] = "own-narrow"

    def log_ratio(self, scores):
        return scores**2 / 2.0 - (scores - math.sqrt(self.signal)) ** 2 + math.log(2.0) / 2.0

    @property
    def relevant_interval(self):
        return math.sqrt(self.signal) - 6.4, math.sqrt(self.signal) + 6.4

    def sample_relevant(self, rng, size):
        return math.sqrt(self.signal) + rng.standard_normal(size) / math.sqrt(2.0)


@dataclass(frozen=True, init=False)
class SaturatingSLR(SelectionTask):
    """Large scores are favoured, but the hint saturates."""

    name: ClassVar[str] = "own-saturating"

    def log_weight(self, scores):
        return self.signal * np.arctan(scores)


TASKS = [NarrowSLR(2.0, 3, 0.3), SaturatingSLR(5.0, 3, 0.3)]


@pytest.mark.parametrize("kind", [NarrowSLR, SaturatingSLR])
def test_the_class_is_short(kind):
    assert len(inspect.getsource(kind).splitlines()) <= 25


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_population_and_landscape(task):
    best = minimal_risk(task, "softmax")
    assert best.status == "converged"
    at = OrderParameters(best.m_k, best.m_v)
    sampled = monte_carlo_risk(task, "softmax", at, samples=200_000)
    assert abs(normal_score(difference(sampled, Estimate(best.risk, best.error, math.inf)))) < 3.0
    point = ([best.m_k, 0.0, 0.0, 0.0], [0.0, best.m_v, 0.0, 0.0])
    here = risk_and_gradient(task, "softmax", point)
    assert here.risk == pytest.approx(best.risk, abs=1e-6)
    assert here.gradient_norm < 1e-4  # a minimum on M is stationary off it


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_trained_attention(task):
    both = compare_erm(
        task, "softmax", alpha=4.0, ridge_k=1.0, ridge_v=1.0, dim=300, seeds=8, seed=1
    )
    assert both.theory.status.reached
    for name, gap in both.gaps.items():
        assert abs(normal_score(gap)) < 3.0, name


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_message_passing_ends_at_the_bayes_optimum(task):
    """Each iteration by Student's t; the end also against the fixed point."""
    both = compare_amp(task, alpha=2.0, dim=400, seeds=8, steps=8, test_samples=2000)
    assert both.status == "sampled"
    for name in ("q_k", "q_v", "risk"):
        # before anything is known of the keys, both are zero and there is no error
        gaps = [gap for gap in both.gaps(name) if gap.error > 1e-6]
        assert max(abs(normal_score(gap)) for gap in gaps) < 3.0, name
    long = run_amp(task, alpha=2.0, dim=400, seeds=8, steps=25, test_samples=2000)
    theory = bayes_optimal(task, alpha=2.0)
    assert theory.risk_it == theory.risk_amp
    measured = Estimate.of([run.risk[-1] for run in long.runs])
    expected = Estimate(theory.risk_amp, theory.error, 7.0)
    assert abs(normal_score(difference(measured, expected))) < 3.0


@pytest.mark.slow
def test_thresholds_of_an_own_task():
    jump = bayes_thresholds(NarrowSLR(2.0, 3))
    assert jump.status == "converged"
    assert jump.alpha_it == jump.alpha_informed == 1.0
    assert bayes_optimal(NarrowSLR(2.0, 3), alpha=jump.alpha_alg - 1e-3).hard
    assert not bayes_optimal(NarrowSLR(2.0, 3), alpha=jump.alpha_alg + 1e-3).hard
