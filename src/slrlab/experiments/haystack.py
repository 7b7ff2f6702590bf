"""One sequence of a task, the weights that activations give to its tokens, and what they predict.

The tokens of a seed do not depend on the length: a longer sequence has the same relevant token
among more others, so that one can watch a haystack grow around its needle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slrlab import _checks
from slrlab._plot import BAYES, axes_of, mark_of
from slrlab._result import Result, Status
from slrlab._types import Axes, DataFrame, FloatArray
from slrlab.experiments.atlas.activations import STANDARD, Kind, several
from slrlab.experiments.requirements.demands import BAYES_NAME
from slrlab.model.activations import Activation, make_activation
from slrlab.model.dispatch import check_task
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.theory.population.minimal import minimal_risk
from slrlab.theory.population.weight_statistics import FAR, evaluable

_LONGEST = 10**7


@dataclass(frozen=True)
class Haystack(Result):
    """A sequence as the teacher sees it, and what each predictor reads from it.

    Attributes
    ----------
    scores, values
        ``χ*`` and ``z*`` of each token.
    location, label
        Index of the relevant token, and ``y``.
    weights
        Scaled weight ``m_v σ_ℓ`` of each token by activation; under ``Bayes`` the posterior
        probability of each location. These are the factors of the values in the prediction.
    predictions
        ``f = Σ m_v σ_ℓ z*_ℓ`` by activation, and that of the best predictor.
    """

    scores: FloatArray
    values: FloatArray
    location: int
    label: float
    weights: dict[str, FloatArray]
    predictions: dict[str, float]
    setting: Setting
    seed: int

    @property
    def needle_weights(self) -> dict[str, float]:
        """Scaled weight of the relevant token by activation."""
        return {name: float(row[self.location]) for name, row in self.weights.items()}

    def to_frame(self) -> DataFrame:
        """Return one row for each token: score, value, whether it is the relevant one, weights."""
        import pandas as pd

        relevant = np.arange(self.scores.size) == self.location
        columns = {"score": self.scores, "value": self.values, "relevant": relevant}
        return pd.DataFrame(columns | self.weights).rename_axis("token").reset_index()

    def __str__(self) -> str:
        read = ", ".join(f"{name} {value:.4g}" for name, value in self.predictions.items())
        return f"{self.setting}: label {self.label:.4g}; predicted by {read}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the weights of the tokens in the order of their scores."""
        axes, order = axes_of(ax), np.argsort(-self.scores)
        ranks = np.arange(1, order.size + 1)
        for name, row in self.weights.items():
            if name == BAYES_NAME:  # a wide line, as in the figures: softmax lies on it
                look = BAYES.line(color="0.75", linewidth=5)
            else:
                look = mark_of(name, self.weights).line()
            axes.plot(ranks, row[order], **look)
        axes.set(xscale="log", xlabel="rank of the key score", ylabel="scaled weight")
        axes.legend()
        return axes


def draw_haystack(
    task: Task,
    activations: Kind | Sequence[Kind] = STANDARD,
    *,
    seed: int = 0,
    optima: Mapping[str, Any] | None = None,
) -> Haystack:
    r"""Draw a sequence and return the weights and predictions of activations at their best keys.

    ``f = σ(m_k χ*)ᵀ m_v z*`` with ``m_k, m_v`` and the bias of least risk; the best predictor is
    ``Σ p_ℓ z*_ℓ``.

    Parameters
    ----------
    task
        The task; a random length is drawn once. The relevant score must be finite.
    activations
        Names, expressions or activations; or one.
    seed
        Seed of the sequence.
    optima
        Results with ``m_k``, ``m_v`` and ``bias`` by activation, where they are known;
        `slrlab.minimal_risk` is computed for the others.

    Returns
    -------
    Haystack
        The sequence, and the weights and predictions of each activation.

    Raises
    ------
    ValueError, TypeError
        If the relevant score is infinite, or an argument is wrong.

    Examples
    --------
    >>> from slrlab import SpikedSLR, draw_haystack
    >>> drawn = draw_haystack(SpikedSLR(signal=16.0, length=100), ["softmax", "linear"], seed=1)
    >>> {name: round(weight, 2) for name, weight in drawn.needle_weights.items()}
    {'Bayes': 1.0, 'softmax': 1.0, 'linear': 0.16}
    """
    check_task(task)
    if task.has_infinite_score:
        _checks.fail("signal", "finite: the relevant score is infinite", task.signal)
    kinds = several(activations, (Activation, str), "activations", "names or activations")
    chosen = [make_activation(kind) for kind in kinds]
    _checks.integer(task.length.longest, "length", high=_LONGEST)
    seed = _checks.integer(seed, "seed", low=0)
    scores, values, location, label = _draw(task, seed)
    weights = {BAYES_NAME: task.posterior(scores)}
    for activation in chosen:
        best = (optima or {}).get(activation.name) or minimal_risk(task, activation)
        fixed, _ = evaluable(activation, best)
        m_k = math.copysign(min(abs(best.m_k), FAR), best.m_k)
        weights[activation.name] = best.m_v * fixed.weights(m_k * scores)
    return Haystack(
        status=Status.SAMPLED,
        scores=scores,
        values=values,
        location=location,
        label=label,
        weights=weights,
        predictions={name: float(row @ values) for name, row in weights.items()},
        setting=Setting(task),
        seed=seed,
    )


def _draw(task: Task, seed: int) -> tuple[FloatArray, FloatArray, int, float]:
    """Return key scores, value scores, location and label of one sequence."""
    tokens, others, rest = (
        np.random.default_rng(stream) for stream in np.random.SeedSequence(seed).spawn(3)
    )
    selection, fraction = rest.random(2)
    length = int(task.length.sample(rest, 1)[0])
    # separate streams, so that the first numbers of each are the same at every length
    uniforms = np.append(tokens.random(length), selection)
    scores = task.scores_from_uniforms(uniforms[None])[0]
    values = others.standard_normal(length)
    label = float(values[0] + task.noise * rest.standard_normal())
    location = int(fraction * length)
    for column in (scores, values):  # the relevant token comes first: it moves to its location
        column[[0, location]] = column[[location, 0]]
    return scores, values, location, label
