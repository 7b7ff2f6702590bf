"""Chances that concern the largest score: that it is the relevant one, and that it is small."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import special

from slrlab._errors import ComputationError
from slrlab._types import FloatArray
from slrlab.model.arrangements import ArrangementTask, relevant_count
from slrlab.model.tasks import SelectionTask, Task, TiltedTask
from slrlab.numerics.graded import legendre_rule, panels, running_matrix
from slrlab.numerics.steep import several
from slrlab.theory.moments.nodes import (
    EDGE,
    edge,
    gauss_weights,
    jitter_nodes,
    key_nodes,
    node_step,
    score_interval,
    tilted_nodes,
)
from slrlab.theory.moments.selected import selection_grid

_MOST_NODES = 2500  # largest number of rows of a square matrix


def all_below(task: Task, high: float) -> float:
    """Return the chance that all key scores ``χ*`` lie below ``high``."""
    log_law, rest = np.asarray(special.log_ndtr(np.array([high]))), task.length
    if isinstance(task, TiltedTask):
        own = float(_relevant_nodes(task, high, 1.0)[1].sum())
    elif isinstance(task, ArrangementTask):
        rest = rest.shortened(task.shifts.size - 1)
        own = math.exp(float(special.log_ndtr(high - task.shifts).sum()))
    else:
        own = float(np.exp(log_law[0]))
    return own * float(rest.generating(log_law)[0][0])


@lru_cache(maxsize=64)
def relevant_is_largest(task: Task, high: float = math.inf, resolution: float = 1.0) -> float:
    """Return the chance that the relevant key score is the largest, and below ``high``.

    Of several relevant tokens one may be.
    """
    if task.hard:
        return all_below(task, high) if math.isfinite(high) else 1.0
    if math.isinf(task.signal):
        return 1.0
    if isinstance(task, ArrangementTask):
        return _arranged(task, 1.0, high, resolution)
    if isinstance(task, TiltedTask):
        x, relevant = _relevant_nodes(task, high, resolution)
        return float(relevant @ task.length.generating(special.log_ndtr(x))[0])
    assert isinstance(task, SelectionTask)
    x, law = _nodes(task, high, resolution)
    nodes, step = key_nodes(task, task.steepness, resolution)
    tokens = gauss_weights(nodes, step)
    u, weights = selection_grid(task, nodes, tokens, resolution, sharpness=math.inf)
    total = 0.0
    for s, weight in zip(u, weights, strict=True):
        race = np.exp(np.minimum(s + task.log_weight(x), 700.0))
        # the chance that another token lies below x and was not selected
        z = _running(np.exp(-race), law, resolution)
        log_z = np.log(np.maximum(z, 1e-300))
        total += weight * float(law * race * np.exp(-race) @ several(log_z, task.length.generating))
    return float(total)


def noisy_is_largest(task: Task, m_k: float, R_k: float, resolution: float = 1.0) -> float:
    """Return the chance that the relevant score ``m_k·χ* + √R_k·n`` is the largest.

    Equal scores share it.

    Raises
    ------
    ComputationError
        If keys almost along the teacher, or a large signal, need too many nodes.
    """
    if m_k == 0.0:  # the scores say nothing of the location
        return math.fsum(p * relevant_count(task) / n for n, p in task.length.pairs())
    if R_k == 0.0 and m_k > 0.0:
        return relevant_is_largest(task, resolution=resolution)
    width = math.hypot(m_k, math.sqrt(R_k))
    rho, rest = m_k / width, math.sqrt(R_k) / width
    if isinstance(task, ArrangementTask):
        return _arranged(task, rho, math.inf, resolution)
    if isinstance(task, TiltedTask):
        return _noisy_tilted(task, rho, rest, resolution)
    assert isinstance(task, SelectionTask)
    sharpness = 1.0 / rest if rest else math.inf
    sharpness = max(sharpness, 1.0 if task.hard else task.steepness)
    # keys against the teacher without noise are infinitely sharp
    if 2.0 * edge(task) > _MOST_NODES * node_step(sharpness, resolution):
        raise ComputationError(
            f"the hit rate on {task.name} at signal {task.signal:g}, m_k {m_k:.4g} and "
            f"R_k {R_k:.4g} needs more than {_MOST_NODES} nodes"
        )
    if task.hard:
        return _noisy_argmax(task, rho, rest, resolution)
    return _noisy_selected(task, rho, rest, sharpness, resolution)


def _arranged(task: ArrangementTask, rho: float, high: float, resolution: float) -> float:
    """Integrate over the largest score ``N(ρ·shift, 1)``, one of a relevant token, up to a limit.

    ``J ∫ N(x − s₀) Φ(x − s₀)^{J−1} Π_a Φ(x − s_a)^{n_a} Φ(x)^{L−n} dx``: the others lie below.
    """
    reach, shifts = edge(task), rho * task.shifts
    low, top = min(-reach, shifts.min() - EDGE), min(high, max(reach, shifts.max() + EDGE))
    x, weights = panels(np.linspace(low, top, 1 + math.ceil(top - low)), resolution)
    rest = task.length.shortened(shifts.size - 1)
    # one relevant token is the largest, the other placed ones lie below it
    log_below = special.log_ndtr(x - shifts[1:, None]).sum(axis=0)
    law = gauss_weights(x - shifts[0], 1.0) * weights * np.exp(log_below)
    return task.kinds[0].count * float(law @ rest.generating(special.log_ndtr(x))[0])


def _noisy_tilted(task: TiltedTask, rho: float, rest: float, resolution: float) -> float:
    """Integrate over the relevant score, the others being ``N(0, 1)``."""
    if math.isinf(task.signal):
        alone = math.fsum(p for n, p in task.length.pairs() if n == 1)
        return 1.0 if rho > 0.0 else alone
    if task.gaussian_shift is not None:
        shift = rho * task.gaussian_shift
        edges = np.linspace(shift - EDGE, shift + EDGE, 1 + math.ceil(2.0 * EDGE))
        x, weights = panels(edges, resolution)
        law = gauss_weights(x - shift, 1.0) * weights
        return float(law @ task.length.generating(special.log_ndtr(x))[0])
    sharpness = 2.0 * math.sqrt(1.0 + math.log(task.length.longest))
    keys, relevant, _ = tilted_nodes(task, sharpness, resolution)
    noise, jitter = jitter_nodes(1.0, sharpness * resolution)
    scores = rho * keys[:, None] + rest * noise
    return float(relevant @ task.length.generating(special.log_ndtr(scores))[0] @ jitter)


def _noisy_selected(
    task: SelectionTask, rho: float, rest: float, sharpness: float, resolution: float
) -> float:
    """Integrate over the relevant score and the selection variable."""
    keys, step = key_nodes(task, sharpness, resolution)
    tokens = gauss_weights(keys, step)
    u, weights = selection_grid(task, keys, tokens, resolution, sharpness=math.inf)
    race = np.exp(np.minimum(u[:, None] + task.log_weight(keys), 700.0))
    survive = np.exp(-race) * tokens
    away = (keys - rho * keys[:, None]) / rest  # of a score at its node from the mean of its key
    selected = (race * survive) @ (gauss_weights(away, step) / rest)
    log_z = np.log(np.maximum(survive @ special.ndtr(away), 1e-300))
    return float(weights @ (selected * several(log_z, task.length.generating)).sum(axis=1))


def _noisy_argmax(task: SelectionTask, rho: float, rest: float, resolution: float) -> float:
    """Integrate over the largest key and its score; other keys lie below, other scores too."""
    reach = edge(task)
    edges = np.linspace(-reach, reach, 1 + math.ceil(2.0 * reach / min(1.0, 4.0 * rest)))
    x, weights = panels(edges, resolution)
    law = gauss_weights(x, 1.0) * weights
    away = (x - rho * x[:, None]) / rest
    below = np.array([_running(column, law, resolution) for column in special.ndtr(away).T]).T
    log_z = np.log(np.maximum(below, 1e-300))
    chance = gauss_weights(away, 1.0) / rest * several(log_z, task.length.generating)
    return float(law @ chance @ weights)


def _relevant_nodes(
    task: TiltedTask, high: float, resolution: float
) -> tuple[FloatArray, FloatArray]:
    """Return panel nodes below ``high`` and the weights of the relevant score on them."""
    low, top = task.relevant_interval
    top = min(top, high)
    if top <= low:
        return np.zeros(0), np.zeros(0)
    x, weights = panels(np.linspace(low, top, 1 + math.ceil(top - low)), resolution)
    if task.gaussian_shift is not None:
        return x, gauss_weights(x - task.gaussian_shift, 1.0) * weights
    log_law = task.log_ratio(x) - (x**2 + math.log(2.0 * math.pi)) / 2.0
    return x, np.exp(log_law) * weights


def _nodes(task: SelectionTask, high: float, resolution: float) -> tuple[FloatArray, FloatArray]:
    """Return panel nodes below ``high`` and the weights of a standard normal on them."""
    low, top = score_interval(task)
    top = min(top, high)
    widest = 1.0 / max(1.0, 0.5 * task.steepness)
    x, weights = panels(np.linspace(low, top, 1 + math.ceil((top - low) / widest)), resolution)
    return x, gauss_weights(x, 1.0) * weights


def _running(values: FloatArray, law: FloatArray, resolution: float) -> FloatArray:
    """Return the integrals of values under a law from the first edge to each node."""
    matrix = running_matrix(resolution)
    _, gauss = legendre_rule(matrix.shape[0])
    inside = (values * law).reshape(-1, matrix.shape[0])
    before = np.cumsum(inside.sum(axis=1)) - inside.sum(axis=1)
    # the law holds the weights of the panels: divided by those of [-1, 1] it is a density
    return np.asarray((before[:, None] + (inside / gauss) @ matrix.T).ravel())
