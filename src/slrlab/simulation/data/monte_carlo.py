"""Monte Carlo estimates of population risks.

They share the model with `slrlab.theory`, no formula of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from slrlab import _checks
from slrlab._result import Estimate
from slrlab._types import FloatArray
from slrlab.model.activations import Activation, make_activation
from slrlab.model.arrangements import relevant_values
from slrlab.model.marion import best_weights
from slrlab.model.order_parameters import OrderParameters
from slrlab.model.tasks import Task
from slrlab.simulation.data.dataset import Teacher
from slrlab.simulation.training.erm import fresh_risk
from slrlab.simulation.training.objective import Weights

_BATCH = 1 << 21  # scores in memory at a time


def monte_carlo_risk(
    task: Task,
    activation: Activation | str,
    order: OrderParameters,
    *,
    samples: int = 100_000,
    seed: int = 0,
) -> Estimate:
    """Estimate the risk of a predictor with given order parameters on M, as ``D → ∞``.

    >>> from slrlab import OrderParameters, SpikedSLR
    >>> print(monte_carlo_risk(SpikedSLR(2.0, 3), "softmax", OrderParameters(1.4, 1.0)))
    0.3514 ± 0.0029
    """
    chosen = make_activation(activation)

    def predict(
        keys: FloatArray, values: FloatArray, stds: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        scores = order.m_k * keys
        if order.R_k > 0.0:
            scores = scores + math.sqrt(order.R_k) * stds * rng.standard_normal(keys.shape)
        answers = order.m_v * values
        if order.R_v > 0.0:
            answers = answers + math.sqrt(order.R_v) * stds * rng.standard_normal(keys.shape)
        return np.asarray(np.einsum("nl,nl->n", chosen.weights(scores), answers))

    return _average(task, predict, samples, seed)


def posterior_mean_risk(task: Task, *, samples: int = 100_000, seed: int = 0) -> Estimate:
    """Estimate the risk of the Bayes predictor ``Σ P(ε=ℓ|χ*) z*_ℓ``.

    On Marion's task it has the best weights of the key scores instead of the posterior.

    >>> from slrlab import SpikedSLR
    >>> print(posterior_mean_risk(SpikedSLR(2.0, 3)))
    0.3514 ± 0.0029
    """

    def predict(
        keys: FloatArray, values: FloatArray, stds: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        return np.asarray(np.einsum("nl,nl->n", best_weights(task, keys), values))

    return _average(task, predict, samples, seed)


def finite_dimension_risk(
    task: Task,
    activation: Activation | str,
    order: OrderParameters,
    *,
    dim: int,
    samples: int = 20_000,
    teachers: int = 20,
    seed: int = 0,
) -> Estimate:
    """Estimate the risk of vectors ``k, v`` in ``D`` dimensions on tokens of `slrlab.draw_dataset`.

    Teachers are Gaussian vectors that are not normalised; ``k = m_k k* + √R_k·noise`` and likewise
    ``v``. The error is that over teachers, so it includes their finite-size fluctuations; these
    change the mean by ``O(1/D)``.
    """
    dim = _checks.integer(dim, "dim", low=2)
    teachers = _checks.integer(teachers, "teachers", low=2)
    chosen = make_activation(activation)
    count = max(1, _checks.integer(samples, "samples") // teachers)
    seeds = np.random.SeedSequence(_checks.integer(seed, "seed", low=0)).generate_state(teachers)
    risks = []
    for own in seeds.tolist():
        teacher = Teacher.draw(dim, seed=own, kind="gaussian")
        # a separate stream: the fresh data have the same seed
        noise = np.random.default_rng((own, 1)).standard_normal((2, dim))
        k = order.m_k * teacher.keys + math.sqrt(order.R_k) * noise[0]
        v = order.m_v * teacher.values + math.sqrt(order.R_v) * noise[1]
        weights = Weights(k, v, chosen.bias or 0.0)
        risks.append(fresh_risk(task, chosen, weights, teacher, samples=count, seed=own).value)
    return Estimate.of(risks)


def _batches(task: Task, samples: int, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Yield ``(length, count)`` of small batches of sequences whose lengths are drawn."""
    drawn, counts = np.unique(task.length.sample(rng, samples), return_counts=True)
    for length, count in zip(drawn.tolist(), counts.tolist(), strict=True):
        size = max(1, _BATCH // length)
        for start in range(0, count, size):
            yield length, min(size, count - start)


def _average(
    task: Task,
    predict: Callable[[FloatArray, FloatArray, FloatArray, np.random.Generator], FloatArray],
    samples: int,
    seed: int,
) -> Estimate:
    """Return the mean squared error of predictions on sampled scores."""
    rng = np.random.default_rng(seed)
    samples = _checks.integer(samples, "samples", low=2)
    total = square = 0.0
    for length, size in _batches(task, samples, rng):
        keys, location = task.sample_scores(rng, size, length)
        values = rng.standard_normal(keys.shape)
        stds = np.ones(keys.shape)  # of each token in directions other than that of the keys
        np.put_along_axis(stds, location.reshape(size, -1), task.relevant_std, axis=1)
        values *= stds
        labels = relevant_values(values, location) + task.noise * rng.standard_normal(size)
        losses = (labels - predict(keys, values, stds, rng)) ** 2
        total += float(losses.sum())
        square += float((losses**2).sum())
    mean = total / samples
    variance = max(square / samples - mean**2, 0.0)
    return Estimate(mean, math.sqrt(variance / (samples - 1)))
