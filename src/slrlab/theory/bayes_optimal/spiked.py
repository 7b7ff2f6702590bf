r"""The output channel of spiked-SLR at given overlaps, by quadrature, for any length law.

Up to a factor the posterior weight of a token is ``ψ = e^{a·n − r²/2}``, ``a = √(ν q_k)``, with
``ω_χ = √q_k·n`` and ``r = (y − ω_z)/s``. The law of the relevant token is ``ψ`` times that of the
others, and the joint density of label and fields is ``Z`` times a product, so that

``E Σ_ℓ P_ℓ² h_ℓ = ∫dy E_0[ψ_1² h_1 / Σψ]``,

which the Laplace trick turns into one-token integrals. They factor: the average over ``n`` is a
function of ``u − r²/2`` alone, read from a table, and the average over ``r`` is a matrix product.
"""

# notation: docs/notation.md, "Laplace variables" and "Finite samples"
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.tasks import SpikedSLR
from slrlab.numerics.lognormal import LognormalTable
from slrlab.numerics.simplex import STEP, log_expectation
from slrlab.theory.bayes_optimal.overlaps import ChannelMoments, Overlaps
from slrlab.theory.moments.nodes import laplace_step
from slrlab.theory.population.bayes_risk import bayes_risk

_DEPTH = 31.0  # integrands are followed down to e^{−31}
_EDGE = 8.2  # of the label, in its standard deviations
_REACH = 8.8  # of r: weights beyond are e^{−39} of the relevant one
_LABEL_STEP = 0.36
_R_STEP = 0.14  # the step of K_0(u − r²/2) at r = √(2u) has width 1/r, but a share e^{−u}
_NARROW = 0.04  # √q_v/s below which a few Gauss–Hermite nodes in ω_z do
_CERTAIN = 20.0  # a beyond which the place is known up to e^{−a²/4}
_NEGLIGIBLE = 2500.0  # signal beyond which the Bayes risk, e^{−ν/4}, is below 1e-250
_HERMITE = np.polynomial.hermite_e.hermegauss(10)


@dataclass(frozen=True)
class TokenIntegrals:
    """Averages over one irrelevant token, on a grid of ``(log t, y)``, times ``e^{−u−a²/2}/s``.

    ``missing`` alone has no such factor: it is ``E_0[1 − e^{−tψ}]`` itself.
    """

    missing: FloatArray
    one: FloatArray
    two: FloatArray
    two_r2: FloatArray


def laplace_nodes(task: SpikedSLR, a: float, level: float) -> FloatArray:
    """Return the grid of ``u = log t``; it follows the relevant token, ``log ψ ~ N(a², a²)``."""
    left = -(a**2) - math.sqrt(2.0 * _DEPTH) * a - _DEPTH - math.log(task.length.longest)
    # to the right, log ψ_ε < −u is cheapest by r² alone while a is small, by n alone later
    slack = _DEPTH - a**2 / 2.0
    right = 3.0 + (slack if slack > 0.0 else math.sqrt(2.0 * _DEPTH) * a - a**2)
    step = max(STEP, laplace_step(a, task.length.longest)) / level
    return np.arange(left, right + step, step)


def label_nodes(task: SpikedSLR, level: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes ``y >= 0`` and weights of ``∫dy`` over both signs."""
    step = _LABEL_STEP / level
    y = np.arange(0.0, _EDGE + step, step) * math.sqrt(task.trivial_risk)
    weights = np.full(y.size, 2.0 * (y[1] - y[0]))
    weights[0] /= 2.0
    return y, weights


def token_integrals(
    table: LognormalTable, u: FloatArray, y: FloatArray, overlaps: Overlaps, s: float, level: float
) -> TokenIntegrals:
    """Return the averages over ``n`` and ``ω_z`` of one irrelevant token."""
    spread = math.sqrt(overlaps.q_v)
    if spread <= _NARROW * s:
        return _narrow_integrals(table, u, y, spread, s)
    step = min(_R_STEP, 0.5 * spread / s) / level
    r = np.arange(0.0, _REACH + step, step)
    missing, one, two = table(u[:, None] - r**2 / 2.0)
    # both signs of r, with the density of ω_z = y ± s·r
    law = np.exp(-((y + s * r[:, None]) ** 2) / (2.0 * spread**2))
    law += np.exp(-((y - s * r[:, None]) ** 2) / (2.0 * spread**2))
    law *= step / (spread * math.sqrt(2.0 * math.pi))
    law[0] /= 2.0
    return TokenIntegrals(s * (missing @ law), one @ law, two @ law, (two * r**2) @ law)


def _narrow_integrals(
    table: LognormalTable, u: FloatArray, y: FloatArray, spread: float, s: float
) -> TokenIntegrals:
    """Return the averages where ``ω_z`` moves ``r`` by less than `_NARROW`."""
    nodes, weights = _HERMITE
    weights = weights / math.sqrt(2.0 * math.pi)
    r2 = ((y[:, None] - spread * nodes) / s) ** 2
    missing, one, two = table(u[:, None, None] - r2 / 2.0)
    return TokenIntegrals(
        missing @ weights, one @ weights / s, two @ weights / s, (two * r2) @ weights / s
    )


@dataclass(frozen=True)
class SpikedChannel:
    """Moments of the channel on grids finer by ``level`` than the default."""

    task: SpikedSLR
    level: float = 1.0
    accuracy: float = 1e-11

    def moments(self, overlaps: Overlaps) -> ChannelMoments:
        """Return ``M_k``, ``s²M_v`` and ``E log Z``."""
        nu, law = self.task.signal, self.task.length
        a = math.sqrt(nu * overlaps.q_k)
        s = math.sqrt(overlaps.gap_v + self.task.noise**2)
        if a > _CERTAIN or law.longest == 1 or s == 0.0:
            return ChannelMoments(nu, 1.0, self._relevant_log_z(a, s))
        first, _, value, confusion = self._integrals(overlaps, a, s)
        return ChannelMoments(nu * first, value, self._relevant_log_z(a, s) + confusion)

    def confusion(self, overlaps: Overlaps) -> float:
        """Return the noiseless Bayes risk at signal ``ν·q_k``: what ``ω_χ`` leaves open."""
        signal = self.task.signal * overlaps.q_k
        if signal > _NEGLIGIBLE:
            return 0.0
        return bayes_risk(SpikedSLR(signal, self.task.length)).risk

    def scatter(self, overlaps: Overlaps) -> None:
        """Return nothing: a quadrature has no scatter."""

    def place_defect(self, overlaps: Overlaps) -> float:
        """Return ``|E P_ε + E(1 − P_ε) − 1|``, two different integrals: a check of both."""
        a = math.sqrt(self.task.signal * overlaps.q_k)
        s = math.sqrt(overlaps.gap_v + self.task.noise**2)
        first, rest, _, _ = self._integrals(overlaps, a, s)
        return abs(first + rest - 1.0)

    def _relevant_log_z(self, a: float, s: float) -> float:
        """Return ``E log Z`` if no other token competed: ``E log(ψ_ε/L)``, ``ψ`` normalised."""
        law = self.task.length
        log_length = math.fsum(
            p * math.log(n) for n, p in zip(law.lengths, law.probabilities, strict=True)
        )
        spread = math.inf if s == 0.0 else -math.log(s)
        return a**2 / 2.0 - 0.5 + spread - 0.5 * math.log(2.0 * math.pi) - log_length

    def _integrals(self, overlaps: Overlaps, a: float, s: float) -> tuple[float, ...]:
        """Return ``E P_ε``, ``E(1−P_ε)``, ``E ΣP²r²`` and ``E log(Σψ/ψ_ε)``."""
        u = laplace_nodes(self.task, a, self.level)
        y, weights = label_nodes(self.task, self.level)
        table = LognormalTable.build(a, float(u[0]) - _REACH**2 / 2.0, float(u[-1]), self.level)
        token = token_integrals(table, u, y, overlaps, s, self.level)
        missing = np.minimum(token.missing, 1.0)
        g0, g1, _ = self.task.length.generating(log_expectation(1.0 - missing, missing))
        # E_0[ψ e^{−tψ}] = e^{−u}·E_0[T e^{−T}] is the relevant token's share of the label density
        scale = np.exp(-u - a**2 / 2.0) * ((u[1] - u[0]) / math.sqrt(2.0 * math.pi))
        others = s * token.one * g1  # E_0[T e^{−T}] of one of the other tokens
        rows = (token.two * g0, token.one * others, token.two_r2 * g0, token.one * (1.0 - g0))
        return tuple(float(scale @ row @ weights) for row in rows)
