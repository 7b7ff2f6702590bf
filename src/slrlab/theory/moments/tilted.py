"""Moments for tasks with independent tokens: one-dimensional integrals in ``log t``."""

from __future__ import annotations

import math

import numpy as np

from slrlab._errors import ComputationError
from slrlab._types import FloatArray
from slrlab.model.activations import LINEAR, Elementwise, Normalised
from slrlab.model.tasks import Task, TiltedTask
from slrlab.numerics.simplex import (
    Factors,
    LaplaceGrid,
    TokenFactors,
    graded_factors,
    independent_moments,
)
from slrlab.theory.moments.nodes import (
    MOST_NODES,
    REACH,
    edge,
    gaussian_nodes,
    graded_scores,
    interval_length,
    jitter_nodes,
    laplace_grid,
    node_step,
    step_centres,
    tilted_nodes,
)
from slrlab.theory.moments.types import AttentionMoments

_HUGE = 1e75  # weights whose fourth power overflows are measured in units of the largest
_CERTAIN = 800.0  # difference of log φ beyond which the smaller one is below the smallest double
_SHARPEST = 1e6  # norm of the keys up to which scores keep enough digits behind the point


def elementwise_tilted(
    task: TiltedTask, activation: Elementwise, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    """Return the moments of an elementwise activation on independent tokens."""
    if activation.phi is LINEAR.phi and task.gaussian_shift is not None:
        return _linear(task.length.mean, 1.0 + float(activation.bias or 0.0), m_k, R_k, task)
    scores, relevant, others = _scores(task, activation, m_k, R_k, resolution)
    sigma = activation.weights(scores)
    unit = float(np.abs(sigma).max(initial=0.0))
    unit = unit if unit > _HUGE and math.isfinite(unit) else 1.0
    sigma = sigma / unit
    target = float(relevant @ sigma)
    variance = float(relevant @ (sigma - target) ** 2)
    off = (task.length.mean - 1.0) * float(others @ sigma**2)
    return AttentionMoments(target, 1.0 - target, variance + off, unit=unit)


def _linear(
    mean: float, constant: float, m_k: float, R_k: float, task: TiltedTask
) -> AttentionMoments:
    """Return the exact moments of ``constant + χ``: its variance would drown in its mean."""
    shift = m_k * (task.gaussian_shift or 0.0)
    unit = max(1.0, abs(shift) if abs(shift) > _HUGE else 1.0)
    target, width = (constant + shift) / unit, math.hypot(m_k, math.sqrt(R_k)) / unit
    off = (mean - 1.0) * (width**2 + (constant / unit) ** 2)
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
        x, relevant, others = gaussian_nodes(shift, edge(task), width, resolution)
        return width * x, relevant, others
    x, relevant, others = tilted_nodes(task, abs(m_k), resolution)
    noise, jitter = jitter_nodes(R_k, resolution)
    rel, oth = (np.outer(law, jitter).ravel() for law in (relevant, others))
    return (m_k * x[:, None] + noise).ravel(), rel, oth


def _needs_grading(task: TiltedTask, width: float, resolution: float) -> bool:
    """Return whether uniform nodes would be too many."""
    if interval_length(task) / node_step(width, resolution) <= MOST_NODES:
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
        graded_scores(mean, width, REACH, bend, resolution) for mean in (shift, 0.0)
    )
    none = np.zeros_like(rel_law[0]), np.zeros_like(oth_law[0])
    return (
        np.concatenate([rel[0], oth[0]]),
        np.concatenate([rel_law[0], none[1]]),
        np.concatenate([none[0], oth_law[0]]),
    )


def _graded_factors(
    task: TiltedTask,
    activation: Normalised,
    m_k: float,
    width: float,
    least: float,
    resolution: float,
) -> Factors:
    """Return one-token factors on nodes that follow the step of ``e^{−tφ}`` as ``t`` changes."""
    shift = m_k * (task.gaussian_shift or 0.0)

    def factors(u: FloatArray) -> list[TokenFactors]:
        centre = step_centres(activation, u)
        found = []
        for mean in (shift, 0.0):
            scores, law = graded_scores(mean, width, REACH, centre, resolution)
            log_phi = activation.log_phi(scores)
            log_phi[log_phi < least] = -np.inf
            found.append(graded_factors(u, log_phi, law))
        return found

    return factors


def certain_location(
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
    factors: Factors | None = None,
) -> AttentionMoments:
    found = independent_moments(
        log_phi,
        relevant,
        others,
        task.length.generating,
        sink=activation.sink,
        grid=grid,
        factors=factors,
    )
    unexplained = found.variance + found.off_target
    defect = abs(found.target + found.shortfall - 1.0)
    return AttentionMoments(found.target, found.shortfall, unexplained, defect)


def _comparable(
    activation: Normalised, log_phi: FloatArray, others: FloatArray
) -> tuple[float, float]:
    """Return ends of ``log φ`` below which a token has no weight and above which it has all."""
    held = log_phi[(others > 0.0) & np.isfinite(log_phi)]
    if activation.sink > 0.0:
        held = np.append(held, math.log(activation.sink))
    if held.size == 0:
        return -math.inf, math.inf
    return float(held.min()) - _CERTAIN, float(held.max()) + _CERTAIN


def normalised_tilted(
    task: TiltedTask, activation: Normalised, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    """Return the moments of a normalised activation on independent tokens."""
    width = math.hypot(m_k, math.sqrt(R_k))
    if width > _SHARPEST:
        return _towards_certainty(task, activation, (m_k, R_k), width, resolution)
    scores, relevant, others = _scores(task, activation, m_k, R_k, resolution)
    log_phi = activation.log_phi(scores)
    least, most = _comparable(activation, log_phi, others)
    if (log_phi[relevant > 0.0] > most).all():
        return AttentionMoments(1.0, 0.0, 0.0)
    log_phi = np.where(log_phi < least, -np.inf, log_phi)
    factors = None
    if _needs_grading(task, width, resolution):
        factors = _graded_factors(task, activation, m_k, width, least, resolution)
    grid = laplace_grid(activation, task, width, resolution)
    return _from_simplex(task, activation, log_phi, relevant, others, grid, factors)


def _towards_certainty(
    task: TiltedTask,
    activation: Normalised,
    keys: tuple[float, float],
    width: float,
    resolution: float,
) -> AttentionMoments:
    """Return the moments at keys so long that only ties within ``1/width`` still depend on it.

    They are a constant plus a multiple of ``1/width``, up to a square of it; both are fitted to
    shorter keys of the same direction.
    """
    half, whole = (
        normalised_tilted(task, activation, keys[0] * short, keys[1] * short**2, resolution)
        for short in (0.5 * _SHARPEST / width, _SHARPEST / width)
    )
    beyond = 1.0 - _SHARPEST / width
    target, shortfall, unexplained = (
        max(0.0, new + (new - old) * beyond)
        for old, new in (
            (half.target, whole.target),
            (half.shortfall, whole.shortfall),
            (half.unexplained, whole.unexplained),
        )
    )
    return AttentionMoments(target, shortfall, unexplained, whole.defect)
