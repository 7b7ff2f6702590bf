r"""State evolution of trained attention: from overlaps to conjugates, averaged over a sample.

    q̂_a = α E|g_a|²,  V̂_a = −α E[g_a·n_a]/√R_a,  m̂_a = α E[g_a·h*_a] + V̂_a m_a

with ``g`` from the prox (`slrlab.theory.erm.prox_kernel`) at the fields ``ω = m h* + √R n``. This
is the stationary point of the replica-symmetric free energy. Where ``g`` is smooth, Stein's
identity makes ``V̂_a`` the trace ``α E tr G_aa`` of ``G = −∂g/∂ω``; where the prox jumps, the trace
misses the jumps. Both forms are offered. This module must not know how the equations are solved.
"""

# notation: docs/notation.md, "Trained attention"
from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from slrlab._types import FloatArray
from slrlab.model.activation_code import ActivationCode, activation_code
from slrlab.model.activations import Activation
from slrlab.theory.erm import codes
from slrlab.theory.erm.fields import FieldSample
from slrlab.theory.erm.overlaps import Conjugates, ErmOverlaps

Mask: TypeAlias = npt.NDArray[np.bool_]
Stiffness: TypeAlias = Literal["stein", "trace"]
"""Which form of ``V̂``: Stein's counts the jumps of the prox, the trace does not."""
STIFFNESSES: tuple[Stiffness, ...] = ("stein", "trace")

_FEWEST_DIGITS = 1e-9  # of the residual R, relative to q: below, Stein's form is rounding
_FEW_BISTABLE = 1e-4  # share of samples at which Stein's form has half its weight
_ONE_AT_A_TIME = threading.Lock()  # the threads of a compiled loop may not be entered twice


@dataclass(frozen=True)
class ChannelMeans:
    """Averages over the channel, one row for each independent block.

    The sums over pairs of tokens of products of blocks of ``G`` (names ``GG_…``) are zero unless
    asked for.
    """

    rows: FloatArray

    @property
    def pooled(self) -> ChannelMeans:
        """The mean over blocks, as a single row."""
        return ChannelMeans(self.rows.mean(axis=0, keepdims=True))

    def conjugates(
        self, alpha: float, overlaps: ErmOverlaps, stiffness: Stiffness = "stein"
    ) -> list[Conjugates]:
        """Return the conjugates that each row implies.

        Where no prox has a second minimum both forms are equal and the trace has less noise, so
        the weight of Stein's form falls to 0 with the share of such samples.
        """
        share = self.mean("BISTABLE") if stiffness == "stein" else 0.0
        weight = share / (share + _FEW_BISTABLE)
        return [_conjugates(row, alpha, overlaps, weight) for row in self.rows]

    def bias_steps(self) -> FloatArray:
        """Return, for each row, a Newton-like step of the bias towards ``E Σ_ℓ g_χℓ = 0``."""
        push, stiffness = self.rows[:, codes.G_K_SUM], np.abs(self.rows[:, codes.TRACE_K])
        return np.asarray(np.clip(push / np.maximum(stiffness, 1e-12), -1.0, 1.0))

    def mean(self, name: str) -> float:
        """Return one average by its name in `slrlab.theory.erm.codes`."""
        return float(self.rows[:, getattr(codes, name)].mean())


def _conjugates(row: FloatArray, alpha: float, overlaps: ErmOverlaps, weight: float) -> Conjugates:
    V_k = alpha * _stiffness(row, overlaps.m_k, overlaps.q_k, weight, _KEYS)
    V_v = alpha * _stiffness(row, overlaps.m_v, overlaps.q_v, weight, _VALUES)
    return Conjugates(
        m_k=float(alpha * row[codes.G_K_TEACHER] + V_k * overlaps.m_k),
        q_k=float(alpha * row[codes.G_K2]),
        V_k=V_k,
        m_v=float(alpha * row[codes.G_V_TEACHER] + V_v * overlaps.m_v),
        q_v=float(alpha * row[codes.G_V2]),
        V_v=V_v,
    )


_KEYS = (codes.G_K_FIELD, codes.G_K_TEACHER, codes.TRACE_K)
_VALUES = (codes.G_V_FIELD, codes.G_V_TEACHER, codes.TRACE_V)


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


@dataclass(frozen=True)
class Channel:
    """The output channel of one activation on one sample of fields.

    ``global_prox`` searches each prox from several starts and keeps the lowest minimum; without,
    only the minimum reached from the field itself is used.
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
        """Return the channel of an activation; a free bias is left to the overlaps."""
        return cls(fields, activation_code(activation), noise, activation.bias or 0.0, global_prox)

    @cached_property
    def _memory(self) -> list[tuple[Mask, FloatArray]]:
        """Which samples had several minima when all were last searched, and the last minima."""
        groups = self.fields.groups
        return [(np.zeros(group.n_y.shape, bool), np.zeros_like(group.n_k)) for group in groups]

    @property
    def several_minima(self) -> float:
        """The share of samples that had several minima when all were last searched."""
        shares = [float(several.mean()) for several, _ in self._memory]
        return float(np.average(shares, weights=[group.weight for group in self.fields.groups]))

    def means(
        self, overlaps: ErmOverlaps, *, squares: bool = False, remembered: bool = False
    ) -> ChannelMeans:
        """Return the averages at given overlaps, for each block.

        If ``remembered`` each prox goes on from its minimum at the last call, and only those that
        had several when all were last searched are searched again: many times cheaper, and the
        same as long as no other sample gets a second minimum.
        """
        from slrlab.theory.erm.prox_kernel import SUMS, channel_sums

        root = math.sqrt(overlaps.q_k)
        std = root if self.fields.gaussian else math.sqrt(max(overlaps.R_k, 0.0))
        slope = overlaps.m_k / root if self.fields.gaussian else 0.0
        order = (
            overlaps.m_k,
            std,
            slope,
            overlaps.bias + self.bias,
            overlaps.m_v,
            overlaps.q_v,
            self.noise,
            overlaps.V_k,
            overlaps.V_v,
        )
        search = codes.EVERYWHERE if self.global_prox else codes.FROM_FIELD
        rows = np.zeros((self.fields.groups[0].n_y.shape[0], SUMS))
        for group, memory in zip(self.fields.groups, self._memory, strict=True):
            with _ONE_AT_A_TIME:
                rows += group.weight * channel_sums(
                    group.chi_base,
                    group.n_k,
                    group.n_z,
                    group.n_y,
                    order,
                    self.code.numbers,
                    self.code.table,
                    *memory,
                    codes.REMEMBERED if remembered else search,
                    squares,
                )
        return ChannelMeans(rows)
