r"""Attention weights from their code, with dense first and second derivatives, in NumPy.

The references of the compiled kernels are built on it. This module must not know about fields,
labels or the prox.
"""

# notation: docs/notation.md, "Trained attention"
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from slrlab._types import FloatArray
from slrlab.model import activation_code as codes
from slrlab.model.activation_code import ActivationNumbers
from slrlab.model.activations import Projection
from slrlab.model.families import StickBreaking


def _table(
    x: FloatArray, table: FloatArray, low: float, step: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a tabulated map and two derivatives: quintic Hermite inside, Taylor outside."""
    cell = np.clip(np.floor((x - low) / step), 0, len(table) - 2).astype(int)
    t = np.clip((x - low) / step - cell, 0.0, 1.0)
    scale = np.array([1.0, step, step**2])
    left, right = (np.moveaxis(table[at] * scale, -1, 0) for at in (cell, cell + 1))
    left[2] /= 2.0
    taylor = [left.sum(axis=0), left[1] + 2.0 * left[2], 2.0 * left[2]]
    gaps = np.stack([ahead - known for ahead, known in zip(right, taylor, strict=True)])
    # values and derivatives of t³, t⁴, t⁵ at t = 1 must make up the gaps
    high = np.linalg.solve(
        [[1.0, 1.0, 1.0], [3.0, 4.0, 5.0], [6.0, 12.0, 20.0]], gaps.reshape(3, -1)
    )
    c = [*left, *high.reshape(gaps.shape)]
    value = sum(c[n] * t**n for n in range(6))
    first = sum(n * c[n] * t ** (n - 1) for n in range(1, 6)) / step
    second = sum(n * (n - 1) * c[n] * t ** (n - 2) for n in range(2, 6)) / step**2
    beyond = x - np.clip(x, low, low + (len(table) - 1) * step)
    value = value + beyond * (first + 0.5 * beyond * second)
    return value, first + beyond * second, np.asarray(second)


def _map(
    x: FloatArray, numbers: ActivationNumbers, table: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return ``φ, φ', φ''``."""
    _, kind, _, _, low, step = numbers
    if kind == codes.EXPONENTIAL:
        e = np.exp(x)
        return e, e, e
    if kind == codes.LINEAR:
        return 1.0 + x, np.ones_like(x), np.zeros_like(x)
    if kind == codes.SOFTPLUS:
        p = special.expit(x)
        return np.logaddexp(0.0, x), p, p * special.expit(-x)
    if kind == codes.SHIFTED_ERF:
        bell = 2.0 / math.sqrt(math.pi) * np.exp(-(x**2))
        return special.erfc(-x), bell, -2.0 * x * bell
    return _table(x, table, low, step)


def diag(x: FloatArray) -> FloatArray:
    """Return diagonal matrices."""
    return np.asarray(x[..., None] * np.eye(x.shape[-1]))


def outer(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return outer products over the last axis."""
    return np.asarray(x[..., :, None] * y[..., None, :])


def dot(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return inner products over the last axis, which is kept."""
    return np.asarray((x * y).sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class CodedWeights:
    """The weights ``σ(χ)`` that an activation code stands for; scores have shape ``(n, L)``."""

    numbers: ActivationNumbers
    table: FloatArray

    def _normalised(self, chi: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return ``φ, φ', φ''`` over the sum of ``φ``; the exponential is kept from overflow."""
        _, kind, sink, *_ = self.numbers
        top = np.zeros((len(chi), 1))
        if kind == codes.EXPONENTIAL:
            top = chi.max(axis=1, keepdims=True)
            top = np.maximum(top, math.log(sink)) if sink > 0.0 else top
        parts = _map(chi - top, self.numbers, self.table)
        total = parts[0].sum(axis=1, keepdims=True)
        if sink > 0.0:  # else e^{-top} may overflow
            total = total + sink * np.exp(-top)
        scale = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0.0)
        return parts[0] * scale, parts[1] * scale, parts[2] * scale

    def _ratio(self, chi: FloatArray) -> tuple[FloatArray, ...]:
        """Return ``φ, φ', φ''`` over ``S^p``, then ``pγ'`` and ``pγ''`` over ``S = Σγ``."""
        exponent, (low, step) = self.numbers[3], self.numbers[4:]
        above = _table(chi, self.table[:, :3], low, step)
        gauge, *slopes = _table(chi, self.table[:, 3:], low, step)
        total = gauge.sum(axis=1, keepdims=True)
        some = total > 0.0
        scale = np.power(total, -exponent, out=np.zeros_like(total), where=some)
        below = np.divide(exponent, total, out=np.zeros_like(total), where=some)
        return *(part * scale for part in above), *(slope * below for slope in slopes)

    def _order(self, length: int) -> list[int]:
        """Return the tokens by position: token 0 is at a given place."""
        others = list(range(1, length))
        place = int(self.numbers[3])
        return [*others[:place], 0, *others[place:]]

    def _stick_breaking(self, chi: FloatArray) -> FloatArray:
        order, sigma = self._order(chi.shape[1]), np.empty_like(chi)
        sigma[:, order] = StickBreaking("").weights(chi[:, order])
        return sigma

    def weights(self, chi: FloatArray) -> FloatArray:
        """Return ``σ``."""
        family, power = self.numbers[0], self.numbers[3]
        if family == codes.RATIO:
            return self._ratio(chi)[0]
        if family == codes.ORDERED:
            return self._stick_breaking(chi)
        if family == codes.PROJECTION:
            return Projection("", power=power).weights(chi)
        if family == codes.ELEMENTWISE:
            return _map(chi, self.numbers, self.table)[0]
        return self._normalised(chi)[0]

    def derivatives(
        self, chi: FloatArray, c: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return ``σ``, the Jacobian ``J[j, ℓ] = ∂σ_j/∂χ_ℓ`` and ``Σ_j c_j ∇²σ_j``."""
        family, power = self.numbers[0], self.numbers[3]
        if family == codes.ELEMENTWISE:
            value, first, second = _map(chi, self.numbers, self.table)
            return value, diag(first), diag(c * second)
        if family == codes.NORMALISED:
            value, first, second = self._normalised(chi)
            mean = dot(c, value)
            mixed = outer(c * first, first)
            bend = diag((c - mean) * second) - mixed - mixed.swapaxes(1, 2)
            bend += 2.0 * mean[..., None] * outer(first, first)
            return value, diag(first) - outer(value, first), bend
        if family == codes.RATIO:
            value, first, second, slope, curve = self._ratio(chi)
            mean = dot(c, value)
            mixed = outer(c * first, slope)
            bend = diag(c * second - mean * curve) - mixed - mixed.swapaxes(1, 2)
            bend += (1.0 + 1.0 / power) * mean[..., None] * outer(slope, slope)
            return value, diag(first) - outer(value, slope), bend
        if family == codes.ORDERED:
            return self._ordered_derivatives(chi, c)
        return self._projected_derivatives(chi, c)

    def _ordered_derivatives(
        self, chi: FloatArray, c: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the derivatives of stick-breaking; a token does not feel those before it."""
        value, share = self.weights(chi), special.expit(chi)
        place = np.argsort(self._order(chi.shape[1]))
        before = place[:, None] < place  # [j, ℓ]: token j comes before ℓ
        jacobian = diag(value * special.expit(-chi)) - before * outer(value, share)
        slope = np.einsum("njl,nj->nl", jacobian, c)
        mixed = before * outer(slope, share)
        bend = diag(slope * (1.0 - 2.0 * share)) - mixed - mixed.swapaxes(1, 2)
        return value, jacobian, bend

    def _projected_derivatives(
        self, chi: FloatArray, c: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the derivatives of a projection, zero outside the support."""
        power, value = self.numbers[3], self.weights(chi)
        u = value ** (1.0 / power)
        inside = u > 1e-12  # the map has a kink (power 1) or a jump of a derivative at the edge
        first = np.power(u, power - 1.0, out=np.zeros_like(u), where=u > 0.0)
        second = np.power(u, power - 2.0, out=np.zeros_like(u), where=inside)
        second *= (power - 1.0) / power
        mass = first.sum(axis=1, keepdims=True)
        p = first / mass
        away = np.eye(chi.shape[1]) - p[:, None, :]  # [j, ℓ]: δ_jℓ − π_ℓ
        slope_first = second[..., None] * away  # the Jacobian of ψ
        slope_p = (slope_first - outer(p, slope_first.sum(axis=1))) / mass[..., None]
        bend = away.swapaxes(1, 2) @ (c[..., None] * slope_first)
        bend -= dot(c, first)[..., None] * slope_p
        return value, diag(first) - outer(first, p), bend
