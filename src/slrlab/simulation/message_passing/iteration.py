r"""Approximate message passing on a dataset: the iteration alone, for keys and values at once.

With ``ŵ`` the estimate of a teacher (keys or values) and ``V`` its variance,

    ω = Xŵ/√D − V g_{t−1},   g = ∂_ω log Z,
    B = Xᵀg/√D + Mŵ,         ŵ = B/(1 + V̂),   V = 1/(1 + V̂),

from ``ŵ = 0``, ``V = 1``, ``g = 0``, where ``M = −α⟨div g⟩`` and ``V̂ = M``, but for the keys of
tilted tasks: there ``V̂ = M + α·tilt`` (see `LocationModel`; ``αν`` in spiked-SLR). Each iteration
reads the tokens twice.

Three forms of ``V̂`` have the same limit. ``divergence`` is the formula above; ``norm`` is
``α⟨|g|²⟩``, equal to it by the Nishimori identity. ``ratio``, the default, is ``norm``, divided for
the values by ``⟨ΣP r²⟩``, which is 1 in the limit. Measured against state evolution, ``divergence``
fluctuates most in spiked-SLR. ``norm`` has a feedback without label noise: residuals that are too
large make ``V`` too small, and it may stall below ``q_v = 1`` (seen in max-SLR). ``ratio`` is
positive and does not depend on the scale of the residuals.

The relevant tokens of spiked-SLR have a mean, ``√ν k*/√D``, so an error of ``v̂`` along ``k*``
shifts all their ``ω_z`` equally. Plain message passing multiplies that error by about ``−ν q_v`` in
each iteration; above 1 in size it departs from the state evolution after a few. The shift is
therefore estimated from the residuals and subtracted; it is ``O(1/√D)``, so the limit is unchanged.

Independent of the teachers.
"""

# notation: docs/notation.md, "Finite samples"
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.tasks import Task
from slrlab.simulation.data.dataset import Dataset
from slrlab.simulation.data.packing import Tables
from slrlab.simulation.message_passing.output_channel import LocationModel, location_model
from slrlab.simulation.training.objective import chunks_of

PRECISIONS = ("ratio", "norm", "divergence")
_RUNAWAY = 1e3  # |ŵ|²/D from which the iteration counts as diverged
_ROUNDING = 16.0  # least residual of a label, in roundings of a token


@dataclass(frozen=True)
class AmpState:
    """Estimates of the teachers after an iteration; row 0 for keys, row 1 for values.

    Attributes
    ----------
    weights
        ``k̂`` and ``v̂``, shape ``(2, D)``.
    variances
        ``V_k`` and ``V_v``, which estimate ``1 − q``.
    push
        ``g_χ`` and ``g_z`` of every token, shape ``(2, T)``.
    """

    weights: FloatArray
    variances: FloatArray
    push: FloatArray

    @classmethod
    def start(cls, data: Dataset) -> AmpState:
        """Return the state before the first iteration."""
        return cls(np.zeros((2, data.dim)), np.ones(2), np.zeros((2, len(data.tokens))))

    @property
    def sound(self) -> bool:
        """Whether all numbers are finite and the estimates have not run away."""
        size = (self.weights**2).mean(axis=1)
        finite = bool(np.isfinite(self.push).all() and np.isfinite(self.variances).all())
        return finite and bool((size < _RUNAWAY).all() and (self.variances > 0.0).all())


def iterate(
    data: Dataset, task: Task, *, damping: float = 0.0, precision: str = "ratio"
) -> Iterator[AmpState]:
    """Yield the state after each iteration; an unsound one is the last."""
    tables, state = data.by_length(), AmpState.start(data)
    while state.sound:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            state = _step(data, task, tables, state, damping, precision)
            sound = state.sound
        yield state
        if not sound:
            return


def _step(
    data: Dataset, task: Task, tables: Tables, state: AmpState, damping: float, precision: str
) -> AmpState:
    """Return the next state."""
    from slrlab.simulation.training.gradient_kernel import combine, project

    kind, root, chunks = data.tokens.dtype, math.sqrt(data.dim), chunks_of(data)
    k, v = (state.weights / root).astype(kind)
    fields = project(data.tokens, k, v, chunks) - state.variances[:, None] * state.push
    # without noise V_v falls to 0, but rounding of the tokens keeps the residuals above it
    floor = (_ROUNDING * float(np.finfo(kind).eps)) ** 2
    variance = float(state.variances[1]) + max(task.noise**2, floor)
    model = location_model(task, float(state.variances[0]), divergence=precision == "divergence")
    push, hats = _respond(data, tables, fields, model, variance, precision)
    memory = hats - [model.tilt * data.samples / data.dim, 0.0]
    pulled = combine(data.tokens, push[0].astype(kind), push[1].astype(kind), chunks) / root
    variances = 1.0 / (1.0 + hats)
    weights = variances[:, None] * (pulled + memory[:, None] * state.weights)
    return AmpState(
        damping * state.weights + (1.0 - damping) * weights,
        damping * state.variances + (1.0 - damping) * variances,
        push,
    )


def _respond(
    data: Dataset,
    tables: Tables,
    fields: FloatArray,
    model: LocationModel,
    variance: float,
    precision: str,
) -> tuple[FloatArray, FloatArray]:
    """Return ``g`` of every token and ``V̂``, both as rows for keys and values."""
    push, offset = np.empty_like(fields), 0.0
    for last in (False, True) if model.shifted else (True,):
        bend, misfit = np.zeros((2, 2)), 0.0
        for same, rows in tables:
            keys, values = fields[0][rows], fields[1][rows] + offset
            response = model.respond(keys, values, data.labels[same], variance)
            push[0][rows], push[1][rows] = response.key, response.value
            bend += response.bend
            misfit += response.misfit
        if not last:
            offset = variance * float(push[1].sum()) / data.samples  # the mean residual
    if precision == "divergence":
        sums = np.diagonal(bend) + np.array([model.tilt * data.samples, 0.0])
    else:
        sums = (push**2).sum(axis=1)
    if precision == "ratio":
        sums[1] *= np.divide(data.samples, misfit)  # misfit is 0 with one sequence: diverges
    # the divergence of a small sample may be negative, but V̂ is not
    return push, np.maximum(sums, 0.0) / data.dim
