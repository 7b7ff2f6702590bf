r"""NumPy reference of the compiled output channel, for tests: textbook formulas, dense algebra.

Same signature, samples, starts and stopping rule as `slrlab.theory.erm.prox_kernel`, but none of
its low-rank algebra: the weights have a dense Jacobian and second derivatives, the loss ``½(y −
σᵀz)²`` a ``2L×2L`` Hessian ``H``, Newton steps come from eigenvectors and the gain is ``G = (I +
HV)⁻¹H``. It does not import the kernel.
"""

# notation: docs/notation.md, "Trained attention"
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slrlab._types import FloatArray
from slrlab.model.activation_code import PROJECTION, ActivationNumbers
from slrlab.model.weights_reference import CodedWeights, dot, outer
from slrlab.theory.erm import codes

Mask = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class _Samples:
    """Fields and labels of a batch, and the reduced objective ``F(χ)`` on it."""

    omega_k: FloatArray
    omega_z: FloatArray
    y: FloatArray
    V_k: float
    V_v: float
    attention: CodedWeights

    @property
    def tolerance(self) -> float:
        scale = 1e-5 if self.attention.numbers[0] in codes.FLAT else 1e-4
        return scale * min(1.0, math.sqrt(self.V_k))

    def take(self, rows: Indices) -> _Samples:
        fields = (self.omega_k[rows], self.omega_z[rows], self.y[rows])
        return _Samples(*fields, self.V_k, self.V_v, self.attention)

    def values(self, sigma: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``ρ`` and ``ẑ``, the minimum over the values at given weights."""
        rho = (self.y - dot(sigma, self.omega_z)) / (1.0 + self.V_v * dot(sigma, sigma))
        return rho, self.omega_z + self.V_v * rho * sigma

    def objective(self, chi: FloatArray) -> FloatArray:
        """Return ``F = ½(y − σᵀẑ)² + |χ − ω_χ|²/2V_k + |ẑ − ω_z|²/2V_v``."""
        rho, z = self.values(self.attention.weights(chi))
        away_k, away_z = chi - self.omega_k, z - self.omega_z
        penalty = dot(away_k, away_k) / self.V_k + dot(away_z, away_z) / self.V_v
        return np.asarray(0.5 * (rho**2 + penalty)[:, 0])

    def hessian(self, chi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return gradient ``(−ρ Jᵀẑ, −ρ σ)`` and ``2L×2L`` Hessian of ``½(y − σᵀz)²`` at ``ẑ``."""
        rho, z = self.values(self.attention.weights(chi))
        sigma, jacobian, bend = self.attention.derivatives(chi, z)
        slope = np.concatenate([np.einsum("njl,nj->nl", jacobian, z), sigma], axis=1)
        length = chi.shape[1]
        hessian = outer(slope, slope)
        hessian[:, :length, :length] -= rho[..., None] * bend
        hessian[:, length:, :length] -= rho[..., None] * jacobian
        hessian[:, :length, length:] -= rho[..., None] * jacobian.swapaxes(1, 2)
        return -rho * slope, hessian

    def newton(self, chi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return gradient and Hessian of ``F``, the values eliminated by a Schur complement."""
        length = chi.shape[1]
        slope, hessian = self.hessian(chi)
        k, v = slice(length), slice(length, None)
        inner = hessian[:, v, v] + np.eye(length) / self.V_v
        schur = hessian[:, k, v] @ np.linalg.solve(inner, hessian[:, v, k])
        full = hessian[:, k, k] - schur + np.eye(length) / self.V_k
        return slope[:, k] + (chi - self.omega_k) / self.V_k, full


def _shift(lowest: FloatArray, V_k: float) -> FloatArray:
    """Return the first of ``0, ¼, ½, 1, 2, …`` over ``V_k`` that makes the Hessian positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        doublings = np.maximum(np.floor(np.log2(-4.0 * V_k * lowest)) + 1.0, 0.0)
    return np.where(lowest > 0.0, 0.0, 0.25 / V_k * 2.0 ** np.nan_to_num(doublings))


def _descend(samples: _Samples, start: FloatArray) -> tuple[FloatArray, FloatArray, Mask]:
    """Run Newton's method to a local minimum; return it, ``F`` there and whether it settled."""
    tolerance = samples.tolerance
    chi, value = start.copy(), samples.objective(start)
    moving, settled = np.ones(len(chi), dtype=bool), np.zeros(len(chi), dtype=bool)
    for _ in range(codes.MOST_STEPS):
        rows = np.flatnonzero(moving)
        if not rows.size:
            break
        part = samples.take(rows)
        slope, hessian = part.newton(chi[rows])
        curvature, axes = np.linalg.eigh(hessian)
        shift = _shift(curvature[:, 0], samples.V_k)
        along = (slope[:, None, :] @ axes)[:, 0] / (curvature + shift[:, None])
        step = -(axes @ along[..., None])[..., 0]
        largest = np.abs(step).max(axis=1)
        arrived = largest <= 1e-3 * tolerance
        close = arrived | ((shift == 0.0) & (largest <= tolerance))
        fall = np.where(close, np.inf, dot(step, slope)[:, 0])
        step[arrived] = 0.0
        scale, new = _line_search(part, chi[rows], value[rows], step, fall, 1e-3 * tolerance)
        chi[rows] += scale[:, None] * step
        value[rows] = np.where(scale > 0.0, new, value[rows])
        settled[rows] = close
        moving[rows] = ~close & (scale > 0.0)
    return chi, value, settled


def _line_search(
    samples: _Samples,
    chi: FloatArray,
    value: FloatArray,
    step: FloatArray,
    fall: FloatArray,
    shortest: float,
) -> tuple[FloatArray, FloatArray]:
    """Shorten each step until the objective falls enough; factor 0 where it never does."""
    scale, largest = np.ones(len(chi)), np.abs(step).max(axis=1)
    new = samples.objective(chi + step)
    while True:
        rows = np.flatnonzero((scale > 0.0) & ~(new <= value + 1e-4 * scale * fall))
        if not rows.size:
            return scale, new
        scale[rows] *= 0.4
        scale[rows[scale[rows] * largest[rows] <= shortest]] = 0.0
        new[rows] = samples.take(rows).objective(chi[rows] + scale[rows, None] * step[rows])


def _solve(
    samples: _Samples, start: FloatArray, starts: Mask
) -> tuple[FloatArray, Mask, Mask, Mask]:
    """Return the lowest minimum; whether there are several, it jumped, it settled.

    ``starts`` marks the samples that are searched from more than one start.
    """
    best, lowest, settled = _descend(samples, start)
    several, jumped = np.zeros_like(settled), np.zeros_like(settled)
    length = best.shape[1]
    family = samples.attention.numbers[0]
    sides = (1.0,) if family in codes.ONE_SIDED else (1.0, -1.0)
    for token, side in [(t, s) for t in range(length) for s in sides] if length > 1 else []:
        reach = np.sqrt(2.0 * samples.V_k * lowest)
        rows = np.flatnonzero(starts & (reach >= 0.02))
        start = samples.omega_k[rows].copy()
        if side < 0.0 and family in codes.FLAT:
            unit = samples.attention.numbers[3] if family == PROJECTION else 1.0
            start[:, token] = np.delete(start, token, axis=1).max(axis=1) - 0.5 * unit
        else:
            start[:, token] += 0.75 * side * reach[rows]
        chi, value, good = _descend(samples.take(rows), start)
        apart = np.abs(chi - best[rows]).max(axis=1)
        several[rows] |= good & (apart > 10.0 * samples.tolerance)
        better = value < lowest[rows] - 1e-9 * (1.0 + lowest[rows])
        won = rows[better]
        best[won], lowest[won], settled[won] = chi[better], value[better], good[better]
        jumped[won] = True
    return best, several, jumped, settled


def channel_sums(
    chi_base: FloatArray,
    n_k: FloatArray,
    n_z: FloatArray,
    n_y: FloatArray,
    order: tuple[float, ...],
    activation: ActivationNumbers,
    table: FloatArray,
    several_seen: Mask,
    chi_seen: FloatArray,
    search: int,
    squares: bool,
) -> FloatArray:
    """Return the means of the `SUMS` quantities for each block of samples, as the kernel does."""
    m_k, std_k, slope_k, bias, m_v, q_v, noise, V_k, V_v = order
    blocks, size, length = n_k.shape
    base, n_k, n_z = (array.reshape(-1, length) for array in (chi_base, n_k, n_z))
    n_y = n_y.reshape(-1, 1)
    left = max(1.0 - m_v**2 / q_v, 0.0)
    std_y = math.sqrt(left + noise**2)
    z_star = m_v / math.sqrt(q_v) * n_z
    y = z_star[:, :1] + std_y * n_y
    z_star[:, :1] += left / std_y * n_y if std_y > 0.0 else 0.0
    omega_k, omega_z = m_k * base + std_k * n_k + bias, math.sqrt(q_v) * n_z
    samples = _Samples(omega_k, omega_z, y, V_k, V_v, CodedWeights(activation, table))
    starts = np.full(blocks * size, search == codes.EVERYWHERE)
    start = omega_k
    if search == codes.REMEMBERED:
        starts = several_seen.reshape(-1).copy()
        start = np.where(starts[:, None], omega_k, chi_seen.reshape(-1, length))
    chi, several, jumped, settled = _solve(samples, start, starts)
    chi_seen[:] = chi.reshape(chi_seen.shape)
    if search != codes.REMEMBERED:
        several_seen[:] = several.reshape(blocks, size)
    slope, hessian = samples.hessian(chi)
    variances = np.repeat([V_k, V_v], length)
    gain = np.linalg.solve(np.eye(2 * length) + hessian * variances, hessian)
    G_kk, G_kv = gain[:, :length, :length], gain[:, :length, length:]
    G_vk, G_vv = gain[:, length:, :length], gain[:, length:, length:]
    positive = np.linalg.eigvalsh(samples.newton(chi)[1])[:, 0] > 0.0
    g_k, g_v = (chi - omega_k) / V_k, -slope[:, length:]
    rho = samples.values(samples.attention.weights(chi))[0]
    columns = {
        codes.G_K2: dot(g_k, g_k),
        codes.G_V2: dot(g_v, g_v),
        codes.TRACE_K: np.trace(G_kk, axis1=1, axis2=2),
        codes.TRACE_V: np.trace(G_vv, axis1=1, axis2=2),
        codes.G_K_TEACHER: dot(g_k, base + slope_k * n_k),
        codes.G_V_TEACHER: dot(g_v, z_star),
        codes.G_K_FIELD: dot(g_k, omega_k - bias),
        codes.G_V_FIELD: dot(g_v, omega_z),
        codes.G_K_SUM: g_k.sum(axis=1),
        codes.LOSS: rho**2,
        codes.ENVELOPE: samples.objective(chi),
        codes.BISTABLE: several,
        codes.JUMPED: jumped,
        codes.UNSOLVED: ~(settled & positive),
    }
    if squares:
        columns[codes.GG_KK] = (G_kk**2).sum(axis=(1, 2))
        columns[codes.GG_KV] = (G_kv**2).sum(axis=(1, 2))
        columns[codes.GG_VV] = (G_vv**2).sum(axis=(1, 2))
        columns[codes.GG_CROSS] = (G_kk * G_vv + G_kv * G_vk).sum(axis=(1, 2))
    sums = np.zeros((blocks, codes.SUMS))
    for index, column in columns.items():
        sums[:, index] = np.reshape(column, (blocks, size)).mean(axis=1)
    return sums
