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
from slrlab.numerics import selection, simplex
from slrlab.numerics.graded import graded_edges, panels
from slrlab.numerics.steep import STEEP, aligned_moments, several, winning_density
from slrlab.theory.moments import nodes
from slrlab.theory.moments.steep import is_steep, softmax_selected, steep_first
from slrlab.theory.moments.types import AttentionMoments, scaled

_BAND_FROM = 8.0  # signal beyond which a band is cheaper than the whole matrix
_MOST_ENTRIES = 60_000_000  # largest matrix: 0.5 GB, of which up to ten are held at a time


def _bucket(sharpness: float) -> float:
    """Round up to a power of two, so that nearby calls share their grids."""
    return 2.0 ** math.ceil(math.log2(max(sharpness, 0.5)))


def _is_steep(task: SelectionTask) -> bool:
    return task.hard or (task.posterior_scale or 0.0) >= STEEP


@lru_cache(maxsize=8)
def _selected_density(
    task: SelectionTask, sharpness: float, resolution: float
) -> tuple[FloatArray, FloatArray]:
    """Return nodes for ``χ*`` and the weights of the selected token's score on them."""
    peak = 2.0 * math.sqrt(1.0 + math.log(task.length.longest))
    least = peak if _is_steep(task) else task.steepness
    x, step = nodes.key_nodes(task, max(sharpness, least), resolution)
    law = nodes.gauss_weights(x, step)
    # only averages of the density over 1/sharpness matter, not its values at points
    return x, law * _density_ratio(task, x, resolution, (x, law), sharpness)


def _graded_density(
    task: SelectionTask, activation: Elementwise, m_k: float, resolution: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return nodes for ``χ*``, fine at the bend of a sharp map, and both laws on them."""
    bend = np.array(-float(activation.bias or 0.0) / m_k)
    widest = 1.5 / math.sqrt(1.0 + math.log(task.length.longest))
    edges = graded_edges(-nodes.edge(task), nodes.edge(task), bend, 1.0 / abs(m_k), widest)
    x, weights = panels(edges, resolution)
    law = nodes.gauss_weights(x, 1.0) * weights
    return x, law * _density_ratio(task, x, resolution), law


def _density_ratio(
    task: SelectionTask,
    x: FloatArray,
    resolution: float,
    tokens: tuple[FloatArray, FloatArray] | None = None,
    sharpness: float = math.inf,
) -> FloatArray:
    """Return the density of the selected score over that of any score.

    At a moderate signal this is an integral over ``log s``; ``tokens`` are then nodes and weights
    of any score, made here if None.
    """
    generating = task.length.generating
    if task.hard:
        return several(np.asarray(special.log_ndtr(x)), generating)
    if _is_steep(task):
        return winning_density(x, task.posterior_scale or 0.0, generating, resolution)
    if tokens is None:
        scores, step = nodes.key_nodes(task, task.steepness, resolution)
        tokens = scores, nodes.gauss_weights(scores, step)
    u, u_weights = selection_grid(task, *tokens, resolution, sharpness=sharpness)
    (factors,) = simplex.token_factors(u, task.log_weight(tokens[0]), tokens[1])
    outer = u_weights * several(factors.log_zero, generating)
    log_w = task.log_weight(x)
    density = np.zeros_like(x)
    rows = max(1, (1 << 21) // x.size)
    for start in range(0, u.size, rows):
        race = np.exp(np.minimum(u[start : start + rows, None] + log_w, 700.0))
        density += outer[start : start + rows] @ (race * np.exp(-race))
    return density


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
    ends = simplex.exchangeable_window(log_w, law, task.length.generating)
    return simplex.LaplaceGrid(selection_step(task, sharpness) / resolution).nodes(ends)


def selection_step(task: SelectionTask, sharpness: float) -> float:
    """Return the step in ``log s`` that resolves scores to ``1/sharpness``."""
    width = (task.posterior_scale or 0.0) / max(1.0, 2.0 * sharpness)
    return nodes.laplace_step(width, task.length.longest)


def elementwise_selected(
    task: SelectionTask, activation: Elementwise, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    """Return the moments of an elementwise activation where the location is selected."""
    if 2.0 * nodes.edge(task) / nodes.node_step(abs(m_k), resolution) > nodes.MOST_NODES:
        x, selected, tokens = _graded_density(task, activation, m_k, resolution)
    else:
        x, selected = selected_density(task, abs(m_k), resolution)
        tokens = nodes.gauss_weights(x, x[1] - x[0])
    noise, jitter = nodes.jitter_nodes(R_k, resolution)
    sigma, unit = scaled(activation.weights(m_k * x[:, None] + noise))
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
    width, reach = math.hypot(m_k, math.sqrt(R_k)), nodes.edge(task)
    step = nodes.node_step(width, resolution)
    graded = 2.0 * reach / step > nodes.MOST_NODES
    if graded:
        bend = np.array([-float(activation.bias or 0.0)])
        (scores,), (tokens,) = nodes.graded_scores(0.0, width, reach, bend, resolution)
    else:
        x = np.arange(-reach, reach + step, step)
        scores, tokens = width * x, nodes.gauss_weights(x, step)
    log_phi = activation.log_phi(scores)
    if not np.isfinite(log_phi).any():
        return 0.0, np.zeros(2), 1.0
    generating, sink = task.length.generating, activation.sink
    ends = simplex.exchangeable_window(log_phi, tokens, generating, sink)
    u, weights = nodes.laplace_grid(activation, task, width, resolution).nodes(ends)
    if graded:
        centres = nodes.step_centres(activation, u)
        scores, law = nodes.graded_scores(0.0, width, reach, centres, resolution)
        factors = simplex.graded_factors(u, activation.log_phi(scores), law)
    else:
        (factors,) = simplex.token_factors(u, log_phi, tokens)
    energy = simplex.exchangeable_square(u, weights, factors, generating, sink)
    return energy, ends, simplex.vanishing(log_phi, tokens)


@lru_cache(maxsize=2)
def _kernel(
    task: SelectionTask, node_sharpness: float, grid_sharpness: float, resolution: float
) -> tuple[FloatArray, selection.SelectionKernel]:
    """Return token nodes and the selection kernel on them."""
    if task.hard:
        sharp = max(node_sharpness, 2.0 * math.sqrt(1.0 + math.log(task.length.longest)))
        hard = selection.HardKernel.build(nodes.edge(task), nodes.NODE_STEP / (sharp * resolution))
        return hard.nodes, hard
    x, step = nodes.key_nodes(task, max(node_sharpness, task.steepness), resolution)
    law = nodes.gauss_weights(x, step)
    if task.posterior_scale is not None and task.posterior_scale >= _BAND_FROM:
        ends = simplex.exchangeable_window(task.log_weight(x), law, task.length.generating)
        wide = selection_step(task, grid_sharpness) / resolution
        return x, selection.BandKernel.build(x, law, task.posterior_scale, ends, wide)
    u, weights = selection_grid(task, x, law, resolution, sharpness=grid_sharpness)
    return x, selection.SoftKernel.build(u, weights, task.log_weight(x), law)


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
    if m_k == 0.0 and _is_steep(task):  # weights do not depend on the scores: take any signal
        task = replace(task, signal=1.0)
    if is_steep(task, activation, m_k):
        return steep_first(task, activation, (m_k, R_k), ends, resolution, check)
    scale = task.posterior_scale
    pure = activation.is_softmax and R_k == 0.0
    if pure and scale is not None and math.isfinite(scale) and m_k > 0.0 and max(scale, m_k) >= 2:
        if m_k > scale:  # the two factors are interchangeable: measure from the steeper one
            u, weights = nodes.laplace_grid(activation, task, m_k, resolution).nodes(ends)
        else:
            x, step = nodes.key_nodes(task, scale, resolution)
            u, weights = selection_grid(task, x, nodes.gauss_weights(x, step), resolution)
        steep, flat = max(scale, m_k), min(scale, m_k)
        rule = -u / steep, weights / steep
        return aligned_moments(steep, flat, *rule, task.length.generating, resolution)
    x, kernel, u, weights = selection_rule(task, activation, (m_k, R_k), ends, resolution)
    if activation.exponential == "everywhere" and R_k > 0.0:
        decay = selection.exponential_decay(
            u, activation.log_phi(m_k * x), math.sqrt(R_k), resolution
        )
    else:
        noise, jitter = nodes.jitter_nodes(R_k, resolution)
        decay = selection.decay_matrices(u, activation.log_phi(m_k * x[:, None] + noise), jitter)
    t_sink = activation.sink * np.exp(u) if activation.sink > 0.0 else 0.0
    generating = task.length.generating
    return selection.selection_first_moments(
        kernel, decay, weights, generating, t_sink, check=check
    )


def selection_rule(
    task: SelectionTask,
    activation: Normalised,
    keys: tuple[float, float],
    ends: FloatArray,
    resolution: float,
) -> tuple[FloatArray, selection.SelectionKernel, FloatArray, FloatArray]:
    """Return token nodes, the selection kernel on them, and nodes and weights in ``log t``."""
    m_k, R_k = keys
    scale = task.posterior_scale or 0.0
    # the integrand is largest where both Laplace variables stand for the same score: one of the
    # two grids must resolve it, that of the flatter factor, or that of the selection if a band
    # makes it cheap
    width = math.hypot(m_k, math.sqrt(R_k))
    if not task.hard and width <= scale < _BAND_FROM:
        grid = simplex.LaplaceGrid(simplex.STEP / resolution)
        sharpness = 0.0 if activation.is_softmax else _bucket(width)
    else:
        grid, sharpness = nodes.laplace_grid(activation, task, width, resolution), math.inf
    x, kernel = _kernel(task, _bucket(abs(m_k)), sharpness, resolution)
    u, weights = grid.nodes(ends)
    if max(x.size, kernel.weights.size) * u.size > _MOST_ENTRIES:
        raise ComputationError(
            f"{activation.name} at signal {task.signal:g} and m_k {m_k:.4g} needs a grid of "
            f"{kernel.weights.size} by {u.size} points, too large for memory"
        )
    return x, kernel, u, weights
