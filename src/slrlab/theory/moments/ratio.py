r"""Moments of ``n(χ_ℓ)/(b + Σ d(χ))^p`` for maps that bend, change sign or differ.

``1/S^p = ∫₀^∞ t^{p−1} e^{−tS} dt/Γ(p)`` leaves one-token expectations, as for any normalised
activation. The nodes are Gauss–Legendre panels that shrink towards every bend of the maps, where
``e^{−td}`` is arbitrarily sharp. An elementwise map has no denominator and needs the nodes alone.

A task of several kinds of tokens has one more factor for each kind.
"""

# notation: docs/notation.md, "Laplace variables"
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from slrlab._types import FloatArray
from slrlab.model.activations import Elementwise, Normalised, OneMap
from slrlab.model.arrangements import kinds_of, relevant_count
from slrlab.model.families import Ratio
from slrlab.model.lengths import LengthLaw
from slrlab.model.tasks import SelectionTask, Task, TiltedTask
from slrlab.numerics.graded import edges_around, panels
from slrlab.numerics.selection import PanelKernel, SelectionKernel, SoftKernel
from slrlab.numerics.simplex import STEP, LaplaceGrid, log_expectation
from slrlab.numerics.steep import several
from slrlab.theory.moments.nodes import edge, gauss_weights, score_interval
from slrlab.theory.moments.selected import selection_grid
from slrlab.theory.moments.types import AttentionMoments, scaled

_FINEST = 1e-13  # panel at a bend, in standard deviations of the scores
_WIDEST, _TAIL = 1.0, 3.0  # panels, and those of an exponential tail in units of the score
_SLOPE = 8.0  # largest change of the log posterior over a panel
_STEEPEST, DEAREST = 10.0, 64.0  # largest slopes of the log posterior, for maps and for ratios
_SLOPES = 201  # points at which the slope of log φ is measured
_SCAN = 2.0  # step in log t of the pass that finds where the integrands are
_NEGLIGIBLE = 1e-18
_PLAIN = 650.0  # logarithms up to which nothing overflows
_DECAYED = 1e4  # T from which e^{−T} is 0
_MOST_NODES = 100_000
_MOST_ENTRIES = 20_000_000  # largest matrix of nodes and log t


@dataclass(frozen=True)
class _Placed:
    """Placed tokens of one kind: their number, their coefficient in the label and their law."""

    count: int
    coefficient: float
    law: FloatArray


@dataclass(frozen=True)
class BentNodes:
    """Scores, panel edges of the key scores, and the laws of the tokens on the nodes.

    ``rest`` is the number of other tokens plus 1, as a law of the length. A selection task has no
    placed tokens.
    """

    scores: FloatArray
    keys: FloatArray
    edges: FloatArray
    placed: tuple[_Placed, ...]
    others: FloatArray
    rest: LengthLaw

    @property
    def laws(self) -> FloatArray:
        """The sum of all laws."""
        return np.asarray(sum((kind.law for kind in self.placed), self.others))

    def present(self, lost: FloatArray, skipped: _Placed | None = None) -> FloatArray:
        """Return the factor ``Π E[e^{−T}]`` of the placed tokens, one of the ``skipped`` left out.

        ``lost`` is ``1 − e^{−T}`` at the nodes.
        """
        factor = np.ones(lost.shape[1])
        for kind in self.placed:
            power = kind.count - (kind is skipped)
            if power:
                factor = factor * (1.0 - np.minimum(kind.law @ lost, 1.0)) ** power
        return factor


def bent_moments(
    task: Task, activation: OneMap, m_k: float, R_k: float, resolution: float
) -> AttentionMoments | None:
    """Return the moments of a map with bends; None where no rule of this module is accurate.

    A rule needs the density of the scores: Gaussian, or ``R_k = 0``.
    """
    if m_k == 0.0 and R_k == 0.0:
        return _equal_scores(task, activation)
    steepest = DEAREST if isinstance(activation, Ratio) else _STEEPEST
    steep = isinstance(task, SelectionTask) and task.steepness > steepest
    if task.has_infinite_score or (steep and not task.hard):
        return None
    if kinds_of(task) is None and (R_k > 0.0 or m_k == 0.0):
        return None
    nodes = bent_nodes(task, activation, m_k, R_k, resolution)
    if nodes is None:
        return None
    if isinstance(activation, Normalised | Ratio):
        return _Quotient(task, activation, nodes, resolution).moments()
    return _elementwise(task, activation, nodes, resolution)


def _equal_scores(task: Task, activation: OneMap) -> AttentionMoments:
    """Return the moments at keys of length 0: all tokens get the same weight."""
    one = float(activation.weights(np.zeros(1))[0])
    pairs = [(n, p, _shared(activation, one, n)) for n, p in task.length.pairs()]
    target = math.sqrt(relevant_count(task)) * sum(p * weight for _, p, weight in pairs)
    energy = sum(p * n * weight**2 for n, p, weight in pairs)
    return AttentionMoments(target, 1.0 - target, max(0.0, energy - target**2))


def _shared(activation: OneMap, one: float, length: int) -> float:
    """Return the weight of each of several equal scores; that of a single one is ``one``."""
    if isinstance(activation, Elementwise):
        return one
    if isinstance(activation, Ratio):
        return float(one * length**-activation.exponent)
    return one / (1.0 + (length - 1) * one)  # φ/(b + Lφ) from φ/(b + φ)


def bent_nodes(
    task: Task, activation: OneMap, m_k: float, R_k: float, resolution: float
) -> BentNodes | None:
    """Return nodes that resolve the bends; None if they are too many."""
    reach, kinds = edge(task), kinds_of(task)
    if kinds is not None:  # in standard deviations of the score
        scale = math.hypot(m_k, math.sqrt(R_k)) or 1e-300
        shifts = [m_k * kind.shift / scale for kind in kinds]
        low, high = min(-reach, min(shifts) - 9.3), max(reach, max(shifts) + 9.3)
    else:
        (low, high), scale = score_interval(task), m_k
    widest = _widest(activation, scale, (low, high))
    if isinstance(task, TiltedTask) and kinds is None:  # the density ratio may be narrow
        widest = min(widest, _TAIL / task.steepness)
    if isinstance(task, SelectionTask) and not task.hard:
        widest = min(widest, _SLOPE / task.steepness)
    if not (high - low) / widest < _MOST_NODES / 12:
        return None
    bends = (np.asarray(activation.bends) - float(activation.bias or 0.0)) / scale
    bends = bends[(bends > low) & (bends < high)]
    if bends.size == 0:
        bends = np.array([low])
    edges = edges_around(low, high, bends, _FINEST ** min(1.0, resolution), widest)
    x, weights = panels(edges, resolution)
    others, rest = gauss_weights(x, 1.0) * weights, task.length
    placed: tuple[_Placed, ...] = ()
    if kinds is not None:
        first = 1.0 / math.sqrt(kinds[0].count)
        placed = tuple(
            _Placed(kind.count, 0.0 if index else first, gauss_weights(x - shift, 1.0) * weights)
            for index, (kind, shift) in enumerate(zip(kinds, shifts, strict=True))
        )
        rest = rest.shortened(sum(kind.count for kind in kinds) - 1)
    elif isinstance(task, TiltedTask):
        placed = (_Placed(1, 1.0, others * np.exp(np.minimum(task.log_ratio(x), 700.0))),)
    return BentNodes(scale * x, x, edges, placed, others, rest)


def _widest(activation: OneMap, scale: float, ends: tuple[float, float]) -> float:
    """Return the widest panel: ``e^{−tφ}`` varies where ``log φ`` changes by 1."""
    slope = 0.0 if isinstance(activation, Elementwise) else abs(scale)
    if isinstance(activation, Normalised) and activation.exponential == "nowhere":
        slope = 0.0
    if isinstance(activation, Normalised) and activation.phi.log is not None and not slope:
        x = np.linspace(*ends, _SLOPES)
        rise = np.abs(np.diff(activation.log_phi(scale * x))) / (x[1] - x[0])
        slope = float(rise[np.isfinite(rise)].max(initial=0.0))
    return min(_WIDEST, _TAIL / slope) if slope else _WIDEST


def bent_kernel(task: SelectionTask, nodes: BentNodes, resolution: float) -> SelectionKernel:
    """Return the law of the selected token's score on the nodes, given the other tokens."""
    if task.hard:
        return PanelKernel.build(nodes.edges, resolution)
    grid = np.arange(-edge(task), edge(task), 0.35 / (task.steepness * resolution))
    law = gauss_weights(grid, grid[1] - grid[0])
    u, weights = selection_grid(task, grid, law, resolution, sharpness=math.inf)
    return SoftKernel.build(u, weights, task.log_weight(nodes.keys), nodes.others)


def _elementwise(
    task: Task, activation: OneMap, nodes: BentNodes, resolution: float
) -> AttentionMoments:
    sigma, unit = scaled(activation.weights(nodes.scores))
    square = float(nodes.others @ sigma**2)
    if nodes.placed:
        own = [(kind.count * kind.coefficient, float(kind.law @ sigma)) for kind in nodes.placed]
        target = math.fsum(factor * mean for factor, mean in own)
        energy = math.fsum(kind.count * float(kind.law @ sigma**2) for kind in nodes.placed)
        energy += (nodes.rest.mean - 1.0) * square
    else:
        assert isinstance(task, SelectionTask)
        kernel = bent_kernel(task, nodes, resolution)
        log_z = np.log1p(-np.minimum(kernel.missing, 1.0 - 1e-16))
        picked = kernel.pick(sigma[:, None])[:, 0]
        target = float(kernel.weights @ (picked * several(log_z, task.length.generating)))
        energy = task.length.mean * square
    return AttentionMoments(target, 1.0 - target, max(0.0, energy - target**2), unit=unit)


class _Quotient:
    """Integrals over ``u = log t`` for one task, one activation and given nodes."""

    def __init__(
        self, task: Task, activation: Normalised | Ratio, nodes: BentNodes, resolution: float
    ) -> None:
        self.task, self.nodes, self.resolution = task, nodes, resolution
        x = activation.shifted(nodes.scores)
        if isinstance(activation, Normalised):  # one map above and below
            self.power, self.sink, gauge = 1.0, activation.sink, activation.phi
        else:
            self.power, self.sink, gauge = activation.exponent, 0.0, activation.gauge
        self.sums_to_one = isinstance(activation, Normalised) and self.sink == 0.0
        self.log_d, self.same = gauge.log_value(x), gauge is activation.phi and self.power == 1.0
        if gauge is activation.phi or activation.phi.log is not None:
            self.sign, self.log_n = np.ones_like(x), activation.phi.log_value(x)
        else:
            value = activation.phi.value(x)
            self.sign, self.log_n = np.sign(value), np.log(np.abs(value))
        logs = np.abs(np.concatenate([self.log_d, self.log_n]))
        self._largest_log = float(logs[np.isfinite(logs)].max(initial=0.0))

    def moments(self) -> AttentionMoments | None:
        """Return ``A`` and ``B``; None if the grid would be too large."""
        finite = self.log_d[np.isfinite(self.log_d)]
        if finite.size == 0:
            return AttentionMoments(0.0, 1.0, 0.0)
        if np.ptp(finite) / STEP * finite.size > _MOST_ENTRIES:
            return None
        u, weights = self._grid()
        lost, one, two = self._matrices(u)
        others = self.nodes.others
        mute = np.exp(-self.sink * np.exp(np.minimum(u, 700.0)))
        first, second = weights * mute / special.gamma([[self.power], [2.0 * self.power]])
        if self.nodes.placed:
            rows = _placed_rows(self.nodes, lost, one, two)
            target, total, energy = (
                float(r @ w) for r, w in zip(rows, (first, first, second), strict=True)
            )
        else:
            assert isinstance(self.task, SelectionTask)
            multiple = several(_log_z(others @ lost), self.task.length.generating)
            energy = float((others @ two) * multiple @ second)
            total = float((others @ one) * multiple @ first)
            kernel = bent_kernel(self.task, self.nodes, self.resolution)
            absent = kernel.missing[:, None] + kernel.survive(lost)
            multiple = several(_log_z(absent), self.task.length.generating)
            target = float(kernel.weights @ (kernel.pick(one) * multiple) @ first)
        defect = abs(total + self._none() - 1.0) if self.sums_to_one else 0.0
        return AttentionMoments(target, 1.0 - target, max(0.0, energy - target**2), defect)

    def _none(self) -> float:
        """Return the chance that every map is 0: no weight on any token."""
        zero, nodes = np.isneginf(self.log_d), self.nodes
        own = math.prod(float(kind.law[zero].sum()) ** kind.count for kind in nodes.placed)
        if not nodes.placed:  # the relevant token is one of the others
            own = float(nodes.others[zero].sum())
        absent = np.log(np.maximum(nodes.others[zero].sum(keepdims=True), 1e-290))
        return own * float(nodes.rest.generating(absent)[0][0])

    def _matrices(self, u: FloatArray, thin: int = 1) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return ``1 − e^{−T}``, ``t^p n e^{−T}`` and ``t^{2p} n² e^{−T}``: nodes by ``u``."""
        log_d, log_n, sign = (a[::thin, None] for a in (self.log_d, self.log_n, self.sign))
        if max(self._largest_log, float(np.abs(u).max())) < _PLAIN:
            # no factor overflows: one exponential for each entry is enough
            t_d = np.minimum(np.exp(log_d) * np.exp(u), _DECAYED)
            lost = -np.expm1(-t_d)
            over = t_d if self.same else np.exp(log_n) * np.exp(self.power * u)
            one = np.minimum(over, 1e150) * (1.0 - lost)
            return lost, sign * one, one * np.minimum(over, 1e150)
        t_d = np.exp(np.minimum(u + log_d, 700.0))
        scaled = np.exp(np.minimum(self.power * u + log_n - t_d, 700.0))
        again = np.exp(np.minimum(self.power * u + log_n, 700.0))
        return -np.expm1(-t_d), sign * scaled, scaled * again

    def _grid(self) -> tuple[FloatArray, FloatArray]:
        """Return nodes and weights in ``u`` where the integrands are not negligible."""
        finite = self.log_d[np.isfinite(self.log_d)]
        ends = np.array([-finite.max() - 45.0 / self.power, -finite.min() + 6.0])
        u = np.arange(ends[0], ends[1] + _SCAN, _SCAN)
        laws, others = self.nodes.laws[::3], self.nodes.others[::3]
        lost, one, two = self._matrices(u, thin=3)
        # a third of the nodes has a mass of about a third: what is left must not become negative
        left = np.maximum(others @ (1.0 - lost) / others.sum(), 1e-300)
        z = left ** (min(self.nodes.rest.lengths) - 1)
        rows = np.stack([laws @ np.abs(one) * z, laws @ two * np.maximum(z, 1e-300)])
        alive = np.flatnonzero((rows > _NEGLIGIBLE * rows.max(axis=1, keepdims=True)).any(axis=0))
        if alive.size:
            ends = u[[max(alive[0] - 1, 0), min(alive[-1] + 1, u.size - 1)]]
        return LaplaceGrid(STEP / self.resolution).nodes(ends)


def _log_z(absent: FloatArray) -> FloatArray:
    absent = np.minimum(absent, 1.0 - 1e-16)
    return log_expectation(1.0 - absent, absent)


def _placed_rows(
    nodes: BentNodes, lost: FloatArray, one: FloatArray, two: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the integrands of ``E Σ c σ`` over placed tokens, of ``E Σ σ`` and of ``E Σ σ²``."""
    g0, g1, _ = nodes.rest.generating(_log_z(nodes.others @ lost))
    beside = nodes.present(lost) * g1
    target, total, energy = 0.0 * g0, (nodes.others @ one) * beside, (nodes.others @ two) * beside
    for kind in nodes.placed:
        alone = kind.count * nodes.present(lost, kind) * g0
        share = (kind.law @ one) * alone
        target, total = target + kind.coefficient * share, total + share
        energy = energy + (kind.law @ two) * alone
    return target, total, energy
