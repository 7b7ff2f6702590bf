r"""Moments where location and weights are drawn by steep maps of the same scores.

At a large signal both the selection and a normalised activation are steps. Where the map is
exponential the two steps are measured from each other (`aligned_moments`); around the bend of the
map and above it a kernel on panels is enough. The cost does not grow with the signal or the keys.
"""

from __future__ import annotations

import math

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.activations import Normalised
from slrlab.model.tasks import SelectionTask
from slrlab.numerics.graded import panels
from slrlab.numerics.selection import decay_matrices, selection_first_moments
from slrlab.numerics.simplex import STEP, LaplaceGrid
from slrlab.numerics.steep import (
    HARD,
    STEEP,
    aligned_moments,
    missing_energy,
    panel_kernel,
    softmax_first,
    winning_mass,
)
from slrlab.theory.moments.nodes import EDGE, edge, jitter_nodes
from slrlab.theory.moments.types import AttentionMoments

_SPARE = 0.8  # factor of the resolution: panels converge faster than uniform nodes
_STEEPER = 8.0  # slope from which panels are cheaper than uniform nodes
_CUT = 37.0  # score below which a map exponential to the left is so to rounding
_ZONE = 3.0  # width of a panel around the bend, in scores
_FLAT = 9.0  # score above which a map that is exponential to the left has a smooth logarithm
_RATIO = 1.25  # of the scores between which the growth of a map is read
_POWER = 2.0  # gain of log φ from one to the next, that of x^9
_WIDEST_ZONE = 1500.0  # in scores
_WIDEST = 0.75  # width of any panel, in key scores


def value_grid(task: SelectionTask, resolution: float) -> tuple[FloatArray, float]:
    """Return trapezoid nodes for the winning value of a race at a large slope, and their step."""
    step = STEP / (resolution * math.sqrt(1.0 + math.log(task.length.longest)))
    reach = edge(task) + 1.0
    return np.arange(-reach, reach, step), step


def softmax_selected(
    task: SelectionTask, m_k: float, resolution: float, energy: float | None
) -> AttentionMoments:
    """Return the moments of softmax with ``m_k > 0``, one of the two slopes being steep.

    ``energy`` is ``B``, needed at a small ``m_k`` only.
    """
    values, step = value_grid(task, resolution)
    generating = task.length.generating
    signal = task.posterior_scale or 0.0
    weights = np.full(values.size, step)
    target, missed = softmax_first(values, weights, signal, m_k, generating, resolution)
    defect = abs(target + missed - 1.0)
    if missed >= 0.5 and energy is not None:
        return AttentionMoments(target, 1.0 - target, max(0.0, energy - target**2), defect)
    if m_k >= STEEP or energy is None:
        lost = missing_energy(values, step, m_k, generating, resolution)
    else:
        lost = 1.0 - energy
    # B − A² = 2(1−A) − (1−A)² − (1−B)
    unexplained = missed * (2.0 - missed) - lost
    return AttentionMoments(1.0 - missed, missed, max(0.0, unexplained), defect)


def is_steep(task: SelectionTask, activation: Normalised, m_k: float) -> bool:
    """Return whether the panels of this module serve these slopes."""
    scale = task.posterior_scale
    if scale is None or activation.sink > 0.0 or m_k == 0.0:
        return False
    if task.hard:
        return abs(m_k) >= _STEEPER
    # Gumbel averages of the normal law converge if its logarithm is flat on the scale 1/ν
    flat = 4.0 * math.sqrt(1.0 + 2.0 * math.log(task.length.longest))
    return scale >= max(_STEEPER, flat) and abs(m_k) <= 2.5 * scale


def steep_first(
    task: SelectionTask,
    activation: Normalised,
    keys: tuple[float, float],
    ends: FloatArray,
    resolution: float,
    check: bool,
) -> tuple[float, float]:
    """Return ``E[σ_ε]`` and ``E[1−σ_ε]``; ``ends`` bound ``log t``."""
    m_k, R_k = keys
    resolution *= _SPARE
    signal = min(task.posterior_scale or 0.0, HARD * max(1.0, abs(m_k)))
    away = EDGE * math.sqrt(R_k)
    ratio = abs(m_k) / signal
    cut = _CUT + away + 5.0 * ratio  # tokens are at most 4.5/ν above the winning value
    border = (-cut - float(activation.bias or 0.0)) / m_k
    generating = task.length.generating
    bend, exponential = _split(task, activation, m_k, border, signal, resolution)
    check = check and m_k > 0.0
    target = missed = 0.0
    if exponential[0].size:
        target, missed = aligned_moments(
            signal, m_k, *exponential, generating, resolution, width=math.sqrt(R_k), check=check
        )
    if bend[0].size:
        bent = -float(activation.bias or 0.0) / m_k
        highest = cut + away + 5.0 + 45.0 * ratio  # the winner is at most 45/ν below it
        zones = _zones(activation, highest + _CUT + away, 2.0 * abs(m_k) * edge(task))
        edges = _bent_edges(edge(task) + 1.0, bent, m_k, _WIDEST, zones)
        x, kernel = panel_kernel(*bend, edges, signal, resolution)
        top = float(ends[1])
        if activation.exponential != "nowhere":
            top = min(top, highest)
        u, weights = LaplaceGrid(STEP / resolution).nodes(np.array([ends[0], top]))
        noise, jitter = jitter_nodes(R_k, resolution)
        decay = decay_matrices(u, activation.log_phi(m_k * x[:, None] + noise), jitter)
        more = selection_first_moments(kernel, decay, weights, generating, check=check)
        target, missed = target + more[0], missed + more[1]
    return target, missed if check else 1.0 - target


def _split(
    task: SelectionTask,
    activation: Normalised,
    m_k: float,
    border: float,
    signal: float,
    resolution: float,
) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    """Return winning values and weights: near or above the bend, and where φ is exponential."""
    reach = edge(task) + 1.0 + 45.0 / signal
    if activation.exponential != "left":
        everywhere = activation.exponential == "everywhere"
        border = math.copysign(math.inf, m_k if everywhere else -m_k)
    border = min(max(border, -reach), reach)
    widest = 2.0 * _WIDEST / math.sqrt(1.0 + math.log(task.length.longest))
    centre = -float(activation.bias or 0.0) / m_k
    even = np.linspace(-reach, reach, 1 + math.ceil(2.0 * reach / widest))
    bend = even
    if activation.exponential != "everywhere":
        zones = _zones(activation, abs(m_k) * abs(border - centre), 2.0 * abs(m_k) * reach)
        bend = _bent_edges(reach, centre, m_k, widest, zones)
    parts = []
    for source, low_side in ((bend, m_k < 0.0), (even, m_k > 0.0)):
        inner = source[source < border] if low_side else source[source > border]
        cuts = np.append(inner, border) if low_side else np.insert(inner, 0, border)
        values, weights = panels(cuts, resolution) if cuts.size > 1 else (np.empty(0),) * 2
        kept = winning_mass(values, signal, task.length.generating) > 1e-22
        parts.append((values[kept], weights[kept]))
    return parts[0], parts[1]


def _zones(activation: Normalised, exponential: float, reach: float) -> tuple[float, float]:
    """Return the scores, below and above the bend, up to which panels must be narrow.

    Beyond them ``log φ`` grows no faster than that of a power. ``exponential`` is the one below if
    the map is exponential there, ``reach`` the farthest score. Zones so wide that their panels
    would be too many are cut: finer grids then differ, and their difference is the error.
    """
    if activation.exponential != "nowhere":
        return exponential, _FLAT
    count = 2 + max(0, math.ceil(math.log(reach / _FLAT, _RATIO)))
    scores: FloatArray = np.geomspace(_FLAT, _FLAT * _RATIO ** (count - 1), count)
    ends = []
    for sign in (-1.0, 1.0):
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            steep = np.abs(np.diff(activation.phi.log_value(sign * scores))) > _POWER
        last = float(scores[1 + np.flatnonzero(steep)[-1]]) if steep.any() else _FLAT
        ends.append(min(last, _WIDEST_ZONE))
    return ends[0], ends[1]


def _bent_edges(
    reach: float, centre: float, slope: float, widest: float, zones: tuple[float, float]
) -> FloatArray:
    """Return edges of panels for a map of ``slope·(x − centre)`` that bends at 0.

    Panels are `_ZONE` scores wide down to minus one of ``zones`` and up to the other; then they
    grow.
    """
    narrow = _ZONE / abs(slope)
    even = np.linspace(-reach, reach, 1 + math.ceil(2.0 * reach / widest))
    if narrow >= widest:
        return even
    doublings = max(0, math.ceil(math.log2(widest / narrow)) + 1)
    sides = []
    for stop in zones:
        count = math.ceil(min(stop, 2.0 * reach * abs(slope)) / _ZONE)
        inner = narrow * np.arange(1.0, count + 1.0)
        sides.append(np.append(inner, inner[-1] * 2.0 ** np.arange(1.0, doublings + 1.0)))
    sign = math.copysign(1.0, slope)
    edges = np.concatenate([centre - sign * sides[0], [centre], centre + sign * sides[1], even])
    return np.unique(np.clip(edges, -reach, reach))
