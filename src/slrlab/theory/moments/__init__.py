r"""The two numbers that fix a population risk: how much weight lands on the relevant token.

On the manifold M the risk of a predictor depends on its keys only through
``A = E[σ_ε]`` and ``B = E Σ σ_ℓ²``. This module computes them for every pair of task family and
activation family, as `AttentionMoments`. It knows nothing about values, noise or optimisation.
"""

from __future__ import annotations

import math

import numpy as np

from slrlab.model.activations import Activation, Elementwise, Normalised, Projection
from slrlab.model.tasks import SelectionTask, Task, TiltedTask
from slrlab.theory.moments.selected import elementwise_selected, normalised_selected
from slrlab.theory.moments.tilted import certain_location, elementwise_tilted, normalised_tilted
from slrlab.theory.moments.types import AttentionMoments

__all__ = ["AttentionMoments", "attention_moments"]


def attention_moments(
    task: Task,
    activation: Activation,
    m_k: float,
    R_k: float = 0.0,
    *,
    resolution: float = 1.0,
    check: bool = True,
) -> AttentionMoments:
    """Return the moments at given key order parameters.

    ``resolution`` divides every step; 1 gives about 12 digits for smooth activations. A search
    that calls this many times may leave out the costly part of the self-check.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # a map that overflows gives moments that are not finite, and a status that says so
        return _dispatch(task, activation, (m_k, R_k), resolution, check)


def _dispatch(
    task: Task,
    activation: Activation,
    keys: tuple[float, float],
    resolution: float,
    check: bool,
) -> AttentionMoments:
    m_k, R_k = keys
    if isinstance(activation, Projection):
        if isinstance(task, TiltedTask) and math.isinf(task.signal):
            if m_k <= 0.0:
                raise ValueError(
                    f"m_k must be > 0 for {activation.name} at an infinite signal, got {m_k}"
                )
            return AttentionMoments(1.0, 0.0, 0.0)
        from slrlab.theory.moments.projection import projection_moments

        return projection_moments(task, activation, m_k, R_k, resolution)
    if not isinstance(activation, Elementwise | Normalised):
        raise TypeError(
            "activation must be Elementwise, Normalised or Projection, "
            f"got {type(activation).__name__}"
        )
    if isinstance(task, TiltedTask):
        if math.isinf(task.signal):
            return certain_location(task, activation, m_k, R_k, resolution)
        if isinstance(activation, Elementwise):
            return elementwise_tilted(task, activation, m_k, R_k, resolution)
        return normalised_tilted(task, activation, m_k, R_k, resolution)
    if isinstance(task, SelectionTask):
        if isinstance(activation, Elementwise):
            return elementwise_selected(task, activation, m_k, R_k, resolution)
        return normalised_selected(task, activation, m_k, R_k, resolution, check)
    raise TypeError(f"task must be a TiltedTask or a SelectionTask, got {type(task).__name__}")
