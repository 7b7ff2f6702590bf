r"""The seven functions of ``(m, S)`` that determine the risk of attention, on M and off it.

With ``χ = m χ* + √S u`` the risk at any order parameters is

    E = Δ² + 1 − 2 m_vv A + (q_vv − m_vk²) B − 2 m_kv m_vk P + m_vk² X
        + 2 m_vk g Y − 2 m_kv g Q + g² U,

``m = m_kk``, ``S = q_kk − m_kk²``, ``g = q_kv − m_kk m_vk``; ``A … U`` depend on ``(m, S)`` and
the bias alone. ``A, B`` are those of the population theory; the others vanish from ``E`` on M:

    P = E Σ_ℓ ∂_ε(χ*_ℓ σ_ℓ),    Q = E Σ_ℓ ∂_ε∂_ℓ σ_ℓ,    X = E (Σ χ*σ)²,
    Y = E Σ_ℓℓ' ∂_ℓ'(χ*_ℓ σ_ℓ σ_ℓ'),    U = E Σ_ℓℓ' ∂_ℓ∂_ℓ'(σ_ℓ σ_ℓ').

Each is an integral over Laplace variables of products of one-token expectations
(`slrlab.numerics.simplex`), at a cost that does not grow with the length. If the relevant token has
variance ``γ²`` in every direction (`slrlab.MarionSLR`), the 1 is ``γ²``, and each derivative at the
relevant token, each label and each square of its value score has a factor ``γ²``. This module
computes the moments with their derivatives, independent of values and flows.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.activations import Activation, Elementwise, Normalised
from slrlab.model.lengths import LengthLaw
from slrlab.model.marion import MarionSLR
from slrlab.model.tasks import SelectionTask, Task, TiltedTask
from slrlab.numerics.jet import Jet
from slrlab.numerics.simplex import (
    exchangeable_window,
    factor_sums,
    independent_window,
    log_expectation,
)
from slrlab.theory.landscape.laws import (
    ORDER,
    PAIRS,
    TokenLaws,
    gaussian_laws,
    gaussian_slopes,
    product_laws,
)
from slrlab.theory.moments.nodes import edge, laplace_grid, tilted_nodes
from slrlab.theory.moments.selected import selected_density, selection_rule

Entries = Callable[[int, int, int], FloatArray]  # E[χ*ᵃ F_j⁽ⁿ⁾] for (j, a, n)
Jets = Callable[[int, int, int], Jet]  # the same with derivatives in m, S and the bias
# rows of a table that make up a jet: the entry and its derivatives, with their factors
_JETS = {pair: i for i, pair in enumerate(pair for pair in PAIRS if sum(pair) <= ORDER - 2)}
_ROWS = np.array(
    [[PAIRS.index((a + i, n + j)) for i, j in ((0, 0), (1, 1), (0, 2), (0, 1))] for a, n in _JETS]
)
_FACTORS = np.array([[1.0], [1.0], [0.5], [1.0]])
_UNIT = np.array([[1.0 if pair == (0, 0) else 0.0] for pair in PAIRS])  # table of φ⁰ = 1
_PLAIN = np.array([[n == 0] for _, n in PAIRS] * 2)
_DIGITS, _BIAS_STEP = 64.0, 0.25  # accuracy to which keys and biases are rounded for a window


class LandscapeMoments(NamedTuple):
    """``A, B, P, Q, X, Y, U``: each an array of value and derivatives in ``m``, ``S``, bias."""

    A: FloatArray
    B: FloatArray
    P: FloatArray
    Q: FloatArray
    X: FloatArray
    Y: FloatArray
    U: FloatArray


def landscape_moments(
    task: Task, activation: Activation, m: float, S: float, *, resolution: float = 1.0
) -> LandscapeMoments:
    """Return the moments for an elementwise or normalised activation.

    Raises
    ------
    TypeError
        If the activation is of another family, or the task.
    """
    if not isinstance(activation, Elementwise | Normalised):
        raise TypeError(
            f"activation must be Elementwise or Normalised, got {type(activation).__name__}"
        )
    if not isinstance(task, TiltedTask | SelectionTask | MarionSLR):
        raise TypeError(f"task must be a TiltedTask or a SelectionTask, got {type(task).__name__}")
    # an activation that overflows gives moments that are not finite, and a failed status
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        factors = located = _independent(task, activation, (m, S), resolution)
        if isinstance(task, SelectionTask):  # only the first moments depend on the location
            located = _selected(task, activation, (m, S), resolution)
        return LandscapeMoments(**_first(located), **_second(factors))


@dataclass(frozen=True)
class _Factors:
    """One-token expectations on a grid of Laplace variables, and how to integrate over it.

    ``F_j = φʲ`` for elementwise activations, ``(tφ)ʲ e^{−tφ}`` for normalised ones; ``lengths``
    are ``E (L−1)…(L−i) z^{L−1−i}`` at the ``z`` of the other tokens. ``variance`` is that of the
    relevant token, ``γ²``.
    """

    relevant: Jets
    others: Jets
    lengths: tuple[Jet, ...]
    weights: FloatArray
    variance: float = 1.0

    def integrate(self, **jets: Jet) -> dict[str, FloatArray]:
        """Return value and derivatives of each integral."""
        weights = self.weights.ravel()
        return {name: jet.parts.reshape(len(jet.parts), -1) @ weights for name, jet in jets.items()}


def _table_jets(table: FloatArray, variance: float = 1.0) -> Jets:
    """Return entries of a table ``(j, pair, grid)`` of one token law with their derivatives."""
    parts = table[:, _ROWS] * _FACTORS
    parts[:, :, 2] *= variance
    return lambda j, a, n: Jet(parts[j, _JETS[a, n]])


def _jets(entries: Entries) -> Jets:
    """Return entries, each computed at its first use, with their derivatives."""

    @cache
    def jet(j: int, a: int, n: int) -> Jet:
        in_m, in_S = entries(j, a + 1, n + 1), 0.5 * entries(j, a, n + 2)
        return Jet(np.stack([entries(j, a, n), in_m, in_S, entries(j, a, n + 1)]))

    return jet


def _first(factors: _Factors) -> dict[str, FloatArray]:
    """Return the moments that depend on the location."""
    r, o, g = factors.relevant, factors.others, factors.variance
    alone, pair = factors.lengths[:2]
    cross = r(0, 0, 1) * pair  # the weights of the others depend on the relevant score
    return factors.integrate(
        A=g * (r(1, 0, 0) * alone),
        P=g * (r(1, 1, 1) * alone + cross * o(1, 1, 0)),
        Q=g * (g * (r(1, 0, 2) * alone) + cross * o(1, 0, 1)),
    )


def _second(factors: _Factors) -> dict[str, FloatArray]:
    """Return the moments that sum over all pairs of tokens."""
    r, o, g = factors.relevant, factors.others, factors.variance
    alone, pair, triple = factors.lengths
    first, second = r(0, 0, 0) * pair, r(0, 0, 0) * triple
    return factors.integrate(
        B=g * (r(2, 0, 0) * alone) + o(2, 0, 0) * first,
        X=r(2, 2, 0) * alone
        + o(2, 2, 0) * first
        + 2.0 * (r(1, 1, 0) * o(1, 1, 0) * pair)
        + o(1, 1, 0) * o(1, 1, 0) * second,
        Y=g * (r(2, 1, 1) * alone)
        + o(2, 1, 1) * first
        + (r(1, 1, 0) * o(1, 0, 1) + g * (r(1, 0, 1) * o(1, 1, 0))) * pair
        + o(1, 1, 0) * o(1, 0, 1) * second,
        U=g**2 * (r(2, 0, 2) * alone)
        + o(2, 0, 2) * first
        + 2.0 * g * (r(1, 0, 1) * o(1, 0, 1) * pair)
        + o(1, 0, 1) * o(1, 0, 1) * second,
    )


def _laws(
    task: Task, activation: Elementwise | Normalised, m: float, std: float, resolution: float
) -> TokenLaws:
    if isinstance(task, MarionSLR):
        return gaussian_laws(task.shift, m, std, edge(task), resolution, task.relevant_std)
    shift = task.gaussian_shift if isinstance(task, TiltedTask) else 0.0
    if shift is not None:
        bends = [bend - float(activation.bias or 0.0) for bend in activation.bends]
        return gaussian_laws(shift, m, std, edge(task), resolution, bends=bends)
    assert isinstance(task, TiltedTask)
    return product_laws(*tilted_nodes(task, abs(m), resolution), m, std, resolution)


def _rounded(x: float) -> float:
    """Return the nearest number of few digits, so that similar keys share a window."""
    fraction, power = math.frexp(x)
    return math.ldexp(round(fraction * _DIGITS) / _DIGITS, power)


@lru_cache(maxsize=256)
def _window(
    task: Task, activation: Normalised, m: float, std: float, resolution: float
) -> FloatArray:
    """Return ends of ``log t`` that contain the integrands of all keys and biases rounded to these.

    Rounding changes a score by at most its fraction ``1/_DIGITS``, and ``log φ`` by its slope times
    that.
    """
    laws = _laws(task, activation, m, std, resolution)
    log_phi = activation.log_phi(laws.scores)
    ends = _exact_window(task, activation, laws, log_phi)
    order = np.argsort(laws.scores)
    rises = np.diff(log_phi[order]) / np.maximum(np.diff(laws.scores[order]), 1e-12)
    steepest = float(np.abs(rises).max(initial=0.0, where=np.isfinite(rises)))
    margin = (2.0 * float(np.abs(laws.scores).max()) / _DIGITS + _BIAS_STEP / 2.0) * steepest
    return np.asarray(ends + np.array([-margin, margin]))


def _exact_window(
    task: Task, activation: Normalised, laws: TokenLaws, log_phi: FloatArray
) -> FloatArray:
    """Return ends of ``log t`` that contain the integrands of these laws."""
    sums = laws.relevant[0], laws.others[0], task.length.generating
    return independent_window(log_phi, *sums, activation.sink)


def _independent(
    task: Task, activation: Elementwise | Normalised, keys: tuple[float, float], resolution: float
) -> _Factors:
    """Return the factors of independent tokens; in a selection task all have the same law."""
    m, std = keys[0], math.sqrt(keys[1])
    laws = _laws(task, activation, m, std, resolution)
    if isinstance(activation, Elementwise):
        return _elementwise(task.length, activation, laws, task.relevant_std**2)
    width = math.hypot(m, std) * min(1.0, task.relevant_std)
    log_phi = activation.log_phi(laws.scores)
    generating = task.length.generating
    if activation.bends:  # log φ may be arbitrarily steep: no window serves neighbours
        ends = _exact_window(task, activation, laws, log_phi)
    else:
        bias = round(float(activation.bias or 0.0) / _BIAS_STEP) * _BIAS_STEP
        ends = _window(task, activation.with_bias(bias), _rounded(m), _rounded(std), resolution)
    u, weights = laplace_grid(activation, task, width, resolution).nodes(ends)
    sums = factor_sums(u, log_phi, np.concatenate([laws.relevant, laws.others]).T)
    zero, one, two, missing = np.moveaxis(sums, 2, 1)
    log_zero = log_expectation(zero[len(PAIRS)], missing[len(PAIRS)])
    # E He_n = 0: the complement has the same average without cancellation
    table = np.stack([np.where(_PLAIN, zero, -missing), one, two])
    variance = task.relevant_std**2
    parts = zip(np.split(table, 2, axis=1), (variance, 1.0), strict=True)
    relevant, others = (_table_jets(*part) for part in parts)
    lengths = _lengths(others(0, 0, 0), generating(log_zero, 3))
    weights = _sink_factor(activation, u) * weights
    return _Factors(relevant, others, lengths, weights, variance)


def _sink_factor(activation: Normalised, u: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-activation.sink * np.exp(np.minimum(u, 700.0))))


def _lengths(z: Jet, generating: Sequence[FloatArray]) -> tuple[Jet, ...]:
    return tuple(z.through(*pair) for pair in pairwise(generating))


def _elementwise(
    length: LengthLaw, activation: Elementwise, laws: TokenLaws, variance: float = 1.0
) -> _Factors:
    """Return the factors of an elementwise activation: no Laplace variable."""
    sigma = activation.weights(laws.scores)
    powers = np.stack([sigma, sigma**2], axis=1)
    relevant, others = (
        _table_jets(np.stack([_UNIT, *(law @ powers).T[..., None]]), square)
        for law, square in ((laws.relevant, variance), (laws.others, 1.0))
    )
    lengths = _lengths(others(0, 0, 0), length.generating(np.zeros(1), 3))
    return _Factors(relevant, others, lengths, np.ones(1), variance)


def _selected(
    task: SelectionTask,
    activation: Elementwise | Normalised,
    keys: tuple[float, float],
    resolution: float,
) -> _Factors:
    """Return the factors of the selected token and of the others."""
    m, std = keys[0], math.sqrt(keys[1])
    if isinstance(activation, Elementwise):
        x, law = selected_density(task, abs(m), resolution)
        laws = product_laws(x, law, law, m, std, resolution)
        return _elementwise(task.length, activation, laws)
    tokens = gaussian_laws(0.0, m, std, edge(task), resolution)
    log_phi, generating = activation.log_phi(tokens.scores), task.length.generating
    ends = exchangeable_window(log_phi, tokens.others[0], generating, activation.sink)
    x, kernel, u, weights = selection_rule(task, activation, keys, ends, resolution)
    noise, slopes = gaussian_slopes(std, resolution)
    missing, one = _decays(u, activation.log_phi(m * x[:, None] + noise), slopes)

    def entries(apply: Callable[[FloatArray], FloatArray]) -> Entries:
        @cache
        def entry(j: int, a: int, n: int) -> FloatArray:
            if j == 1:
                return apply(x[:, None] ** a * one[n])
            return apply(1.0 - missing[0] if n == 0 else x[:, None] ** a * -missing[n])

        return entry

    absent = np.minimum(kernel.missing[:, None] + kernel.survive(missing[0]), 1.0 - 1e-16)
    others = _jets(entries(kernel.survive))
    z = others(0, 0, 0)
    g0, g1, g2, g3 = generating(np.log1p(-absent), 3)
    # Σ P(L) L z^(L−1) and its derivatives: the selected token can be any of the L tokens
    counts = (z.value * g1 + g0, z.value * g2 + 2.0 * g1, z.value * g3 + 3.0 * g2)
    weights = kernel.weights[:, None] * _sink_factor(activation, u) * weights
    return _Factors(_jets(entries(kernel.pick)), others, _lengths(z, counts), weights)


def _decays(
    u: FloatArray, log_phi: FloatArray, slopes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return ``E[1−e^{−T}]`` and ``E[T e^{−T}]`` with the weights of each order, per node and t."""
    missing, one = np.empty((2, len(slopes), log_phi.shape[0], u.size))
    rows = max(1, (1 << 19) // (log_phi.shape[1] * u.size))
    for start in range(0, log_phi.shape[0], rows):
        block = slice(start, start + rows)
        t_phi = np.exp(np.minimum(log_phi[block, :, None] + u, 700.0))
        lost = -np.expm1(-t_phi)
        missing[:, block] = np.moveaxis(slopes @ lost, 1, 0)
        t_phi *= 1.0 - lost
        one[:, block] = np.moveaxis(slopes @ t_phi, 1, 0)
    return missing, one
