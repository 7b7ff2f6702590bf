r"""Moments where the relevant token has its own variance ``γ²`` in every direction.

On M the risk is ``Δ² + γ²(1 − 2 m_v A + q_v B)`` with ``A = E[σ_ε]`` as always and
``B = E[σ_ε²] + E Σ_{ℓ≠ε} σ_ℓ²/γ²``: value scores of the other tokens have variance 1, not ``γ²``.
The relevant score is ``N(m_k√ν, γ²q_k)``, the others are ``N(0, q_k)``.
"""

from __future__ import annotations

import math

import numpy as np

from slrlab._errors import ComputationError
from slrlab._types import FloatArray
from slrlab.model.activations import Elementwise, Normalised
from slrlab.model.marion import MarionSLR
from slrlab.numerics.simplex import independent_moments
from slrlab.theory.moments import nodes
from slrlab.theory.moments.types import AttentionMoments, scaled


def rescaled_moments(
    task: MarionSLR,
    activation: Elementwise | Normalised,
    m_k: float,
    R_k: float,
    resolution: float,
) -> AttentionMoments:
    """Return the moments of an elementwise or normalised activation.

    Raises
    ------
    ComputationError
        If the keys are too long for the grid.
    """
    width, variance = math.hypot(m_k, math.sqrt(R_k)), task.relevant_std**2
    scores, relevant, others = _scores(task, m_k * task.shift, width, resolution)
    if isinstance(activation, Elementwise):
        sigma, unit = scaled(activation.weights(scores))
        target = float(relevant @ sigma)
        own = float(relevant @ (sigma - target) ** 2)
        off = (task.length.mean - 1.0) * float(others @ sigma**2)
        return AttentionMoments(target, 1.0 - target, own + off / variance, unit=unit)
    narrow = min(1.0, task.relevant_std) * width
    grid = nodes.laplace_grid(activation, task, narrow, resolution)
    log_phi, generating, sink = activation.log_phi(scores), task.length.generating, activation.sink
    moments = independent_moments(log_phi, relevant, others, generating, sink=sink, grid=grid)
    defect = abs(moments.target + moments.shortfall - 1.0)
    unexplained = moments.variance + moments.off_target / variance
    return AttentionMoments(moments.target, moments.shortfall, unexplained, defect)


def _scores(
    task: MarionSLR, mean: float, width: float, resolution: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return nodes of the score and the weights of both laws, which have nodes of their own."""
    reach, grids, laws = nodes.edge(task), [], []
    for centre, std in ((mean, task.relevant_std * width), (0.0, width)):
        step = nodes.node_step(std, resolution)
        if 2.0 * reach / step > nodes.MOST_NODES:
            raise ComputationError(
                f"keys of norm {width:.4g} need a grid too large for memory on the task {task.name}"
            )
        x = np.arange(-reach, reach + step, step)
        grids.append(centre + std * x)
        laws.append(nodes.gauss_weights(x, step))
    (relevant, others), (a, b) = laws, map(np.zeros_like, laws)
    return np.concatenate(grids), np.append(relevant, b), np.append(a, others)
