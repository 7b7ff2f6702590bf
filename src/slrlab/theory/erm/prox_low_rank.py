r"""Newton steps and gains of the prox in O(L), where the Jacobian is diagonal plus rank one.

With ``∂σ_j/∂χ_ℓ = ψ_ℓ δ_jℓ − π_j η_ℓ`` the Hessian of the data term of the prox is

    ∇²(r²/2A) = diag(d) + ββᵀ/A − ηθᵀ − θηᵀ,

so Newton steps, traces and the test for positive definiteness cost O(L). The rows of the scratch
space that all kernels of the prox share are named here.
"""

# notation: docs/notation.md, "Trained attention"
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math

from numba import njit

from slrlab.model.activation_code import NORMALISED, PROJECTION, RATIO, REWEIGHTED
from slrlab.model.weights_rows import (
    CURVE,
    ETA,
    GAUGE,
    PI,
    PSI,
    SAFE_MATH,
    SIGMA,
    TRIAL,
    WEIGHT_ROWS,
)
from slrlab.theory.erm import codes

SCRATCH_ROWS = WEIGHT_ROWS + 9
CHI, THETA, BETA, GRAD, INVERSE, STEP, BEST, OM_K, OM_Z = range(WEIGHT_ROWS, SCRATCH_ROWS)
_NEAR_ZERO = 1e-4
_compiled = njit(cache=True, error_model="numpy", fastmath=SAFE_MATH)
_compiled_inline = njit(cache=True, error_model="numpy", inline="always")


@_compiled
def derivatives(work, loss, v_v, inverse_v, activation):
    """Make row TRIAL row CHI; fill the gradient of ``F``, d (row CURVE), θ and β there."""
    rho, _, mass, pi_z, pi_sigma, pi2 = loss
    family, power = activation[0], activation[3]
    pull, kappa = v_v * rho, v_v * rho * rho
    b_mean, c_mean = pi_z + 2.0 * pull * pi_sigma, -rho * (pi_z + pull * pi_sigma)
    # θ starts from Jᵀc if normalised, from ψ'c over the mass if projected, else from nothing
    from_grad, from_curve, shared = 0.0, 0.0, -0.5 * kappa * pi2
    if family in (NORMALISED, REWEIGHTED):
        from_grad = 1.0
    elif family == RATIO:
        from_grad = 1.0
        shared -= 0.5 * c_mean * (1.0 - 1.0 / power)
    elif family == PROJECTION:
        from_curve = 1.0 / mass if mass > 0.0 else 0.0
        for i in range(work.shape[1]):
            c = -rho * (work[OM_Z, i] + pull * work[SIGMA, i]) - c_mean
            shared += 0.5 * work[CURVE, i] * c * from_curve * from_curve
    for i in range(work.shape[1]):
        chi, psi = work[TRIAL, i], work[PSI, i]
        z_sigma = pull * work[SIGMA, i]
        z = work[OM_Z, i] + z_sigma
        c = -rho * z - c_mean
        slope, bend, beta = psi * c, work[CURVE, i] * c, psi * (z + z_sigma - b_mean)
        eta = psi
        if family == RATIO:  # what is subtracted is not the map itself
            eta = work[ETA, i]
            slope += (psi - eta) * c_mean
            bend += (work[CURVE, i] - work[GAUGE, i]) * c_mean
            beta += (psi - eta) * b_mean
        work[CHI, i], work[ETA, i], work[BETA, i] = chi, eta, beta
        work[GRAD, i] = slope + inverse_v * (chi - work[OM_K, i])
        work[CURVE, i] = bend - kappa * psi * psi
        start = from_grad * slope + from_curve * bend
        work[THETA, i] = start - kappa * psi * work[PI, i] - shared * eta


@_compiled_inline
def _away_from_zero(slope, scale):
    """Keep a diagonal entry away from zero, since the low-rank formulas divide by it.

    A move by δ costs about δ and happens in a fraction δ of samples, with either sign; rounding
    grows as 1e-13/δ². They balance near 1e-4, where the means are accurate to 1e-8.
    """
    if abs(slope) < _NEAR_ZERO * scale:
        return math.copysign(_NEAR_ZERO * scale, slope)
    return slope


@_compiled
def core_of(work, a, stiffness):
    """Fill ``E`` (row INVERSE); return whether the Hessian is positive, and the core.

    The core is ``(M⁻¹ + U E Uᵀ)⁻¹``, ``U = (η, θ, β)``, by rows of its upper triangle.
    ``∇²F = E⁻¹ + UᵀMU``. Counting signs in two Schur complements of one block matrix shows that
    it is positive definite exactly if ``E`` has at most two negative entries and the 3×3 matrix
    has as many positive eigenvalues as are then missing to two.
    """
    pp, pt, pb, tt, tb, bb = 0.0, -1.0, 0.0, 0.0, 0.0, a
    negative = 0
    for i in range(work.shape[1]):
        eta, theta, beta = work[ETA, i], work[THETA, i], work[BETA, i]
        e = 1.0 / _away_from_zero(stiffness + work[CURVE, i], stiffness)
        work[INVERSE, i] = e
        if e < 0.0:
            negative += 1
        pp += e * eta * eta
        pt += e * eta * theta
        pb += e * eta * beta
        tt += e * theta * theta
        tb += e * theta * beta
        bb += e * beta * beta
    c00, c01, c02 = tt * bb - tb * tb, tb * pb - pt * bb, pt * tb - tt * pb
    det = pp * c00 + pt * c01 + pb * c02
    minor = pp * tt - pt * pt
    if det == 0.0 or not math.isfinite(det):
        return False, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    if det < 0.0:
        above = 0 if (pp < 0.0 and minor > 0.0) else 2
    else:
        above = 3 if (pp > 0.0 and minor > 0.0) else 1
    if negative + above != 2:
        return False, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    unit = 1.0 / det
    c11, c12 = (pp * bb - pb * pb) * unit, (pt * pb - pp * tb) * unit
    return True, (c00 * unit, c01 * unit, c02 * unit, c11, c12, minor * unit)


@_compiled_inline
def _times_core(core, x, y, z):
    """Return the product of the core with a vector."""
    c00, c01, c02, c11, c12, c22 = core
    return (
        c00 * x + c01 * y + c02 * z,
        c01 * x + c11 * y + c12 * z,
        c02 * x + c12 * y + c22 * z,
    )


@_compiled
def newton_step(work, core):
    """Fill row STEP with ``−(E⁻¹ + UᵀMU)⁻¹∇F``; return its largest entry and its slope."""
    x, y, z = 0.0, 0.0, 0.0
    for i in range(work.shape[1]):
        flat = work[INVERSE, i] * work[GRAD, i]
        x += work[ETA, i] * flat
        y += work[THETA, i] * flat
        z += work[BETA, i] * flat
    cx, cy, cz = _times_core(core, x, y, z)
    largest, slope = 0.0, 0.0
    for i in range(work.shape[1]):
        lift = work[ETA, i] * cx + work[THETA, i] * cy + work[BETA, i] * cz
        step = work[INVERSE, i] * (lift - work[GRAD, i])
        work[STEP, i] = step
        largest = max(largest, abs(step))
        slope += step * work[GRAD, i]
    return largest, slope


@_compiled
def gain_traces(work, rho, a, inverse_v, core):
    """Return ``tr G^kk`` and ``tr G^vv`` at the prox, in O(L)."""
    _, _, _, c11, c12, c22 = core
    trace_k, off, s2, p2, ps = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(work.shape[1]):
        full = _away_from_zero(inverse_v + work[CURVE, i], inverse_v)
        e, sigma, pi = work[INVERSE, i], work[SIGMA, i], work[PI, i]
        u0, u1, u2 = work[ETA, i], work[THETA, i], work[BETA, i]
        w0, w1, w2 = _times_core(core, u0, u1, u2)
        quad = e * e * (u0 * w0 + u1 * w1 + u2 * w2)
        trace_k += (full - inverse_v) * e + inverse_v * quad
        c = -rho * work[PSI, i]
        # Pη = −E Uᵀ C_θ and Pβ = A E Uᵀ C_β
        off += c * (c * (e - quad) + 2.0 * e * (sigma * w2 - rho * pi * w1))
        s2 += sigma * sigma
        p2 += pi * pi
        ps += pi * sigma
    off += 2.0 * rho * ps * c12 - rho * rho * p2 * c11 + s2 * (1.0 / a - c22)
    return inverse_v * trace_k, s2 / a - off


@_compiled
def gain_squares(work, rho, a, inverse_v, core, sums):
    """Add the squares of the token blocks of ``G`` that the replicon needs, in O(L²)."""
    _, _, _, c11, c12, c22 = core
    count = work.shape[1]
    pp, pb, bb = -c11, a * c12, a - a * a * c22
    for i in range(count):
        full = _away_from_zero(inverse_v + work[CURVE, i], inverse_v)
        e_i, sigma_i, pi_i = work[INVERSE, i], work[SIGMA, i], work[PI, i]
        eta, theta, beta = work[ETA, i], work[THETA, i], work[BETA, i]
        w0, w1, w2 = _times_core(core, eta, theta, beta)
        p_eta_i, p_beta_i, c_i = -e_i * w1, a * e_i * w2, -rho * work[PSI, i]
        for j in range(count):
            e_j, sigma_j, pi_j = work[INVERSE, j], work[SIGMA, j], work[PI, j]
            eta, theta, beta = work[ETA, j], work[THETA, j], work[BETA, j]
            _, w1_j, w2_j = _times_core(core, eta, theta, beta)
            p_eta_j, p_beta_j, c_j = -e_j * w1_j, a * e_j * w2_j, -rho * work[PSI, j]
            p_ij = -e_i * e_j * (w0 * eta + w1 * theta + w2 * beta)
            kk = -inverse_v * inverse_v * p_ij
            if i == j:
                p_ij += e_i
                kk += inverse_v * (full - inverse_v) * e_i
            right = p_eta_i * rho * pi_j + p_beta_i * sigma_j / a
            left = p_eta_j * rho * pi_i + p_beta_j * sigma_i / a
            kv, vk = inverse_v * (p_ij * c_j + right), inverse_v * (p_ij * c_i + left)
            vv = sigma_i * sigma_j * (1.0 / a - bb / (a * a)) - c_i * p_ij * c_j
            vv -= c_i * right + c_j * left + rho * rho * pi_i * pi_j * pp
            vv -= rho / a * pb * (pi_i * sigma_j + pi_j * sigma_i)
            sums[codes.GG_KK] += kk * kk
            sums[codes.GG_KV] += kv * kv
            sums[codes.GG_VV] += vv * vv
            sums[codes.GG_CROSS] += kk * vv + kv * vk
