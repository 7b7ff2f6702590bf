r"""Attention weights from their code, with dense first and second derivatives, in NumPy.

The references of the compiled kernels are built on it. Independent of fields, labels and the prox.
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
from slrlab.model.families import CosineReweighted, StickBreaking


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


def _hinge(x: FloatArray, width: float) -> tuple[FloatArray, ...]:
    """Return the integral of ``max(x, 0)``, itself and two derivatives, rounded over ``width``."""
    left = np.maximum(1.0 - np.abs(x) / width, 0.0)
    right = x > 0.0
    integral = np.maximum(x, 0.0) ** 2 / 2.0
    integral += width**2 / 24.0 * np.where(right, 2.0 - left**4, left**4)
    value = np.maximum(x, 0.0) + width / 6.0 * left**3
    first = np.where(right, 1.0 - left**2 / 2.0, left**2 / 2.0)
    return integral, value, first, left / width


def _rise(u: FloatArray, numbers: ActivationNumbers) -> tuple[FloatArray, ...]:
    """Return the map ``h`` of a projection or normmax and three derivatives, kinks rounded."""
    family, _, budget, power, _, width = numbers
    if family == codes.NORMMAX and width > 0.0:
        return tuple(2.0 * part for part in _hinge(u, width))
    if family == codes.PROJECTION and power == 1.0 and width > 0.0:
        below = _hinge(u, width)[1:]
        above = _hinge(u - 1.0, width)[1:]
        cut = 1.0 if budget > 1.0 else 0.0
        return *(a - cut * b for a, b in zip(below, above, strict=True)), np.zeros_like(u)
    kept = np.maximum(u, 0.0)
    inside = kept > 1e-12
    parts, factor = [kept**power], 1.0
    for n in (1.0, 2.0, 3.0):
        factor *= power - n + 1.0
        where = kept > 0.0 if n == 1.0 else inside
        parts.append(factor * np.power(kept, power - n, out=np.zeros_like(u), where=where))
    if budget > 1.0 and family == codes.PROJECTION:
        corner = _hinge(u - 1.0, width)[1:]
        plain = (np.maximum(u - 1.0, 0.0), (u > 1.0) * 1.0, np.zeros_like(u))
        parts = [np.where(u > 1.0, n == 0, part) for n, part in enumerate(parts)]
        for n in range(3):
            parts[n] = parts[n] - power * (corner[n] - plain[n])
    return tuple(parts)


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
        if self.numbers[0] == codes.REWEIGHTED:
            factors = np.empty(chi.shape[1])
            factors[self._order(chi.shape[1])] = CosineReweighted.factors(chi.shape[1])
            parts = (factors * parts[0], factors * parts[1], factors * parts[2])
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
        """Return the tokens by position: token 0 is at a given location."""
        others = list(range(1, length))
        location = int(self.numbers[3])
        return [*others[:location], 0, *others[location:]]

    def _stick_breaking(self, chi: FloatArray) -> FloatArray:
        order, sigma = self._order(chi.shape[1]), np.empty_like(chi)
        sigma[:, order] = StickBreaking("").weights(chi[:, order])
        return sigma

    def weights(self, chi: FloatArray) -> FloatArray:
        """Return ``σ``."""
        family = self.numbers[0]
        if family == codes.RATIO:
            return self._ratio(chi)[0]
        if family == codes.ORDERED:
            return self._stick_breaking(chi)
        if family == codes.PROJECTION:
            return self._above_threshold(chi)[0]
        if family == codes.NORMMAX:
            g = self._above_threshold(chi)[1] / self.numbers[3]
            return np.asarray(g / g.sum(axis=1, keepdims=True))
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
        if family in (codes.NORMALISED, codes.REWEIGHTED):
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
        if family == codes.NORMMAX:
            return self._normmax_derivatives(chi, c)
        return self._projected_derivatives(chi, c)

    def _ordered_derivatives(
        self, chi: FloatArray, c: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the derivatives of stick-breaking; a weight does not depend on earlier tokens."""
        value, share = self.weights(chi), special.expit(chi)
        position = np.argsort(self._order(chi.shape[1]))
        before = position[:, None] < position  # [j, ℓ]: token j comes before ℓ
        jacobian = diag(value * special.expit(-chi)) - before * outer(value, share)
        slope = np.einsum("njl,nj->nl", jacobian, c)
        mixed = before * outer(slope, share)
        bend = diag(slope * (1.0 - 2.0 * share)) - mixed - mixed.swapaxes(1, 2)
        return value, jacobian, bend

    def _above_threshold(self, chi: FloatArray) -> tuple[FloatArray, ...]:
        """Return ``h(u)`` and three derivatives at the threshold where ``Σh`` is the budget."""
        family, _, budget, power, _, width = self.numbers
        budget = budget if family == codes.PROJECTION else 1.0
        x = chi / power if family == codes.PROJECTION else chi
        rank = min(int(budget), x.shape[1])
        high = np.partition(x, -rank, axis=1)[:, -rank, None]
        tau = low = np.full_like(high, -1.0 - width)
        top = np.full_like(high, width)
        for _ in range(60 if rank < x.shape[1] or budget == 1.0 else 0):
            height, slope = (
                part.sum(axis=1, keepdims=True) for part in _rise(x - high - tau, self.numbers)[:2]
            )
            heavy = height >= budget
            low, top = np.where(heavy, tau, low), np.where(heavy, top, tau)
            ahead = tau + (height - budget) / np.maximum(slope, 1e-300)
            inside = ((ahead >= low) & (ahead < top)) | (np.abs(ahead - tau) < 1e-15)
            last, tau = tau, np.where(inside, ahead, 0.5 * (low + top))
            if np.abs(tau - last).max(initial=0.0) < 1e-15:
                break
        return _rise(x - high - tau, self.numbers)

    def _projected_derivatives(
        self, chi: FloatArray, c: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the derivatives of a projection, zero where a weight is 0 or cut at 1."""
        power = self.numbers[3]
        value, first, second, _ = self._above_threshold(chi)
        first, second = first / power, second / power**2
        mass = first.sum(axis=1, keepdims=True)
        mass = np.where(mass > 0.0, mass, 1.0)  # every weight is 0 or 1: they do not move
        p = first / mass
        away = np.eye(chi.shape[1]) - p[:, None, :]  # [j, ℓ]: δ_jℓ − π_ℓ
        slope_first = second[..., None] * away  # the Jacobian of ψ
        slope_p = (slope_first - outer(p, slope_first.sum(axis=1))) / mass[..., None]
        bend = away.swapaxes(1, 2) @ (c[..., None] * slope_first)
        bend -= dot(c, first)[..., None] * slope_p
        return value, diag(first) - outer(first, p), bend

    def _normmax_derivatives(
        self, chi: FloatArray, c: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the derivatives of ``g/Σg``, ``g`` the slope of ``h``, by the quotient rule."""
        _, g, first, second = self._above_threshold(chi)
        mass = g.sum(axis=1, keepdims=True)[..., None]
        value = g / mass[..., 0]
        # ∂u_i/∂χ_ℓ = δ_iℓ − σ_ℓ, as σ is the gradient of the threshold
        away = np.eye(chi.shape[1]) - value[:, None, :]
        slope = first[..., None] * away
        jacobian = (slope - outer(value, slope.sum(axis=1))) / mass
        rest = c - dot(c, value)
        bend = away.swapaxes(1, 2) @ ((rest * second)[..., None] * away)
        bend -= dot(rest, first)[..., None] * jacobian
        down = outer(slope.sum(axis=1), np.einsum("njl,nj->nl", jacobian, c))
        return value, jacobian, (bend - down - down.swapaxes(1, 2)) / mass
