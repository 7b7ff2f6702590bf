r"""Moments of maps that are multiplied by a factor of the position, averaged over the location.

The weight of position ``ℓ`` is ``w_ℓ φ(χ_ℓ)/Σ w φ(χ)``. As for any normalised map,
``1/Sⁿ = ∫₀^∞ tⁿ⁻¹ e^{−tS} dt/(n−1)!`` leaves one-token factors, here at a different ``t w_ℓ`` for
each position: they are tabulated in ``log t`` and interpolated. Sums over many positions are Gauss
rules for sums, so the cost does not grow with the length.
"""

# notation: docs/notation.md, "Laplace variables"
from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from slrlab import _checks
from slrlab._errors import ComputationError
from slrlab._types import FloatArray
from slrlab.model.activations import Normalised
from slrlab.model.families import CosineReweighted
from slrlab.model.tasks import SelectionTask, Task, TiltedTask
from slrlab.numerics.selection import decay_matrices
from slrlab.numerics.simplex import STEP, log_expectation, token_factors
from slrlab.theory.moments.ratio import DEAREST, bent_kernel, bent_nodes
from slrlab.theory.moments.types import AttentionMoments

if TYPE_CHECKING:
    from scipy.interpolate import BSpline

_POSITIONS = 160  # positions of a sum: more are replaced by a Gauss rule
_TABLE, _DEGREE = 0.06, 7  # step in log t and degree of the interpolation: about 1e-11
_SCAN, _NEGLIGIBLE = 1.0, 1e-17  # step of the pass that finds where the integrands are
_LEAST = 1e-30  # floor relative to the largest value: below it the interpolation overshoots


def reweighted_moments(
    task: Task, activation: CosineReweighted, m_k: float, R_k: float, resolution: float
) -> AttentionMoments:
    """Return the moments, averaged over the location."""
    if task.has_infinite_score:
        if m_k <= 0.0:
            _checks.fail("m_k", f"> 0 for {activation.name} at an infinite signal", m_k)
        return AttentionMoments(1.0, 0.0, 0.0)
    if m_k == 0.0 and R_k == 0.0:
        return _equal_scores(task, activation)
    if task.gaussian_shift is None and (R_k > 0.0 or m_k == 0.0):
        _checks.fail("R_k", f"0 for {activation.name} on this task", R_k)
    sums = _Integrals(task, activation, (m_k, R_k), resolution).sums()
    target, energy = (float(value) for value in sums)
    return AttentionMoments(target, 1.0 - target, max(0.0, energy - target**2))


def _equal_scores(task: Task, activation: CosineReweighted) -> AttentionMoments:
    target, energy = 0.0, 0.0
    for length, probability in task.length.pairs():
        weights = activation.weights(np.zeros(length))
        target += probability * float(weights.mean())
        energy += probability * float((weights**2).sum())
    return AttentionMoments(target, 1.0 - target, max(0.0, energy - target**2))


@lru_cache(maxsize=64)
def _positions(length: int) -> tuple[FloatArray, FloatArray]:
    """Return ``log w`` at positions and their weights in a sum over all.

    Beyond a number of them: the Gauss rule of the sum, from the recurrence of the discrete
    Chebyshev polynomials.
    """
    if length <= _POSITIONS:
        return np.log(CosineReweighted.factors(length)), np.ones(length)
    n = np.arange(1.0, _POSITIONS)
    off = n / 2.0 * np.sqrt((length**2 - n**2) / (4.0 * n**2 - 1.0))
    nodes, vectors = np.linalg.eigh(np.diag(off, 1) + np.diag(off, -1))
    position = nodes + (length + 1.0) / 2.0
    return np.log(np.sin(0.5 * np.pi * position / length)), length * vectors[0] ** 2


class _Integrals:
    """Integrals over ``u = log t`` for one task, one activation and given keys."""

    def __init__(
        self,
        task: Task,
        activation: CosineReweighted,
        keys: tuple[float, float],
        resolution: float,
    ) -> None:
        self.task, self.resolution = task, resolution
        plain = Normalised(activation.name, bias=activation.bias, phi=activation.phi)
        steep = isinstance(task, SelectionTask) and not task.hard and task.steepness > DEAREST
        nodes = None if steep else bent_nodes(task, plain, *keys, resolution)
        if nodes is None:
            raise ComputationError(
                f"{activation.name} has no rule for {task.name} at signal {task.signal:g}, "
                f"m_k {keys[0]:.4g} and R_k {keys[1]:.4g}"
            )
        self.nodes, self.log_phi = nodes, plain.log_phi(nodes.scores)
        finite = self.log_phi[np.isfinite(self.log_phi)]
        low, high = (float(finite.max()), float(finite.min())) if finite.size else (0.0, 0.0)
        least = float(_positions(task.length.longest)[0].min())
        self.ends = -low - 45.0, -high + 6.0 - least
        step = _TABLE / resolution
        self.v = np.arange(self.ends[0] + least, self.ends[1] + (_DEGREE + 1) * step, step)

    def sums(self) -> FloatArray:
        """Return ``E[σ_ε]`` and ``E Σ σ²``."""
        others = self._table(self.nodes.others)
        if isinstance(self.task, TiltedTask):
            return self._integrate(_tilted_rows(others, self._table(self.nodes.placed[0].law)), 2)
        assert isinstance(self.task, SelectionTask)
        (energy,) = self._integrate(_energy_rows(others), 1)
        kernel = bent_kernel(self.task, self.nodes, self.resolution)
        decay = decay_matrices(self.v, self.log_phi[:, None], np.ones(1))
        stay = self._spline(_log(kernel.survive(1.0 - decay.missing)).T)
        picked = self._spline(_log(kernel.pick(decay.one)).T)
        (target,) = self._integrate(_picked_rows(stay, picked, kernel.weights), 1)
        return np.array([target, energy])

    def _table(self, law: FloatArray) -> BSpline:
        """Return the logs of ``E Tʲ e^{−T}`` for ``j`` = 0, 1, 2 as functions of ``v``."""
        (factors,) = token_factors(self.v, self.log_phi, law)
        zero = np.maximum(log_expectation(factors.zero, factors.missing), math.log(_LEAST))
        return self._spline(np.stack([zero, _log(factors.one), _log(factors.two)], axis=1))

    def _spline(self, columns: FloatArray) -> BSpline:
        from scipy.interpolate import make_interp_spline

        return make_interp_spline(self.v, columns, k=_DEGREE, check_finite=False)

    def _integrate(
        self, rows: Callable[[FloatArray, FloatArray], FloatArray], count: int
    ) -> FloatArray:
        """Return the integrals of ``rows(v, weights)``, averaged over the length."""
        total = np.zeros(count)
        for length, probability in self.task.length.pairs():
            log_w, weights = _positions(length)
            u = np.arange(*self.ends, _SCAN)
            values = np.abs(rows(u[:, None] + log_w, weights))
            least = _NEGLIGIBLE * values.max(axis=1, keepdims=True)
            alive = np.flatnonzero((values > least).any(axis=0))
            ends = u[max(alive[0] - 1, 0)], u[min(alive[-1] + 1, u.size - 1)]
            step = STEP / self.resolution
            grid = np.arange(ends[0], ends[1] + step, step)
            total += probability * step * rows(grid[:, None] + log_w, weights).sum(axis=1)
        return total


def _log(values: FloatArray) -> FloatArray:
    """Return logarithms along the last axis; what is far below the largest is raised to a floor."""
    floor = np.maximum(_LEAST * values.max(axis=-1, keepdims=True), 1e-300)
    return np.asarray(np.log(np.maximum(values, floor)))


def _tilted_rows(
    others: BSpline, relevant: BSpline
) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """Return the integrands of ``E[σ_ε]`` and ``E Σ σ²`` for independent tokens."""

    def rows(v: FloatArray, weights: FloatArray) -> FloatArray:
        zero, _, two = np.moveaxis(others(v), -1, 0)
        own_zero, own_one, own_two = np.exp(np.moveaxis(relevant(v), -1, 0) - zero)
        rest, length = np.exp(two - zero), weights.sum()
        whole = np.exp(zero @ weights)
        first = own_one @ weights
        pairs = (own_zero @ weights) * (rest @ weights) - (own_zero * rest) @ weights
        return np.asarray(whole / length * np.stack([first, own_two @ weights + pairs]))

    return rows


def _energy_rows(tokens: BSpline) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """Return the integrand of ``E Σ σ²`` where all tokens have the same law."""

    def rows(v: FloatArray, weights: FloatArray) -> FloatArray:
        zero, _, two = np.moveaxis(tokens(v), -1, 0)
        return np.asarray(np.exp(zero @ weights) * (np.exp(two - zero) @ weights))[None]

    return rows


def _picked_rows(
    stay: BSpline, picked: BSpline, chances: FloatArray
) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """Return the integrand of ``E[σ_ε]``, summed over the selection variable."""

    def rows(v: FloatArray, weights: FloatArray) -> FloatArray:
        zero = stay(v)  # (u, position, selection variable)
        own = np.einsum("ups,p->us", np.exp(picked(v) - zero), weights)
        whole = np.exp(np.einsum("ups,p->us", zero, weights))
        return np.asarray((own * whole) @ chances)[None]

    return rows
