r"""Compiled weights above a threshold, with their derivatives: projections and normmax.

The caller owns the scratch space. The reference in NumPy is `slrlab.model.weights_reference`.
"""

# notation: docs/notation.md, "Trained attention"
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math

from numba import njit

from slrlab.model.weights_rows import CURVE, ETA, PI, PSI, SAFE_MATH, SIGMA, TRIAL

_compiled = njit(cache=True, error_model="numpy", fastmath=SAFE_MATH)


@_compiled
def _largest(work, rank):
    """Return the entry of row TRIAL that ``rank − 1`` others are not below."""
    value, index = math.inf, -1
    for _ in range(rank):
        top, at = -math.inf, -1
        for i in range(work.shape[1]):
            x = work[TRIAL, i]
            if x > top and (x < value or (x == value and i > index)):
                top, at = x, i
        value, index = top, at
    return value


@_compiled
def _round(x, right, jump, width):
    """Return what rounding adds to a map and two derivatives at distance ``x`` from a kink.

    The slope jumps by ``jump``; the map is averaged over a triangular law of half-width ``width``.
    """
    left = 1.0 - abs(x) / width if abs(x) < width else 0.0
    slope = -0.5 if right else 0.5
    value = jump * width * left * left * left / 6.0
    return value, jump * slope * left * left, jump * left / width


@_compiled
def _rise(u, power, cut, width):
    """Return ``h(u) = u_+^power`` and two derivatives, cut at 1 if asked; kinks are rounded."""
    value, first, second = 0.0, 0.0, 0.0
    if cut and u >= 1.0:
        value = 1.0
    elif u > 0.0:
        # a power is the costliest operation here: the usual ones are products
        root = 1.0 if power == 1.0 else u if power == 2.0 else u ** (power - 1.0)
        value, first = root * u, power * root
        if u > 1e-12 and power != 1.0:
            second = (power - 1.0) * first / u
    if width > 0.0 and power == 1.0:
        more = _round(u, u > 0.0, 1.0, width)
        value, first, second = value + more[0], first + more[1], second + more[2]
    if width > 0.0 and cut:
        more = _round(u - 1.0, u >= 1.0, -power, width)
        value, first, second = value + more[0], first + more[1], second + more[2]
    return value, first, second


@_compiled
def _root(u, power, width):
    """Return ``g(u) = u_+^(power−1)``, two derivatives, and ``power`` times its integral."""
    value, first, second = _rise(u, power - 1.0, False, width)
    above = max(u, 0.0)
    whole = above * (above if power == 2.0 else value)
    if power == 2.0 and width > 0.0:  # the integral of a rounded hinge
        left = 1.0 - abs(u) / width if abs(u) < width else 0.0
        quarter = left * left * left * left
        whole += width * width * (2.0 - quarter if u > 0.0 else quarter) / 12.0
    return value, first, second, whole


@_compiled
def _threshold(work, power, unit, budget, width, rooted):
    """Return a score and the ``τ`` below it at which ``Σ h((χ − score)/unit − τ)`` is the budget.

    The scores are in row TRIAL. As many as the budget are not below the score, so ``τ`` is in
    ``[−1, 0]``, up to the width of rounded kinks, and keeps its digits.
    """
    count = work.shape[1]
    high, tau, low, top = _largest(work, min(budget, count)), -1.0 - width, -1.0 - width, width
    if budget >= count and budget > 1:
        return high, low
    for _ in range(100):
        total, slope = 0.0, 0.0
        for i in range(count):
            u = (work[TRIAL, i] - high) / unit - tau
            if rooted:
                root, _, _, height = _root(u, power, width)
                rise = power * root
            else:
                height, rise, _ = _rise(u, power, budget > 1, width)
            total += height
            slope += rise
        if total >= budget:
            low = tau
        else:
            top = tau
        if abs(total - budget) <= 1e-15 * slope:
            break
        ahead = tau + (total - budget) / slope  # infinite where no weight moves
        # Newton's steps from the left stay there if the sum is convex; else they may leave
        if ahead < low or ahead >= top:
            ahead = 0.5 * (low + top)
        if ahead == tau:
            break
        tau = ahead
    return high, tau


@_compiled
def projected(work, power, budget, width):
    """Fill σ, π, ψ and the second derivative of a projection; return the mass of ψ."""
    count = work.shape[1]
    high, tau = _threshold(work, power, power, budget, width, False)
    mass, total = 0.0, 0.0
    for i in range(count):
        u = (work[TRIAL, i] - high) / power - tau
        sigma, first, second = _rise(u, power, budget > 1, width)
        work[SIGMA, i], work[PSI, i] = sigma, first / power
        work[CURVE, i] = second / (power * power)
        mass += work[PSI, i]
        total += sigma
    share = 1.0 / mass if mass > 0.0 else 0.0
    unit = 1.0 / total if budget == 1 else 1.0
    for i in range(count):
        work[PI, i] = work[PSI, i] * share
        work[SIGMA, i] *= unit
    return mass


@_compiled
def normmax(work, power, width):
    """Fill the weights of normmax and what their derivatives consist of.

    With ``g = u^(power−1)``, ``σ = g/Σg``: ψ is the first derivative of ``g`` over ``Σg``, row
    CURVE the second one, ``η = ψ − σ Σψ``.
    """
    count = work.shape[1]
    high, tau = _threshold(work, power, 1.0, 1, width, True)
    mass, bend = 0.0, 0.0
    for i in range(count):
        root = _root(work[TRIAL, i] - high - tau, power, width)
        work[SIGMA, i], work[PSI, i], work[CURVE, i] = root[0], root[1], root[2]
        mass += root[0]
        bend += root[1]
    for i in range(count):
        work[SIGMA, i] /= mass
        work[PSI, i] /= mass
        work[CURVE, i] /= mass
        work[PI, i] = work[SIGMA, i]
        work[ETA, i] = work[PSI, i] - bend / mass * work[SIGMA, i]
    return 1.0
