r"""Compiled prox and output channel of trained attention: one pass over a sample of fields.

For each sample the kernel finds the global minimum over ``χ ∈ R^L`` of

    F(χ) = ½ r²/A + |χ − ω_χ|²/(2 V_k),   r = y − σ(χ)ᵀω_z,   A = 1 + V_v |σ(χ)|²

(the values are eliminated: ``ẑ = ω_z + V_v ρ σ``, ``ρ = r/A``) and adds up what state evolution
needs. Newton steps and gains are those of `slrlab.theory.erm.prox_low_rank`, in O(L), or for a full
Jacobian those of `slrlab.theory.erm.prox_dense`. Nothing is allocated per sample.
`slrlab.theory.erm.prox_reference` computes the same in NumPy. No tasks enter here.
"""

# notation: docs/notation.md, "Trained attention"
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from slrlab._types import FloatArray
from slrlab.model.activation_code import EXPONENTIAL, NORMALISED, PROJECTION
from slrlab.model.weights_kernel import fill_weights
from slrlab.model.weights_rows import PI, SAFE_MATH, SIGMA, TRIAL
from slrlab.numerics.threads import run_ranges
from slrlab.theory.erm import codes, prox_dense, prox_low_rank
from slrlab.theory.erm.prox_low_rank import BEST, CHI, OM_K, OM_Z, SCRATCH_ROWS, STEP

_compiled = njit(cache=True, error_model="numpy", fastmath=SAFE_MATH)
_compiled_inline = njit(cache=True, error_model="numpy", inline="always")
_CUMULANT = 1.0 / math.sqrt(27.0)


@_compiled
def _loss(work, y, v_v, activation, table):
    """Fill the weights at row TRIAL; return ``ρ``, ``A``, the mass of ψ, ``πᵀω_z, πᵀσ, |π|²``."""
    mass = fill_weights(work, activation, table)
    mean, square, pi_z, pi_sigma, pi2 = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(work.shape[1]):
        sigma, pi, z = work[SIGMA, i], work[PI, i], work[OM_Z, i]
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
        total += (work[TRIAL, i] - work[OM_K, i]) ** 2
    return 0.5 * (loss[0] * loss[0] * loss[1] + inverse_v * total)


@_compiled_inline
def _derivatives(work, loss, prior, activation):
    """Make row TRIAL row CHI; fill the derivatives of ``F`` there."""
    _, inverse_v, v_v, _ = prior
    if activation[0] in codes.DENSE:
        prox_dense.derivatives(work, loss, v_v, inverse_v, activation)
    else:
        prox_low_rank.derivatives(work, loss, v_v, inverse_v, activation)


@_compiled_inline
def _factorise(work, a, stiffness, family):
    """Return whether the Hessian is positive, and what a low-rank one needs for its inverse."""
    if family in codes.DENSE:
        return prox_dense.factorise(work, stiffness), (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    return prox_low_rank.core_of(work, a, stiffness)


@_compiled
def _copy(work, source, target):
    for i in range(work.shape[1]):
        work[target, i] = work[source, i]


@_compiled
def _descend(work, y, prior, activation, table):
    """Run Newton's method from row TRIAL; leave a local minimum there.

    Return ``F``, the loss, whether it settled, and whether the derivatives belong to the minimum;
    if it settled and they do not, the weights do.
    """
    _, inverse_v, v_v, tolerance = prior
    family = activation[0]
    loss = _loss(work, y, v_v, activation, table)
    value = _objective(work, loss, inverse_v)
    for _ in range(codes.MOST_STEPS):
        _derivatives(work, loss, prior, activation)
        shift = 0.0
        positive, core = _factorise(work, loss[1], inverse_v, family)
        while not positive:
            shift = max(2.0 * shift, 0.25 * inverse_v)
            if shift > 1e12 * inverse_v:
                return value, loss, False, True
            positive, core = _factorise(work, loss[1], inverse_v + shift, family)
        if family in codes.DENSE:
            largest, slope = prox_dense.newton_step(work)
        else:
            largest, slope = prox_low_rank.newton_step(work, core)
        if largest <= 1e-3 * tolerance:
            return value, loss, True, True
        # convergence is quadratic: after a full step this short the error is much smaller
        close = shift == 0.0 and largest <= tolerance
        scale = 1.0
        while True:
            for i in range(work.shape[1]):
                work[TRIAL, i] = work[CHI, i] + scale * work[STEP, i]
            ahead = _loss(work, y, v_v, activation, table)
            new = _objective(work, ahead, inverse_v)
            if close or new <= value + 1e-4 * scale * slope:
                break
            scale *= 0.4
            if scale * largest <= 1e-3 * tolerance:  # no descent: a kink, not a smooth minimum
                _copy(work, CHI, TRIAL)
                return value, loss, False, False
        value, loss = new, ahead
        if close:
            return value, loss, True, False
    return value, loss, False, False


@_compiled_inline
def _shared(work, token, activation):
    """Return a key score at which a token shares the weight with the largest of the others."""
    top = -math.inf
    for i in range(work.shape[1]):
        if i != token:
            top = max(top, work[OM_K, i])
    return top - 0.5 * (activation[3] if activation[0] == PROJECTION else 1.0)


@_compiled
def _search(work, y, prior, activation, table, lowest, settled):
    """Descend from other points too; leave the lowest minimum in row TRIAL; return flags."""
    v_k, _, _, tolerance = prior
    count = work.shape[1]
    sides = 1 if activation[0] in codes.ONE_SIDED else 2
    several, jumped = False, False
    _copy(work, TRIAL, BEST)
    for start in range(count * sides):
        # a better minimum lies in the ball of radius √(2 V_k F): start inside it
        reach = math.sqrt(2.0 * v_k * lowest)
        if reach < 0.02:
            break
        _copy(work, OM_K, TRIAL)
        if start % sides == 0:
            work[TRIAL, start // sides] += 0.75 * reach
        elif activation[0] in codes.FLAT:
            work[TRIAL, start // sides] = _shared(work, start // sides, activation)
        else:
            work[TRIAL, start // sides] -= 0.75 * reach
        value, _, good, _ = _descend(work, y, prior, activation, table)
        apart = 0.0
        for i in range(count):
            apart = max(apart, abs(work[TRIAL, i] - work[BEST, i]))
        if apart > 10.0 * tolerance:
            several = several or good
        if value < lowest - 1e-9 * (1.0 + lowest):
            lowest, settled, jumped = value, good, True
            _copy(work, TRIAL, BEST)
    _copy(work, BEST, TRIAL)
    return several, jumped, settled


@_compiled_inline
def _is_convex(work, y, prior, activation):
    """Return whether a bound shows that ``F`` is convex, for softmax without a sink.

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
    low, high = work[OM_Z, 0], work[OM_Z, 0]
    for i in range(1, count):
        low, high = min(low, work[OM_Z, i]), max(high, work[OM_Z, i])
    rho = max(abs(y - low), abs(y - high)) / (1.0 + v_v / count)
    bend = 0.25 * v_v * rho * rho + _CUMULANT * rho * (high - low + v_v * rho)
    return v_k * bend < 0.999


@_compiled_inline
def _solve(work, y, prior, activation, table, starts):
    """Leave the minimum reached from row TRIAL, or the global one, in row CHI.

    Fill the derivatives there; return loss and flags.
    """
    v_v = prior[2]
    value, loss, settled, derived = _descend(work, y, prior, activation, table)
    several, jumped = False, False
    if starts and work.shape[1] > 1 and not (settled and _is_convex(work, y, prior, activation)):
        several, jumped, settled = _search(work, y, prior, activation, table, value, settled)
        derived = False
        loss = _loss(work, y, v_v, activation, table)
    elif not (settled or derived):
        loss = _loss(work, y, v_v, activation, table)
    if not derived:
        _derivatives(work, loss, prior, activation)
    return loss, several, jumped, settled


@_compiled_inline
def _constants(order, family):
    """Return the numbers that all samples share: scales of the fields, and of the prox."""
    m_k, std_k, slope_k, bias, m_v, q_v, noise, v_k, v_v = order
    root_v = math.sqrt(q_v)
    left = max(1.0 - m_v * m_v / q_v, 0.0)
    std_y = math.sqrt(left + noise * noise)
    share = left / std_y if std_y > 0.0 else 0.0
    # weights vary on the scale 1, but near a rounded kink; the prior on √V_k
    tolerance = (1e-5 if family in codes.FLAT else 1e-4) * min(1.0, math.sqrt(v_k))
    keys, values = (m_k, std_k, slope_k, bias), (m_v / root_v, root_v, std_y, share)
    return keys, values, (v_k, 1.0 / v_k, v_v, tolerance)


@_compiled_inline
def _one(sample, fields, constants, activation, table, memory, work, flags, sums):
    """Add the contribution of one sample of a block; the relevant token comes first."""
    chi_base, n_k, n_z, n_y = fields
    several_seen, chi_seen = memory
    search, squares = flags
    (m_k, std_k, slope_k, bias), (overlap, root_v, std_y, share), prior = constants
    count = work.shape[1]
    for i in range(count):
        work[OM_K, i] = m_k * chi_base[sample, i] + std_k * n_k[sample, i] + bias
        work[OM_Z, i] = root_v * n_z[sample, i]
    y = overlap * n_z[sample, 0] + std_y * n_y[sample]
    starts = search == codes.EVERYWHERE or (search == codes.REMEMBERED and several_seen[sample])
    remembered = search == codes.REMEMBERED and not starts
    for i in range(count):
        work[TRIAL, i] = chi_seen[sample, i] if remembered else work[OM_K, i]
    loss, several, jumped, settled = _solve(work, y, prior, activation, table, starts)
    if search != codes.REMEMBERED:
        several_seen[sample] = several
    for i in range(count):
        chi_seen[sample, i] = work[CHI, i]
    rho, a = loss[0], loss[1]
    v_k, inverse_v, _, _ = prior
    positive, core = _factorise(work, a, inverse_v, activation[0])
    trace_k, trace_v = 0.0, 0.0
    if activation[0] not in codes.DENSE:
        trace_k, trace_v = prox_low_rank.gain_traces(work, rho, a, inverse_v, core)
        if squares:
            prox_low_rank.gain_squares(work, rho, a, inverse_v, core, sums)
    elif positive:
        trace_k, trace_v = prox_dense.gains(work, rho, a, inverse_v, squares, sums)
    g_k2, g_v2, k_teacher, v_teacher, k_field, v_field, k_sum = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(count):
        om_k = work[OM_K, i]
        g_k, g_v = (work[CHI, i] - om_k) * inverse_v, rho * work[SIGMA, i]
        g_k2 += g_k * g_k
        g_v2 += g_v * g_v
        k_teacher += g_k * (chi_base[sample, i] + slope_k * n_k[sample, i])
        v_teacher += g_v * n_z[sample, i]
        k_field += g_k * (om_k - bias)
        v_field += g_v * work[OM_Z, i]
        k_sum += g_k
    sums[codes.G_K2] += g_k2
    sums[codes.G_V2] += g_v2
    sums[codes.TRACE_K] += trace_k
    sums[codes.TRACE_V] += trace_v
    sums[codes.G_K_TEACHER] += k_teacher
    sums[codes.G_V_TEACHER] += overlap * v_teacher + share * n_y[sample] * rho * work[SIGMA, 0]
    sums[codes.G_K_FIELD] += k_field
    sums[codes.G_V_FIELD] += v_field
    sums[codes.G_K_SUM] += k_sum
    sums[codes.LOSS] += rho * rho
    sums[codes.ENVELOPE] += 0.5 * (rho * rho * a + v_k * g_k2)
    sums[codes.BISTABLE] += several
    sums[codes.JUMPED] += jumped
    sums[codes.UNSOLVED] += not (settled and positive)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SAFE_MATH)
def channel_blocks(fields, order, activation, table, memory, flags, blocks, sums):
    """Fill the rows of ``sums`` with the means over blocks of samples.

    ``blocks`` are the first of them and the one after the last.
    """
    size, count = fields[1].shape[1:]
    constants = _constants(order, activation[0])
    matrices = prox_dense.MATRICES * count if activation[0] in codes.DENSE else 0
    work = np.empty((SCRATCH_ROWS + matrices, count))
    for block in range(blocks[0], blocks[1]):
        own = fields[0][block], fields[1][block], fields[2][block], fields[3][block]
        known = memory[0][block], memory[1][block]
        total = sums[block]
        for i in range(size):
            _one(i, own, constants, activation, table, known, work, flags, total)
        for i in range(codes.SUMS):
            total[i] /= size


def channel_sums(
    chi_base: FloatArray,
    n_k: FloatArray,
    n_z: FloatArray,
    n_y: FloatArray,
    order: tuple[float, ...],
    activation: tuple[float, ...],
    table: FloatArray,
    several: npt.NDArray[np.bool_],
    chi: FloatArray,
    search: int,
    squares: bool,
) -> FloatArray:
    """Return the means of the `SUMS` quantities for each block of samples.

    ``chi_base``, ``n_k``, ``n_z`` have shape ``(blocks, size, L)``, ``n_y`` ``(blocks, size)``;
    the fields are ``ω_χ = m_k·chi_base + std_k·n_k + bias`` and ``ω_z = √q_v·n_z``. The minimum
    of each sample is written to ``chi``, and to ``several`` ``(blocks, size)`` whether it has
    others. If the search is `REMEMBERED`, both are read first, and ``several`` does not change.
    """
    blocks = n_k.shape[0]
    sums = np.zeros((blocks, codes.SUMS))
    fields, memory, flags = (chi_base, n_k, n_z, n_y), (several, chi), (search, squares)
    given = (fields, order, activation, table, memory, flags)
    run_ranges(lambda part: channel_blocks(*given, part, sums), blocks)
    return sums
