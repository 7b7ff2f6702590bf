r"""Moments of softmax over the ``k`` largest scores: integrals over the smallest that is kept.

Given its value ``x``, ``k − 1`` tokens lie above and the others below; the sum of the kept
exponentials is treated as for softmax.
"""

# notation: docs/notation.md, "Laplace variables"
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from slrlab._errors import ComputationError
from slrlab._types import FloatArray
from slrlab.model.activations import SOFTMAX
from slrlab.model.arrangements import relevant_count
from slrlab.model.families import TopK
from slrlab.model.lengths import LengthLaw
from slrlab.model.tasks import SelectionTask, Task, TiltedTask
from slrlab.numerics.graded import panels, running_matrix
from slrlab.numerics.simplex import STEP
from slrlab.theory.moments.largest import noisy_is_largest
from slrlab.theory.moments.nodes import edge, gauss_weights, key_nodes
from slrlab.theory.moments.selected import normalised_selected, selection_grid
from slrlab.theory.moments.tilted import normalised_tilted
from slrlab.theory.moments.types import AttentionMoments

_STEEPEST = 64.0  # slope of the log posterior that the selection variable resolves
_BELOW, _ABOVE = 45.0, 4.5  # reach of T e^{−T} in log T
_DEAREST = 64.0  # the same beyond which sampling more than the largest is cheaper
_MOST_VALUES = 1e8  # largest size of a table of scores and Laplace variables
_COARSE = 0.7  # panels and steps at resolution 1 on a selection task, for ten digits


def top_k_moments(
    task: Task, activation: TopK, m_k: float, R_k: float, resolution: float
) -> AttentionMoments | None:
    """Return the moments of hardmax, and of any ``k`` where scores are Gaussian or selected.

    None where no rule of this module is accurate.
    """
    k, aligned = activation.k, R_k == 0.0 and m_k > 0.0
    steepness = 0.0
    if isinstance(task, SelectionTask) and not task.hard:
        steepness = task.steepness
    shifted = isinstance(task, TiltedTask) and task.gaussian_shift is not None
    if k == 1 and (aligned or shifted) and steepness <= _STEEPEST:
        largest = min(1.0, noisy_is_largest(task, m_k, R_k, resolution))
        hit = largest / math.sqrt(relevant_count(task))
        return AttentionMoments(hit, 1.0 - hit, 1.0 - hit**2)  # one weight is 1
    if isinstance(task, TiltedTask) and shifted:
        sums = _tilted(task, k, (m_k, R_k), resolution)
    elif isinstance(task, SelectionTask) and aligned and not task.hard and steepness <= _DEAREST:
        sums = _selected(task, k, m_k, resolution)
    else:
        return None
    target, energy = (float(value) for value in sums)
    return AttentionMoments(target, 1.0 - target, max(0.0, energy - target**2))


def _tilted(task: TiltedTask, k: int, keys: tuple[float, float], resolution: float) -> FloatArray:
    """Return ``E[σ_ε]`` and ``E Σ σ²`` for independent tokens; up to ``k`` of them, of softmax."""
    m_k, width = keys[0], math.hypot(keys[0], math.sqrt(keys[1]))
    shift = m_k * (task.gaussian_shift or 0.0) / width
    grid = _Grid.build(task, shift, width, resolution)
    laws = [grid.above(gauss_weights(grid.x - m, 1.0)) for m in (shift, 0.0)]
    sums = np.zeros(2)
    for length, probability in task.length.pairs():
        if length > k:
            moments = grid.first(k, [(length, 1.0)], *laws), grid.second(k, length, *laws)
        else:
            whole = replace(task, length=LengthLaw.of(length))
            plain = normalised_tilted(whole, SOFTMAX, *keys, resolution)
            moments = plain.target, plain.energy
        sums += probability * np.array(moments)
    return sums


def _selected(task: SelectionTask, k: int, m_k: float, resolution: float) -> FloatArray:
    """Return the same where the location is selected: a sum over the selection variable."""
    coarse = _COARSE * resolution
    grid = _Grid.build(task, 0.0, m_k, coarse)
    density, log_w = gauss_weights(grid.x, 1.0), task.log_weight(grid.x)
    tokens, sums = grid.above(density), np.zeros(2)
    longer = [(length, p * length) for length, p in task.length.pairs() if length > k]
    for length, probability in task.length.pairs():
        if length > k:
            sums[1] += probability * grid.second(k, length, tokens, tokens)
        else:
            whole = replace(task, length=LengthLaw.of(length))
            plain = normalised_selected(whole, SOFTMAX, m_k, 0.0, resolution, check=False)
            sums += probability * np.array([plain.target, plain.energy])
    nodes, step = key_nodes(task, task.steepness, coarse)
    law = gauss_weights(nodes, step)
    # a shift of all scores leaves the weights: sums depend on log s as a Gaussian average
    u, weights = selection_grid(task, nodes, law, coarse)
    for s, weight in zip(u, weights, strict=True):
        race = np.exp(np.minimum(s + log_w, 700.0))
        stay = density * np.exp(-race)
        # any token can be the relevant one; the others are not selected
        laws = grid.above(race * stay, (1,)), grid.above(stay, (0,))
        sums[0] += weight * grid.first(k, longer, *laws)
    return sums


@dataclass(frozen=True)
class _Above:
    """``E[Tʲ e^{−T}; χ > x]`` by ``j``: nodes ``x`` by ``u``; density, mass below ``x``."""

    powers: dict[int, FloatArray]
    density: FloatArray
    below: FloatArray


@dataclass(frozen=True)
class _Grid:
    """Scores ``x`` in units of their width, ``T`` there, and the rule of both."""

    x: FloatArray
    weights: FloatArray
    running: FloatArray
    t: FloatArray
    step: float

    @classmethod
    def build(
        cls, task: TiltedTask | SelectionTask, shift: float, width: float, resolution: float
    ) -> _Grid:
        """Return the grid for scores of standard deviation ``width``; ``shift`` is in its units."""
        reach = edge(task)
        low, high = min(-reach, shift - 9.3), max(reach, shift + 9.3)
        narrow = 0.8 / math.sqrt(1.0 + 2.0 * math.log(task.length.longest))
        sharp = task.steepness if isinstance(task, SelectionTask) else 0.0
        widest = min(narrow, 2.0 / max(width, sharp))
        edges = np.linspace(low, high, 1 + math.ceil((high - low) / widest))
        x, weights = panels(edges, resolution)
        running = np.diff(edges)[:, None, None] / 2.0 * running_matrix(resolution)
        step = STEP / resolution
        u_low, u_high = -width * high - _BELOW, -width * low + _ABOVE
        if x.size * (u_high - u_low) > _MOST_VALUES * step:
            raise ComputationError(
                f"softmax over the largest scores on {task.name} at signal {task.signal:g} and "
                f"scores of standard deviation {width:.4g} needs too many nodes"
            )
        u = np.arange(u_low, u_high, step)
        t = np.exp(np.clip(u + width * x[:, None], -700.0, 50.0))
        return cls(x, weights, running, t, step)

    @cached_property
    def _decays(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """``Tʲ e^{−T}`` for each ``j``."""
        decay = np.exp(-self.t)
        return decay, self.t * decay, self.t**2 * decay

    def above(self, density: FloatArray, powers: tuple[int, ...] = (0, 1, 2)) -> _Above:
        """Return the integrals of a density from each node on, with some powers of ``T``."""
        parts = {j: self._from_above(density[:, None] * self._decays[j]) for j in powers}
        return _Above(parts, density, self._from_below(density))

    def _panels(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the integrals over each panel, and those from its left edge to each node."""
        inside = rows.reshape(len(self.running), -1, rows.shape[1])
        whole = (self.weights[:, None] * rows).reshape(inside.shape).sum(axis=1)
        return whole, self.running @ inside

    def _from_above(self, rows: FloatArray) -> FloatArray:
        """Return integrals from each node to the last edge, exact for the polynomial of a panel."""
        whole, inside = self._panels(rows)
        after = np.cumsum(whole[::-1], axis=0)[::-1]
        return np.asarray((after[:, None] - inside).reshape(rows.shape))

    def _from_below(self, density: FloatArray) -> FloatArray:
        """Return integrals from the first edge to each node."""
        whole, inside = self._panels(density[:, None])
        before = np.cumsum(whole, axis=0) - whole
        return np.maximum((before[:, None] + inside).ravel(), 0.0)

    def first(
        self, k: int, lengths: Sequence[tuple[int, float]], relevant: _Above, others: _Above
    ) -> float:
        """Return the sum of ``E[σ_ε]`` over lengths above ``k``, each with its factor."""
        zero, decays = others.powers[0], self._decays
        # the relevant token is the k-th largest, or larger
        last = relevant.density * _over_t(decays[1], zero, k - 1)
        among = np.zeros_like(last)
        if k > 1:
            among = others.density * _over_t(decays[0] * relevant.powers[1], zero, k - 2)
        total = np.zeros_like(last)
        for length, factor in lengths:
            rows = math.comb(length - 1, k - 1) * last
            if k > 1:
                rows += (length - 1) * math.comb(length - 2, k - 2) * among
            total += factor * rows * _power(others.below, length - k)
        return self.step * float(self.weights @ total)

    def second(self, k: int, length: int, relevant: _Above, others: _Above) -> float:
        """Return ``E Σ σ²`` for one length above ``k``."""
        square, zero, two = self.t**2, others.powers[0], others.powers[2]
        own, own_two = relevant.powers[0], relevant.powers[2]
        kept = square * _power(zero, k - 1) + (k - 1) * two * _power(zero, k - 2)
        # the relevant token is the k-th largest, larger, or smaller
        inside = math.comb(length - 1, k - 1) * relevant.density[:, None] * kept
        if k > 1:
            among = (length - 1) * math.comb(length - 2, k - 2) * others.density[:, None]
            inside += among * (square * own + own_two) * _power(zero, k - 2)
            if k > 2:
                inside += among * (k - 2) * own * two * _power(zero, k - 3)
        smaller = (length - 1) * math.comb(length - 2, k - 1) * others.density * relevant.below
        below = _power(others.below, length - k), _power(others.below, length - k - 1)
        return self._sum(inside, below[0]) + self._sum(kept, smaller * below[1])

    def _sum(self, values: FloatArray, below: FloatArray) -> float:
        """Integrate over the smallest score that is kept, and ``log t``."""
        return self.step * float((self.weights * below) @ (values * self._decays[0]).sum(axis=1))


def _over_t(values: FloatArray, zero: FloatArray, n: int) -> FloatArray:
    """Return the sum over ``log t`` of ``values zeroⁿ``."""
    if n == 0:
        return np.asarray(values.sum(axis=1))
    return np.asarray(np.einsum("xu,xu->x", values, _power(zero, n)))


def _power(x: FloatArray, n: int) -> FloatArray:
    return x**n if n > 0 else np.ones_like(x)
