r"""State evolution of trained attention: from overlaps to conjugates, averaged over a sample.

    q̂_a = α E|g_a|²,  V̂_a = −α E[g_a·n_a]/√R_a,  m̂_a = α E[g_a·h*_a] + V̂_a m_a

with ``g`` from the prox (`slrlab.theory.erm.prox_kernel`) at the fields ``ω = m h* + √R n``. This
is the stationary point of the replica-symmetric free energy. Where ``g`` is smooth, Stein's
identity makes ``V̂_a`` the trace ``α E tr G_aa`` of ``G = −∂g/∂ω``; where the prox jumps, the trace
misses the jumps. Both forms are available. This module does not solve the equations.
"""

# notation: docs/notation.md, "Trained attention"
from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from slrlab._types import FloatArray
from slrlab.model.activation_code import ActivationCode, ActivationNumbers, activation_code
from slrlab.model.activations import Activation
from slrlab.theory.erm import codes
from slrlab.theory.erm.fields import FieldGroup, FieldSample
from slrlab.theory.erm.overlaps import ErmConjugates, ErmOverlaps

Mask: TypeAlias = npt.NDArray[np.bool_]
Stiffness: TypeAlias = Literal["stein", "trace"]
"""Form of ``V̂``: Stein's counts the jumps of the prox, the trace does not."""
STIFFNESSES: tuple[Stiffness, ...] = get_args(Stiffness)

_KEYS = (codes.G_K_FIELD, codes.G_K_TEACHER, codes.TRACE_K)
_VALUES = (codes.G_V_FIELD, codes.G_V_TEACHER, codes.TRACE_V)
_FEWEST_DIGITS = 1e-9  # residual R relative to q below which Stein's form is rounding
_FEW_BISTABLE = 1e-4  # bistable fraction at which Stein's form has half its weight
_NO_SCALE = 1e-50  # stands for a factor 0, by which nothing can be divided


@dataclass(frozen=True)
class ChannelMeans:
    """Averages over the channel, one row for each independent block.

    The columns ``GG_…`` are zero unless the squares were requested.
    """

    rows: FloatArray

    @property
    def pooled(self) -> ChannelMeans:
        """The mean over blocks, as a single row."""
        return ChannelMeans(self.rows.mean(axis=0, keepdims=True))

    def conjugates(
        self, alpha: float, overlaps: ErmOverlaps, stiffness: Stiffness = "stein"
    ) -> list[ErmConjugates]:
        """Return the conjugates that each row implies.

        Where no prox has a second minimum both forms are equal and the trace has less noise, so
        the weight of Stein's form falls to 0 with the bistable fraction.
        """
        bistable = self.mean("BISTABLE") if stiffness == "stein" else 0.0
        weight = bistable / (bistable + _FEW_BISTABLE)
        return [_conjugates(row, alpha, overlaps, weight) for row in self.rows]

    def bias_steps(self) -> FloatArray:
        """Return, for each row, a Newton-like step of the bias towards ``E Σ_ℓ g_χℓ = 0``."""
        force, stiffness = self.rows[:, codes.G_K_SUM], np.abs(self.rows[:, codes.TRACE_K])
        return np.asarray(np.clip(force / np.maximum(stiffness, 1e-12), -1.0, 1.0))

    def mean(self, name: str) -> float:
        """Return one average by its name in `slrlab.theory.erm.codes`."""
        return float(self.rows[:, getattr(codes, name)].mean())


def _conjugates(
    row: FloatArray, alpha: float, overlaps: ErmOverlaps, weight: float
) -> ErmConjugates:
    V_k = alpha * _stiffness(row, overlaps.m_k, overlaps.q_k, weight, _KEYS)
    V_v = alpha * _stiffness(row, overlaps.m_v, overlaps.q_v, weight, _VALUES)
    return ErmConjugates(
        m_k=float(alpha * row[codes.G_K_TEACHER] + V_k * overlaps.m_k),
        q_k=float(alpha * row[codes.G_K2]),
        V_k=V_k,
        m_v=float(alpha * row[codes.G_V_TEACHER] + V_v * overlaps.m_v),
        q_v=float(alpha * row[codes.G_V2]),
        V_v=V_v,
    )


def _stiffness(
    row: FloatArray, m: float, q: float, weight: float, columns: tuple[int, int, int]
) -> float:
    """Return the trace, moved by ``weight`` towards ``−E[g·n]/√R``, ``n = (ω − m h*)/√R``."""
    field, teacher, trace = columns
    residual = q - m**2
    if weight == 0.0 or residual <= _FEWEST_DIGITS * q:
        return float(row[trace])
    stein = -(row[field] - m * row[teacher]) / residual
    return float(row[trace] + weight * (stein - row[trace]))


_POWERS = np.zeros((codes.SUMS, 2))
for _name, _score, _factor in (
    ("G_K2", 2, 0),
    ("G_V2", 0, 2),
    ("TRACE_K", 2, 0),
    ("TRACE_V", 0, 2),
    ("G_K_TEACHER", 1, 0),
    ("G_V_TEACHER", 0, 1),
    ("GG_KK", 4, 0),
    ("GG_KV", 2, 2),
    ("GG_VV", 0, 4),
    ("GG_CROSS", 2, 2),
):
    _POWERS[getattr(codes, _name)] = _score, _factor


@dataclass(frozen=True)
class _Part:
    """Samples of one length, with one location of the relevant token, which comes first.

    With weights ``f σ(sχ + shift)`` the prox of ``(χ, z)`` is that of ``(sχ, fz)`` with weights
    ``σ``: fields and their variances are scaled, and ``g`` and ``G`` scaled back.
    """

    group: FieldGroup
    weight: float
    numbers: ActivationNumbers
    scale: tuple[float, float, float]
    memory: tuple[Mask, FloatArray]

    def order(self, order: tuple[float, ...]) -> tuple[float, ...]:
        """Return the order parameters of the scaled fields."""
        m_k, std, slope, bias, m_v, q_v, noise, V_k, V_v = order
        score, shift, factor = self.scale
        keys = (score * m_k, score * std, slope, bias + shift)
        score, factor = score or _NO_SCALE, factor or _NO_SCALE
        values = (factor * m_v, factor**2 * q_v, noise)
        return (*keys, *values, score**2 * V_k, factor**2 * V_v)

    def scaled_back(self, sums: FloatArray) -> FloatArray:
        """Return the sums of the original fields."""
        score, _, factor = self.scale
        return np.asarray(sums * score ** _POWERS[:, 0] * factor ** _POWERS[:, 1])


@dataclass(frozen=True)
class Channel:
    """The output channel of one activation on one sample of fields.

    With ``global_prox`` each prox is searched from several starts and the lowest minimum is kept;
    without, only from the field itself.
    """

    fields: FieldSample
    code: ActivationCode
    noise: float
    bias: float = 0.0
    global_prox: bool = True

    @classmethod
    def of(
        cls, fields: FieldSample, activation: Activation, noise: float, global_prox: bool = True
    ) -> Channel:
        """Return the channel of an activation; a free bias is part of the overlaps."""
        code = activation_code(activation, max(group.length for group in fields.groups))
        return cls(fields, code, noise, activation.bias or 0.0, global_prox)

    @cached_property
    def _parts(self) -> list[_Part]:
        """The parts of the sample, each with its memory.

        It holds which samples had several minima at the last search, and the last minima.
        """
        parts = []
        for group in self.fields.groups:
            locations = list(self.code.locations(group.length))
            for numbers in locations:
                memory = np.zeros(group.n_y.shape, bool), np.zeros_like(group.n_k)
                scale, weight = self.code.scale(group.length), group.weight / len(locations)
                parts.append(_Part(group, weight, numbers, scale, memory))
        return parts

    @property
    def several_minima(self) -> float:
        """The fraction of samples that had several minima at the last search of all."""
        fractions = [float(part.memory[0].mean()) for part in self._parts]
        return float(np.average(fractions, weights=[part.weight for part in self._parts]))

    def means(
        self, overlaps: ErmOverlaps, *, squares: bool = False, remembered: bool = False
    ) -> ChannelMeans:
        """Return the averages at given overlaps, for each block.

        If ``remembered``, each prox starts from its minimum at the last call, and only the samples
        that had several minima are searched again. This is many times cheaper, and the same as
        long as no other sample gets a second minimum.
        """
        from slrlab.theory.erm.prox_kernel import channel_sums

        root = math.sqrt(overlaps.q_k)
        std = root if self.fields.gaussian else math.sqrt(max(overlaps.R_k, 0.0))
        slope = overlaps.m_k / root if self.fields.gaussian else 0.0
        keys = (overlaps.m_k, std, slope, overlaps.bias + self.bias)
        values = (overlaps.m_v, overlaps.q_v, self.noise)
        order = (*keys, *values, overlaps.V_k, overlaps.V_v)
        search = codes.EVERYWHERE if self.global_prox else codes.FROM_FIELD
        search = codes.REMEMBERED if remembered else search
        rows = np.zeros((self.fields.groups[0].n_y.shape[0], codes.SUMS))
        for part in self._parts:
            group = part.group
            arrays = (group.chi_base, group.n_k, group.n_z, group.n_y, part.order(order))
            activation = (part.numbers, self.code.table)
            sums = channel_sums(*arrays, *activation, *part.memory, search, squares)
            rows += part.weight * part.scaled_back(sums)
        return ChannelMeans(rows)
