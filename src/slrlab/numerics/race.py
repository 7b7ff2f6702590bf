r"""Expectation of a softmax of scores with Gaussian noise, as a race between tokens.

``π_ε(ω) = E softmax(νχ)_ε`` over ``χ ~ N(ω, V)``. With ``t = e^{−νw}`` the Laplace trick reads
``π_ε = ∫dw f(w−ω_ε) Π_{m≠ε} F(w−ω_m)``: a race of independent tokens, ``F`` the law of
``χ + Gumbel/ν``, ``f = F'``. At infinite signal the Gumbel part vanishes and ``F`` is a normal law:
one formula holds for every signal. It is the posterior of the location in max-SLR; this module
knows a signal and a variance only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy import special

from slrlab._types import FloatArray
from slrlab.numerics.lognormal import LognormalTable

Factors: TypeAlias = tuple[FloatArray, FloatArray, Callable[[], FloatArray]]
_TABLE_STEP = 0.004  # linear interpolation: error step²/8
_RULE = 0.5  # step of the rule in w, in widths of the race: error below 1e-6
TINY = 1e-300


class AnyRace(ABC):
    """Probabilities ``π_ε = ∫dw f(w, ω_ε) Π_{m≠ε} F(w, ω_m)`` by a rule of given ``step``."""

    step: float

    @property
    @abstractmethod
    def nodes(self) -> int:
        """Largest number of nodes of the rule."""

    @abstractmethod
    def _factors(self, fields: FloatArray) -> Factors:
        """Return ``F``, ``f/F`` and a function that returns ``∂ log F/∂ω``, at all nodes."""

    def posterior(self, fields: FloatArray) -> FloatArray:
        """Return ``π`` for fields ``(samples, L)``."""
        law, hazard, _ = self._factors(fields)
        pi = (hazard * np.prod(law, axis=1)[:, None, :]).sum(axis=2)
        return np.asarray(pi / pi.sum(axis=1, keepdims=True))

    def log_derivatives(self, fields: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``π`` and ``∂ log π_ε/∂ω_m``, an array ``(samples, ε, m)``."""
        law, hazard, slope = self._factors(fields)
        weighted = hazard * np.prod(law, axis=1)[:, None, :]
        pi = self.step * weighted.sum(axis=2)
        jacobian = self.step * np.matmul(weighted, slope().transpose(0, 2, 1))
        # the sum of all π is 1 for all fields
        index = np.arange(fields.shape[1])
        jacobian[:, index, index] = 0.0
        jacobian[:, index, index] = -jacobian.sum(axis=1)
        pi /= pi.sum(axis=1, keepdims=True)
        return pi, np.asarray(jacobian / np.maximum(pi, TINY)[:, :, None])


@dataclass(frozen=True)
class Race(AnyRace):
    """``F`` and ``f`` of one token, tabulated against ``w − ω``, and the rule over ``w``.

    ``offsets`` are measured from the largest ``ω``, where the race is decided.
    """

    start: float
    table_step: float
    law: FloatArray
    density: FloatArray
    offsets: FloatArray
    step: float

    @classmethod
    def build(cls, signal: float, variance: float) -> Race:
        """Return the race at signal ``ν > 0`` and a variance ``V > 0`` of the scores."""
        std = math.sqrt(variance)
        if math.isinf(signal):
            grid = np.arange(-9.0, 9.0 + _TABLE_STEP, _TABLE_STEP)
            density = np.exp(-(grid**2) / 2.0) / (std * math.sqrt(2.0 * math.pi))
            offsets = np.arange(-5.5, 5.5, _RULE) * std
            table = (-9.0 * std, _TABLE_STEP * std, special.ndtr(grid), density)
            return cls(*table, offsets, float(offsets[1] - offsets[0]))
        # in units of 1/ν: log T = −ν(w − ω) + νσn, so F = E e^{−T} and f = ν·E[T e^{−T}]
        a = signal * std
        low, high = -(7.0 * a + 5.0), 7.0 * a + 25.0
        grid = np.arange(low, high, _TABLE_STEP * max(1.0, a))
        missing, one, _ = LognormalTable.build(a, -high, -low)(-grid)
        table_step = float(grid[1] - grid[0]) / signal
        offsets = np.arange(-5.5 * a - 3.5, 5.5 * a + 15.0, _RULE * math.hypot(1.0, a)) / signal
        table = (low / signal, table_step, 1.0 - missing, signal * one)
        return cls(*table, offsets, float(offsets[1] - offsets[0]))

    def _read(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``F`` and ``f`` at ``w``, linearly interpolated."""
        position = np.clip((w - self.start) * (1.0 / self.table_step), 0.0, self.law.size - 1.001)
        index = position.astype(np.intp)
        position -= index
        law, density = self.law[index], self.density[index]
        index += 1
        law += position * (self.law[index] - law)
        density += position * (self.density[index] - density)
        return law, density

    @property
    def nodes(self) -> int:
        return self.offsets.size

    def _factors(self, fields: FloatArray) -> Factors:
        ends = fields.max(axis=1)
        w = ends[:, None, None] - fields[:, :, None] + self.offsets
        law, hazard = self._read(w)
        np.maximum(law, TINY, out=law)
        hazard /= law
        return law, hazard, lambda: -hazard
