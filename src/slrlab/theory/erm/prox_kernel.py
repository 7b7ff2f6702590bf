r"""Compiled prox and output channel of trained attention: one pass over a sample of fields.

For each sample the kernel finds the global minimum over ``χ ∈ R^L`` of

    F(χ) = ½ r²/A + |χ − ω_χ|²/(2 V_k),   r = y − σ(χ)ᵀω_z,   A = 1 + V_v |σ(χ)|²

(the values are eliminated: ``ẑ = ω_z + V_v ρ σ``, ``ρ = r/A``) and sums what state evolution
needs. For every family ``∂σ_j/∂χ_ℓ = ψ_ℓ (δ_jℓ − π_j)``, and the Hessian of the data term is

    ∇²(r²/2A) = diag(d) + ββᵀ/A − ψθᵀ − θψᵀ,

so Newton steps, traces and the test for positive definiteness cost O(L). Nothing is allocated
per sample. `slrlab.theory.erm.prox_reference` says the same in NumPy; this module must not know
about tasks.
"""

# notation: docs/notation.md, "Trained attention"
from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from slrlab.model.activation_code import ELEMENTWISE, EXPONENTIAL, NORMALISED, PROJECTION
from slrlab.model.weights_kernel import (
    CURVE,
    PI,
    PSI,
    SAFE_MATH,
    SIGMA,
    TRIAL,
    WEIGHT_ROWS,
    fill_weights,
)
from slrlab.theory.erm.codes import (
    BISTABLE,
    ENVELOPE,
    EVERYWHERE,
    G_K2,
    G_K_FIELD,
    G_K_SUM,
    G_K_TEACHER,
    G_V2,
    G_V_FIELD,
    G_V_TEACHER,
    GG_CROSS,
    GG_KK,
    GG_KV,
    GG_VV,
    JUMPED,
    LOSS,
    MOST_STEPS,
    REMEMBERED,
    SUMS,
    TRACE_K,
    TRACE_V,
    UNSOLVED,
)

# rows of the scratch space after those of the weights
(
    _CHI,
    _THETA,
    _BETA,
    _GRAD,
    _INVERSE,
    _STEP,
    _BEST,
    _OM_K,
    _OM_Z,
) = range(WEIGHT_ROWS, WEIGHT_ROWS + 9)
SCRATCH_ROWS = WEIGHT_ROWS + 9
_NEAR_ZERO = 1e-4
_compiled = njit(cache=True, error_model="numpy", fastmath=SAFE_MATH)
_compiled_inline = njit(cache=True, error_model="numpy", inline="always")
_CUMULANT = 1.0 / math.sqrt(27.0)


@_compiled
def _loss(work, y, v_v, activation, table):
    """Fill the weights at row TRIAL; return ``ρ``, ``A``, the mass of ψ, ``πᵀω_z, πᵀσ, |π|²``."""
    mass = fill_weights(work, activation, table)
    mean, square, pi_z, pi_sigma, pi2 = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(work.shape[1]):
        sigma, pi, z = work[SIGMA, i], work[PI, i], work[_OM_Z, i]
        mean += sigma * z
        square += sigma * sigma
        pi_z += pi * z
        pi_sigma += pi * sigma
        pi2 += pi * pi
    a = 1.0 + v_v * square
    return (y - mean) / a, a, mass, pi_z, pi_sigma, pi2


@_compiled_inline
def _objective(work, loss, inverse_v):
    """Return ``F`` at row TRIAL, given the loss there."""
    total = 0.0
    for i in range(work.shape[1]):
        total += (work[TRIAL, i] - work[_OM_K, i]) ** 2
    return 0.5 * (loss[0] * loss[0] * loss[1] + inverse_v * total)


@_compiled
def _derivatives(work, loss, v_v, inverse_v, family):
    """Make row TRIAL row CHI; fill the gradient of ``F``, d (row CURVE), θ and β there."""
    rho, _, mass, pi_z, pi_sigma, pi2 = loss
    pull, kappa = v_v * rho, v_v * rho * rho
    b_mean, c_mean = pi_z + 2.0 * pull * pi_sigma, -rho * (pi_z + pull * pi_sigma)
    # θ starts from ψc if normalised, from ψ'c over the mass if projected, else from nothing
    from_grad, from_curve, shared = 0.0, 0.0, -0.5 * kappa * pi2
    if family == NORMALISED:
        from_grad = 1.0
    elif family == PROJECTION:
        from_curve = 1.0 / mass
        for i in range(work.shape[1]):
            c = -rho * (work[_OM_Z, i] + pull * work[SIGMA, i]) - c_mean
            shared += 0.5 * work[CURVE, i] * c * from_curve * from_curve
    for i in range(work.shape[1]):
        chi, psi = work[TRIAL, i], work[PSI, i]
        z_sigma = pull * work[SIGMA, i]
        z = work[_OM_Z, i] + z_sigma
        c = -rho * z - c_mean
        slope, bend = psi * c, work[CURVE, i] * c
        work[_CHI, i] = chi
        work[_BETA, i] = psi * (z + z_sigma - b_mean)
        work[_GRAD, i] = slope + inverse_v * (chi - work[_OM_K, i])
        work[CURVE, i] = bend - kappa * psi * psi
        start = from_grad * slope + from_curve * bend
        work[_THETA, i] = start - psi * (kappa * work[PI, i] + shared)


@_compiled_inline
def _away_from_zero(slope, scale):
    """Keep a diagonal entry off zero, where the low-rank formulas divide by it.

    A move by δ costs about δ and happens in a fraction δ of samples, with either sign; rounding
    grows as 1e-13/δ². They balance near 1e-4, where the means are good to 1e-8.
    """
    if abs(slope) < _NEAR_ZERO * scale:
        return math.copysign(_NEAR_ZERO * scale, slope)
    return slope


@_compiled
def _core(work, a, stiffness):
    """Fill ``E`` (row INVERSE); return whether the Hessian is positive, and the core.

    The core is ``(M⁻¹ + U E Uᵀ)⁻¹``, ``U = (ψ, θ, β)``, by rows of its upper triangle.
    ``∇²F = E⁻¹ + UᵀMU``. Counting signs in two Schur complements of one block matrix shows that
    it is positive definite exactly if ``E`` has at most two negative entries and the 3×3 matrix
    has as many positive eigenvalues as are then missing to two.
    """
    pp, pt, pb, tt, tb, bb = 0.0, -1.0, 0.0, 0.0, 0.0, a
    negative = 0
    for i in range(work.shape[1]):
        psi, theta, beta = work[PSI, i], work[_THETA, i], work[_BETA, i]
        e = 1.0 / _away_from_zero(stiffness + work[CURVE, i], stiffness)
        work[_INVERSE, i] = e
        if e < 0.0:
            negative += 1
        pp += e * psi * psi
        pt += e * psi * theta
        pb += e * psi * beta
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


@_compiled
def _newton_step(work, core):
    """Fill row STEP with ``−(E⁻¹ + UᵀMU)⁻¹∇F``; return its largest entry and its slope."""
    c00, c01, c02, c11, c12, c22 = core
    x, y, z = 0.0, 0.0, 0.0
    for i in range(work.shape[1]):
        flat = work[_INVERSE, i] * work[_GRAD, i]
        x += work[PSI, i] * flat
        y += work[_THETA, i] * flat
        z += work[_BETA, i] * flat
    cx = c00 * x + c01 * y + c02 * z
    cy = c01 * x + c11 * y + c12 * z
    cz = c02 * x + c12 * y + c22 * z
    largest, slope = 0.0, 0.0
    for i in range(work.shape[1]):
        lift = work[PSI, i] * cx + work[_THETA, i] * cy + work[_BETA, i] * cz
        step = work[_INVERSE, i] * (lift - work[_GRAD, i])
        work[_STEP, i] = step
        largest = max(largest, abs(step))
        slope += step * work[_GRAD, i]
    return largest, slope


@_compiled
def _copy(work, source, target):
    for i in range(work.shape[1]):
        work[target, i] = work[source, i]


@_compiled
def _descend(work, y, prior, activation, table):
    """Run Newton's method from row TRIAL to a local minimum there.

    Return ``F``, the loss, whether it settled and whether the derivatives are those there; if it
    settled without them, the weights are.
    """
    _, inverse_v, v_v, tolerance = prior
    loss = _loss(work, y, v_v, activation, table)
    value = _objective(work, loss, inverse_v)
    for _ in range(MOST_STEPS):
        _derivatives(work, loss, v_v, inverse_v, activation[0])
        shift = 0.0
        positive, core = _core(work, loss[1], inverse_v)
        while not positive:
            shift = max(2.0 * shift, 0.25 * inverse_v)
            if shift > 1e12 * inverse_v:
                return value, loss, False, True
            positive, core = _core(work, loss[1], inverse_v + shift)
        largest, slope = _newton_step(work, core)
        if largest <= 1e-3 * tolerance:
            return value, loss, True, True
        # convergence is quadratic: after a full step this short the error is far below it
        close = shift == 0.0 and largest <= tolerance
        scale = 1.0
        while True:
            for i in range(work.shape[1]):
                work[TRIAL, i] = work[_CHI, i] + scale * work[_STEP, i]
            ahead = _loss(work, y, v_v, activation, table)
            new = _objective(work, ahead, inverse_v)
            if close or new <= value + 1e-4 * scale * slope:
                break
            scale *= 0.4
            if scale * largest <= 1e-3 * tolerance:  # no way down: a kink, not a smooth minimum
                _copy(work, _CHI, TRIAL)
                return value, loss, False, False
        value, loss = new, ahead
        if close:
            return value, loss, True, False
    return value, loss, False, False


@_compiled
def _search(work, y, prior, activation, table, lowest, settled):
    """Start from other points; leave the lowest minimum in row TRIAL; return flags on it."""
    v_k, _, _, tolerance = prior
    count = work.shape[1]
    sides = 2 if activation[0] == ELEMENTWISE else 1
    several, jumped = False, False
    _copy(work, TRIAL, _BEST)
    for start in range(count * sides):
        # a better minimum lies in the ball of radius √(2 V_k F): start inside it
        reach = math.sqrt(2.0 * v_k * lowest)
        if reach < 0.02:
            break
        _copy(work, _OM_K, TRIAL)
        work[TRIAL, start // sides] += 0.75 * reach * (1.0 if start % sides == 0 else -1.0)
        value, _, good, _ = _descend(work, y, prior, activation, table)
        apart = 0.0
        for i in range(count):
            apart = max(apart, abs(work[TRIAL, i] - work[_BEST, i]))
        if apart > 10.0 * tolerance:
            several = several or good
        if value < lowest - 1e-9 * (1.0 + lowest):
            lowest, settled, jumped = value, good, True
            _copy(work, TRIAL, _BEST)
    _copy(work, _BEST, TRIAL)
    return several, jumped, settled


@_compiled_inline
def _is_convex(work, y, prior, activation):
    """Return whether ``F`` is surely convex, for softmax without a sink: then no other minimum.

    Along a unit vector ``u`` the data term curves by at least
    ``−V_v ρ² |Ju|² − ρ κ(ẑ, u, u)``, ``J = diag(σ) − σσᵀ``, with the third joint cumulant under
    the weights. ``‖J‖ ≤ 1/2`` (row sums). ``|κ(c, u, u)| ≤ range(c)/(3√3)``: ``c`` is a mixture
    of indicators of sets ``S``; let ``p = σ(S)``. The entries of ``u`` lie in an interval of
    length √2, and for given means ``√2 a``, ``√2 b`` on and off ``S`` the cumulant is at most
    ``2p(1 − p)[a(1 − a) + (1 − 2p)(a − b)²]``, which is largest at ``a = 1, b = 0``.
    """
    family, kind, sink = activation[0], activation[1], activation[2]
    if family != NORMALISED or kind != EXPONENTIAL or sink > 0.0:
        return False
    v_k, _, v_v, _ = prior
    count = work.shape[1]
    low, high = work[_OM_Z, 0], work[_OM_Z, 0]
    for i in range(1, count):
        low, high = min(low, work[_OM_Z, i]), max(high, work[_OM_Z, i])
    rho = max(abs(y - low), abs(y - high)) / (1.0 + v_v / count)
    bend = 0.25 * v_v * rho * rho + _CUMULANT * rho * (high - low + v_v * rho)
    return v_k * bend < 0.999


@_compiled_inline
def _solve(work, y, prior, activation, table, starts):
    """Leave the minimum reached from row TRIAL, or the global one, in row CHI.

    Fill the derivatives there; return loss and flags.
    """
    _, inverse_v, v_v, _ = prior
    value, loss, settled, derived = _descend(work, y, prior, activation, table)
    several, jumped = False, False
    if starts and work.shape[1] > 1 and not (settled and _is_convex(work, y, prior, activation)):
        several, jumped, settled = _search(work, y, prior, activation, table, value, settled)
        derived = False
        loss = _loss(work, y, v_v, activation, table)
    elif not (settled or derived):
        loss = _loss(work, y, v_v, activation, table)
    if not derived:
        _derivatives(work, loss, v_v, inverse_v, activation[0])
    return loss, several, jumped, settled


@_compiled
def _gain_traces(work, rho, a, inverse_v, core):
    """Return ``tr G^kk`` and ``tr G^vv`` at the prox, in O(L)."""
    c00, c01, c02, c11, c12, c22 = core
    trace_k, off, s2, p2, ps = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(work.shape[1]):
        full = _away_from_zero(inverse_v + work[CURVE, i], inverse_v)
        e, sigma, pi = work[_INVERSE, i], work[SIGMA, i], work[PI, i]
        u0, u1, u2 = work[PSI, i], work[_THETA, i], work[_BETA, i]
        w0 = c00 * u0 + c01 * u1 + c02 * u2
        w1 = c01 * u0 + c11 * u1 + c12 * u2
        w2 = c02 * u0 + c12 * u1 + c22 * u2
        quad = e * e * (u0 * w0 + u1 * w1 + u2 * w2)
        trace_k += (full - inverse_v) * e + inverse_v * quad
        c = -rho * u0
        # Pψ = −E Uᵀ C_θ and Pβ = A E Uᵀ C_β
        off += c * (c * (e - quad) + 2.0 * e * (sigma * w2 - rho * pi * w1))
        s2 += sigma * sigma
        p2 += pi * pi
        ps += pi * sigma
    off += 2.0 * rho * ps * c12 - rho * rho * p2 * c11 + s2 * (1.0 / a - c22)
    return inverse_v * trace_k, s2 / a - off


@_compiled
def _gain_squares(work, rho, a, inverse_v, core, sums):
    """Add the squares of the token blocks of ``G`` that the replicon needs, in O(L²)."""
    c00, c01, c02, c11, c12, c22 = core
    count = work.shape[1]
    pp, pb, bb = -c11, a * c12, a - a * a * c22
    for i in range(count):
        full = _away_from_zero(inverse_v + work[CURVE, i], inverse_v)
        e_i, sigma_i, pi_i = work[_INVERSE, i], work[SIGMA, i], work[PI, i]
        psi, theta, beta = work[PSI, i], work[_THETA, i], work[_BETA, i]
        w0 = c00 * psi + c01 * theta + c02 * beta
        w1 = c01 * psi + c11 * theta + c12 * beta
        w2 = c02 * psi + c12 * theta + c22 * beta
        p_psi_i, p_beta_i, c_i = -e_i * w1, a * e_i * w2, -rho * psi
        for j in range(count):
            e_j, sigma_j, pi_j = work[_INVERSE, j], work[SIGMA, j], work[PI, j]
            psi, theta, beta = work[PSI, j], work[_THETA, j], work[_BETA, j]
            p_psi_j = -e_j * (c01 * psi + c11 * theta + c12 * beta)
            p_beta_j = a * e_j * (c02 * psi + c12 * theta + c22 * beta)
            c_j = -rho * psi
            p_ij = -e_i * e_j * (w0 * psi + w1 * theta + w2 * beta)
            kk = -inverse_v * inverse_v * p_ij
            if i == j:
                p_ij += e_i
                kk += inverse_v * (full - inverse_v) * e_i
            right = p_psi_i * rho * pi_j + p_beta_i * sigma_j / a
            left = p_psi_j * rho * pi_i + p_beta_j * sigma_i / a
            kv, vk = inverse_v * (p_ij * c_j + right), inverse_v * (p_ij * c_i + left)
            vv = sigma_i * sigma_j * (1.0 / a - bb / (a * a)) - c_i * p_ij * c_j
            vv -= c_i * right + c_j * left + rho * rho * pi_i * pi_j * pp
            vv -= rho / a * pb * (pi_i * sigma_j + pi_j * sigma_i)
            sums[GG_KK] += kk * kk
            sums[GG_KV] += kv * kv
            sums[GG_VV] += vv * vv
            sums[GG_CROSS] += kk * vv + kv * vk


@_compiled_inline
def _constants(order):
    """Return what is the same for all samples: scales of the fields, and of the prox."""
    m_k, spread_k, slope_k, bias, m_v, q_v, noise, v_k, v_v = order
    root_v = math.sqrt(q_v)
    left = max(1.0 - m_v * m_v / q_v, 0.0)
    spread_y = math.sqrt(left + noise * noise)
    share = left / spread_y if spread_y > 0.0 else 0.0
    # weights vary on the scale 1, the prior on √V_k
    tolerance = 1e-4 * min(1.0, math.sqrt(v_k))
    keys, values = (m_k, spread_k, slope_k, bias), (m_v / root_v, root_v, spread_y, share)
    return keys, values, (v_k, 1.0 / v_k, v_v, tolerance)


@_compiled_inline
def _one(sample, fields, constants, activation, table, memory, work, flags, sums):
    """Add the contribution of one sample of a block; the relevant token comes first."""
    chi_base, n_k, n_z, n_y = fields
    several_seen, chi_seen = memory
    search, squares = flags
    (m_k, spread_k, slope_k, bias), (overlap, root_v, spread_y, share), prior = constants
    count = work.shape[1]
    for i in range(count):
        work[_OM_K, i] = m_k * chi_base[sample, i] + spread_k * n_k[sample, i] + bias
        work[_OM_Z, i] = root_v * n_z[sample, i]
    y = overlap * n_z[sample, 0] + spread_y * n_y[sample]
    starts = search == EVERYWHERE or (search == REMEMBERED and several_seen[sample])
    remembered = search == REMEMBERED and not starts
    for i in range(count):
        work[TRIAL, i] = chi_seen[sample, i] if remembered else work[_OM_K, i]
    loss, several, jumped, settled = _solve(work, y, prior, activation, table, starts)
    if search != REMEMBERED:
        several_seen[sample] = several
    for i in range(count):
        chi_seen[sample, i] = work[_CHI, i]
    rho, a = loss[0], loss[1]
    v_k, inverse_v, _, _ = prior
    positive, core = _core(work, a, inverse_v)
    trace_k, trace_v = _gain_traces(work, rho, a, inverse_v, core)
    g_k2, g_v2, k_teacher, v_teacher, k_field, v_field, k_sum = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(count):
        om_k = work[_OM_K, i]
        g_k, g_v = (work[_CHI, i] - om_k) * inverse_v, rho * work[SIGMA, i]
        g_k2 += g_k * g_k
        g_v2 += g_v * g_v
        k_teacher += g_k * (chi_base[sample, i] + slope_k * n_k[sample, i])
        v_teacher += g_v * n_z[sample, i]
        k_field += g_k * (om_k - bias)
        v_field += g_v * work[_OM_Z, i]
        k_sum += g_k
    sums[G_K2] += g_k2
    sums[G_V2] += g_v2
    sums[TRACE_K] += trace_k
    sums[TRACE_V] += trace_v
    sums[G_K_TEACHER] += k_teacher
    sums[G_V_TEACHER] += overlap * v_teacher + share * n_y[sample] * rho * work[SIGMA, 0]
    sums[G_K_FIELD] += k_field
    sums[G_V_FIELD] += v_field
    sums[G_K_SUM] += k_sum
    sums[LOSS] += rho * rho
    sums[ENVELOPE] += 0.5 * (rho * rho * a + v_k * g_k2)
    sums[BISTABLE] += several
    sums[JUMPED] += jumped
    sums[UNSOLVED] += not (settled and positive)
    if squares:
        _gain_squares(work, rho, a, inverse_v, core, sums)


@_compiled
def _block(fields, order, activation, table, memory, flags, sums):
    """Fill ``sums`` with the means over one block of samples."""
    size, count = fields[1].shape
    constants = _constants(order)
    work = np.empty((SCRATCH_ROWS, count))
    for i in range(size):
        _one(i, fields, constants, activation, table, memory, work, flags, sums)
    for i in range(SUMS):
        sums[i] /= size


@njit(cache=True, error_model="numpy", parallel=True)
def channel_sums(chi_base, n_k, n_z, n_y, order, activation, table, several, chi, search, squares):
    """Return the means of the `SUMS` quantities for each block of samples.

    ``chi_base``, ``n_k``, ``n_z`` have shape ``(blocks, size, L)``, ``n_y`` ``(blocks, size)``;
    the fields are ``ω_χ = m_k·chi_base + spread_k·n_k + bias`` and ``ω_z = √q_v·n_z``. The minimum
    of each sample is written to ``chi``, and to ``several`` ``(blocks, size)`` whether it has
    others. If the search is `REMEMBERED`, both are where to begin, and ``several`` stays.
    """
    blocks = n_k.shape[0]
    sums = np.zeros((blocks, SUMS))
    for block in prange(blocks):
        # views are taken here: one for each sample would have the threads fight over its count
        fields = chi_base[block], n_k[block], n_z[block], n_y[block]
        memory = several[block], chi[block]
        flags = (search, squares)
        _block(fields, order, activation, table, memory, flags, sums[block])
    return sums
