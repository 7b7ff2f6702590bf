r"""The task of Marion, Berthier, Biau and Boyer (2024): the relevant token has its own variance.

The relevant token is ``√ν k* + γ ξ`` with ``ξ`` a standard normal vector (``k*`` of length 1), all
others are standard normal; the label is ``y = v*·X_ε + Δξ'``, of variance ``γ² + Δ²``. For ``γ =
1`` it is spiked-SLR. It belongs to neither family of `slrlab.model.tasks`: the law of the relevant
token differs in every direction, not along ``k*`` alone. Independent of how risks are computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from slrlab import _checks
from slrlab._types import FloatArray
from slrlab.model.lengths import LengthLike
from slrlab.model.task_registry import register_task
from slrlab.model.tasks import IndependentTask, Task

_LEAST, _MOST = 0.01, 100.0  # bounds of γ: quadratures place nodes for both laws


@register_task
@dataclass(frozen=True, init=False)
class MarionSLR(IndependentTask):
    """Spiked-SLR whose relevant token has standard deviation ``γ`` in every direction.

    Parameters
    ----------
    signal, length, noise
        As for every task; the signal of the paper is ``d/2`` in ``d`` dimensions.
    relevant_std
        Standard deviation ``γ`` of the relevant token, from 0.01 to 100; the paper's experiments
        have ``√½``.

    Examples
    --------
    >>> task = MarionSLR(signal=200.0, length=10, relevant_std=0.5)
    >>> task.trivial_risk
    0.25
    """

    relevant_std: float = math.sqrt(0.5)

    name: ClassVar[str] = "marion"

    def __init__(
        self,
        signal: float,
        length: LengthLike,
        noise: float = 0.0,
        *,
        relevant_std: float = math.sqrt(0.5),
    ) -> None:
        relevant_std = _checks.within(relevant_std, "relevant_std", _LEAST, _MOST)
        object.__setattr__(self, "relevant_std", relevant_std)
        super().__init__(signal, length, noise)

    @property
    def shift(self) -> float:
        """Mean ``√ν`` of the relevant key score."""
        return math.sqrt(self.signal)

    @property
    def steepness(self) -> float:
        return max(1.0, self.shift / self.relevant_std**2)

    def log_ratio(self, scores: FloatArray) -> FloatArray:
        """Return the logarithm of the density ratio of a relevant key score to another.

        It is quadratic in the score unless ``γ = 1``: the posterior of the location given the key
        scores is then no softmax of them.
        """
        std = self.relevant_std
        square = scores**2 - ((scores - self.shift) / std) ** 2
        return np.asarray(square / 2.0 - math.log(std))

    def log_posterior(self, scores: FloatArray) -> FloatArray:
        return self.log_ratio(scores)

    def sample_relevant(self, rng: np.random.Generator, size: int) -> FloatArray:
        return self.shift + self.relevant_std * rng.standard_normal(size)

    def relevant_scores(self, uniforms: FloatArray) -> FloatArray:
        return np.asarray(self.shift + self.relevant_std * special.ndtri(uniforms))


def best_weights(task: Task, scores: FloatArray) -> FloatArray:
    """Return the weights with the least risk of all that depend on the key scores ``χ*``.

    The best factor of ``z_ℓ`` is ``E[z_ℓ z_ε]/E[z_ℓ²] = γ²p_ℓ/(γ²p_ℓ + 1 − p_ℓ)`` given the scores;
    it is the posterior ``p_ℓ`` of the location where all tokens have the same variance.

    >>> best_weights(MarionSLR(0.0, 2, relevant_std=3.0), np.array([0.0, 0.0])).tolist()
    [0.9, 0.9]
    """
    p, variance = task.posterior(scores), task.relevant_std**2
    return np.asarray(variance * p / (variance * p + (1.0 - p))) if variance != 1.0 else p
