r"""What a label says about the scores of its tokens: the output functions of message passing.

Scores are known as ``χ ~ N(ω_χ, V_k)``, ``z ~ N(ω_z, V_v)``. A label then has the likelihood

    Z = Σ_ε w_ε(ω_χ) N(y; ω_zε, s²),      s² = V_v + Δ²,

with ``w_ε = e^{√ν ω_ε}`` up to a constant (spiked-SLR) or ``w_ε = E softmax(νχ)_ε`` (max-SLR).
``g = ∂_ω log Z`` moves the estimates, ``−div g`` tells how sharply. Tables are of shape
``(sequences, L)``: one length at a time. This module must not know about tokens or iterations.
"""

# notation: docs/notation.md, "Finite samples"
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.tasks import MaxSLR, SpikedSLR, Task
from slrlab.numerics.race import Race, log_derivatives

_CHUNK = 1 << 20  # entries of one (sequence, token, node) block of the race
_NUDGE = 0.02  # relative change of V_k in the difference quotient of the heat equation
_ROUGH = 1e-300


@dataclass(frozen=True)
class Response:
    """What the labels say, one row a sequence.

    Attributes
    ----------
    key, value
        ``g_χ`` and ``g_z``, shape ``(sequences, L)``.
    bend
        ``−Σ_ℓ ∂g_ℓ/∂ω_ℓ``, summed over all sequences: a symmetric matrix ``(2, 2)`` of keys and
        values.
    misfit
        ``Σ_ℓ P_ℓ r_ℓ²`` summed over all sequences, ``r = (y − ω_z)/s``: one a sequence on
        average, if ``s`` is right.
    """

    key: FloatArray
    value: FloatArray
    bend: FloatArray
    misfit: float


@dataclass(frozen=True)
class _Weights:
    """``w_ε`` at given fields: logarithm, its gradient, and the Laplacian ``Δw_ε/w_ε``.

    A gradient that is one number is that number times the identity.
    """

    log: FloatArray
    slope: FloatArray | float
    laplacian: FloatArray | float

    def pull(self, p: FloatArray) -> FloatArray:
        """Return ``g_χ = Σ_ε P_ε ∂ log w_ε``."""
        if isinstance(self.slope, float):
            return self.slope * p
        return np.asarray(np.einsum("ne,nem->nm", p, self.slope))

    @property
    def own_slope(self) -> FloatArray | float:
        """``∂ log w_ε/∂ω_ε``."""
        if isinstance(self.slope, float):
            return self.slope
        return np.asarray(np.einsum("nee->ne", self.slope))


@dataclass(frozen=True)
class PlaceModel:
    r"""The weights ``w_ε(ω_χ)`` of one task at one variance ``V_k`` of the key scores.

    Attributes
    ----------
    scale
        The weights are ``e^{scale·ω}`` where there is no race.
    gap
        ``V_k``.
    race, beside
        The race of max-SLR, and those at ``V_k`` changed by a factor ``1 ± _NUDGE``, which give the
        Laplacian through the heat equation ``∂_V w = ½Δw``; None if it is not needed.
    """

    scale: float
    gap: float
    race: Race | None = None
    beside: tuple[Race, Race] | None = None

    @classmethod
    def build(cls, task: Task, gap: float, *, divergence: bool = False) -> PlaceModel:
        """Return the model of a task at variance ``gap``.

        Raises
        ------
        TypeError
            If the task is neither spiked-SLR nor max-SLR.
        """
        if isinstance(task, SpikedSLR):
            return cls(math.sqrt(task.signal), gap)
        if not isinstance(task, MaxSLR):
            name = type(task).__name__ if isinstance(task, Task) else repr(task)
            raise TypeError(f"task must be a SpikedSLR or a MaxSLR, got {name}")
        if task.signal == 0.0 or task.length.longest == 1:
            return cls(0.0, gap)
        race = Race.build(task.signal, gap)
        if not divergence:
            return cls(0.0, gap, race)
        low, high = (Race.build(task.signal, gap * (1.0 + step)) for step in (-_NUDGE, _NUDGE))
        return cls(0.0, gap, race, (low, high))

    @property
    def tilt(self) -> float:
        """What a sequence adds to the precision of the keys beyond ``−div g_χ``.

        In spiked-SLR the likelihood of the tokens is ``e^{√νχ_ε − ν|k|²/2D}``. The last term is
        ``ν/2`` at the teacher, but as a function of ``k`` it is a precision ``ν`` a sequence;
        without it, that of the keys would be ``−ν(1 − ΣP²)``, which is negative.
        """
        return self.scale**2

    def posterior(self, fields: FloatArray) -> FloatArray:
        """Return the posterior of the place given ``ω_χ`` alone, along the last axis."""
        if self.race is None:
            weights = np.exp(self.scale * (fields - fields.max(axis=1, keepdims=True)))
            return np.asarray(weights / weights.sum(axis=1, keepdims=True))
        rows = self._rows(fields)
        return np.concatenate([self.race.posterior(part)[0] for part in rows])

    def respond(
        self, keys: FloatArray, values: FloatArray, labels: FloatArray, spread: float
    ) -> Response:
        """Return the output functions at fields ``ω_χ, ω_z`` and ``s² = spread > 0``."""
        parts, at = [], 0
        for rows in self._rows(keys):
            here = slice(at, at + len(rows))
            parts.append(_respond(self._weights(rows), values[here], labels[here], spread))
            at += len(rows)
        if len(parts) == 1:
            return parts[0]
        key, value = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("key", "value")
        )
        bend = np.sum([part.bend for part in parts], axis=0)
        return Response(key, value, bend, sum(part.misfit for part in parts))

    def _rows(self, fields: FloatArray) -> list[FloatArray]:
        """Cut a table so that the blocks of a race stay small."""
        if self.race is None:
            return [fields]
        rows = max(1, _CHUNK // (fields.shape[1] * self.race.offsets.size))
        return [fields[at : at + rows] for at in range(0, len(fields), rows)]

    def _weights(self, fields: FloatArray) -> _Weights:
        if self.race is None or fields.shape[1] == 1:
            return _Weights(self.scale * fields, self.scale, self.scale**2)
        pi, meet = self.race.posterior(fields)
        laplacian: FloatArray | float = 0.0
        if self.beside is not None:
            low, high = (race.posterior(fields)[0] for race in self.beside)
            laplacian = (high - low) / (_NUDGE * self.gap * np.maximum(pi, _ROUGH))
        return _Weights(np.log(np.maximum(pi, _ROUGH)), log_derivatives(pi, meet), laplacian)


def _respond(weights: _Weights, values: FloatArray, labels: FloatArray, spread: float) -> Response:
    """Return ``g`` and ``−div g`` from the weights of the places."""
    s = math.sqrt(spread)
    r = (labels[:, None] - values) / s
    logs = weights.log - r**2 / 2.0
    p = np.exp(logs - logs.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    key, value = weights.pull(p), p * r / s
    # ∂²Z/Z = Σ P_ε Δw_ε/w_ε, and div g = ∂²Z/Z − |g|²
    keys = (key**2).sum() - (p * weights.laplacian).sum()
    values = (len(p) - (p * (1.0 - p) * r**2).sum()) / spread
    both = (value * (key - weights.own_slope)).sum()
    bend = np.array([[keys, both], [both, values]])
    return Response(key, value, bend, float((p * r**2).sum()))
