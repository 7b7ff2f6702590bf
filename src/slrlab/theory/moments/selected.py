"""Moments for tasks that select the location from the scores: two Laplace variables."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy import special

from slrlab._errors import ComputationError
from slrlab._types import FloatArray
from slrlab.model.activations import Elementwise, Normalised
from slrlab.model.tasks import SelectionTask
from slrlab.numerics.graded import graded_edges, panels
from slrlab.numerics.selection import (
    BandKernel,
    HardKernel,
    SelectionKernel,
    SoftKernel,
    aligned_exponential_moments,
    decay_matrices,
    exponential_decay,
    selection_first_moments,
)
from slrlab.numerics.simplex import (
    STEP,
    LaplaceGrid,
    exchangeable_square,
    exchangeable_window,
    graded_factors,
    token_factors,
    vanishing,
)
from slrlab.numerics.steep import STEEP, several, winning_density
from slrlab.theory.moments.nodes import (
    MOST_NODES,
    NODE_STEP,
    edge,
    gauss_weights,
    graded_scores,
    jitter_nodes,
    key_nodes,
    laplace_grid,
    laplace_step,
    node_step,
    step_centres,
)
from slrlab.theory.moments.steep import is_steep, softmax_selected, steep_first
from slrlab.theory.moments.types import AttentionMoments

_BAND_FROM = 8.0  # signal beyond which a band is cheaper than the whole matrix
_MOST_ENTRIES = 60_000_000  # of one matrix: 0.5 GB, of which up to ten are held at a time


def _bucket(sharpness: float) -> float:
    """Round up to a power of two, so that nearby calls share their grids."""
    return 2.0 ** math.ceil(math.log2(max(sharpness, 0.5)))


@lru_cache(maxsize=8)
def _selected_density(
    task: SelectionTask, sharpness: float, resolution: float
) -> tuple[FloatArray, FloatArray]:
    """Return nodes for ``χ*`` and the weights of the selected token's score on them."""
    steep = _is_steep(task)
    peak = 2.0 * math.sqrt(1.0 + math.log(task.length.longest))
    x, step = key_nodes(task, max(sharpness, peak if steep else task.steepness), resolution)
    law = gauss_weights(x, step)
    if steep:
        return x, law * _steep_density(task, x, resolution)
    # the density is met through averages over 1/sharpness, not pointwise
    u, u_weights = selection_grid(task, x, law, resolution, sharpness=sharpness)
    return x, law * _soft_density(task, (x, law), (u, u_weights), x)


def _is_steep(task: SelectionTask) -> bool:
    return task.hard or (task.posterior_scale or 0.0) >= STEEP


def _steep_density(task: SelectionTask, x: FloatArray, resolution: float) -> FloatArray:
    """Return the density of the selected score over that of any score, at a large signal."""
    generating = task.length.generating
    if task.hard:
        return several(np.asarray(special.log_ndtr(x)), generating)
    return winning_density(x, task.posterior_scale or 0.0, generating, resolution)


def _soft_density(
    task: SelectionTask,
    tokens: tuple[FloatArray, FloatArray],
    rule: tuple[FloatArray, FloatArray],
    x: FloatArray,
) -> FloatArray:
    """Return the same at a moderate signal, by a rule in ``log s``."""
    u, u_weights = rule
    (factors,) = token_factors(u, task.log_weight(tokens[0]), tokens[1])
    outer = u_weights * several(factors.log_zero, task.length.generating)
    log_w = task.log_weight(x)
    density = np.zeros_like(x)
    rows = max(1, (1 << 21) // x.size)
    for start in range(0, u.size, rows):
        race = np.exp(np.minimum(u[start : start + rows, None] + log_w, 700.0))
        density += outer[start : start + rows] @ (race * np.exp(-race))
    return density


def _graded_density(
    task: SelectionTask, activation: Elementwise, m_k: float, resolution: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return nodes for ``χ*``, fine at the bend of a sharp map, and both laws on them."""
    bend = np.array(-float(activation.bias or 0.0) / m_k)
    widest = 1.5 / math.sqrt(1.0 + math.log(task.length.longest))
    edges = graded_edges(-edge(task), edge(task), bend, 1.0 / abs(m_k), widest)
    x, weights = panels(edges, resolution)
    law = gauss_weights(x, 1.0) * weights
    if _is_steep(task):
        return x, law * _steep_density(task, x, resolution), law
    nodes, step = key_nodes(task, task.steepness, resolution)
    tokens = nodes, gauss_weights(nodes, step)
    rule = selection_grid(task, *tokens, resolution, sharpness=math.inf)
    return x, law * _soft_density(task, tokens, rule, x), law


def selected_density(
    task: SelectionTask, sharpness: float, resolution: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Return nodes for ``χ*`` that resolve ``1/sharpness``, and the selected token's law there."""
    return _selected_density(task, _bucket(sharpness), resolution)


def selected_score_mean(task: SelectionTask) -> float:
    """Return ``μ̄ = E[χ*_ε]``, averaged over the length (infinite signal: mean of the maximum)."""
    x, selected = selected_density(task, 1.0, 1.35)
    return float(selected @ x)


def selection_grid(
    task: SelectionTask,
    x: FloatArray,
    law: FloatArray,
    resolution: float,
    *,
    sharpness: float = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights in ``log s`` for the selection variable of a finite signal.

    The grid resolves functions of the score that vary over ``1/sharpness``.
    """
    log_w = task.log_weight(x)
    ends = exchangeable_window(log_w, law, task.length.generating)
    return LaplaceGrid(selection_step(task, sharpness) / resolution).nodes(ends)


def selection_step(task: SelectionTask, sharpness: float) -> float:
    """Return the step in ``log s`` that resolves scores to ``1/sharpness``."""
    width = (task.posterior_scale or 0.0) / max(1.0, 2.0 * sharpness)
    return laplace_step(width, task.length.longest)


def elementwise_selected(
    task: SelectionTask, activation: Elementwise, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    """Return the moments of an elementwise activation where the location is selected."""
    if 2.0 * edge(task) / node_step(abs(m_k), resolution) > MOST_NODES:
        x, selected, tokens = _graded_density(task, activation, m_k, resolution)
    else:
        x, selected = selected_density(task, abs(m_k), resolution)
        tokens = gauss_weights(x, x[1] - x[0])
    noise, jitter = jitter_nodes(R_k, resolution)
    sigma = activation.weights(m_k * x[:, None] + noise)
    unit = float(np.abs(sigma).max(initial=0.0))
    unit = unit if 1e75 < unit < math.inf else 1.0
    sigma = sigma / unit
    target = float(selected @ sigma @ jitter)
    energy = task.length.mean * float(tokens @ sigma**2 @ jitter)
    return AttentionMoments(target, 1.0 - target, max(0.0, energy - target**2), unit=unit)


def normalised_selected(
    task: SelectionTask,
    activation: Normalised,
    m_k: float,
    R_k: float,
    resolution: float,
    check: bool,
) -> AttentionMoments:
    """Return the moments of a normalised activation where the location is selected."""
    pure = activation.is_softmax and R_k == 0.0 and m_k > 0.0
    scale = task.posterior_scale
    steep = scale is not None and max(scale, m_k) >= STEEP
    if pure and steep and m_k >= STEEP:
        return softmax_selected(task, m_k, resolution, None)
    energy, ends, none = _energy(task, activation, m_k, R_k, resolution)
    if none == 1.0:
        return AttentionMoments(0.0, 1.0, 0.0)
    if pure and steep:
        return softmax_selected(task, m_k, resolution, energy)
    target, shortfall = _selected_first(task, activation, m_k, R_k, ends, resolution, check)
    generating = task.length.generating
    if activation.sink == 0.0 and check:  # every φ = 0: no weight on any token
        shortfall += none * float(generating(np.log(np.maximum(np.array([none]), 1e-290)))[0][0])
    defect = abs(target + shortfall - 1.0)
    if shortfall < 0.5:
        # B − A² = (B − 1) + 2(1−A) − (1−A)²; B itself is accurate to rounding only
        unexplained = (energy - 1.0) + shortfall * (2.0 - shortfall)
        return AttentionMoments(1.0 - shortfall, shortfall, max(0.0, unexplained), defect)
    return AttentionMoments(target, 1.0 - target, max(0.0, energy - target**2), defect)


def _energy(
    task: SelectionTask, activation: Normalised, m_k: float, R_k: float, resolution: float
) -> tuple[float, FloatArray, float]:
    """Return ``B``, the ends of ``log t`` that carry it, and the mass of ``φ = 0``."""
    width, reach = math.hypot(m_k, math.sqrt(R_k)), edge(task)
    step = node_step(width, resolution)
    graded = 2.0 * reach / step > MOST_NODES
    if graded:
        bend = np.array([-float(activation.bias or 0.0)])
        scores, tokens = (row[0] for row in graded_scores(0.0, width, reach, bend, resolution))
    else:
        x = np.arange(-reach, reach + step, step)
        scores, tokens = width * x, gauss_weights(x, step)
    log_phi = activation.log_phi(scores)
    if not np.isfinite(log_phi).any():
        return 0.0, np.zeros(2), 1.0
    generating, sink = task.length.generating, activation.sink
    ends = exchangeable_window(log_phi, tokens, generating, sink)
    u, weights = laplace_grid(activation, task, width, resolution).nodes(ends)
    if graded:
        centres = step_centres(activation, u)
        scores, law = graded_scores(0.0, width, reach, centres, resolution)
        factors = graded_factors(u, activation.log_phi(scores), law)
    else:
        (factors,) = token_factors(u, log_phi, tokens)
    energy = exchangeable_square(u, weights, factors, generating, sink)
    return energy, ends, vanishing(log_phi, tokens)


@lru_cache(maxsize=2)
def _kernel(
    task: SelectionTask, node_sharpness: float, grid_sharpness: float, resolution: float
) -> tuple[FloatArray, SelectionKernel]:
    """Return token nodes and the selection kernel on them."""
    if task.hard:
        sharp = max(node_sharpness, 2.0 * math.sqrt(1.0 + math.log(task.length.longest)))
        hard = HardKernel.build(edge(task), NODE_STEP / (sharp * resolution))
        return hard.nodes, hard
    x, step = key_nodes(task, max(node_sharpness, task.steepness), resolution)
    law = gauss_weights(x, step)
    if task.posterior_scale is not None and task.posterior_scale >= _BAND_FROM:
        ends = exchangeable_window(task.log_weight(x), law, task.length.generating)
        wide = selection_step(task, grid_sharpness) / resolution
        return x, BandKernel.build(x, law, task.posterior_scale, ends, wide)
    u, weights = selection_grid(task, x, law, resolution, sharpness=grid_sharpness)
    return x, SoftKernel.build(u, weights, task.log_weight(x), law)


def _selected_first(
    task: SelectionTask,
    activation: Normalised,
    m_k: float,
    R_k: float,
    ends: FloatArray,
    resolution: float,
    check: bool,
) -> tuple[float, float]:
    """Return ``E[σ_ε]`` and ``E[1−σ_ε]``; ``ends`` bound ``log t``."""
    if m_k == 0.0 and _is_steep(task):  # weights that ignore the scores: any signal will do
        task = replace(task, signal=1.0)
    if is_steep(task, activation, m_k):
        return steep_first(task, activation, (m_k, R_k), ends, resolution, check)
    scale = task.posterior_scale
    pure = activation.is_softmax and R_k == 0.0
    if pure and scale is not None and math.isfinite(scale) and m_k > 0.0 and max(scale, m_k) >= 2:
        generating = task.length.generating
        if m_k > scale:  # the two factors play symmetric parts: measure from the steeper one
            u, weights = laplace_grid(activation, task, m_k, resolution).nodes(ends)
            return aligned_exponential_moments(m_k, scale, generating, u, weights, resolution)
        x, step = key_nodes(task, scale, resolution)
        u, weights = selection_grid(task, x, gauss_weights(x, step), resolution)
        return aligned_exponential_moments(scale, m_k, generating, u, weights, resolution)
    x, kernel, u, weights = selection_rule(task, activation, (m_k, R_k), ends, resolution)
    if activation.exponential == "everywhere" and R_k > 0.0:
        decay = exponential_decay(u, activation.log_phi(m_k * x), math.sqrt(R_k), resolution)
    else:
        noise, jitter = jitter_nodes(R_k, resolution)
        decay = decay_matrices(u, activation.log_phi(m_k * x[:, None] + noise), jitter)
    t_sink = activation.sink * np.exp(u) if activation.sink > 0.0 else 0.0
    generating = task.length.generating
    return selection_first_moments(kernel, decay, weights, generating, t_sink, check=check)


def selection_rule(
    task: SelectionTask,
    activation: Normalised,
    keys: tuple[float, float],
    ends: FloatArray,
    resolution: float,
) -> tuple[FloatArray, SelectionKernel, FloatArray, FloatArray]:
    """Return token nodes, the selection kernel on them, and nodes and weights in ``log t``."""
    m_k, R_k = keys
    scale = task.posterior_scale
    # the integrand has a ridge where both Laplace variables point at the same score: it is
    # enough that one of the two grids resolves it, so the flatter factor gets the fine grid
    width = math.hypot(m_k, math.sqrt(R_k))
    # (a band makes a fine grid of the selection variable cheap: then that one is fine)
    fine_t = not task.hard and width <= (scale or 0.0) and (scale or 0.0) < _BAND_FROM
    grid = (
        LaplaceGrid(STEP / resolution)
        if fine_t
        else laplace_grid(activation, task, width, resolution)
    )
    coarse = 0.0 if activation.is_softmax else _bucket(width)
    x, kernel = _kernel(task, _bucket(abs(m_k)), coarse if fine_t else math.inf, resolution)
    u, weights = grid.nodes(ends)
    if max(x.size, kernel.weights.size) * u.size > _MOST_ENTRIES:
        raise ComputationError(
            f"{activation.name} at signal {task.signal:g} and m_k {m_k:.4g} needs a grid of "
            f"{kernel.weights.size} by {u.size} points, too large for memory"
        )
    return x, kernel, u, weights
