r"""The path of message passing: state evolution step by step from ``q = 0``.

It ends at the AMP branch of `slrlab.theory.bayes_optimal.optimal`, which is solved for directly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slrlab import _checks
from slrlab._plot import draw_quantities
from slrlab._result import Result, Status, standard_error
from slrlab._types import Axes, FloatArray
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.theory.bayes_optimal.channels import channel_class
from slrlab.theory.bayes_optimal.curve import Channel
from slrlab.theory.bayes_optimal.overlaps import BayesConjugates

_COLUMNS = ("q_k", "q_v", "risk")
_ACCURATE = 1e-6  # difference of two grids that counts as converged


@dataclass(frozen=True)
class AmpStateEvolution(Result):
    """Message passing as ``D → ∞``, one number for each iteration.

    Attributes
    ----------
    iteration
        Number of the iteration, from 1 on.
    q_k, q_v, risk
        Overlaps and risk after each iteration.
    error
        The largest error of these numbers: a difference of grids for tilted tasks, a standard error
        for selection tasks (status ``sampled``).
    setting
        Task and ``alpha``.
    """

    iteration: tuple[int, ...]
    q_k: tuple[float, ...]
    q_v: tuple[float, ...]
    risk: tuple[float, ...]
    error: float
    setting: Setting

    _columns: ClassVar[tuple[str, ...]] = ("iteration", *_COLUMNS)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw overlaps and risk against the iteration."""
        columns = {name: getattr(self, name) for name in _COLUMNS}
        return draw_quantities(ax, self.iteration, columns, xlabel="iteration")


def amp_state_evolution(task: Task, *, alpha: float, steps: int = 20) -> AmpStateEvolution:
    r"""Return the state evolution of AMP at ``alpha = N/D``, iteration by iteration.

    From ``q = 0``, ``q̂_a = α E|g_a|²`` and ``q_a = q̂_a/(1+q̂_a)``; the risk is
    ``1 + Δ² − q_v E Σ p_ℓ(ω_χ)²``.

    Parameters
    ----------
    task
        Any `TiltedTask`, or any `SelectionTask` with lengths up to 64.
    alpha
        Samples per dimension, ``> 0``.
    steps
        Iterations.

    Returns
    -------
    AmpStateEvolution
        Overlaps and risk at each iteration.

    Raises
    ------
    TypeError
        If the task belongs to neither family.
    ValueError
        If a number is out of range, the task is inconsistent, or a length is too long for a
        selection task.

    Examples
    --------
    >>> from slrlab import SpikedSLR, amp_state_evolution
    >>> path = amp_state_evolution(SpikedSLR(2.0, 3, noise=0.3), alpha=2.0, steps=3)
    >>> [round(q, 4) for q in path.q_v]
    [0.3795, 0.6126, 0.7202]
    """
    alpha, steps = _checks.positive(alpha, "alpha"), _checks.integer(steps, "steps")
    channels = channel_class(task)
    key = channels.known_key(task)
    if key is not None:
        paths, status = [_known_path(task, key, alpha, steps)], Status.LIMIT
    else:
        paths = [_path(channel, alpha, steps) for channel in channels.for_paths(task)]
        status = Status.SAMPLED if channels.sampled else Status.CONVERGED
    table, error = _combine(np.array(paths), status)
    if status is Status.CONVERGED and error > _ACCURATE:
        status = Status.INACCURATE
    return AmpStateEvolution(
        status=status,
        iteration=tuple(range(1, steps + 1)),
        **{name: tuple(column) for name, column in zip(_COLUMNS, table.T.tolist(), strict=True)},
        error=error,
        setting=Setting(task, alpha=alpha),
    )


def _combine(paths: FloatArray, status: Status) -> tuple[FloatArray, float]:
    """Return the path of the result and the largest error on it."""
    if status is Status.SAMPLED:  # from whole paths, because errors grow along them
        return paths.mean(axis=0), float(standard_error(paths).max())
    return paths[0], float(np.abs(paths[0] - paths[-1]).max())


def _path(channel: Channel, alpha: float, steps: int) -> list[tuple[float, float, float]]:
    """Return ``q_k, q_v, risk`` of each iteration."""
    noise, rows = channel.task.noise, []
    q = BayesConjugates(0.0, 0.0).overlaps()
    for _ in range(steps):
        moments, variance = channel.moments(q), q.variance_v + noise**2
        # at q = 0 the M_k of a selection task is zero up to rounding, of either sign
        key = max(0.0, alpha * moments.key)
        hats = BayesConjugates(key, _ratio(alpha * moments.value, variance))
        q = hats.overlaps()
        # 1 + Δ² − q_v(1 − confusion), without cancellation
        rows.append((q.q_k, q.q_v, noise**2 + q.variance_v + q.q_v * channel.confusion(q)))
    return rows


def _known_path(
    task: Task, key: float, alpha: float, steps: int
) -> list[tuple[float, float, float]]:
    """Return the iterations of linear regression, the location being known."""
    variance, rows = 1.0, []
    for _ in range(steps):
        q = BayesConjugates(alpha * key, _ratio(alpha, variance + task.noise**2)).overlaps()
        variance = q.variance_v
        rows.append((q.q_k, q.q_v, task.noise**2 + variance))
    return rows


def _ratio(value: float, variance: float) -> float:
    """Return ``value/variance``, infinite once the values are known exactly."""
    return math.inf if variance == 0.0 else value / variance
