r"""The output channel of max-SLR at given overlaps, by randomised quasi-Monte Carlo.

Here ``Z = Σ_ε π_ε(ω_χ) N(y; ω_zε, s²)`` with the place posterior of `slrlab.numerics.race`. No
product of one-token factors exists, so the averages run over fixed scrambled samples of
``(ω_χ, ω_z, y)``: a smooth function of the overlaps, whose error is the spread over scrambles.
"""

# notation: docs/notation.md, "Finite samples"
from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.tasks import MaxSLR
from slrlab.numerics.qmc import normal_replicates
from slrlab.numerics.race import Race, log_derivatives
from slrlab.theory.bayes_optimal.overlaps import ChannelMoments, Overlaps, Scatter

LONGEST = 64
REPLICATES = 8
_CHUNK = 1 << 18  # entries of one (sample, token, w) block


@dataclass(frozen=True)
class MaxChannel:
    """Moments of the channel from ``REPLICATES · 2**log2_size`` samples for each length."""

    task: MaxSLR
    log2_size: int = 11
    seed: int = 0
    accuracy: float = 1e-6
    _last: dict[Overlaps, Scatter] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.task.length.longest > LONGEST:
            raise ValueError(
                f"length must be at most {LONGEST} for max-SLR with finite data, "
                f"got {self.task.length}"
            )

    @cached_property
    def _samples(self) -> list[tuple[int, float, FloatArray]]:
        """Standard normals ``(replicate, sample, 2L + 1)`` for each length and its weight."""
        law = self.task.length
        return [
            (
                length,
                weight,
                np.stack(
                    list(normal_replicates(2 * length + 1, self.log2_size, REPLICATES, self.seed))
                ),
            )
            for length, weight in zip(law.lengths, law.probabilities, strict=True)
        ]

    def moments(self, overlaps: Overlaps) -> ChannelMoments:
        """Return ``M_k``, ``s²M_v`` and ``E log Z``."""
        return self.scatter(overlaps).mean()

    def confusion(self, overlaps: Overlaps) -> float:
        """Return ``1 − E Σ π_ℓ(ω_χ)²``."""
        return float(self.scatter(overlaps).confusion.mean())

    def scatter(self, overlaps: Overlaps) -> Scatter:
        """Return the moments of each scramble."""
        if overlaps not in self._last:  # risk, error and free entropy ask for the same point
            self._last.clear()
            self._last[overlaps] = self._scatter(overlaps)
        return self._last[overlaps]

    def _scatter(self, overlaps: Overlaps) -> Scatter:
        sums = np.zeros((4, REPLICATES))
        race = Race.build(self.task.signal, overlaps.gap_k) if self.task.signal > 0.0 else None
        for length, weight, normals in self._samples:
            flat = normals.reshape(-1, normals.shape[-1])
            nodes = 1 if race is None else race.offsets.size
            rows = max(1, _CHUNK // (length * nodes))
            parts = [
                self._rows(flat[start : start + rows], length, overlaps, race)
                for start in range(0, flat.shape[0], rows)
            ]
            found = np.concatenate(parts, axis=1).reshape(4, REPLICATES, -1)
            sums += weight * found.mean(axis=2)
        spread = math.sqrt(overlaps.gap_v + self.task.noise**2)
        level = math.inf if spread == 0.0 else -math.log(spread)
        log_z = sums[2] - 0.5 + level - 0.5 * math.log(2.0 * math.pi)
        return Scatter(sums[0], 1.0 + sums[1], log_z, sums[3])

    def _rows(
        self, normals: FloatArray, length: int, overlaps: Overlaps, race: Race | None
    ) -> FloatArray:
        """Return ``|g_χ|²``, ``ΣP²r² − n²``, ``log Z`` up to constants, ``1 − Σπ²``: rows."""
        keys = math.sqrt(overlaps.q_k) * normals[:, :length]
        if race is None or length == 1:
            pi = np.full(keys.shape, 1.0 / length)
            fisher = np.zeros((keys.shape[0], length, length))
        else:
            pi, meet = race.posterior(keys)
            score = log_derivatives(pi, meet)
            fisher = np.matmul(score, score.transpose(0, 2, 1))
        label = self._labels(normals[:, length:], pi, fisher, overlaps)
        return np.stack([*label, 1.0 - (pi**2).sum(axis=1)])

    def _labels(
        self, normals: FloatArray, pi: FloatArray, fisher: FloatArray, overlaps: Overlaps
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Average over the place ``ε`` exactly, with the label it gives."""
        s = math.sqrt(overlaps.gap_v + self.task.noise**2)
        length = pi.shape[1]
        values, n = math.sqrt(overlaps.q_v) * normals[:, :length], normals[:, length]
        log_pi = np.log(np.maximum(pi, 1e-300))
        key, value, log_z = np.zeros((3, pi.shape[0]))
        for place in range(length):
            if s == 0.0:  # the label is the value at the place, and of no other token
                key += pi[:, place] * fisher[:, place, place]
                log_z += pi[:, place] * log_pi[:, place]
                continue
            r = (values[:, [place]] - values) / s + n[:, None]
            # −½r² + ½n²: what the relevant token alone would give is left to constants
            log_psi = log_pi - (r - n[:, None]) * (r + n[:, None]) / 2.0
            top = log_psi.max(axis=1)
            psi = np.exp(log_psi - top[:, None])
            total = psi.sum(axis=1)
            p = psi / total[:, None]
            key += pi[:, place] * np.einsum("si,sij,sj->s", p, fisher, p)
            value += pi[:, place] * (((p * r) ** 2).sum(axis=1) - n**2)
            log_z += pi[:, place] * (np.log(total) + top)
        return key, value, log_z
