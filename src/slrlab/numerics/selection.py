r"""Moments of ``φ_ε/(b + Σφ)`` when ``ε`` is drawn from weights ``w`` of the same tokens.

The probability ``w_ε/Σw`` brings a second Laplace variable ``s``; one-token expectations become
matrices over ``(log s, log t)``, each the product of a matrix that depends on ``w`` (a *kernel*)
and one that depends on ``φ`` (a *decay*). At infinite signal the kernel is a step: the location is
the argmax, ``s`` becomes the value of the maximum and the matrix product a cumulative sum.
"""

# notation: docs/notation.md, "Laplace variables"
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import special

from slrlab._types import FloatArray
from slrlab.numerics.graded import panels, running_matrix
from slrlab.numerics.lognormal import LognormalTable
from slrlab.numerics.simplex import Generating

_ROOT_2PI = np.sqrt(2.0 * np.pi)
_UNDERFLOW, _DECAYED = -745.0, 10.0  # ends of log t in a table of decays
_LEGENDRE = np.polynomial.legendre.leggauss(6)


@dataclass(frozen=True)
class Decay:
    """``E[1−e^{−T}]`` and ``E[T e^{−T}]`` per node (rows) and ``log t`` (columns)."""

    missing: FloatArray
    one: FloatArray


class SelectionKernel(Protocol):
    """One-token sums over nodes, for each value of the selection variable.

    ``survive`` sums with the weight that the token was not selected, ``pick`` with the density
    that it was; ``missing`` is ``1 − survive(1)`` without cancellation; ``weights`` integrate
    over the selection variable.
    """

    @property
    def weights(self) -> FloatArray: ...

    @property
    def missing(self) -> FloatArray: ...

    def survive(self, matrix: FloatArray) -> FloatArray: ...

    def pick(self, matrix: FloatArray) -> FloatArray: ...


@dataclass(frozen=True)
class SoftKernel:
    """Kernel of a finite signal: ``S = s·w(x)`` on nodes with Gaussian weights."""

    weights: FloatArray
    missing: FloatArray
    stay: FloatArray
    go: FloatArray

    @classmethod
    def build(
        cls, u: FloatArray, weights: FloatArray, log_w: FloatArray, law: FloatArray
    ) -> SoftKernel:
        """Return the kernel on a grid of ``u = log s`` for nodes of weight ``law``."""
        race = np.exp(np.minimum(u[:, None] + log_w, 700.0))
        gone = -np.expm1(-race)
        stay = (1.0 - gone) * law
        return cls(weights, gone @ law, stay, race * stay)

    def survive(self, matrix: FloatArray) -> FloatArray:
        return np.asarray(self.stay @ matrix)

    def pick(self, matrix: FloatArray) -> FloatArray:
        return np.asarray(self.go @ matrix)


@dataclass(frozen=True)
class BandKernel:
    """Kernel of a large finite signal, ``w = e^{signal·x}``, on uniform nodes.

    Tokens far below the step at ``x = value`` survive for certain and tokens above never do: only a
    band of nodes needs more than a running sum. Rows differ by a shift only, so one small matrix,
    moved along the nodes, is enough.
    """

    weights: FloatArray
    missing: FloatArray
    law: FloatArray
    starts: tuple[int, ...]
    stay: FloatArray
    go: FloatArray

    @classmethod
    def build(
        cls, x: FloatArray, law: FloatArray, signal: float, ends: FloatArray, step: float
    ) -> BandKernel:
        """Return the kernel for ``log s`` in ``ends`` at about the given step."""
        node = float(x[1] - x[0])
        stride = max(1, int(step / (signal * node)))
        below, above = math.ceil(42.0 / (signal * node)), math.ceil(4.0 / (signal * node))
        block = max(1, (below + above) // stride)
        first = math.floor((-ends[1] / signal - x[0]) / node)
        last = math.ceil((-ends[0] / signal - x[0]) / node)
        blocks = (last - first) // (stride * block) + 1
        starts = tuple(first - below + stride * block * index for index in range(blocks))
        offset = np.arange((block - 1) * stride + below + above + 1) - below
        shift = offset - stride * np.arange(block)[:, None]
        race = np.exp(np.minimum(signal * node * shift, 700.0))
        stay = np.exp(-race)
        beyond = np.append(np.cumsum(law[::-1])[::-1], 0.0)
        ceiling = [beyond[min(max(s + offset.size, 0), law.size)] for s in starts]
        gone = _slide(-np.expm1(-race), law[:, None], starts)[:, 0]
        weights = np.full(block * blocks, signal * node * stride)
        return cls(weights, gone + np.repeat(ceiling, block), law, starts, stay, race * stay)

    def survive(self, matrix: FloatArray) -> FloatArray:
        rows = self.law[:, None] * matrix
        below = np.concatenate([np.zeros((1, matrix.shape[1])), np.cumsum(rows, axis=0)])
        floor = below[np.clip(self.starts, 0, self.law.size)]
        floors = np.repeat(floor, self.stay.shape[0], axis=0)
        return np.asarray(_slide(self.stay, rows, self.starts) + floors)

    def pick(self, matrix: FloatArray) -> FloatArray:
        return _slide(self.go, self.law[:, None] * matrix, self.starts)


def _slide(small: FloatArray, rows: FloatArray, starts: tuple[int, ...]) -> FloatArray:
    """Return ``small @ rows[start:]`` for each start, stacked; rows outside count as zero."""
    parts = []
    for start in starts:
        low = min(max(start, 0), rows.shape[0])
        high = min(max(start + small.shape[1], low), rows.shape[0])
        parts.append(small[:, low - start : high - start] @ rows[low:high])
    return np.concatenate(parts)


@dataclass(frozen=True)
class HardKernel:
    """Kernel of the argmax: the selection variable is the value of the maximum.

    The nodes are the values themselves, preceded by Gauss–Legendre nodes between consecutive
    values: ``survive`` is a running integral with the accuracy of that rule.
    """

    values: FloatArray
    weights: FloatArray
    missing: FloatArray
    nodes: FloatArray
    inside: FloatArray

    @classmethod
    def build(cls, edge: float, step: float) -> HardKernel:
        """Return the kernel for standard normal scores cut at ``±edge``."""
        values = np.arange(-edge, edge + step, step)
        offset, gauss = (_LEGENDRE[0] + 1.0) / 2.0, _LEGENDRE[1] / 2.0
        between = (values[:, None] - step + step * offset).ravel()
        inside = (np.exp(-(between.reshape(values.size, -1) ** 2) / 2.0) * gauss) * step / _ROOT_2PI
        return cls(
            values,
            np.full(values.size, step),
            special.ndtr(-values),
            np.concatenate([between, values]),
            inside,
        )

    def survive(self, matrix: FloatArray) -> FloatArray:
        between = matrix[: self.inside.size].reshape(*self.inside.shape, -1)
        return np.cumsum(np.einsum("ij,ijk->ik", self.inside, between), axis=0)

    def pick(self, matrix: FloatArray) -> FloatArray:
        density = np.exp(-(self.values**2) / 2.0) / _ROOT_2PI
        return np.asarray(density[:, None] * matrix[self.inside.size :])


@dataclass(frozen=True)
class PanelKernel:
    """Kernel of the argmax on Gauss–Legendre panels of any widths.

    The nodes are the values of the maximum, too: ``survive`` is a running integral, exact for the
    polynomial of each panel.
    """

    weights: FloatArray
    missing: FloatArray
    density: FloatArray
    half: FloatArray
    running: FloatArray

    @classmethod
    def build(cls, edges: FloatArray, resolution: float) -> PanelKernel:
        """Return the kernel for standard normal scores on the nodes of `panels`."""
        nodes, weights = panels(edges, resolution)
        density = np.exp(-(nodes**2) / 2.0) / _ROOT_2PI
        half, running = np.diff(edges) / 2.0, running_matrix(resolution)
        return cls(weights, special.ndtr(-nodes), density, half, running)

    def survive(self, matrix: FloatArray) -> FloatArray:
        rows = self.density[:, None] * matrix
        inside = rows.reshape(self.half.size, -1, matrix.shape[1])
        whole = (self.weights[:, None] * rows).reshape(inside.shape).sum(axis=1)
        before = np.cumsum(whole, axis=0) - whole
        partial = self.half[:, None, None] * (self.running @ inside)
        return np.asarray((before[:, None] + partial).reshape(matrix.shape))

    def pick(self, matrix: FloatArray) -> FloatArray:
        return np.asarray(self.density[:, None] * matrix)


def decay_matrices(u: FloatArray, log_phi: FloatArray, jitter: FloatArray) -> Decay:
    """Return the decay on ``u = log t`` for nodes ``(node, jitter)``, averaged over the jitter."""
    count = log_phi.shape[0]
    missing, one = np.empty((2, count, u.size))
    rows = max(1, (1 << 19) // (log_phi.shape[1] * u.size))
    for start in range(0, count, rows):
        block = slice(start, start + rows)
        t_phi = np.exp(np.minimum(log_phi[block, :, None] + u, 700.0))
        lost = -np.expm1(-t_phi)
        if jitter.size > 1:
            missing[block] = np.einsum("j,ijk->ik", jitter, lost)
            one[block] = np.einsum("j,ijk->ik", jitter, t_phi * (1.0 - lost))
        else:
            missing[block] = lost[:, 0]
            one[block] = (t_phi * (1.0 - lost))[:, 0]
    return Decay(missing, one)


def exponential_decay(u: FloatArray, scores: FloatArray, width: float, resolution: float) -> Decay:
    """Return the decay of ``φ = e^χ`` with jitter of standard deviation ``width`` around scores.

    It depends on the sum of ``log t`` and the score only, so one table gives the whole matrix.
    """
    if width == 0.0:
        return decay_matrices(u, scores[:, None], np.ones(1))
    log_t = scores[:, None] + u
    low, high = max(float(log_t.min()), _UNDERFLOW), float(log_t.max())
    over = _DECAYED * (1.0 + width)  # from here on the decay is complete
    missing, one, _ = LognormalTable.build(width, low, max(low, min(high, over)), resolution)(log_t)
    return Decay(missing, one)


def selection_first_moments(
    kernel: SelectionKernel,
    decay: Decay,
    weights: FloatArray,
    generating: Generating,
    t_sink: FloatArray | float = 0.0,
    *,
    check: bool = True,
) -> tuple[float, float]:
    """Return ``E[σ_ε]`` and ``E[1−σ_ε]``.

    ``weights`` integrate over ``log t``; ``t_sink`` is ``t·b`` on the ``(log s, log t)`` grid.
    With ``check`` the two are computed separately, and add up to 1 only if both are accurate;
    without, the second is 1 minus the first, at half the cost.
    """
    absent = np.minimum(kernel.missing[:, None] + kernel.survive(decay.missing), 1.0 - 1e-16)
    log_z = np.log1p(-absent)
    g0, g1, g2 = generating(log_z)
    z = np.exp(log_z)
    several, pairs = z * g1 + g0, z * g2 + 2.0 * g1  # Σ P(L) L z^(L−1) and Σ P(L) L(L−1) z^(L−2)
    mute = np.exp(-np.asarray(t_sink))
    target = float(kernel.weights @ (mute * kernel.pick(decay.one) * several) @ weights)
    if not check:
        return target, 1.0 - target
    lost = kernel.survive(decay.one) * pairs + t_sink * several
    zero = 1.0 - decay.missing  # only its absolute accuracy matters
    shortfall = kernel.weights @ (mute * kernel.pick(zero) * lost) @ weights
    return target, float(shortfall)
