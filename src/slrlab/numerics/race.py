r"""Who wins a softmax whose scores are known up to Gaussian noise.

``π_ε(ω) = E softmax(νχ)_ε`` over ``χ ~ N(ω, V)``. With ``t = e^{−νw}`` the Laplace trick reads
``π_ε = ∫dw f(w−ω_ε) Π_{m≠ε} F(w−ω_m)``: a race of independent tokens, ``F`` the law of
``χ + Gumbel/ν``, ``f = F'``. At infinite signal the Gumbel part is gone and ``F`` is a normal law:
one formula serves every signal. Shifting all ``ω`` changes nothing, so the derivatives need only
the meeting densities ``J_{εm} = ∫dw f_ε f_m Π F``, ``∂_m π_ε = −J_{εm}``. It is the posterior of
the location in max-SLR; this module knows a signal and a variance only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from slrlab._types import FloatArray
from slrlab.numerics.lognormal import LognormalTable

_TABLE_STEP = 0.004  # linear interpolation: error step²/8
_RULE = 0.5  # step of the rule in w, in widths of the race: error below 1e-6
_ROUGH = 1e-300


@dataclass(frozen=True)
class Race:
    """``F`` and ``f`` of one token, tabulated against ``w − ω``, and the rule over ``w``.

    ``offsets`` are measured from the largest ``ω``, where the race is decided.
    """

    start: float
    step: float
    law: FloatArray
    density: FloatArray
    offsets: FloatArray

    @classmethod
    def build(cls, signal: float, gap: float) -> Race:
        """Return the race at signal ``ν > 0`` and variance ``gap > 0`` of the scores."""
        std = math.sqrt(gap)
        if math.isinf(signal):
            grid = np.arange(-9.0, 9.0 + _TABLE_STEP, _TABLE_STEP)
            density = np.exp(-(grid**2) / 2.0) / (std * math.sqrt(2.0 * math.pi))
            offsets = np.arange(-5.5, 5.5, _RULE) * std
            step = _TABLE_STEP * std
            return cls(-9.0 * std, step, special.ndtr(grid), density, offsets)
        # in units of 1/ν: log T = −ν(w − ω) + νσn, so F = E e^{−T} and f = ν·E[T e^{−T}]
        a = signal * std
        low, high = -(7.0 * a + 5.0), 7.0 * a + 25.0
        table = LognormalTable.build(a, -high, -low)
        grid = np.arange(low, high, _TABLE_STEP * max(1.0, a))
        missing, one, _ = table(-grid)
        step = float(grid[1] - grid[0]) / signal
        offsets = np.arange(-5.5 * a - 3.5, 5.5 * a + 15.0, _RULE * math.hypot(1.0, a)) / signal
        return cls(low / signal, step, 1.0 - missing, signal * one, offsets)

    def _read(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``F`` and ``f`` at ``w``, linearly interpolated."""
        position = np.clip((w - self.start) * (1.0 / self.step), 0.0, self.law.size - 1.001)
        index = position.astype(np.intp)
        position -= index
        law, density = self.law[index], self.density[index]
        index += 1
        law += position * (self.law[index] - law)
        density += position * (self.density[index] - density)
        return law, density

    @property
    def nodes(self) -> int:
        """Nodes of the rule over ``w``."""
        return self.offsets.size

    def posterior(self, fields: FloatArray) -> FloatArray:
        """Return ``π`` for fields ``(samples, L)``."""
        return self._meetings(fields)[0]

    def log_derivatives(self, fields: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``π`` and ``∂ log π_ε/∂ω_m``, an array ``(samples, ε, m)``."""
        pi, meet = self._meetings(fields)
        jacobian = -meet
        index = np.arange(pi.shape[1])
        jacobian[:, index, index] = 0.0
        jacobian[:, index, index] = -jacobian.sum(axis=2)
        return pi, np.asarray(jacobian / np.maximum(pi, _ROUGH)[:, :, None])

    def _meetings(self, fields: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``π`` and the meeting densities ``J``."""
        ends = fields.max(axis=1)
        w = ends[:, None, None] - fields[:, :, None] + self.offsets
        law, hazard = self._read(w)
        np.maximum(law, _ROUGH, out=law)
        hazard /= law
        together = np.prod(law, axis=1)
        weighted = hazard * together[:, None, :]
        step = float(self.offsets[1] - self.offsets[0])
        pi = step * weighted.sum(axis=2)
        meet = step * np.matmul(weighted, hazard.transpose(0, 2, 1))
        return pi / pi.sum(axis=1, keepdims=True), meet
