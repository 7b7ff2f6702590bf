"""Moments for tasks with independent tokens: one-dimensional integrals in ``log t``."""

from __future__ import annotations

import math

import numpy as np

from slrlab.model.activations import Elementwise, Normalised
from slrlab.model.lengths import FloatArray
from slrlab.model.tasks import Task, TiltedTask
from slrlab.numerics.simplex import LaplaceGrid, independent_moments
from slrlab.theory.moments.nodes import jitter_nodes, laplace_grid, tilted_nodes
from slrlab.theory.moments.types import AttentionMoments


def elementwise_tilted(
    task: TiltedTask, activation: Elementwise, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    """Return the moments of an elementwise activation on independent tokens."""
    x, relevant, others = tilted_nodes(task, abs(m_k), resolution)
    noise, jitter = jitter_nodes(R_k, resolution)
    sigma = activation.weights(m_k * x[:, None] + noise)
    target = float(relevant @ sigma @ jitter)
    variance = float(relevant @ (sigma - target) ** 2 @ jitter)
    off = (task.length.mean - 1.0) * float(others @ sigma**2 @ jitter)
    return AttentionMoments(target, 1.0 - target, variance + off)


def certain_place(
    task: TiltedTask,
    activation: Elementwise | Normalised,
    m_k: float,
    R_k: float,
    resolution: float,
) -> AttentionMoments:
    """Infinite signal: the relevant token has an infinite score of the sign of ``m_k``."""
    far = np.array([math.copysign(1e150, m_k) if m_k else 0.0])
    if isinstance(activation, Elementwise):
        with np.errstate(over="ignore"):
            top = float(activation.weights(far)[0])
        if abs(top) > 1e100:
            return AttentionMoments(1.0, 0.0, 0.0)
        noise, jitter = jitter_nodes(m_k**2 + R_k, resolution)
        off = (task.length.mean - 1.0) * float(activation.weights(noise) ** 2 @ jitter)
        return AttentionMoments(top, 1.0 - top, off)
    top = float(activation.log_phi(far)[0])
    if top > 100.0:
        return AttentionMoments(1.0, 0.0, 0.0)
    noise, jitter = jitter_nodes(m_k**2 + R_k, resolution)
    nodes = np.append(activation.log_phi(noise), top)
    relevant = np.append(np.zeros_like(jitter), 1.0)
    grid = laplace_grid(activation, task, math.hypot(m_k, math.sqrt(R_k)), resolution)
    return _from_simplex(task, activation, nodes, relevant, np.append(jitter, 0.0), grid)


def _from_simplex(
    task: Task,
    activation: Normalised,
    log_phi: FloatArray,
    relevant: FloatArray,
    others: FloatArray,
    grid: LaplaceGrid,
) -> AttentionMoments:
    found = independent_moments(
        log_phi, relevant, others, task.length.generating, sink=activation.sink, grid=grid
    )
    spread = found.variance + found.off_target
    defect = abs(found.target + found.shortfall - 1.0)
    return AttentionMoments(found.target, found.shortfall, spread, defect)


def normalised_tilted(
    task: TiltedTask, activation: Normalised, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    """Return the moments of a normalised activation on independent tokens."""
    x, relevant, others = tilted_nodes(task, abs(m_k), resolution)
    noise, jitter = jitter_nodes(R_k, resolution)
    log_phi = activation.log_phi(m_k * x[:, None] + noise).ravel()
    grid = laplace_grid(activation, task, math.hypot(m_k, math.sqrt(R_k)), resolution)
    rel, oth = (np.outer(law, jitter).ravel() for law in (relevant, others))
    return _from_simplex(task, activation, log_phi, rel, oth, grid)
