r"""The output channel of selection tasks at given overlaps, by randomised quasi-Monte Carlo.

Here ``Z = Σ_ε π_ε(ω_χ) N(y; ω_zε, s²)`` with ``π_ε = E[w(χ_ε)/Σw(χ)]`` over ``χ ~ N(ω_χ, V_k)``. It
is not a product of one-token factors, so the averages run over fixed scrambled samples of
``(ω_χ, ω_z, y)``: a smooth function of the overlaps, with an error from the independent scrambles.
"""

# notation: docs/notation.md, "Finite samples"
from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.tasks import MaxSLR, SelectionTask
from slrlab.numerics.qmc import normal_replicates
from slrlab.numerics.race import AnyRace, Race
from slrlab.numerics.weighted_race import WeightedRace
from slrlab.theory.bayes_optimal.overlaps import BayesOverlaps, ChannelMoments, ScrambleMoments

LONGEST = 64
REPLICATES = 8
PATHS = 4
"""Independent samples of a path of message passing."""
_LOG2_SIZES = (10, 14)  # log2 of the samples in each scramble, coarse and fine
_CHUNK = 1 << 18  # entries of one (sample, token, w) block


@dataclass(frozen=True)
class SelectionChannel:
    """Moments of the channel from ``REPLICATES · 2**log2_size`` samples for each length."""

    task: SelectionTask
    log2_size: int = 11
    seed: int = 0
    accuracy: float = 1e-6
    _last: dict[BayesOverlaps, ScrambleMoments] = field(
        default_factory=dict, repr=False, compare=False
    )

    sampled: ClassVar[bool] = True
    blind: ClassVar[bool] = False

    @classmethod
    def for_fixed_points(cls, task: SelectionTask) -> tuple[Self, Self]:
        """Return a coarse and a fine channel."""
        return cls(task, _LOG2_SIZES[0]), cls(task, _LOG2_SIZES[1])

    @classmethod
    def for_thresholds(cls, task: SelectionTask) -> list[Self]:
        """Return the channel of the curve, then those that give its error."""
        return [cls(task, seed=seed) for seed in range(9)]

    @classmethod
    def for_paths(cls, task: SelectionTask) -> list[Self]:
        """Return independent samples."""
        return [cls(task, _LOG2_SIZES[0], seed=seed) for seed in range(PATHS)]

    @classmethod
    def known_key(cls, task: SelectionTask) -> float | None:
        """Return 0 for one token, which gives no information on the keys; None otherwise."""
        return 0.0 if task.length.longest == 1 else None

    def __post_init__(self) -> None:
        if self.task.length.longest > LONGEST:
            raise ValueError(
                f"length must be at most {LONGEST} for a selection task with finite data, "
                f"got {self.task.length}"
            )

    @cached_property
    def _samples(self) -> list[tuple[int, float, FloatArray]]:
        """Standard normals ``(replicate, sample, 2L + 1)`` for each length and its weight."""
        sample = self.log2_size, REPLICATES, self.seed
        return [
            (n, p, np.stack(list(normal_replicates(2 * n + 1, *sample))))
            for n, p in self.task.length.pairs()
        ]

    def moments(self, overlaps: BayesOverlaps) -> ChannelMoments:
        """Return ``M_k``, ``s²M_v`` and ``E log Z``."""
        return self.scramble_moments(overlaps).mean()

    def confusion(self, overlaps: BayesOverlaps) -> float:
        """Return ``1 − E Σ π_ℓ(ω_χ)²``."""
        return float(self.scramble_moments(overlaps).confusion.mean())

    def scramble_moments(self, overlaps: BayesOverlaps) -> ScrambleMoments:
        """Return the moments of each scramble."""
        if overlaps not in self._last:  # risk, error and free entropy need the same point
            self._last.clear()
            self._last[overlaps] = self._scramble_moments(overlaps)
        return self._last[overlaps]

    def _scramble_moments(self, overlaps: BayesOverlaps) -> ScrambleMoments:
        sums = np.zeros((4, REPLICATES))
        race = self._race(overlaps.variance_k)
        for length, weight, normals in self._samples:
            flat = normals.reshape(-1, normals.shape[-1])
            nodes = 1 if race is None else race.nodes
            rows = max(1, _CHUNK // (length * nodes))
            parts = [
                self._rows(flat[start : start + rows], length, overlaps, race)
                for start in range(0, flat.shape[0], rows)
            ]
            sample = np.concatenate(parts, axis=1).reshape(4, REPLICATES, -1)
            sums += weight * sample.mean(axis=2)
        s = math.sqrt(overlaps.variance_v + self.task.noise**2)
        level = math.inf if s == 0.0 else -math.log(s)
        key, value, log_z, confusion = sums
        log_z = log_z - 0.5 + level - 0.5 * math.log(2.0 * math.pi)
        return ScrambleMoments(key, 1.0 + value, log_z, confusion)

    def _race(self, variance: float) -> AnyRace | None:
        """Return the rule for ``π`` at this variance of the keys; None if ``π`` is uniform."""
        if self.task.hard:
            return Race.build(math.inf, variance)
        return WeightedRace.build(self.task.log_weight, self.task.steepness, variance)

    def _rows(
        self, normals: FloatArray, length: int, overlaps: BayesOverlaps, race: AnyRace | None
    ) -> FloatArray:
        """Return ``|g_χ|²``, ``ΣP²r² − n²``, ``log Z`` up to constants, ``1 − Σπ²``: rows."""
        keys = math.sqrt(overlaps.q_k) * normals[:, :length]
        if race is None or length == 1:
            pi = np.full(keys.shape, 1.0 / length)
            fisher = np.zeros((keys.shape[0], length, length))
        else:
            pi, score = race.log_derivatives(keys)
            fisher = np.matmul(score, score.transpose(0, 2, 1))
        label = self._labels(normals[:, length:], pi, fisher, overlaps)
        return np.stack([*label, 1.0 - (pi**2).sum(axis=1)])

    def _labels(
        self, normals: FloatArray, pi: FloatArray, fisher: FloatArray, overlaps: BayesOverlaps
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Average over the location ``ε`` exactly, with its label."""
        s = math.sqrt(overlaps.variance_v + self.task.noise**2)
        length = pi.shape[1]
        values, n = math.sqrt(overlaps.q_v) * normals[:, :length], normals[:, length]
        log_pi = np.log(np.maximum(pi, 1e-300))
        key, value, log_z = np.zeros((3, pi.shape[0]))
        for location in range(length):
            if s == 0.0:  # the label identifies the location
                key += pi[:, location] * fisher[:, location, location]
                log_z += pi[:, location] * log_pi[:, location]
                continue
            r = (values[:, [location]] - values) / s + n[:, None]
            # −½r² + ½n²: the part of the relevant token alone is a constant, added later
            log_psi = log_pi - (r - n[:, None]) * (r + n[:, None]) / 2.0
            top = log_psi.max(axis=1)
            psi = np.exp(log_psi - top[:, None])
            total = psi.sum(axis=1)
            p = psi / total[:, None]
            key += pi[:, location] * np.einsum("si,sij,sj->s", p, fisher, p)
            value += pi[:, location] * (((p * r) ** 2).sum(axis=1) - n**2)
            log_z += pi[:, location] * (np.log(total) + top)
        return key, value, log_z


@dataclass(frozen=True)
class MaxChannel(SelectionChannel):
    """The channel of max-SLR, whose weights are exponentials."""

    task: MaxSLR

    def _race(self, variance: float) -> Race | None:
        return Race.build(self.task.signal, variance) if self.task.signal > 0.0 else None
