r"""Moments of ``φ_ε/(b + Σφ)`` over random tokens, at a cost that does not grow with their number.

``1/Sⁿ = ∫₀^∞ tⁿ⁻¹ e^{−tS} dt/(n−1)!`` turns a ratio of sums into products of one-token
expectations. With ``t = e^u`` the integrand is analytic in a strip ``|Im u| < π/2`` and decays at
least exponentially, so the trapezoid rule converges geometrically in its step.

The number of tokens enters through ``G(z) = E z^(L−1)``, ``G'`` and ``G''`` only. This module
knows nodes and weights, not tasks or activations.
"""

# notation: docs/notation.md, "Laplace variables"
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from slrlab._errors import ComputationError
from slrlab._types import FloatArray

Generating: TypeAlias = Callable[[FloatArray], tuple[FloatArray, ...]]

STEP = 0.3  # grid step in u: error e^{−π²/STEP} ~ 5e-15, the edge of the strip being π/2
_CHUNK = 1 << 20  # entries of one block of the (u, node) matrix: fits into the cache
_MOST_NODES = 100_000  # largest number of nodes of an integral over u
_SCAN = 48  # points of a pass that looks for the support of the integrand
_NEGLIGIBLE = 1e-18
_LOG_LONGEST = 45.0  # logarithm of more tokens than any sequence has
_TURN = 3.0  # u above which tφ ~ 1 implies φ in its exponential tail


@dataclass(frozen=True)
class TokenFactors:
    """``E[Tʲ e^{−T}]``, ``T = tφ``, for one token law, on a grid of ``u = log t``.

    ``missing`` is ``E[1 − e^{−T}]`` without cancellation.
    """

    zero: FloatArray
    missing: FloatArray
    one: FloatArray
    two: FloatArray

    @cached_property
    def log_zero(self) -> FloatArray:
        """``log E[e^{−T}]`` to full accuracy."""
        return log_expectation(self.zero, self.missing)


Factors: TypeAlias = Callable[[FloatArray], list[TokenFactors]]


@dataclass(frozen=True)
class SimplexMoments:
    """First and second moments of the weight on the relevant token.

    ``target = E[σ_ε]``, ``target_square = E[σ_ε²]``, ``shortfall = E[1−σ_ε]``,
    ``shortfall_square = E[(1−σ_ε)²]`` and ``off_target = E Σ_{ℓ≠ε} σ_ℓ²``; each is a sum of
    positive terms, so each has full relative accuracy, however small it is.
    """

    target: float
    target_square: float
    shortfall: float
    shortfall_square: float
    off_target: float

    @property
    def variance(self) -> float:
        """``Var σ_ε`` from whichever of ``σ_ε`` and ``1−σ_ε`` is the small one."""
        if self.shortfall < 0.5:
            return max(0.0, self.shortfall_square - self.shortfall**2)
        return max(0.0, self.target_square - self.target**2)


def log_expectation(zero: FloatArray, complement: FloatArray) -> FloatArray:
    """Return ``log E[e^{−T}]`` from the better of the expectation and its complement to 1."""
    near_one = np.log1p(-np.minimum(complement, 0.75))
    return np.where(complement < 0.5, near_one, np.log(np.maximum(zero, 1e-290)))


def factor_sums(u: FloatArray, log_phi: FloatArray, weights: FloatArray) -> FloatArray:
    """Return ``E[e^{−T}]``, ``E[T e^{−T}]``, ``E[T² e^{−T}]`` and ``E[1 − e^{−T}]``, stacked.

    Each has a row for each ``u`` and a column for each law (column of weights on the nodes).
    """
    sums = np.empty((4, u.size, weights.shape[1]))
    rows = max(1, _CHUNK // max(1, log_phi.size))
    for start in range(0, u.size, rows):
        block = slice(start, start + rows)
        t_phi = np.exp(np.minimum(u[block, None] + log_phi, 700.0))
        decay = np.exp(-t_phi)
        sums[0, block] = decay @ weights
        sums[3, block] = -np.expm1(-t_phi) @ weights
        decay *= t_phi
        sums[1, block] = decay @ weights
        decay *= t_phi
        sums[2, block] = decay @ weights
    return sums


def token_factors(u: FloatArray, log_phi: FloatArray, *laws: FloatArray) -> list[TokenFactors]:
    """Return the factors of each law (weights on the nodes where ``log φ`` is given)."""
    zero, one, two, missing = np.moveaxis(factor_sums(u, log_phi, np.stack(laws, axis=1)), 2, 1)
    return [TokenFactors(*rows) for rows in zip(zero, missing, one, two, strict=True)]


def graded_factors(u: FloatArray, log_phi: FloatArray, law: FloatArray) -> TokenFactors:
    """Return the factors of one law on nodes of its own for each ``u`` (rows)."""
    t_phi = np.exp(np.minimum(u[:, None] + log_phi, 700.0))
    decay = law * np.exp(-t_phi)
    missing = (law * -np.expm1(-t_phi)).sum(axis=1)
    one = decay * t_phi
    return TokenFactors(decay.sum(axis=1), missing, one.sum(axis=1), (one * t_phi).sum(axis=1))


def binned(log_phi: FloatArray, *laws: FloatArray, count: int = 384) -> list[FloatArray]:
    """Merge nodes of similar ``log φ``: sums over them keep their order of magnitude only."""
    finite = np.isfinite(log_phi)
    low, high = log_phi[finite].min(), log_phi[finite].max()
    width = max(high - low, 1e-12) / (count - 1)
    position = np.where(finite, np.rint((np.where(finite, log_phi, low) - low) / width), count)
    values = np.append(low + width * np.arange(count), -np.inf)
    sums = [np.bincount(position.astype(np.intp), weights=law, minlength=count + 1) for law in laws]
    return [values, *sums]


def window(rows: Callable[..., FloatArray], log_phi: FloatArray, *laws: FloatArray) -> FloatArray:
    """Return the ends of the interval of ``u`` outside which every integrand is negligible.

    ``rows(u, log_phi, *laws)`` returns integrands as rows; each is compared with its own peak,
    which keeps the relative accuracy of rows that are tiny everywhere. The passes use merged nodes
    and refine the interval: to the left integrands fall no faster than ``e^u``, so a coarse grid
    does not miss a peak between its points.
    """
    finite = log_phi[np.isfinite(log_phi)]
    ends = np.array([-finite.max() - 60.0, -finite.min() + 6.0])
    for _ in range(4):
        grid = np.linspace(ends[0], ends[1], _SCAN)
        # nodes with tφ < e^{−45} on the whole grid act as φ = 0
        kept = np.where(log_phi > -ends[1] - 45.0, log_phi, -np.inf)
        nodes, *sums = binned(kept, *laws)
        # merged nodes far apart would leave holes between them: widen each factor to overlap
        blur = max(1.0, float(nodes[1] - nodes[0]) / 2.0)
        values = rows(grid / blur, nodes / blur, *sums)
        least = _NEGLIGIBLE * values.max(axis=1, keepdims=True)
        alive = np.flatnonzero((values > least).any(axis=0))
        if alive.size == 0:
            break
        first, last = max(alive[0] - 1, 0), min(alive[-1] + 1, grid.size - 1)
        ends = grid[[first, last]]
        # widened factors of L tokens vanish at a u that is too low by (blur − 1)·log L
        ends[1] += (blur - 1.0) * _LOG_LONGEST
        if last - first > _SCAN // 2:
            break
    return ends


@dataclass(frozen=True)
class LaplaceGrid:
    """Grid in ``u = log t``.

    Where ``φ`` is exponential in a Gaussian score of standard deviation ``s``, every factor is a
    Gaussian average over ``u`` of width ``s``, hence entire, and a step of a fraction of ``s``
    is as good as `STEP`. If that holds for all scores, take ``step`` large; if only where
    ``φ < 1`` (softplus), take ``stretch > 1``: beyond ``u = 3`` the step grows to
    ``stretch * step`` through an analytic map, which keeps the geometric convergence.
    """

    step: float = STEP
    stretch: float = 1.0

    def nodes(self, ends: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return nodes and weights of the trapezoid rule on an interval of ``u``."""
        low, high = (self._inverse(float(end)) for end in ends)
        count = max(2, int(np.ceil((high - low) / self.step)))
        if count > _MOST_NODES:
            raise ComputationError(f"an integral over log t needs {count:.1e} points, too many")
        v = np.asarray(low + self.step * np.arange(count + 1), dtype=float)
        if self.stretch == 1.0:
            return v, np.full(v.size, self.step)
        extra = self.stretch - 1.0
        u = np.asarray(v + extra * np.logaddexp(0.0, v - _TURN), dtype=float)
        return u, self.step * (1.0 + extra / (1.0 + np.exp(_TURN - v)))

    def _inverse(self, u: float) -> float:
        """Return a ``v`` with ``u(v) = u``; Newton from above, as ``u(v)`` is convex."""
        if self.stretch == 1.0:
            return u
        extra = self.stretch - 1.0
        v = u if u < _TURN else _TURN + (u - _TURN) / self.stretch
        for _ in range(60):
            excess = v + extra * float(np.logaddexp(0.0, v - _TURN)) - u
            if abs(excess) < 1e-9:
                break
            v -= excess / (1.0 + extra / (1.0 + math.exp(_TURN - v)))
        return v


def independent_moments(
    log_phi: FloatArray,
    relevant: FloatArray,
    others: FloatArray,
    generating: Generating,
    *,
    sink: float = 0.0,
    grid: LaplaceGrid = LaplaceGrid(),
    factors: Factors | None = None,
) -> SimplexMoments:
    """Return the moments for independent tokens: one ``relevant``, the rest ``others``.

    Parameters
    ----------
    log_phi
        ``log φ`` on the nodes, ``-inf`` allowed.
    relevant, others
        Weights of the two token laws on those nodes; each sums to 1.
    generating
        ``log z -> (G, G', G'')`` of ``G(z) = E z^(L−1)``.
    sink
        The constant ``b >= 0`` in the denominator.
    grid
        Grid in ``u``.
    factors
        ``u -> [relevant, others]``, for maps that need different nodes for each ``u``; the given
        nodes then only determine the interval of ``u``.
    """
    if not np.isfinite(log_phi).any():  # φ vanishes: 0/0 counts as no weight at all
        return SimplexMoments(0.0, 0.0, 1.0, 1.0, 0.0)
    u, weights = grid.nodes(independent_window(log_phi, relevant, others, generating, sink))
    rel, oth = factors(u) if factors else token_factors(u, log_phi, relevant, others)
    sums = _independent_integrands(u, rel, oth, generating, sink) @ weights
    if sink == 0.0:  # all φ = 0 leaves no weight at all, which 1/S = ∫e^{−tS}dt does not include
        sums[2:4] += (
            vanishing(log_phi, relevant)
            * generating(np.log(np.maximum(np.array([vanishing(log_phi, others)]), 1e-290)))[0]
        )
    return SimplexMoments(*(float(value) for value in sums))


def _independent_integrands(
    u: FloatArray, rel: TokenFactors, oth: TokenFactors, generating: Generating, sink: float
) -> FloatArray:
    """Return the integrands of `SimplexMoments`, one a row."""
    g0, g1, g2 = generating(oth.log_zero)
    t_sink = sink * np.exp(np.minimum(u, 700.0))
    mute = np.exp(-t_sink)
    target = rel.one * g0
    shortfall = rel.zero * (oth.one * g1 + t_sink * g0)
    off = rel.zero * oth.two * g1
    square = off + rel.zero * (oth.one**2 * g2 + t_sink * (2.0 * oth.one * g1 + t_sink * g0))
    return mute * np.stack([target, rel.two * g0, shortfall, square, off])


def independent_window(
    log_phi: FloatArray,
    relevant: FloatArray,
    others: FloatArray,
    generating: Generating,
    sink: float = 0.0,
) -> FloatArray:
    """Return the interval of ``u`` that determines the moments of independent tokens."""

    def rows(u: FloatArray, nodes: FloatArray, *laws: FloatArray) -> FloatArray:
        rel, oth = token_factors(u, nodes, *laws)
        return _independent_integrands(u, rel, oth, generating, sink)

    return window(rows, log_phi, relevant, others)


def vanishing(log_phi: FloatArray, law: FloatArray) -> float:
    """Return the mass of the nodes where ``φ = 0``."""
    return float(law[np.isneginf(log_phi)].sum())


def _exchangeable_integrands(
    u: FloatArray, factors: TokenFactors, generating: Generating, sink: float
) -> FloatArray:
    """Return the integrands of ``E Σ σ_ℓ²`` and ``E Σ σ_ℓ``, one a row."""
    g0, g1, _ = generating(factors.log_zero)
    several = np.exp(factors.log_zero) * g1 + g0  # Σ_L P(L) L z^(L−1)
    mute = np.exp(-sink * np.exp(np.minimum(u, 700.0)))
    return mute * several * np.stack([factors.two, factors.one])


def exchangeable_window(
    log_phi: FloatArray, tokens: FloatArray, generating: Generating, sink: float = 0.0
) -> FloatArray:
    """Return the interval of ``u`` that determines the moments of i.i.d. tokens."""

    def rows(u: FloatArray, nodes: FloatArray, law: FloatArray) -> FloatArray:
        (factors,) = token_factors(u, nodes, law)
        return _exchangeable_integrands(u, factors, generating, sink)

    return window(rows, log_phi, tokens)


def exchangeable_square(
    u: FloatArray,
    weights: FloatArray,
    factors: TokenFactors,
    generating: Generating,
    sink: float = 0.0,
) -> float:
    """Return ``E Σ_ℓ σ_ℓ²`` for i.i.d. tokens, by a rule in ``u``."""
    return float(_exchangeable_integrands(u, factors, generating, sink)[0] @ weights)
