r"""The output channel of tilted tasks at given overlaps, by quadrature, for any length law.

Let ``R(ω)`` be the average of the density ratio over ``χ ~ N(ω, V_k)``, ``ω_χ = √q_k·n`` and
``r = (y − ω_z)/s``. The posterior weight of a token is ``ψ = R·e^{−r²/2}``. The law of the relevant
token is ``ψ`` times that of the others, and the joint density of label and fields is ``Z`` times a
product, so that

``E Σ_ℓ P_ℓ² h_ℓ = ∫dy E_0[ψ_1² h_1 / Σψ]``,

which Laplace's trick turns into one-token integrals. They factorise: the average over ``n`` is a
function of ``u − r²/2`` alone, tabulated, and the average over ``r`` is a matrix product.
"""

# notation: docs/notation.md, "Laplace variables" and "Finite samples"
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, Self

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.tasks import TiltedTask
from slrlab.numerics.lognormal import LognormalTable
from slrlab.numerics.simplex import STEP, LaplaceGrid, independent_moments, log_expectation
from slrlab.numerics.smoothed import smoothed
from slrlab.theory.bayes_optimal.overlaps import BayesOverlaps, ChannelMoments
from slrlab.theory.moments.nodes import NODE_STEP

DEPTH = 31.0  # integrands are cut off below e^{−31}
REACH = 8.8  # largest r: weights beyond are e^{−39} of the relevant one
_EDGE = 8.2  # largest label, in standard deviations
_KEY_EDGE = 8.6  # largest n
_LABEL_STEP = 0.36
_R_STEP = 0.14  # the step of K_0(u − r²/2) at r = √(2u) has width 1/r, but a weight e^{−u}
_NARROW = 0.04  # √q_v/s below which a few Gauss–Hermite nodes in ω_z suffice
_HERMITE = np.polynomial.hermite_e.hermegauss(10)
_RESOLUTIONS = (1.0, 1.35)
_CENTRED = 1e-9  # mean of the relevant score that counts as zero


@dataclass(frozen=True)
class TokenLaw:
    """The key of one token at given overlaps.

    Attributes
    ----------
    grid
        Builds the grid of ``u = log t`` and the table of ``E_0[1−e^{−T}]``, ``E_0[T e^{−T}]``,
        ``E_0[T² e^{−T}]``, ``log T = x + log R + log_norm``; a fourth column, if any, is
        ``E_0[T² h e^{−T}]``, ``h = (∂ log R)²``.
    log_norm
        Logarithm of the weights of the table, minus ``log R``.
    log_ratio, key
        ``E log R`` and ``E h`` of the relevant token.
    certain
        Whether the key alone determines the location.
    """

    grid: Callable[[], tuple[FloatArray, LognormalTable]]
    log_norm: float
    log_ratio: float
    key: float
    certain: bool = False


@dataclass(frozen=True)
class TokenIntegrals:
    """Averages over one irrelevant token, on a grid of ``(log t, y)``, times ``e^{−u−log_norm}/s``.

    ``missing`` alone has no such factor: it is ``E_0[1 − e^{−tψ}]`` itself. ``key`` is None where
    ``h`` is a constant.
    """

    missing: FloatArray
    one: FloatArray
    two: FloatArray
    two_r2: FloatArray
    key: FloatArray | None


@dataclass(frozen=True)
class ChannelIntegrals:
    """``E P_ε``, ``E(1−P_ε)``, ``E ΣP²h`` (None if constant), ``E ΣP²r²``, ``E log(Σψ/ψ_ε)``."""

    location: float
    rest: float
    key: float | None
    value: float
    entropy: float


def token_integrals(
    table: LognormalTable,
    u: FloatArray,
    y: FloatArray,
    overlaps: BayesOverlaps,
    s: float,
    resolution: float,
) -> TokenIntegrals:
    """Return the averages over ``n`` and ``ω_z`` of one irrelevant token."""
    std = math.sqrt(overlaps.q_v)
    if std <= _NARROW * s:
        return _narrow_integrals(table, u, y, std, s)
    step = min(_R_STEP, 0.5 * std / s) / resolution
    r = np.arange(0.0, REACH + step, step)
    missing, one, two, *key = table(u[:, None] - r**2 / 2.0)
    # both signs of r, with the density of ω_z = y ± s·r
    law = np.exp(-((y + s * r[:, None]) ** 2) / (2.0 * std**2))
    law += np.exp(-((y - s * r[:, None]) ** 2) / (2.0 * std**2))
    law *= step / (std * math.sqrt(2.0 * math.pi))
    law[0] /= 2.0
    return TokenIntegrals(
        s * (missing @ law),
        one @ law,
        two @ law,
        (two * r**2) @ law,
        key[0] @ law if key else None,
    )


def _narrow_integrals(
    table: LognormalTable, u: FloatArray, y: FloatArray, std: float, s: float
) -> TokenIntegrals:
    """Return the averages where ``ω_z`` moves ``r`` by less than `_NARROW`."""
    nodes, weights = _HERMITE
    weights = weights / math.sqrt(2.0 * math.pi)
    r2 = ((y[:, None] - std * nodes) / s) ** 2
    missing, one, two, *key = table(u[:, None, None] - r2 / 2.0)
    return TokenIntegrals(
        missing @ weights,
        one @ weights / s,
        two @ weights / s,
        (two * r2) @ weights / s,
        key[0] @ weights / s if key else None,
    )


@dataclass(frozen=True)
class KeyNodes:
    """Nodes of ``n``: weights of other and of relevant tokens, ``log R`` and its slope in ``ω``."""

    n: FloatArray
    others: FloatArray
    relevant: FloatArray
    log_ratio: FloatArray
    slope: FloatArray


@dataclass(frozen=True)
class TiltedChannel:
    """Moments of the channel on grids finer by the factor ``resolution`` than the default."""

    task: TiltedTask
    resolution: float = 1.0
    accuracy: float = 1e-11

    sampled: ClassVar[bool] = False

    @classmethod
    def for_fixed_points(cls, task: TiltedTask) -> tuple[Self, Self]:
        """Return a coarse and a fine channel."""
        # the curve need not be accurate: Newton's method then converges on both grids
        return cls(task, _RESOLUTIONS[0], accuracy=1e-6), cls(task, _RESOLUTIONS[1])

    @classmethod
    def for_thresholds(cls, task: TiltedTask) -> list[Self]:
        """Return the channel of the curve, then one that gives its error."""
        return [cls(task, resolution, accuracy=1e-9) for resolution in _RESOLUTIONS]

    @classmethod
    def for_paths(cls, task: TiltedTask) -> list[Self]:
        """Return two grids, the finer first."""
        return [cls(task, resolution) for resolution in reversed(_RESOLUTIONS)]

    @classmethod
    def known_key(cls, task: TiltedTask) -> float | None:
        """Return ``M_k`` where the location is known and ``M_k`` a constant; None elsewhere."""
        return math.inf if math.isinf(task.signal) else None

    @cached_property
    def blind(self) -> bool:
        """Whether ``M_k = 0`` at ``q_k = 0``: the relevant score has mean zero."""
        return abs(self.task.relevant_moments()[0]) < _CENTRED

    def moments(self, overlaps: BayesOverlaps) -> ChannelMoments:
        """Return ``M_k``, ``s²M_v`` and ``E log Z``."""
        law, s = self._law(overlaps), math.sqrt(overlaps.variance_v + self.task.noise**2)
        alone = self._relevant_log_z(law, s)
        if law.certain or self.task.length.longest == 1 or s == 0.0:
            return ChannelMoments(law.key, 1.0, alone)
        sums = self._integrals(law, overlaps, s)
        key = law.key * sums.location if sums.key is None else sums.key
        return ChannelMoments(key, sums.value, alone + sums.entropy)

    def confusion(self, overlaps: BayesOverlaps) -> float:
        """Return ``1 − E Σ p_ℓ²``: the Bayes risk of tokens with the density ratio ``R``."""
        nodes = self._nodes(overlaps)
        sums = independent_moments(
            nodes.log_ratio,
            nodes.relevant,
            nodes.others,
            self.task.length.generating,
            grid=LaplaceGrid(STEP / self.resolution),
        )
        # Σp² = p_ε² + Σ_{ℓ≠ε} p_ℓ²
        return 2.0 * sums.shortfall - sums.shortfall_square - sums.off_target

    def scramble_moments(self, overlaps: BayesOverlaps) -> None:
        """Return None: a quadrature has no scrambles."""

    def _law(self, overlaps: BayesOverlaps) -> TokenLaw:
        nodes = self._nodes(overlaps)
        mean, key = (float(nodes.relevant @ part) for part in (nodes.log_ratio, nodes.slope**2))
        return TokenLaw(partial(self._grid_of, nodes), 0.0, mean, key)

    def _grid_of(self, nodes: KeyNodes) -> tuple[FloatArray, LognormalTable]:
        likely = nodes.relevant > math.exp(-DEPTH) * nodes.relevant.max()
        top = float(nodes.log_ratio[likely].max())
        left = -top - DEPTH - math.log(self.task.length.longest)
        # a weight below e^{−u} costs a relevant token n²/2 − log R, and r²/2 for the rest
        right = 3.0 + DEPTH - float((nodes.n[likely] ** 2).min()) / 2.0
        step = STEP / self.resolution
        u = np.arange(left, right + step, step)
        # below e^{−38} the weights of all tokens together are negligible
        low = max(left - REACH**2 / 2.0, -float(nodes.log_ratio.max()) - 38.0)
        laws = np.stack([nodes.others, nodes.others * nodes.slope**2])
        return u, LognormalTable.of_nodes(nodes.log_ratio, laws, low, float(u[-1]), self.resolution)

    def _nodes(self, overlaps: BayesOverlaps) -> KeyNodes:
        task, root, noise = self.task, math.sqrt(overlaps.q_k), math.sqrt(overlaps.variance_k)
        low, high = task.relevant_interval
        step = NODE_STEP / (max(1.0, root * task.steepness) * self.resolution)
        ends = (root * low - noise * _KEY_EDGE, root * high + noise * _KEY_EDGE)
        n = np.arange(min(ends[0], -_KEY_EDGE), max(ends[1], _KEY_EDGE) + step, step)
        ratio = smoothed(
            task.log_ratio,
            root * n,
            overlaps.variance_k,
            interval=task.relevant_interval,
            steepness=task.steepness,
            resolution=self.resolution,
        )
        normal = -(n**2) / 2.0 + math.log(step / math.sqrt(2.0 * math.pi))
        others, relevant = np.exp(normal), np.exp(normal + ratio.log)
        kept = (others > 1e-20) | (relevant > 1e-20)
        return KeyNodes(*(part[kept] for part in (n, others, relevant, ratio.log, ratio.slope)))

    def _relevant_log_z(self, law: TokenLaw, s: float) -> float:
        """Return ``E log Z`` without the other tokens: ``E log(ψ_ε/L)``, ``ψ`` normalised."""
        log_length = math.fsum(p * math.log(n) for n, p in self.task.length.pairs())
        sharpness = math.inf if s == 0.0 else -math.log(s)
        return law.log_ratio - 0.5 + sharpness - 0.5 * math.log(2.0 * math.pi) - log_length

    def _integrals(self, law: TokenLaw, overlaps: BayesOverlaps, s: float) -> ChannelIntegrals:
        u, table = law.grid()
        y, weights = self._labels()
        token = token_integrals(table, u, y, overlaps, s, self.resolution)
        missing = np.minimum(token.missing, 1.0)
        g0, g1, _ = self.task.length.generating(log_expectation(1.0 - missing, missing))
        # E_0[ψ e^{−tψ}] = e^{−u}·E_0[T e^{−T}] is the factor of the relevant token
        scale = np.exp(-u - law.log_norm) * ((u[1] - u[0]) / math.sqrt(2.0 * math.pi))
        others = s * token.one * g1  # E_0[T e^{−T}] of one of the other tokens

        def total(row: FloatArray) -> float:
            return float(scale @ row @ weights)

        return ChannelIntegrals(
            location=total(token.two * g0),
            rest=total(token.one * others),
            key=None if token.key is None else total(token.key * g0),
            value=total(token.two_r2 * g0),
            entropy=total(token.one * (1.0 - g0)),
        )

    def _labels(self) -> tuple[FloatArray, FloatArray]:
        """Return nodes ``y >= 0`` and weights of ``∫dy`` over both signs."""
        step = _LABEL_STEP / self.resolution
        y = np.arange(0.0, _EDGE + step, step) * math.sqrt(self.task.trivial_risk)
        weights = np.full(y.size, 2.0 * (y[1] - y[0]))
        weights[0] /= 2.0
        return y, weights
