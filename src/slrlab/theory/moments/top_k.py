r"""Moments of softmax over the ``k`` largest scores: integrals over the smallest that is kept.

Given its value ``x``, ``k − 1`` tokens lie above and the others below; the sum of the kept
exponentials is treated as for softmax.
"""

# notation: docs/notation.md, "Laplace variables"
from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.activations import SOFTMAX
from slrlab.model.arrangements import relevant_count
from slrlab.model.families import TopK
from slrlab.model.lengths import LengthLaw
from slrlab.model.tasks import SelectionTask, Task, TiltedTask
from slrlab.numerics.graded import panels, running_matrix
from slrlab.numerics.simplex import STEP
from slrlab.theory.moments.largest import relevant_is_largest
from slrlab.theory.moments.nodes import edge, gauss_weights
from slrlab.theory.moments.tilted import normalised_tilted
from slrlab.theory.moments.types import AttentionMoments

_STEEPEST = 64.0  # slope of the log posterior that the selection variable resolves
_BELOW, _ABOVE = 45.0, 4.5  # reach of T e^{−T} in log T


def top_k_moments(
    task: Task, activation: TopK, m_k: float, R_k: float, resolution: float
) -> AttentionMoments | None:
    """Return the moments of hardmax, and on tasks with Gaussian scores of any ``k``; else None."""
    steep = isinstance(task, SelectionTask) and not task.hard and task.steepness > _STEEPEST
    if activation.k == 1 and R_k == 0.0 and m_k > 0.0 and not steep:
        hit = relevant_is_largest(task, resolution=resolution) / math.sqrt(relevant_count(task))
        return AttentionMoments(hit, 1.0 - hit, 1.0 - hit**2)  # one weight is 1
    if not isinstance(task, TiltedTask) or task.gaussian_shift is None:
        return None
    width = math.hypot(m_k, math.sqrt(R_k))
    grid = _Grid.build(task, m_k * task.gaussian_shift / width, width, resolution)
    target, energy = 0.0, 0.0
    for length, probability in task.length.pairs():
        if length <= activation.k:
            whole = replace(task, length=LengthLaw.of(length))
            moments = normalised_tilted(whole, SOFTMAX, m_k, R_k, resolution)
            first, second = moments.target, moments.energy
        else:
            first, second = grid.moments(activation.k, length)
        target += probability * first
        energy += probability * second
    return AttentionMoments(target, 1.0 - target, max(0.0, energy - target**2))


@dataclass(frozen=True)
class _Above:
    """``E[Tʲ e^{−T}; χ > x]``, ``j = 0, 1, 2``: nodes ``x`` by ``u``; density and law at ``x``."""

    zero: FloatArray
    one: FloatArray
    two: FloatArray
    density: FloatArray
    below: FloatArray


@dataclass(frozen=True)
class _Grid:
    """``T`` at the smallest score that is kept, weights of the rule, and both laws above it."""

    t: FloatArray
    rule: FloatArray
    relevant: _Above
    others: _Above

    @classmethod
    def build(cls, task: TiltedTask, shift: float, width: float, resolution: float) -> _Grid:
        """Return the grid for scores of standard deviation ``width``; ``shift`` is in its units."""
        reach = edge(task)
        low, high = min(-reach, shift - 9.3), max(reach, shift + 9.3)
        narrow = 0.8 / math.sqrt(1.0 + 2.0 * math.log(task.length.longest))
        edges = np.linspace(low, high, 1 + math.ceil((high - low) / min(narrow, 2.0 / width)))
        x, weights = panels(edges, resolution)
        running = np.diff(edges)[:, None, None] / 2.0 * running_matrix(resolution)
        step = STEP / resolution
        u = np.arange(-width * high - _BELOW, -width * low + _ABOVE, step)
        t = np.exp(np.clip(u + width * x[:, None], -700.0, 50.0))
        laws = [_above(t, gauss_weights(x - m, 1.0), weights, running) for m in (shift, 0.0)]
        return cls(t, weights[:, None] * step, *laws)

    def moments(self, k: int, length: int) -> tuple[float, float]:
        """Return ``E[σ_ε]`` and ``E Σ σ²`` for one length above ``k``."""
        t, rel, oth = self.t, self.relevant, self.others
        own = np.exp(-t)
        some, pair = _power(oth.zero, k - 1), _power(oth.zero, k - 2)
        kept = t**2 * some + (k - 1) * oth.two * pair
        # the relevant token is the k-th largest, larger, or smaller
        last = math.comb(length - 1, k - 1) * rel.density[:, None] * own
        first, second = last * t * some, last * kept
        if k > 1:
            among = (length - 1) * math.comb(length - 2, k - 2) * oth.density[:, None] * own
            first = first + among * rel.one * pair
            second = second + among * (t**2 * rel.zero + rel.two) * pair
            if k > 2:
                second += among * (k - 2) * rel.zero * oth.two * _power(oth.zero, k - 3)
        under = _power(oth.below, length - k)[:, None]
        outside = (length - 1) * math.comb(length - 2, k - 1) * (oth.density * rel.below)[:, None]
        without = outside * _power(oth.below, length - k - 1)[:, None] * own * kept
        rule = self.rule
        return float((rule * first * under).sum()), float((rule * (second * under + without)).sum())


def _power(x: FloatArray, n: int) -> FloatArray:
    return x**n if n > 0 else np.ones_like(x)


def _above(t: FloatArray, density: FloatArray, weights: FloatArray, running: FloatArray) -> _Above:
    decay = np.exp(-t)
    zero, one, two = (
        _from_above(density[:, None] * t**j * decay, weights, running) for j in range(3)
    )
    mass = _from_above(density[:, None], weights, running)[:, 0]
    return _Above(zero, one, two, density, np.maximum(1.0 - mass, 0.0))


def _from_above(rows: FloatArray, weights: FloatArray, running: FloatArray) -> FloatArray:
    """Return integrals from each node to the last edge, exact for the polynomial of each panel."""
    inside = rows.reshape(len(running), -1, rows.shape[1])
    whole = (weights[:, None] * rows).reshape(inside.shape).sum(axis=1)
    after = np.cumsum(whole[::-1], axis=0)[::-1] - whole
    return np.asarray((after[:, None] + whole[:, None] - running @ inside).reshape(rows.shape))
