r"""Newton steps and gains of the prox for stick-breaking, whose Jacobian is a full triangle.

Here the Hessian of the data term is held as a matrix,

    ∇²(r²/2A) = −ρ Σ_j ẑ_j ∇²σ_j − V_v ρ² JᵀJ + ββᵀ/A,   β = Jᵀ(ẑ + V_v ρ σ),

and factorised, in O(L³) for each sample. The matrices are further rows of the scratch space.
"""

# notation: docs/notation.md, "Trained attention"
from __future__ import annotations

import math

from numba import njit

from slrlab.model.weights_kernel import ETA, PSI, SAFE_MATH, SIGMA, TRIAL, token_at
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

MATRICES = 5  # of L rows each, after the rows that all kernels have
_compiled = njit(cache=True, error_model="numpy", fastmath=SAFE_MATH)


@_compiled
def derivatives(work, loss, v_v, inverse_v, place):
    """Make row TRIAL row CHI; fill the gradient of ``F`` and the Hessian of its data term there.

    Row THETA is ``Jᵀc``, the slope of the data term, ``c = −ρẑ``.
    """
    rho, a = loss[0], loss[1]
    pull, kappa, count = v_v * rho, v_v * rho * rho, work.shape[1]
    before_c, before_b, before_2 = 0.0, 0.0, 0.0
    for position in range(count):
        i = token_at(position, place)
        sigma, psi, share = work[SIGMA, i], work[PSI, i], work[ETA, i]
        z = work[OM_Z, i] + pull * sigma
        c, b = -rho * z, z + pull * sigma
        slope, beta = psi * c - share * before_c, psi * b - share * before_b
        work[CHI, i], work[THETA, i], work[BETA, i] = work[TRIAL, i], slope, beta
        work[GRAD, i] = slope + inverse_v * (work[TRIAL, i] - work[OM_K, i])
        square = psi * psi + share * share * before_2
        work[SCRATCH_ROWS + i, i] = (1.0 - 2.0 * share) * slope + beta * beta / a - kappa * square
        # with the tokens after this one: they take their share first
        cross = share * before_2 - psi * sigma
        for later in range(position + 1, count):
            work[SCRATCH_ROWS + i, token_at(later, place)] = -slope - kappa * cross
        before_c += sigma * c
        before_b += sigma * b
        before_2 += sigma * sigma
    for position in range(count):
        i = token_at(position, place)
        for later in range(position + 1, count):
            j = token_at(later, place)
            entry = work[SCRATCH_ROWS + i, j] * work[ETA, j] + work[BETA, i] * work[BETA, j] / a
            work[SCRATCH_ROWS + i, j] = entry
            work[SCRATCH_ROWS + j, i] = entry


@_compiled
def factorise(work, stiffness):
    """Fill the Cholesky factor of the Hessian of ``F``; return whether it is positive definite."""
    count = work.shape[1]
    lower = SCRATCH_ROWS + count
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
    lower = SCRATCH_ROWS + count
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
def gains(work, rho, a, inverse_v, place, squares, sums):
    """Return the traces of ``G``; if asked, add the squares of its blocks that the replicon needs.

    With ``P = (∇²F)⁻¹``, ``D`` the Hessian of the data term and ``M = −ρJᵀ + βσᵀ/A``:
    ``G^kk = PD/V_k``, ``G^kv = PM/V_k`` and ``G^vv = σσᵀ/A − MᵀPM``.
    """
    count = work.shape[1]
    # rows of P, then of M, then of PM; P is symmetric
    inverse = SCRATCH_ROWS + 2 * count
    mixed, product = inverse + count, inverse + 2 * count
    for i in range(count):
        for j in range(count):
            work[inverse + i, j] = 1.0 if i == j else 0.0
            work[mixed + i, j] = work[BETA, i] * work[SIGMA, j] / a
        work[mixed + i, i] -= rho * work[PSI, i]
        _solve_row(work, inverse + i)
    for position in range(count):
        j = token_at(position, place)
        for later in range(position + 1, count):
            i = token_at(later, place)
            work[mixed + i, j] += rho * work[SIGMA, j] * work[ETA, i]
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
