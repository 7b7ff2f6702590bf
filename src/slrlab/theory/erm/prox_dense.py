r"""Newton steps and gains of the prox for weights with a full Jacobian: stick-breaking, normmax.

Here the Hessian of the data term is held as a matrix,

    ∇²(r²/2A) = −ρ Σ_j ẑ_j ∇²σ_j − V_v ρ² JᵀJ + ββᵀ/A,   β = Jᵀ(ẑ + V_v ρ σ),

and factorised, in O(L³) for each sample. The matrices are further rows of the scratch space.
"""

# notation: docs/notation.md, "Trained attention"
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math

from numba import njit

from slrlab.model.activation_code import ORDERED
from slrlab.model.weights_kernel import token_at
from slrlab.model.weights_rows import CURVE, ETA, PSI, SAFE_MATH, SIGMA, TRIAL
from slrlab.theory.erm import codes
from slrlab.theory.erm.prox_low_rank import (
    BETA,
    CHI,
    GRAD,
    OM_K,
    OM_Z,
    SCRATCH_ROWS,
    STEP,
    THETA,
)

# matrices of L rows each, after the rows that all kernels have: the Hessian of the data term, a
# Cholesky factor, the Jacobian, and those of the gains
_LOWER, _JACOBIAN, _INVERSE, _MIXED, _PRODUCT = range(1, 6)
MATRICES = 6
_compiled = njit(cache=True, error_model="numpy", fastmath=SAFE_MATH)


@_compiled
def _stick_breaking(work, location):
    """Fill the Jacobian: a token takes its share of what later ones leave."""
    count = work.shape[1]
    jacobian = SCRATCH_ROWS + _JACOBIAN * count
    for position in range(count):
        j = token_at(position, location)
        work[jacobian + j, j] = work[PSI, j]
        for later in range(position + 1, count):
            i = token_at(later, location)
            work[jacobian + j, i] = -work[SIGMA, j] * work[ETA, i]
            work[jacobian + i, j] = 0.0


@_compiled
def _bend_stick_breaking(work, location):
    """Fill the second derivatives of ``cᵀσ``; row THETA is its gradient."""
    count = work.shape[1]
    for position in range(count):
        j = token_at(position, location)
        slope = work[THETA, j]
        work[SCRATCH_ROWS + j, j] = (1.0 - 2.0 * work[ETA, j]) * slope
        for later in range(position + 1, count):
            i = token_at(later, location)
            entry = -slope * work[ETA, i]
            work[SCRATCH_ROWS + j, i] = entry
            work[SCRATCH_ROWS + i, j] = entry


@_compiled
def _normmax(work):
    """Fill the Jacobian ``ψ_j (δ_jℓ − σ_ℓ) − σ_j η_ℓ``."""
    count = work.shape[1]
    jacobian = SCRATCH_ROWS + _JACOBIAN * count
    for j in range(count):
        for i in range(count):
            entry = -work[PSI, j] * work[SIGMA, i] - work[SIGMA, j] * work[ETA, i]
            work[jacobian + j, i] = entry
        work[jacobian + j, j] += work[PSI, j]


@_compiled
def _bend_normmax(work, rho, pull):
    """Fill the second derivatives of ``cᵀσ``, ``c = −ρẑ``; row THETA is its gradient.

    With ``f = ψ'(c − σᵀc)`` they are ``(I − 1σᵀ)ᵀ diag(f) (I − 1σᵀ) − ηθᵀ − θηᵀ − (ηᵀc) J``.
    """
    count = work.shape[1]
    jacobian = SCRATCH_ROWS + _JACOBIAN * count
    mean, along, whole = 0.0, 0.0, 0.0
    for i in range(count):
        c = -rho * (work[OM_Z, i] + pull * work[SIGMA, i])
        mean += work[SIGMA, i] * c
        along += work[ETA, i] * c
    for i in range(count):
        work[CURVE, i] *= -rho * (work[OM_Z, i] + pull * work[SIGMA, i]) - mean
        whole += work[CURVE, i]
    for i in range(count):
        for j in range(count):
            entry = whole * work[SIGMA, i] * work[SIGMA, j] - along * work[jacobian + i, j]
            entry -= work[CURVE, i] * work[SIGMA, j] + work[CURVE, j] * work[SIGMA, i]
            entry -= work[ETA, i] * work[THETA, j] + work[ETA, j] * work[THETA, i]
            work[SCRATCH_ROWS + i, j] = entry
        work[SCRATCH_ROWS + i, i] += work[CURVE, i]


@_compiled
def derivatives(work, loss, v_v, inverse_v, activation):
    """Make row TRIAL row CHI; fill the gradient of ``F`` and the Hessian of its data term there.

    Row THETA is ``Jᵀc``, the slope of the data term, ``c = −ρẑ``.
    """
    rho, a, count = loss[0], loss[1], work.shape[1]
    pull, kappa, location = v_v * rho, v_v * rho * rho, int(activation[3])
    jacobian = SCRATCH_ROWS + _JACOBIAN * count
    if activation[0] == ORDERED:
        _stick_breaking(work, location)
    else:
        _normmax(work)
    for i in range(count):
        slope, beta = 0.0, 0.0
        for j in range(count):
            z = work[OM_Z, j] + pull * work[SIGMA, j]
            slope -= work[jacobian + j, i] * rho * z
            beta += work[jacobian + j, i] * (z + pull * work[SIGMA, j])
        work[CHI, i], work[THETA, i], work[BETA, i] = work[TRIAL, i], slope, beta
        work[GRAD, i] = slope + inverse_v * (work[TRIAL, i] - work[OM_K, i])
    if activation[0] == ORDERED:
        _bend_stick_breaking(work, location)
    else:
        _bend_normmax(work, rho, pull)
    for i in range(count):
        for j in range(count):
            square = 0.0
            for m in range(count):
                square += work[jacobian + m, i] * work[jacobian + m, j]
            work[SCRATCH_ROWS + i, j] += work[BETA, i] * work[BETA, j] / a - kappa * square


@_compiled
def factorise(work, stiffness):
    """Fill the Cholesky factor of the Hessian of ``F``; return whether it is positive definite."""
    count = work.shape[1]
    lower = SCRATCH_ROWS + _LOWER * count
    for j in range(count):
        for i in range(j, count):
            entry = work[SCRATCH_ROWS + i, j]
            if i == j:
                entry += stiffness
            for m in range(j):
                entry -= work[lower + i, m] * work[lower + j, m]
            if i > j:
                work[lower + i, j] = entry / work[lower + j, j]
            elif entry > 0.0:
                work[lower + j, j] = math.sqrt(entry)
            else:
                return False
    return True


@_compiled
def _solve_row(work, row):
    """Replace a row by the product of the inverse Hessian of ``F`` with it."""
    count = work.shape[1]
    lower = SCRATCH_ROWS + _LOWER * count
    for i in range(count):
        for m in range(i):
            work[row, i] -= work[lower + i, m] * work[row, m]
        work[row, i] /= work[lower + i, i]
    for i in range(count - 1, -1, -1):
        for m in range(i + 1, count):
            work[row, i] -= work[lower + m, i] * work[row, m]
        work[row, i] /= work[lower + i, i]


@_compiled
def newton_step(work):
    """Fill row STEP with ``−(∇²F)⁻¹∇F``; return its largest entry and its slope."""
    for i in range(work.shape[1]):
        work[STEP, i] = -work[GRAD, i]
    _solve_row(work, STEP)
    largest, slope = 0.0, 0.0
    for i in range(work.shape[1]):
        largest = max(largest, abs(work[STEP, i]))
        slope += work[STEP, i] * work[GRAD, i]
    return largest, slope


@_compiled
def gains(work, rho, a, inverse_v, squares, sums):
    """Return the traces of ``G``; if asked, add the squares of its blocks that the replicon needs.

    With ``P = (∇²F)⁻¹``, ``D`` the Hessian of the data term and ``M = −ρJᵀ + βσᵀ/A``:
    ``G^kk = PD/V_k``, ``G^kv = PM/V_k`` and ``G^vv = σσᵀ/A − MᵀPM``.
    """
    count = work.shape[1]
    # rows of P, which is symmetric, of M and of PM
    jacobian, inverse = SCRATCH_ROWS + _JACOBIAN * count, SCRATCH_ROWS + _INVERSE * count
    mixed, product = SCRATCH_ROWS + _MIXED * count, SCRATCH_ROWS + _PRODUCT * count
    for i in range(count):
        for j in range(count):
            work[inverse + i, j] = 1.0 if i == j else 0.0
            work[mixed + i, j] = work[BETA, i] * work[SIGMA, j] / a - rho * work[jacobian + j, i]
        _solve_row(work, inverse + i)
    trace_k, trace_v = 0.0, 0.0
    for i in range(count):
        trace_v += work[SIGMA, i] ** 2 / a
        for j in range(count):
            work[product + i, j] = 0.0
            for m in range(count):
                work[product + i, j] += work[inverse + i, m] * work[mixed + m, j]
            trace_k += inverse_v * work[inverse + i, j] * work[SCRATCH_ROWS + i, j]
            trace_v -= work[mixed + i, j] * work[product + i, j]
    if squares:
        for i in range(count):
            for j in range(count):
                kk, vv = 0.0, work[SIGMA, i] * work[SIGMA, j] / a
                for m in range(count):
                    kk += inverse_v * work[inverse + i, m] * work[SCRATCH_ROWS + m, j]
                    vv -= work[mixed + m, i] * work[product + m, j]
                kv, vk = inverse_v * work[product + i, j], inverse_v * work[product + j, i]
                sums[codes.GG_KK] += kk * kk
                sums[codes.GG_KV] += kv * kv
                sums[codes.GG_VV] += vv * vv
                sums[codes.GG_CROSS] += kk * vv + kv * vk
    return trace_k, trace_v
