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

from slrlab.theory.erm.codes import (
    BISTABLE,
    ELEMENTWISE,
    ENVELOPE,
    EXPONENTIAL,
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
    LINEAR,
    LOSS,
    MOST_STEPS,
    NORMALISED,
    PROJECTION,
    SHIFTED_ERF,
    SOFTPLUS,
    SUMS,
    TRACE_K,
    TRACE_V,
    UNSOLVED,
)

# rows of the scratch space, each of length L
_CHI, _SIGMA, _PI, _PSI, _CURVE, _THETA, _BETA, _GRAD, _STEP, _TRIAL, _BEST, _OM_K, _OM_Z = range(
    13
)
SCRATCH_ROWS = 13
_NEAR_ZERO = 1e-4
# IEEE division and sums in any order let the loops be vectorised; nan and inf keep their meaning
_SAFE_MATH = {"contract", "arcp", "nsz", "reassoc"}
_compiled = njit(cache=True, error_model="numpy", fastmath=_SAFE_MATH)
_compiled_inline = njit(cache=True, error_model="numpy", inline="always")
_ROOT_PI_2 = 2.0 / math.sqrt(math.pi)


@_compiled_inline
def _softplus(x):
    """Return softplus and two derivatives."""
    if x > 0.0:
        tail = math.exp(-x)
        p = 1.0 / (1.0 + tail)
        return x + math.log1p(tail), p, p * (1.0 - p)
    tail = math.exp(x)
    p = tail / (1.0 + tail)
    return math.log1p(tail), p, p * (1.0 - p)


@_compiled
def _table(x, table, low, step):
    """Return a tabulated map and two derivatives: quintic Hermite inside, Taylor outside."""
    count = table.shape[0]
    place = (x - low) / step
    cell = math.floor(min(max(place, 0.0), count - 1.001))
    t = place - cell
    if place < 0.0 or place > count - 1.0:  # beyond the table: the parabola of its last node
        node = 0 if place < 0.0 else count - 1
        gap = x - (low + node * step)
        f0, f1, f2 = table[node, 0], table[node, 1], table[node, 2]
        return f0 + gap * (f1 + 0.5 * gap * f2), f1 + gap * f2, f2
    a0, a1, a2 = table[cell, 0], table[cell, 1] * step, table[cell, 2] * step * step
    b0, b1, b2 = table[cell + 1, 0], table[cell + 1, 1] * step, table[cell + 1, 2] * step * step
    c2 = 0.5 * a2
    rise, slope, bend = b0 - a0 - a1 - c2, b1 - a1 - a2, b2 - a2
    c3 = 10.0 * rise - 4.0 * slope + 0.5 * bend
    c4 = -15.0 * rise + 7.0 * slope - bend
    c5 = 6.0 * rise - 3.0 * slope + 0.5 * bend
    value = a0 + t * (a1 + t * (c2 + t * (c3 + t * (c4 + t * c5))))
    first = a1 + t * (2.0 * c2 + t * (3.0 * c3 + t * (4.0 * c4 + t * 5.0 * c5)))
    second = 2.0 * c2 + t * (6.0 * c3 + t * (12.0 * c4 + t * 20.0 * c5))
    return value, first / step, second / (step * step)


@_compiled_inline
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
        bell = _ROOT_PI_2 * math.exp(-x * x)
        return math.erfc(-x), bell, -2.0 * x * bell
    return _table(x, table, low, step)


@_compiled
def _threshold(chi, sigma, power):
    """Fill ``sigma`` with ``u = (χ/power − τ)_+``, where ``Σ u^power = 1``."""
    count = chi.shape[0]
    top = chi[0]
    for i in range(1, count):
        top = max(top, chi[i])
    tau, high = top / power - 1.0, top / power
    for _ in range(100):
        total, slope = 0.0, 0.0
        for i in range(count):
            u = chi[i] / power - tau
            if u > 0.0:
                root = u ** (power - 1.0)
                total += root * u
                slope += power * root
        step = (total - 1.0) / slope
        if tau + step >= high:  # a concave sum (power < 1) may overshoot: bisect then
            step = 0.5 * (high - tau)
        tau += step
        if abs(step) < 1e-15:
            break
    for i in range(count):
        sigma[i] = max(chi[i] / power - tau, 0.0)


@_compiled
def _weights(work, row, activation, table):
    """Fill σ, π, ψ and the second derivative (row CURVE) at the scores in ``row``."""
    family, kind, sink, power, low, step = activation
    chi, sigma, pi, psi, curve = work[row], work[_SIGMA], work[_PI], work[_PSI], work[_CURVE]
    count = chi.shape[0]
    if family == PROJECTION:
        _threshold(chi, sigma, power)
        mass, total = 0.0, 0.0
        for i in range(count):
            u = sigma[i]
            psi[i] = u ** (power - 1.0) if u > 0.0 else 0.0
            has_curve = u > 1e-12 and power != 1.0
            curve[i] = (power - 1.0) / power * u ** (power - 2.0) if has_curve else 0.0
            sigma[i] = psi[i] * u
            mass += psi[i]
            total += sigma[i]
        for i in range(count):
            pi[i] = psi[i] / mass
            sigma[i] /= total
        return mass
    top = 0.0
    if kind == EXPONENTIAL:
        top = chi[0]
        for i in range(1, count):
            top = max(top, chi[i])
        if sink > 0.0:
            top = max(top, math.log(sink))
    total = 0.0
    for i in range(count):
        sigma[i], psi[i], curve[i] = _map(chi[i], top, kind, table, low, step)
        total += sigma[i]
    if family == ELEMENTWISE:
        for i in range(count):
            pi[i] = 0.0
        return 1.0
    if sink > 0.0:
        total += sink * math.exp(-top)
    scale = 1.0 / total if total > 0.0 else 0.0
    for i in range(count):
        sigma[i] *= scale
        psi[i] *= scale
        curve[i] *= scale
        pi[i] = sigma[i]
    return 1.0


@_compiled
def _loss(work, row, y, v_v, activation, table):
    """Fill the weights at ``row``; return the data term, ``ρ``, ``A`` and the mass of ψ."""
    mass = _weights(work, row, activation, table)
    sigma, om_z = work[_SIGMA], work[_OM_Z]
    r, square = y, 0.0
    for i in range(sigma.shape[0]):
        r -= sigma[i] * om_z[i]
        square += sigma[i] * sigma[i]
    a = 1.0 + v_v * square
    return 0.5 * r * r / a, r / a, a, mass


@_compiled
def _distance(work, row):
    chi, om_k = work[row], work[_OM_K]
    total = 0.0
    for i in range(chi.shape[0]):
        total += (chi[i] - om_k[i]) ** 2
    return total


@_compiled
def _derivatives(work, rho, v_v, mass, family):
    """Fill the gradient of the data term, d (row CURVE), θ and β from the weights there."""
    sigma, pi, psi, curve = work[_SIGMA], work[_PI], work[_PSI], work[_CURVE]
    theta, beta, grad, om_z = work[_THETA], work[_BETA], work[_GRAD], work[_OM_Z]
    count = sigma.shape[0]
    b_mean, c_mean, pi2 = 0.0, 0.0, 0.0
    for i in range(count):
        z = om_z[i] + v_v * rho * sigma[i]
        b_mean += pi[i] * (z + v_v * rho * sigma[i])
        c_mean -= pi[i] * rho * z
        pi2 += pi[i] * pi[i]
    kappa = v_v * rho * rho
    total = 0.0
    for i in range(count):
        z = om_z[i] + v_v * rho * sigma[i]
        c = -rho * z - c_mean
        beta[i] = psi[i] * (z + v_v * rho * sigma[i] - b_mean)
        grad[i] = psi[i] * c
        curve[i] *= c  # e of the notes: the diagonal from the second derivative of σ
        theta[i] = grad[i] if family == NORMALISED else curve[i] / mass
        total += theta[i]
    zeta = total / mass if family == PROJECTION else 0.0
    if family == ELEMENTWISE:
        for i in range(count):
            theta[i] = 0.0
    for i in range(count):
        theta[i] -= psi[i] * (kappa * pi[i] + 0.5 * (zeta - kappa * pi2))
        curve[i] -= kappa * psi[i] * psi[i]


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
def _core(work, a, inverse_v, core):
    """Fill ``core = (M⁻¹ + U E Uᵀ)⁻¹``, ``U = (ψ, θ, β)``; return whether the Hessian is positive.

    ``∇²F = E⁻¹ + UᵀMU``. Counting signs in two Schur complements of one block matrix shows that
    it is positive definite exactly if ``E`` has at most two negative entries and the 3×3 matrix
    has as many positive eigenvalues as are then missing to two.
    """
    psi, theta, beta, d = work[_PSI], work[_THETA], work[_BETA], work[_CURVE]
    pp, pt, pb, tt, tb, bb = 0.0, -1.0, 0.0, 0.0, 0.0, a
    negative = 0
    for i in range(psi.shape[0]):
        e = 1.0 / _away_from_zero(inverse_v + d[i], inverse_v)
        if e < 0.0:
            negative += 1
        pp += e * psi[i] * psi[i]
        pt += e * psi[i] * theta[i]
        pb += e * psi[i] * beta[i]
        tt += e * theta[i] * theta[i]
        tb += e * theta[i] * beta[i]
        bb += e * beta[i] * beta[i]
    c00, c01, c02 = tt * bb - tb * tb, tb * pb - pt * bb, pt * tb - tt * pb
    det = pp * c00 + pt * c01 + pb * c02
    minor = pp * tt - pt * pt
    if det == 0.0 or not math.isfinite(det):
        return False
    if det < 0.0:
        above = 0 if (pp < 0.0 and minor > 0.0) else 2
    else:
        above = 3 if (pp > 0.0 and minor > 0.0) else 1
    if negative + above != 2:
        return False
    core[0, 0], core[0, 1], core[0, 2] = c00 / det, c01 / det, c02 / det
    core[1, 1], core[1, 2] = (pp * bb - pb * pb) / det, (pt * pb - pp * tb) / det
    core[2, 2] = minor / det
    core[1, 0], core[2, 0], core[2, 1] = core[0, 1], core[0, 2], core[1, 2]
    return True


@_compiled
def _newton_step(work, inverse_v, core, shift):
    """Fill row STEP with ``−(∇²F + shift)⁻¹∇F``; return its largest entry and its slope."""
    psi, theta, beta, d = work[_PSI], work[_THETA], work[_BETA], work[_CURVE]
    chi, om_k, grad, step = work[_CHI], work[_OM_K], work[_GRAD], work[_STEP]
    count = chi.shape[0]
    x, y, z = 0.0, 0.0, 0.0
    for i in range(count):
        full = grad[i] + inverse_v * (chi[i] - om_k[i])
        step[i] = full / _away_from_zero(inverse_v + shift + d[i], inverse_v + shift)
        x += psi[i] * step[i]
        y += theta[i] * step[i]
        z += beta[i] * step[i]
    cx = core[0, 0] * x + core[0, 1] * y + core[0, 2] * z
    cy = core[1, 0] * x + core[1, 1] * y + core[1, 2] * z
    cz = core[2, 0] * x + core[2, 1] * y + core[2, 2] * z
    largest, slope = 0.0, 0.0
    for i in range(count):
        lift = psi[i] * cx + theta[i] * cy + beta[i] * cz
        step[i] = lift / _away_from_zero(inverse_v + shift + d[i], inverse_v + shift) - step[i]
        largest = max(largest, abs(step[i]))
        slope += step[i] * (grad[i] + inverse_v * (chi[i] - om_k[i]))
    return largest, slope


@_compiled
def _descend(work, y, v_k, v_v, activation, table, core, tolerance):
    """Run Newton's method from row CHI to a local minimum; return ``F`` and whether it settled."""
    inverse_v, family = 1.0 / v_k, activation[0]
    chi, step, trial = work[_CHI], work[_STEP], work[_TRIAL]
    count = chi.shape[0]
    data, rho, a, mass = _loss(work, _CHI, y, v_v, activation, table)
    value = data + 0.5 * inverse_v * _distance(work, _CHI)
    for _ in range(MOST_STEPS):
        _derivatives(work, rho, v_v, mass, family)
        shift = 0.0
        while not _core(work, a, inverse_v + shift, core):
            shift = max(2.0 * shift, 0.25 * inverse_v)
            if shift > 1e12 * inverse_v:
                return value, False
        largest, slope = _newton_step(work, inverse_v, core, shift)
        if largest <= 1e-3 * tolerance:
            return value, True
        # convergence is quadratic: after a full step this short the error is far below it
        close = shift == 0.0 and largest <= tolerance
        scale = 1.0
        while True:
            for i in range(count):
                trial[i] = chi[i] + scale * step[i]
            data, rho, a, mass = _loss(work, _TRIAL, y, v_v, activation, table)
            new = data + 0.5 * inverse_v * _distance(work, _TRIAL)
            if close or new <= value + 1e-4 * scale * slope:
                break
            scale *= 0.4
            if scale * largest <= 1e-3 * tolerance:  # no way down: a kink, not a smooth minimum
                return value, False
        for i in range(count):
            chi[i] = trial[i]
        value = new
        if close:
            return value, True
    return value, False


@_compiled
def _solve(work, y, v_k, v_v, activation, table, core, starts):
    """Leave the global minimum in row CHI and the derivatives there; return its properties."""
    chi, best, om_k = work[_CHI], work[_BEST], work[_OM_K]
    count = chi.shape[0]
    family = activation[0]
    tolerance = 1e-4 * min(1.0, math.sqrt(v_k))  # weights vary on the scale 1, the prior on √V_k
    chi[:] = om_k
    lowest, settled = _descend(work, y, v_k, v_v, activation, table, core, tolerance)
    best[:] = chi
    several, jumped = False, False
    if starts and count > 1:
        sides = 2 if family == ELEMENTWISE else 1
        for trial in range(count * sides):
            # a better minimum lies in the ball of radius √(2 V_k F): start inside it
            reach = math.sqrt(2.0 * v_k * lowest)
            if reach < 0.02:
                break
            token = trial // sides
            chi[:] = om_k
            chi[token] += 0.75 * reach * (1.0 if trial % sides == 0 else -1.0)
            value, good = _descend(work, y, v_k, v_v, activation, table, core, tolerance)
            apart = 0.0
            for i in range(count):
                apart = max(apart, abs(chi[i] - best[i]))
            if apart > 10.0 * tolerance:
                several = several or good
            if value < lowest - 1e-9 * (1.0 + lowest):
                lowest, settled, jumped = value, good, True
                best[:] = chi
    chi[:] = best
    data, rho, a, mass = _loss(work, _CHI, y, v_v, activation, table)
    _derivatives(work, rho, v_v, mass, family)
    return data, rho, a, (several, jumped, settled)


@_compiled
def _gain_traces(work, rho, a, v_k, core):
    """Return ``tr G^kk`` and ``tr G^vv`` at the prox, in O(L)."""
    psi, theta, beta, d = work[_PSI], work[_THETA], work[_BETA], work[_CURVE]
    sigma, pi = work[_SIGMA], work[_PI]
    inverse_v = 1.0 / v_k
    trace_k, off, s2, p2, ps = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(psi.shape[0]):
        full = _away_from_zero(inverse_v + d[i], inverse_v)
        e = 1.0 / full
        u0, u1, u2 = psi[i], theta[i], beta[i]
        w0 = core[0, 0] * u0 + core[0, 1] * u1 + core[0, 2] * u2
        w1 = core[1, 0] * u0 + core[1, 1] * u1 + core[1, 2] * u2
        w2 = core[2, 0] * u0 + core[2, 1] * u1 + core[2, 2] * u2
        quad = u0 * w0 + u1 * w1 + u2 * w2
        trace_k += inverse_v * ((full - inverse_v) * e + inverse_v * e * e * quad)
        c = -rho * psi[i]
        # Pψ = −E Uᵀ C_θ and Pβ = A E Uᵀ C_β
        off += c * c * (e - e * e * quad)
        off += 2.0 * c * e * (-rho * pi[i] * w1 + sigma[i] * w2)
        s2 += sigma[i] * sigma[i]
        p2 += pi[i] * pi[i]
        ps += pi[i] * sigma[i]
    off += rho * rho * p2 * (-core[1, 1])
    off += 2.0 * rho * ps / a * (a * core[1, 2])
    off += s2 / (a * a) * (a - a * a * core[2, 2])
    return trace_k, s2 / a - off


@_compiled
def _gain_squares(work, rho, a, v_k, core, sums, scale):
    """Add the squares of the token blocks of ``G`` that the replicon needs, in O(L²)."""
    psi, theta, beta, d = work[_PSI], work[_THETA], work[_BETA], work[_CURVE]
    sigma, pi = work[_SIGMA], work[_PI]
    inverse_v = 1.0 / v_k
    count = psi.shape[0]
    pp, pb, bb = -core[1, 1], a * core[1, 2], a - a * a * core[2, 2]
    for i in range(count):
        full = _away_from_zero(inverse_v + d[i], inverse_v)
        e_i = 1.0 / full
        w0 = core[0, 0] * psi[i] + core[0, 1] * theta[i] + core[0, 2] * beta[i]
        w1 = core[1, 0] * psi[i] + core[1, 1] * theta[i] + core[1, 2] * beta[i]
        w2 = core[2, 0] * psi[i] + core[2, 1] * theta[i] + core[2, 2] * beta[i]
        p_psi_i, p_beta_i, c_i = -e_i * w1, a * e_i * w2, -rho * psi[i]
        for j in range(count):
            e_j = 1.0 / _away_from_zero(inverse_v + d[j], inverse_v)
            x1 = core[1, 0] * psi[j] + core[1, 1] * theta[j] + core[1, 2] * beta[j]
            x2 = core[2, 0] * psi[j] + core[2, 1] * theta[j] + core[2, 2] * beta[j]
            p_psi_j, p_beta_j, c_j = -e_j * x1, a * e_j * x2, -rho * psi[j]
            p_ij = -e_i * e_j * (w0 * psi[j] + w1 * theta[j] + w2 * beta[j])
            kk = -inverse_v * inverse_v * p_ij
            if i == j:
                p_ij += e_i
                kk += inverse_v * (full - inverse_v) * e_i
            kv = inverse_v * (p_ij * c_j + p_psi_i * rho * pi[j] + p_beta_i * sigma[j] / a)
            vk = inverse_v * (p_ij * c_i + p_psi_j * rho * pi[i] + p_beta_j * sigma[i] / a)
            vv = sigma[i] * sigma[j] / a - c_i * p_ij * c_j
            vv -= c_i * (p_psi_i * rho * pi[j] + p_beta_i * sigma[j] / a)
            vv -= c_j * (p_psi_j * rho * pi[i] + p_beta_j * sigma[i] / a)
            vv -= rho * rho * pi[i] * pi[j] * pp + sigma[i] * sigma[j] / (a * a) * bb
            vv -= rho / a * pb * (pi[i] * sigma[j] + pi[j] * sigma[i])
            sums[GG_KK] += scale * kk * kk
            sums[GG_KV] += scale * kv * kv
            sums[GG_VV] += scale * vv * vv
            sums[GG_CROSS] += scale * (kk * vv + kv * vk)


@_compiled
def _one(sample, chi_base, n_k, n_z, n_y, order, activation, table, work, core, flags, sums, scale):
    """Add the contribution of one sample of a block; the relevant token comes first."""
    m_k, spread_k, slope_k, bias, m_v, q_v, noise, v_k, v_v = order
    om_k, om_z = work[_OM_K], work[_OM_Z]
    count = n_k.shape[1]
    root_v = math.sqrt(q_v)
    for i in range(count):
        om_k[i] = m_k * chi_base[sample, i] + spread_k * n_k[sample, i] + bias
        om_z[i] = root_v * n_z[sample, i]
    left = max(1.0 - m_v * m_v / q_v, 0.0)
    spread_y = math.sqrt(left + noise * noise)
    y = m_v / root_v * n_z[sample, 0] + spread_y * n_y[sample]
    data, rho, a, (several, jumped, settled) = _solve(
        work, y, v_k, v_v, activation, table, core, flags[0]
    )
    if not _core(work, a, 1.0 / v_k, core):
        settled = False
        core[:] = 0.0
    trace_k, trace_v = _gain_traces(work, rho, a, v_k, core)
    chi, sigma = work[_CHI], work[_SIGMA]
    g_k2, g_v2, k_teacher, v_teacher, k_field, v_field, k_sum = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(count):
        g_k, g_v = (chi[i] - om_k[i]) / v_k, rho * sigma[i]
        z_star = m_v / root_v * n_z[sample, i]
        if i == 0:
            z_star += left / spread_y * n_y[sample] if spread_y > 0.0 else 0.0
        g_k2 += g_k * g_k
        g_v2 += g_v * g_v
        k_teacher += g_k * (chi_base[sample, i] + slope_k * n_k[sample, i])
        v_teacher += g_v * z_star
        k_field += g_k * (om_k[i] - bias)
        v_field += g_v * om_z[i]
        k_sum += g_k
    sums[G_K2] += scale * g_k2
    sums[G_V2] += scale * g_v2
    sums[TRACE_K] += scale * trace_k
    sums[TRACE_V] += scale * trace_v
    sums[G_K_TEACHER] += scale * k_teacher
    sums[G_V_TEACHER] += scale * v_teacher
    sums[G_K_FIELD] += scale * k_field
    sums[G_V_FIELD] += scale * v_field
    sums[G_K_SUM] += scale * k_sum
    sums[LOSS] += scale * rho * rho
    sums[ENVELOPE] += scale * (data + 0.5 * v_k * g_k2)
    sums[BISTABLE] += scale * several
    sums[JUMPED] += scale * jumped
    sums[UNSOLVED] += scale * (not settled)
    if flags[1]:
        _gain_squares(work, rho, a, v_k, core, sums, scale)


@njit(cache=True, error_model="numpy", parallel=True)
def channel_sums(chi_base, n_k, n_z, n_y, order, activation, table, starts, squares):
    """Return the means of the `SUMS` quantities for each block of samples.

    ``chi_base``, ``n_k``, ``n_z`` have shape ``(blocks, size, L)``, ``n_y`` ``(blocks, size)``;
    the fields are ``ω_χ = m_k·chi_base + spread_k·n_k + bias`` and ``ω_z = √q_v·n_z``.
    """
    blocks, size, count = n_k.shape
    sums = np.zeros((blocks, SUMS))
    for block in prange(blocks):
        # views are taken here: one for each sample would have the threads fight over its count
        base, keys, values, labels = chi_base[block], n_k[block], n_z[block], n_y[block]
        row = sums[block]
        work = np.empty((SCRATCH_ROWS, count))
        core = np.empty((3, 3))
        for i in range(size):
            _one(
                i,
                base,
                keys,
                values,
                labels,
                order,
                activation,
                table,
                work,
                core,
                (starts, squares),
                row,
                1.0 / size,
            )
    return sums
