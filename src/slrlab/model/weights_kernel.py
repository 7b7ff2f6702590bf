r"""Compiled attention weights of one sequence with their derivatives, for every family.

For a ratio ``∂σ_j/∂χ_ℓ = ψ_ℓ δ_jℓ − π_j η_ℓ``; for elementwise, normalised and projected weights
``η = ψ``. Stick-breaking has ``∂σ_j/∂χ_ℓ = −σ_j η_ℓ`` for tokens ``j`` before ``ℓ`` instead, with
``η`` the share that a token takes of what is left, and normmax
``∂σ_j/∂χ_ℓ = ψ_j (δ_jℓ − σ_ℓ) − σ_j η_ℓ``. An exponential is kept from overflow. The caller owns
a scratch space with one row per quantity, so nothing is allocated. The reference in NumPy is
`slrlab.model.weights_reference`. Numba's cache watches the file of the function it compiled, not
this one: after an edit here, delete ``__pycache__`` of the kernels that use it.
"""

# notation: docs/notation.md, "Trained attention"
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math

from numba import njit

from slrlab.model.activation_code import (
    ELEMENTWISE,
    EXPONENTIAL,
    LINEAR,
    NORMMAX,
    ORDERED,
    PROJECTION,
    RATIO,
    REWEIGHTED,
    SHIFTED_ERF,
    SOFTPLUS,
)
from slrlab.model.threshold_kernel import normmax, projected
from slrlab.model.weights_rows import (
    CURVE,
    ETA,
    FORCE,
    GAUGE,
    PI,
    PSI,
    SAFE_MATH,
    SIGMA,
    TRIAL,
    VALUE,
)

_BELL = 2.0 / math.sqrt(math.pi)
_compiled = njit(cache=True, error_model="numpy", fastmath=SAFE_MATH)
_inline = njit(cache=True, error_model="numpy", inline="always")


@_inline
def _softplus(x):
    """Return softplus and two derivatives."""
    if x > 0.0:
        tail = math.exp(-x)
        p = 1.0 / (1.0 + tail)
        return x + math.log1p(tail), p, p * (1.0 - p)
    tail = math.exp(x)
    p = tail / (1.0 + tail)
    return math.log1p(tail), p, p * (1.0 - p)


@_inline
def _table(x, table, low, step, at=0):
    """Return a tabulated map and two derivatives: quintic Hermite inside, Taylor outside.

    ``at`` is the first column of the map.
    """
    count = table.shape[0]
    position = (x - low) / step
    cell = math.floor(min(max(position, 0.0), count - 1.001))
    t = position - cell
    if position < 0.0 or position > count - 1.0:  # beyond the table: the parabola of its last node
        node = 0 if position < 0.0 else count - 1
        gap = x - (low + node * step)
        f0, f1, f2 = table[node, at], table[node, at + 1], table[node, at + 2]
        return f0 + gap * (f1 + 0.5 * gap * f2), f1 + gap * f2, f2
    square, ahead = step * step, cell + 1
    a0, a1, a2 = table[cell, at], table[cell, at + 1] * step, table[cell, at + 2] * square
    b0, b1, b2 = table[ahead, at], table[ahead, at + 1] * step, table[ahead, at + 2] * square
    c2 = 0.5 * a2
    rise, slope, bend = b0 - a0 - a1 - c2, b1 - a1 - a2, b2 - a2
    c3 = 10.0 * rise - 4.0 * slope + 0.5 * bend
    c4 = -15.0 * rise + 7.0 * slope - bend
    c5 = 6.0 * rise - 3.0 * slope + 0.5 * bend
    value = a0 + t * (a1 + t * (c2 + t * (c3 + t * (c4 + t * c5))))
    first = a1 + t * (2.0 * c2 + t * (3.0 * c3 + t * (4.0 * c4 + t * 5.0 * c5)))
    second = 2.0 * c2 + t * (6.0 * c3 + t * (12.0 * c4 + t * 20.0 * c5))
    return value, first / step, second / square


@_inline
def _map(x, top, kind, table, low, step):
    """Return ``φ, φ', φ''``; for the exponential relative to ``e^top``."""
    if kind == EXPONENTIAL:
        e = math.exp(x - top)
        return e, e, e
    if kind == LINEAR:
        return 1.0 + x, 1.0, 0.0
    if kind == SOFTPLUS:
        return _softplus(x)
    if kind == SHIFTED_ERF:
        bell = _BELL * math.exp(-x * x)
        return math.erfc(-x), bell, -2.0 * x * bell
    return _table(x, table, low, step)


@_inline
def _top(work):
    """Return the largest entry of row TRIAL."""
    top = work[TRIAL, 0]
    for i in range(1, work.shape[1]):
        top = max(top, work[TRIAL, i])
    return top


@_compiled
def _ratio(work, exponent, table, low, step):
    """Fill σ, π, ψ, η and the second derivatives of both maps (rows CURVE and GAUGE)."""
    count = work.shape[1]
    total = 0.0
    for i in range(count):
        x = work[TRIAL, i]
        work[SIGMA, i], work[PSI, i], work[CURVE, i] = _table(x, table, low, step)
        gauge, work[ETA, i], work[GAUGE, i] = _table(x, table, low, step, 3)
        total += gauge
    scale, below = 0.0, 0.0
    if total > 0.0:
        scale, below = total**-exponent, exponent / total
    for i in range(count):
        sigma = work[SIGMA, i] * scale
        work[SIGMA, i], work[PI, i] = sigma, sigma
        work[PSI, i] *= scale
        work[CURVE, i] *= scale
        work[ETA, i] *= below
        work[GAUGE, i] *= below
    return 1.0


@_inline
def token_at(position, location):
    """Return the token at a position: token 0 is at ``location``, the others keep their order."""
    if position == location:
        return 0
    return position + 1 if position < location else position


@_inline
def _reweighting(token, location, count):
    """Return ``cos(π(L − ℓ)/2L)`` at the position ``ℓ`` of a token; token 0 is at ``location``."""
    position = token - 1 if token - 1 < location else token
    if token == 0:
        position = location
    return math.sin(0.5 * math.pi * (position + 1.0) / count)


@_compiled
def _stick_breaking(work, location):
    """Fill σ, ψ = ∂σ_ℓ/∂χ_ℓ and the share η of what is left; π has no meaning here and is 0."""
    left = 1.0
    for position in range(work.shape[1] - 1, -1, -1):
        i = token_at(position, location)
        x = work[TRIAL, i]
        tail = math.exp(-abs(x))
        small = tail / (1.0 + tail)
        share, rest = (1.0 - small, small) if x > 0.0 else (small, 1.0 - small)
        sigma = share * left
        work[SIGMA, i], work[PSI, i], work[ETA, i] = sigma, sigma * rest, share
        work[PI, i], work[CURVE, i] = 0.0, 0.0
        left *= rest
    return 1.0


@_inline
def fill_weights(work, activation, table):
    """Fill σ, π, ψ and the second derivative (row CURVE) at row TRIAL; return the mass of ψ."""
    family, kind, sink, power, low, step = activation
    if family == PROJECTION:
        return projected(work, power, int(sink), step)
    if family == NORMMAX:
        return normmax(work, power, step)
    if family == RATIO:
        return _ratio(work, power, table, low, step)
    if family == ORDERED:
        return _stick_breaking(work, int(power))
    count = work.shape[1]
    top = 0.0
    if kind == EXPONENTIAL:
        top = _top(work)
        if sink > 0.0:
            top = max(top, math.log(sink))
    total = 0.0
    for i in range(count):
        value, first, second = _map(work[TRIAL, i], top, kind, table, low, step)
        if family == REWEIGHTED:
            factor = _reweighting(i, int(power), count)
            value, first, second = factor * value, factor * first, factor * second
        work[SIGMA, i], work[PSI, i], work[CURVE, i] = value, first, second
        total += value
    if family == ELEMENTWISE:
        for i in range(count):
            work[PI, i] = 0.0
        return 1.0
    if sink > 0.0:
        total += sink * math.exp(-top)
    scale = 1.0 / total if total > 0.0 else 0.0
    for i in range(count):
        value = work[SIGMA, i] * scale
        work[SIGMA, i], work[PI, i] = value, value
        work[PSI, i] *= scale
        work[CURVE, i] *= scale
    return 1.0


@_inline
def residual(work, label, activation, table):
    """Fill the weights at row TRIAL, and row FORCE with ``Jᵀz``; return ``ρ = y − σᵀz``.

    ``z`` is row VALUE and ``J`` the Jacobian of the weights.
    """
    fill_weights(work, activation, table)
    count, family = work.shape[1], activation[0]
    answer, mean = 0.0, 0.0
    if family == ORDERED:
        location = int(activation[3])
        for position in range(count):
            i = token_at(position, location)
            work[FORCE, i] = work[PSI, i] * work[VALUE, i] - work[ETA, i] * answer
            answer += work[SIGMA, i] * work[VALUE, i]
        return label - answer
    for i in range(count):
        answer += work[SIGMA, i] * work[VALUE, i]
        mean += work[PI, i] * work[VALUE, i]
    if family == RATIO:
        for i in range(count):
            work[FORCE, i] = work[PSI, i] * work[VALUE, i] - work[ETA, i] * mean
    elif family == NORMMAX:
        bend = 0.0
        for i in range(count):
            bend += work[PSI, i] * (work[VALUE, i] - mean)
        for i in range(count):
            own = work[PSI, i] * (work[VALUE, i] - mean)
            work[FORCE, i] = own - work[SIGMA, i] * bend
    else:
        for i in range(count):
            work[FORCE, i] = work[PSI, i] * (work[VALUE, i] - mean)
    return label - answer
