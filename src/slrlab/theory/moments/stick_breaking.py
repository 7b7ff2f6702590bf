"""Moments of stick-breaking attention: products over the tokens that come later."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from slrlab import _checks
from slrlab._types import FloatArray
from slrlab.model.families import StickBreaking
from slrlab.model.tasks import SelectionTask, Task, TiltedTask
from slrlab.numerics.selection import HardKernel, SelectionKernel, SoftKernel
from slrlab.theory.moments.nodes import edge, gauss_weights, gaussian_nodes, key_nodes, tilted_nodes
from slrlab.theory.moments.selected import selection_grid
from slrlab.theory.moments.types import AttentionMoments

_LONGEST = 1 << 20  # later tokens that are followed; what is left of the stick is then negligible


def stick_breaking_moments(
    task: Task, activation: StickBreaking, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    """Return the moments, averaged over the location."""
    if task.has_infinite_score:
        return _checks.fail("signal", f"finite for {activation.name}", task.signal)
    if task.gaussian_shift is None and R_k > 0.0:
        return _checks.fail("R_k", f"0 for {activation.name} on this task", R_k)
    if isinstance(task, TiltedTask):
        return _tilted(task, activation, m_k, R_k, resolution)
    assert isinstance(task, SelectionTask)
    return _selected(task, activation, m_k, resolution)


def _tilted(
    task: TiltedTask, activation: StickBreaking, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    if task.gaussian_shift is not None:
        width = math.hypot(m_k, math.sqrt(R_k)) or 1e-300
        shift = m_k / width * task.gaussian_shift
        x, relevant, others = gaussian_nodes(shift, edge(task), width, resolution)
        x = width * x
    else:
        x, relevant, others = tilted_nodes(task, abs(m_k), resolution)
        x = m_k * x
    taken, left = _logistic(activation, x)
    target, energy = 0.0, 0.0
    for length, probability in task.length.pairs():
        later = np.arange(min(length, _LONGEST))  # tokens after one that takes its share
        mean, square = (float(others @ left) ** later, float(others @ left**2) ** later)
        target += probability / length * float(relevant @ taken) * mean.sum()
        own = float(relevant @ taken**2) * square.sum()
        # another token takes: the relevant one is among the later ones, or among the earlier ones
        after = float(relevant @ left**2) * (later[1:] * square[:-1]).sum()
        before = ((length - 1 - later) * square).sum()
        energy += probability / length * (own + float(others @ taken**2) * (after + before))
    return AttentionMoments(target, 1.0 - target, max(0.0, energy - target**2))


def _selected(
    task: SelectionTask, activation: StickBreaking, m_k: float, resolution: float
) -> AttentionMoments:
    kernel: SelectionKernel
    if task.hard:
        hard = HardKernel.build(edge(task), 0.35 / (max(1.0, abs(m_k)) * resolution))
        x, kernel = hard.nodes, hard
    else:
        x, step = key_nodes(task, max(task.steepness, abs(m_k)), resolution)
        law = gauss_weights(x, step)
        u, weights = selection_grid(task, x, law, resolution, sharpness=math.inf)
        kernel = SoftKernel.build(u, weights, task.log_weight(x), law)
    grid = np.arange(-edge(task), edge(task), 0.35 / (max(0.5, abs(m_k)) * resolution))
    tokens = gauss_weights(grid, grid[1] - grid[0])
    taken, left = _logistic(activation, m_k * grid)
    own, beside = _logistic(activation, m_k * x)
    picked, passed = kernel.pick(own[:, None])[:, 0], kernel.survive(beside[:, None])[:, 0]
    stayed = 1.0 - np.minimum(kernel.missing, 1.0)
    target, energy = 0.0, 0.0
    for length, probability in task.length.pairs():
        later = np.arange(min(length, _LONGEST))
        square = float(tokens @ left**2) ** later
        energy += probability * float(tokens @ taken**2) * square.sum()
        target += probability * float(kernel.weights @ (picked * _mixed(passed, stayed, length)))
    return AttentionMoments(target, 1.0 - target, max(0.0, energy - target**2))


def _logistic(activation: StickBreaking, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    x = activation.shifted(scores)
    return np.asarray(special.expit(x)), np.asarray(special.expit(-x))


def _mixed(passed: FloatArray, stayed: FloatArray, length: int) -> FloatArray:
    """Return ``Σ_k passed^k stayed^(L−1−k)``: ``k`` tokens come later, the others earlier."""
    gap = stayed - passed
    power = stayed**length - passed**length
    near = gap < 1e-6 * np.maximum(stayed, 1e-300)
    middle = 0.5 * (stayed + passed)
    return np.asarray(
        np.where(near, length * middle ** (length - 1.0), power / np.where(near, 1.0, gap))
    )
