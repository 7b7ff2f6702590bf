r"""
A task of your own
==================

A task is the density ratio of the relevant token to the others, an interval and a sampler. Here the
score of the relevant token is :math:`+\sqrt\nu` or :math:`-\sqrt\nu`, with equal probability, plus
noise of variance 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from slrlab import TiltedTask, bayes_risk, compare, make_task, register_task

FloatArray = npt.NDArray[np.float64]


@register_task
@dataclass(frozen=True, init=False)
class TwoSidedSLR(TiltedTask):
    """The relevant token is shifted to one side or the other."""

    name: ClassVar[str] = "two-sided"

    @property
    def steepness(self) -> float:
        return max(1.0, math.sqrt(self.signal))

    def log_ratio(self, scores: FloatArray) -> FloatArray:
        pull = math.sqrt(self.signal) * scores
        return np.logaddexp(pull, -pull) - math.log(2.0) - self.signal / 2.0

    @property
    def relevant_interval(self) -> tuple[float, float]:
        edge = math.sqrt(self.signal) + 9.0
        return -edge, edge

    def sample_relevant(self, rng: np.random.Generator, size: int) -> FloatArray:
        side = rng.choice([-1.0, 1.0], size)
        return side * math.sqrt(self.signal) + rng.standard_normal(size)


# %%
# The Bayes risk comes from two integrals. They agree only if the ratio has mean 1, so the gap is a
# check of the formula.

task = TwoSidedSLR(signal=9.0, length=10)
best = bayes_risk(task)
print(best.status, f"Bayes risk {best.risk:.4f}, gap below 1e-10: {best.nishimori_gap < 1e-10}")

# %%
# The second check is the sampler, which shares no line with the ratio.

scores, _ = task.sample_scores(np.random.default_rng(1), 4000, 10)
logs = task.log_ratio(scores)
weights = np.exp(logs - logs.max(axis=1, keepdims=True))
weights /= weights.sum(axis=1, keepdims=True)
terms = 1.0 - (weights**2).sum(axis=1)
z = (terms.mean() - best.risk) / (terms.std() / math.sqrt(len(terms)))
print(f"Monte Carlo within four standard errors: {abs(z) < 4}")

# %%
# Softmax is not optimal here: its weights increase with the score. The weights of an even
# activation are large for scores of either sign.

curves = compare(
    [make_task("two-sided", signal=s, length=10) for s in (1.0, 2.0, 4.0, 9.0, 16.0)],
    ["softmax", "linear", "normalised: exp(x) + exp(-x)"],
)
curves.plot()
