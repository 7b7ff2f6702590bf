r"""The output functions of message passing: what a label says about the scores of its tokens.

Scores are known as ``χ ~ N(ω_χ, V_k)``, ``z ~ N(ω_z, V_v)``. A label then has the likelihood

    Z = Σ_ε w_ε(ω_χ) N(y; ω_zε, s²),      s² = V_v + Δ²,

with ``w_ε = E r(χ_ε)`` (tilted tasks; ``e^{√ν ω_ε}`` up to a constant in spiked-SLR) or ``w_ε =
E[w(χ_ε)/Σw(χ)]`` (selection tasks). ``g = ∂_ω log Z`` moves the estimates, ``−div g`` adds to their
precision. Tables have shape ``(sequences, L)``: one length at a time. Independent of tokens and
iterations.
"""

# notation: docs/notation.md, "Finite samples"
from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.dispatch import lookup
from slrlab.model.tasks import MaxSLR, SelectionTask, SpikedSLR, Task, TiltedTask
from slrlab.numerics.race import TINY, AnyRace, Race
from slrlab.numerics.smoothed import smoothed
from slrlab.numerics.weighted_race import WeightedRace

_CHUNK = 1 << 20  # entries of one (sequence, token, node) block of the race
_NUDGE = 0.02  # relative change of V_k in the difference quotient of the heat equation
_KNOT = 0.05  # step of the splines of log R, in units of its smoothness
_CENTRED = 1e-9  # mean of the relevant score that counts as zero


@dataclass(frozen=True)
class Response:
    """Output functions, one row for each sequence.

    Attributes
    ----------
    key, value
        ``g_χ`` and ``g_z``, shape ``(sequences, L)``.
    bend
        ``−Σ_ℓ ∂g_ℓ/∂ω_ℓ``, summed over all sequences: a symmetric matrix ``(2, 2)`` of keys and
        values.
    misfit
        ``Σ_ℓ P_ℓ r_ℓ²`` summed over all sequences, ``r = (y − ω_z)/s``; the mean over sequences is
        1 if ``s`` is right.
    """

    key: FloatArray
    value: FloatArray
    bend: FloatArray
    misfit: float


@dataclass(frozen=True)
class LocationWeights:
    """``w_ε`` at given fields: logarithm, its gradient, and the Laplacian ``Δw_ε/w_ε``.

    The gradient is a matrix for each sequence; one with fewer axes is the diagonal of that matrix.
    """

    log: FloatArray
    slope: FloatArray | float
    laplacian: FloatArray | float

    def pull(self, p: FloatArray) -> FloatArray:
        """Return ``g_χ = Σ_ε P_ε ∂ log w_ε``."""
        if np.ndim(self.slope) < 3:
            return self.slope * p
        return np.asarray(np.einsum("ne,nem->nm", p, self.slope))

    @property
    def own_slope(self) -> FloatArray | float:
        """``∂ log w_ε/∂ω_ε``."""
        if np.ndim(self.slope) < 3:
            return self.slope
        return np.asarray(np.einsum("nee->ne", self.slope))


@dataclass(frozen=True, kw_only=True)
class LocationModel(ABC):
    """The weights ``w_ε(ω_χ)`` of one task at the variance ``V_k`` of the key scores.

    Attributes
    ----------
    key_variance
        ``V_k``.
    tilt
        Contribution of a sequence to the precision of the keys beyond ``−div g_χ``: ``E χ*_ε² − 1``
        in a tilted task. There the likelihood of the tokens is ``r(χ_ε)`` divided by its mean over
        ``χ ~ N(0, |k|²/D)``, which is 1 at the teacher but varies with ``k``. In spiked-SLR it adds
        ``ν``; without it the precision would be ``−ν(1 − ΣP²)``, which is negative.
    shifted
        Whether the relevant tokens have a mean.
    """

    key_variance: float
    tilt: float = 0.0
    shifted: bool = False

    @abstractmethod
    def weights(self, fields: FloatArray) -> LocationWeights:
        """Return ``w`` at fields ``ω_χ``."""

    def posterior(self, fields: FloatArray) -> FloatArray:
        """Return the posterior of the location given ``ω_χ`` alone, along the last axis."""
        logs = self.weights(fields).log
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def blocks(self, fields: FloatArray) -> list[slice]:
        """Return slices of a table that are small enough for `weights`."""
        return [slice(None)]

    def respond(
        self, keys: FloatArray, values: FloatArray, labels: FloatArray, variance: float
    ) -> Response:
        """Return the output functions at fields ``ω_χ, ω_z`` and ``s² = variance > 0``."""
        parts = [
            _respond(self.weights(keys[rows]), values[rows], labels[rows], variance)
            for rows in self.blocks(keys)
        ]
        if len(parts) == 1:
            return parts[0]
        key, value = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("key", "value")
        )
        bend = np.sum([part.bend for part in parts], axis=0)
        return Response(key, value, bend, sum(part.misfit for part in parts))


@dataclass(frozen=True, kw_only=True)
class ExponentialModel(LocationModel):
    """Weights ``e^{scale·ω}``."""

    scale: float

    def weights(self, fields: FloatArray) -> LocationWeights:
        return LocationWeights(self.scale * fields, self.scale, self.scale**2)


@dataclass(frozen=True, kw_only=True)
class TiltedModel(LocationModel):
    """Weights ``R(ω) = E r(χ)`` of any tilted task, as splines over the range of the fields."""

    task: TiltedTask

    def weights(self, fields: FloatArray) -> LocationWeights:
        from scipy.interpolate import CubicSpline

        step = _KNOT * max(math.sqrt(self.key_variance), 1.0 / self.task.steepness)
        knots = np.arange(fields.min() - step, fields.max() + 3.0 * step, step)
        ratio = smoothed(
            self.task.log_ratio,
            knots,
            self.key_variance,
            interval=self.task.relevant_interval,
            steepness=self.task.steepness,
        )
        columns = np.stack([ratio.log, ratio.slope, ratio.curvature], axis=1)
        return LocationWeights(*np.moveaxis(CubicSpline(knots, columns)(fields), -1, 0))


@dataclass(frozen=True, kw_only=True)
class RaceModel(LocationModel):
    """Weights ``π_ε`` of a selection task.

    Attributes
    ----------
    race, beside
        The race at ``V_k``, and those at ``V_k (1 ± _NUDGE)``, which give the Laplacian through the
        heat equation ``∂_V w = ½Δw``; empty if it is not needed.
    """

    race: AnyRace
    beside: tuple[AnyRace, ...] = ()

    def weights(self, fields: FloatArray) -> LocationWeights:
        if fields.shape[1] == 1:
            return LocationWeights(0.0 * fields, 0.0, 0.0)
        pi, slope = self.race.log_derivatives(fields)
        laplacian: FloatArray | float = 0.0
        if self.beside:
            low, high = (race.posterior(fields) for race in self.beside)
            laplacian = (high - low) / (_NUDGE * self.key_variance * np.maximum(pi, TINY))
        return LocationWeights(np.log(np.maximum(pi, TINY)), slope, laplacian)

    def posterior(self, fields: FloatArray) -> FloatArray:
        return np.concatenate([self.race.posterior(fields[rows]) for rows in self.blocks(fields)])

    def blocks(self, fields: FloatArray) -> list[slice]:
        rows = max(1, _CHUNK // (fields.shape[1] * self.race.nodes))
        return [slice(at, at + rows) for at in range(0, len(fields), rows)]

    @classmethod
    def build(
        cls, race: Callable[[float], AnyRace], variance: float, divergence: bool
    ) -> RaceModel:
        """Return the model of a race given as a function of ``V_k``."""
        steps = (-_NUDGE, _NUDGE) if divergence else ()
        beside = tuple(race(variance * (1.0 + step)) for step in steps)
        return cls(key_variance=variance, race=race(variance), beside=beside)


def _spiked(task: SpikedSLR, variance: float, divergence: bool) -> LocationModel:
    scale = math.sqrt(task.signal)
    return ExponentialModel(key_variance=variance, tilt=scale**2, shifted=scale > 0.0, scale=scale)


def _max(task: MaxSLR, variance: float, divergence: bool) -> LocationModel:
    if task.signal == 0.0 or task.length.longest == 1:
        return ExponentialModel(key_variance=variance, scale=0.0)
    return RaceModel.build(partial(Race.build, task.signal), variance, divergence)


def _tilted(task: TiltedTask, variance: float, divergence: bool) -> LocationModel:
    mean, square = task.relevant_moments()
    return TiltedModel(
        key_variance=variance, tilt=square - 1.0, shifted=abs(mean) > _CENTRED, task=task
    )


def _selected(task: SelectionTask, variance: float, divergence: bool) -> LocationModel:
    if task.hard:
        return RaceModel.build(partial(Race.build, math.inf), variance, divergence)
    race = partial(WeightedRace.build, task.log_weight, task.steepness)
    return RaceModel.build(race, variance, divergence)


MODELS: dict[type, Callable[[Any, float, bool], LocationModel]] = {
    SpikedSLR: _spiked,
    MaxSLR: _max,
    TiltedTask: _tilted,
    SelectionTask: _selected,
}
"""How the weights of each task are computed; a task that is not listed has those of its family."""


def location_model(task: Task, variance: float, *, divergence: bool = False) -> LocationModel:
    """Return the weights of a task at ``V_k = variance``, with or without their Laplacian.

    Raises
    ------
    TypeError
        If the task belongs to neither family.
    """
    return lookup(task, MODELS)(task, variance, divergence)


def _respond(
    weights: LocationWeights, values: FloatArray, labels: FloatArray, variance: float
) -> Response:
    """Return ``g`` and ``−div g`` from the weights of the locations."""
    s = math.sqrt(variance)
    r = (labels[:, None] - values) / s
    logs = weights.log - r**2 / 2.0
    p = np.exp(logs - logs.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    key, value = weights.pull(p), p * r / s
    # ∂²Z/Z = Σ P_ε Δw_ε/w_ε, and div g = ∂²Z/Z − |g|²
    keys = (key**2).sum() - (p * weights.laplacian).sum()
    values = (len(p) - (p * (1.0 - p) * r**2).sum()) / variance
    both = (value * (key - weights.own_slope)).sum()
    bend = np.array([[keys, both], [both, values]])
    return Response(key, value, bend, float((p * r**2).sum()))
