"""Moments for tasks with independent tokens: one-dimensional integrals in ``log t``."""

from __future__ import annotations

import math

import numpy as np

from slrlab._errors import ComputationError
from slrlab._types import FloatArray
from slrlab.model.activations import LINEAR, Elementwise, Normalised
from slrlab.model.tasks import Task, TiltedTask
from slrlab.numerics import simplex
from slrlab.theory.moments import nodes
from slrlab.theory.moments.types import AttentionMoments, scaled

_CERTAIN = 800.0  # difference of log φ beyond which the smaller one is below the smallest double
_SHARPEST = 1e6  # norm of the keys up to which scores have enough digits after the point


def elementwise_tilted(
    task: TiltedTask, activation: Elementwise, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    """Return the moments of an elementwise activation on independent tokens."""
    if activation.phi is LINEAR.phi and task.gaussian_shift is not None:
        return _linear(task, 1.0 + float(activation.bias or 0.0), m_k, R_k)
    scores, relevant, others = _scores(task, activation, m_k, R_k, resolution)
    sigma, unit = scaled(activation.weights(scores))
    target = float(relevant @ sigma)
    variance = float(relevant @ (sigma - target) ** 2)
    off = (task.length.mean - 1.0) * float(others @ sigma**2)
    return AttentionMoments(target, 1.0 - target, variance + off, unit=unit)


def _linear(task: TiltedTask, constant: float, m_k: float, R_k: float) -> AttentionMoments:
    """Return the exact moments of ``constant + χ``: sums would lose the variance to rounding."""
    shift = m_k * (task.gaussian_shift or 0.0)
    _, unit = scaled(np.array([shift]))
    target, width = (constant + shift) / unit, math.hypot(m_k, math.sqrt(R_k)) / unit
    off = (task.length.mean - 1.0) * (width**2 + (constant / unit) ** 2)
    return AttentionMoments(target, 1.0 - target, width**2 + off, unit=unit)


def _scores(
    task: TiltedTask,
    activation: Elementwise | Normalised,
    m_k: float,
    R_k: float,
    resolution: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return nodes for the score ``χ`` and the weights of relevant and other tokens on them."""
    width = math.hypot(m_k, math.sqrt(R_k))
    if _needs_grading(task, width, resolution):
        return _graded_scores(task, activation, m_k, width, resolution)
    if task.gaussian_shift is not None and width > 0.0:
        shift = m_k / width * task.gaussian_shift
        x, relevant, others = nodes.gaussian_nodes(shift, nodes.edge(task), width, resolution)
        return width * x, relevant, others
    x, relevant, others = nodes.tilted_nodes(task, abs(m_k), resolution)
    noise, jitter = nodes.jitter_nodes(R_k, resolution)
    rel, oth = (np.outer(law, jitter).ravel() for law in (relevant, others))
    return (m_k * x[:, None] + noise).ravel(), rel, oth


def _needs_grading(task: TiltedTask, width: float, resolution: float) -> bool:
    """Return whether uniform nodes would be too many."""
    if nodes.interval_length(task) / nodes.node_step(width, resolution) <= nodes.MOST_NODES:
        return False
    if task.gaussian_shift is None:
        raise ComputationError(
            f"keys of norm {width:.4g} need a grid too large for memory on the task {task.name}"
        )
    return True


def _graded_scores(
    task: TiltedTask,
    activation: Elementwise | Normalised,
    m_k: float,
    width: float,
    resolution: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return nodes of both laws, fine where the map bends: at a score of minus the bias."""
    bend = np.array([-float(activation.bias or 0.0)])
    shift = m_k * (task.gaussian_shift or 0.0)
    (rel, rel_law), (oth, oth_law) = (
        nodes.graded_scores(mean, width, nodes.REACH, bend, resolution) for mean in (shift, 0.0)
    )
    relevant = np.append(rel_law[0], np.zeros(oth_law[0].size))
    others = np.append(np.zeros(rel_law[0].size), oth_law[0])
    return np.append(rel[0], oth[0]), relevant, others


def _graded_factors(
    task: TiltedTask,
    activation: Normalised,
    m_k: float,
    width: float,
    least: float,
    resolution: float,
) -> simplex.Factors:
    """Return one-token factors on nodes that follow the step of ``e^{−tφ}`` as ``t`` changes."""
    shift = m_k * (task.gaussian_shift or 0.0)

    def factors(u: FloatArray) -> list[simplex.TokenFactors]:
        centre = nodes.step_centres(activation, u)
        laws = []
        for mean in (shift, 0.0):
            scores, law = nodes.graded_scores(mean, width, nodes.REACH, centre, resolution)
            log_phi = activation.log_phi(scores)
            log_phi[log_phi < least] = -np.inf
            laws.append(simplex.graded_factors(u, log_phi, law))
        return laws

    return factors


def certain_location(
    task: TiltedTask,
    activation: Elementwise | Normalised,
    m_k: float,
    R_k: float,
    resolution: float,
) -> AttentionMoments:
    """Return the moments at an infinite signal: the relevant score is infinite, or 0."""
    far = np.array([math.copysign(1e150, m_k) if m_k else 0.0])
    noise, jitter = nodes.jitter_nodes(m_k**2 + R_k, resolution)
    if isinstance(activation, Elementwise):
        top = float(activation.weights(far)[0])
        if abs(top) > 1e100:
            return AttentionMoments(1.0, 0.0, 0.0)
        off = (task.length.mean - 1.0) * float(activation.weights(noise) ** 2 @ jitter)
        return AttentionMoments(top, 1.0 - top, off)
    top = float(activation.log_phi(far)[0])
    if top > 100.0:
        return AttentionMoments(1.0, 0.0, 0.0)
    log_phi = np.append(activation.log_phi(noise), top)
    relevant = np.append(np.zeros_like(jitter), 1.0)
    grid = nodes.laplace_grid(activation, task, math.hypot(m_k, math.sqrt(R_k)), resolution)
    return _from_simplex(task, activation, log_phi, relevant, np.append(jitter, 0.0), grid)


def _from_simplex(
    task: Task,
    activation: Normalised,
    log_phi: FloatArray,
    relevant: FloatArray,
    others: FloatArray,
    grid: simplex.LaplaceGrid,
    factors: simplex.Factors | None = None,
) -> AttentionMoments:
    laws, generating, sink = (relevant, others), task.length.generating, activation.sink
    moments = simplex.independent_moments(
        log_phi, *laws, generating, sink=sink, grid=grid, factors=factors
    )
    unexplained = moments.variance + moments.off_target
    defect = abs(moments.target + moments.shortfall - 1.0)
    return AttentionMoments(moments.target, moments.shortfall, unexplained, defect)


def _comparable(
    activation: Normalised, log_phi: FloatArray, others: FloatArray
) -> tuple[float, float]:
    """Return ends of ``log φ`` below which a token has no weight and above which it has all."""
    finite = log_phi[(others > 0.0) & np.isfinite(log_phi)]
    if activation.sink > 0.0:
        finite = np.append(finite, math.log(activation.sink))
    if finite.size == 0:
        return -math.inf, math.inf
    return float(finite.min()) - _CERTAIN, float(finite.max()) + _CERTAIN


def normalised_tilted(
    task: TiltedTask, activation: Normalised, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    """Return the moments of a normalised activation on independent tokens."""
    width = math.hypot(m_k, math.sqrt(R_k))
    if width > _SHARPEST:
        return _extrapolated(task, activation, m_k, R_k, resolution)
    scores, relevant, others = _scores(task, activation, m_k, R_k, resolution)
    log_phi = activation.log_phi(scores)
    least, most = _comparable(activation, log_phi, others)
    if (log_phi[relevant > 0.0] > most).all():
        return AttentionMoments(1.0, 0.0, 0.0)
    log_phi = np.where(log_phi < least, -np.inf, log_phi)
    factors = None
    if _needs_grading(task, width, resolution):
        factors = _graded_factors(task, activation, m_k, width, least, resolution)
    grid = nodes.laplace_grid(activation, task, width, resolution)
    return _from_simplex(task, activation, log_phi, relevant, others, grid, factors)


def _extrapolated(
    task: TiltedTask, activation: Normalised, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    """Return the moments at keys so long that only ties within ``1/width`` depend on the width.

    They are a constant plus a multiple of ``1/width``, up to a square of it; both are fitted to
    shorter keys of the same direction.
    """
    ratio = _SHARPEST / math.hypot(m_k, math.sqrt(R_k))
    half, whole = (
        normalised_tilted(task, activation, m_k * short, R_k * short**2, resolution)
        for short in (0.5 * ratio, ratio)
    )
    target, shortfall, unexplained = (
        max(0.0, new + (new - old) * (1.0 - ratio))
        for old, new in (
            (half.target, whole.target),
            (half.shortfall, whole.shortfall),
            (half.unexplained, whole.unexplained),
        )
    )
    return AttentionMoments(target, shortfall, unexplained, whole.defect)
