"""Single-location regression learned by online SGD, beside the population risk of the theory.

The scores of the trained keys are diagnosed, too. Training is in `slrlab.simulation`; this module
sets its rates, and compares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from slrlab import _checks
from slrlab._result import Result
from slrlab.experiments.diagnosis import diagnose_scores
from slrlab.model.activations import Activation, make_activation
from slrlab.model.tasks import Task
from slrlab.simulation.data.dataset import Teacher, draw_dataset
from slrlab.simulation.descent.stochastic import online_sgd
from slrlab.simulation.descent.trajectory import Trajectory
from slrlab.simulation.training.objective import Weights
from slrlab.theory.population.minimal import minimal_risk

STAGES = ((0.05, 100.0), (0.01, 10.0), (0.002, 6.0), (5e-4, 6.0), (2e-4, 4.0))
"""Rates and times. The noise of SGD adds to the risk in proportion to the rate."""

_UNSEEN = 10**6


@dataclass(frozen=True)
class SgdRetrieval(Result):
    """One training by SGD.

    Attributes
    ----------
    status
        That of the last stage.
    risk, risk_error
        Risk after training on fresh sequences, and its standard error.
    goal
        Least risk of the activation in the theory.
    signal, signal_error
        Effective signal that `slrlab.diagnose_scores` finds in the scores of the trained keys.
    """

    risk: float
    risk_error: float
    goal: float
    signal: float
    signal_error: float


def sgd_retrieval(
    task: Task,
    activation: Activation | str = "softmax",
    *,
    dim: int = 50,
    duration: float = 1.0,
    test_samples: int = 50_000,
    scored: int = 4000,
    seed: int = 0,
) -> SgdRetrieval:
    """Train by SGD from a small random start, in stages of falling rate.

    Parameters
    ----------
    task, activation
        What is learned, and by what.
    dim
        Dimension of the tokens.
    duration
        Factor on the time of each of the `STAGES`.
    test_samples, scored
        Fresh sequences for the risk, and further ones for the diagnosis.
    seed
        Fixes teacher, start and data.

    Raises
    ------
    ValueError, TypeError
        If a number is out of range.
    """
    chosen = make_activation(activation) if isinstance(activation, str) else activation
    duration = _checks.positive(duration, "duration")
    stages = [(rate, duration * time) for rate, time in STAGES]
    path, teacher = staged_sgd(task, chosen, stages, dim=dim, test_samples=test_samples, seed=seed)
    data = draw_dataset(
        task, dim=dim, samples=scored, seed=seed + 7000, teacher=teacher, stream=_UNSEEN
    )
    scores = data.tokens.astype(float) @ path.weights.k / math.sqrt(dim) + path.weights.bias
    # sequences may differ in length: the tokens of all stand one after another
    rows = np.split(scores, np.cumsum(data.lengths)[:-1])
    signal = diagnose_scores(rows, data.locations, activation=chosen).estimate("signal")
    return SgdRetrieval(
        status=path.status,
        risk=float(path.loss[-1]),
        risk_error=float(path.loss_error[-1]),
        goal=minimal_risk(task, chosen).risk,
        signal=signal.value,
        signal_error=signal.error,
    )


def staged_sgd(
    task: Task,
    activation: Activation | str,
    stages: Iterable[tuple[float, float]],
    *,
    dim: int,
    test_samples: int,
    seed: int,
) -> tuple[Trajectory, Teacher]:
    """Return the path of the last stage and the teacher; a stage starts where the one before ended.

    ``stages`` are rates and times, at least one.
    """
    teacher = Teacher.draw(dim, seed=seed)
    start: Weights | str = "random"
    for number, (rate, time) in enumerate(stages, start=1):
        path = online_sgd(
            task,
            activation,
            dim=dim,
            rate=rate,
            time=time,
            start=start,
            teacher=teacher,
            record=2,
            seed=seed + 1000 * number,
            test_samples=test_samples,
        )
        start = path.weights
    return path, teacher
