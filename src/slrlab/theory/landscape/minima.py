r"""Local minima of the risk: found from many starts, told apart, and measured by their Hessians.

The risk is quadratic in ``v``: its minima over ``(k, v)`` are those over ``k`` alone at the best
``v``, a function of three numbers (and the bias). A descent may also have no end: linear
attention with keys along ``v*`` gains by growing for ever. This module must not know about time.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from slrlab import _checks
from slrlab._plot import END_COLORS, Mark, axes_of
from slrlab._result import Result, Status
from slrlab._types import FloatArray, Report
from slrlab.model.activations import Activation
from slrlab.model.order_parameters import FullOrderParameters
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.numerics.differences import central_differences
from slrlab.theory.landscape.risk import (
    SIZE,
    Landscape,
    make_landscape,
    overlaps_of,
)
from slrlab.theory.population.minimal import checked

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FAR = 100.0  # |k|/√D beyond which a descent is said to have no end
_SAME = 1e-3  # distance of two minima taken for one
_SIZES = (0.2, 8.0)  # of the random starts
# step of the Hessian, and gradient that counts as none: smooth, and with the jumps of a sample
_DIFFERENCE = {True: 1e-4, False: 3e-2}
_FLAT = {True: 1e-6, False: 3e-3}


class Kind(StrEnum):
    """What a pair of vectors has aligned with."""

    MATCHED = "matched"
    """``k`` along ``k*`` and ``v`` along ``v*``."""
    MISMATCHED = "mismatched"
    """``k`` along ``v*`` and ``v`` towards ``k*``, up to a common sign."""
    OTHER = "other"
    """Neither."""


def kind_of(order: FullOrderParameters) -> Kind:
    """Return what more than half of ``|k|²``, and for matched of ``|v|²``, is aligned with.

    Mismatched values need only a component along ``k*`` of the sign of ``m_kv``: as the signal
    grows, the values of that minimum turn from ``k*`` towards ``−v*``.

    >>> kind_of(FullOrderParameters(1.4, 0.1, 0.0, 1.0, 2.0, 0.0, 1.0))
    <Kind.MATCHED: 'matched'>
    """
    k, v = order.q_kk / 2.0, order.q_vv / 2.0
    if order.m_kk**2 > k and order.m_vv**2 > v and order.m_kk > 0.0 and order.m_vv > 0.0:
        return Kind.MATCHED
    if order.m_kv**2 > k and order.m_kv * order.m_vk > 0.0:
        return Kind.MISMATCHED
    return Kind.OTHER


@dataclass(frozen=True)
class Minimum(Result):
    """A local minimum of the risk.

    Attributes
    ----------
    status
        ``converged``; ``boundary``: the risk still falls as ``k`` grows without bound, and the
        numbers are those where the descent was stopped; ``not converged``.
    kind
        ``matched``, ``mismatched`` or ``other``.
    risk
        Risk there, label noise included.
    order, bias
        Where it is. A mirror image (``m_kv``, ``m_vk`` and ``q_kv`` of the other sign) has the
        same risk.
    curvatures
        Eigenvalues of the Hessian in ``k, v ∈ R⁴`` (and a free bias), smallest first.
    gradient_norm
        Length of the gradient in ``k`` (and a free bias) at the best ``v``.
    found
        Number of starts that ended here.
    """

    kind: Kind
    risk: float
    order: FullOrderParameters
    bias: float
    curvatures: FloatArray
    gradient_norm: float
    found: int

    @property
    def at_infinity(self) -> bool:
        """Whether the descent has no end."""
        return self.status is Status.BOUNDARY

    def __str__(self) -> str:
        where = " as |k| grows without bound" if self.at_infinity else ""
        return f"{self.kind} minimum: risk {self.risk:.6g}{where}, {self.status}"


@dataclass(frozen=True)
class LocalMinima(Result):
    """All local minima found, the lowest first."""

    minima: tuple[Minimum, ...]
    starts: int
    setting: Setting

    def best(self, kind: Kind | str) -> Minimum | None:
        """Return the lowest minimum of a kind, if there is one."""
        wanted = Kind(_checks.choice(kind, "kind", [str(item) for item in Kind]))
        return next((item for item in self.minima if item.kind is wanted), None)

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each minimum."""
        import pandas as pd

        rows = []
        for item in self.minima:
            given = item.to_dict()
            order = item.order.to_dict()
            del given["order"]
            lowest, highest = item.curvatures[0], item.curvatures[-1]
            del given["curvatures"]
            rows.append(given | order | {"softest": lowest, "stiffest": highest})
        return pd.DataFrame(rows)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the risk of each minimum against how well its keys are aligned with ``k*``."""
        axes = axes_of(ax)
        for number, kind in enumerate(Kind):
            found = [item for item in self.minima if item.kind is kind]
            if found:
                aligned = [item.order.m_kk / math.sqrt(item.order.q_kk) for item in found]
                mark = Mark(str(kind), END_COLORS[kind], "ov^"[number], "none")
                axes.plot(aligned, [item.risk for item in found], **mark.line())
        axes.set(xlabel="$m_{kk}/\\sqrt{q_{kk}}$", ylabel="risk of the minimum", xlim=(-1.1, 1.1))
        axes.legend()
        return axes


def local_minima(
    task: Task,
    activation: Activation | str,
    *,
    starts: int = 24,
    seed: int = 0,
    report: Report | None = None,
) -> LocalMinima:
    r"""Search the risk for local minima from many starts.

    Starts are the matched and the mismatched direction at two sizes each, then keys of random
    direction and size (spaced evenly in the logarithm, 0.2 to 8), each with the values that are
    best for them.

    Parameters
    ----------
    task, activation
        What is learned, and by which attention; a free bias is part of the search.
    starts, seed
        Number of starts, at least 4, and the seed of the random ones.
    report
        Called as ``report(done, total, label)`` after each start.

    Raises
    ------
    ValueError
        If the signal is infinite and shifts the relevant token, or a number is out of range.

    Examples
    --------
    >>> from slrlab import SpikedSLR, local_minima
    >>> found = local_minima(SpikedSLR(signal=2.0, length=10), "softmax", starts=6)
    >>> [f"{item.kind} {item.risk:.4f}" for item in found.minima]
    ['matched 0.6665', 'mismatched 0.9307']
    """
    chosen = checked(task, activation, 1.0).without_idle_bias()
    count = _checks.integer(starts, "starts", low=4)
    coarse, fine = (make_landscape(task, chosen, resolution=r, seed=seed) for r in (0.8, 1.0))
    rng = np.random.default_rng(_checks.integer(seed, "seed", low=0))
    learn = chosen.bias is None
    known: list[Minimum] = []
    for done, k in enumerate(_starts(count, rng), start=1):
        candidate = descend(coarse, k, chosen.bias or 0.0, learn_bias=learn)
        twin = next((i for i, item in enumerate(known) if _same(item, candidate)), None)
        if twin is None:
            if candidate.status is not Status.BOUNDARY:
                candidate = descend(fine, candidate.k, candidate.bias, learn_bias=learn)
            known.append(minimum_at(fine, candidate, learn_bias=learn))
        else:
            known[twin] = replace(known[twin], found=known[twin].found + 1)
        if report is not None:
            report(done, count, "local minima")
    known.sort(key=lambda item: item.risk)
    return LocalMinima(
        status=Status.worst(item.status for item in known),
        minima=tuple(known),
        starts=count,
        setting=Setting(task, chosen),
    )


@dataclass(frozen=True)
class Candidate:
    """Where a descent in the keys ended."""

    k: FloatArray
    v: FloatArray
    bias: float
    risk: float
    gradient_norm: float
    status: Status


def descend(landscape: Landscape, k: FloatArray, bias: float, *, learn_bias: bool) -> Candidate:
    """Minimise over keys (and the bias) at the best values.

    A turn of the two free directions changes nothing, so ``k`` is kept on the first three. A trust
    region follows the basin that it starts in; a line search would leap across to a plateau.
    """
    from scipy.optimize import minimize

    def unpack(y: FloatArray) -> tuple[FloatArray, float]:
        return np.array([y[0], y[1], y[2], 0.0]), float(y[3]) if learn_bias else bias

    def objective(y: FloatArray) -> tuple[float, FloatArray]:
        _, slope = landscape.at_best_values(*unpack(y))
        return slope.risk, np.append(slope.k[:3], slope.bias)[: y.size]

    def second(y: FloatArray) -> FloatArray:
        return differences(lambda point: objective(point)[1], y, landscape.smooth)

    def leave(y: FloatArray) -> None:
        if np.linalg.norm(y[:3]) > FAR:
            raise StopIteration

    start = np.array([k[0], k[1], np.hypot(k[2], k[3]), bias])[: 4 if learn_bias else 3]
    found = minimize(  # type: ignore[call-overload]  # the stubs do not know every callback
        objective,
        start,
        jac=True,
        hess=second,
        method="trust-exact",
        callback=leave,
        options={
            "gtol": _FLAT[landscape.smooth] / 100.0,
            "initial_trust_radius": 0.2,
            "max_trust_radius": FAR,
        },
    )
    keys, shift = unpack(found.x)
    v, slope = landscape.at_best_values(keys, shift)
    norm = math.hypot(float(np.linalg.norm(slope.k)), slope.bias if learn_bias else 0.0)
    flat = norm < _FLAT[landscape.smooth]
    status = Status.CONVERGED if flat else Status.NOT_CONVERGED
    if np.linalg.norm(keys) > FAR:
        status = Status.BOUNDARY
    return Candidate(keys, v, shift, slope.risk, norm, status)


def differences(
    gradient: Callable[[FloatArray], FloatArray], point: FloatArray, smooth: bool
) -> FloatArray:
    """Return the symmetric matrix of second derivatives, by central differences."""
    step = _DIFFERENCE[smooth] * (1.0 + float(np.linalg.norm(point)))
    rows = central_differences(gradient, point, step)
    return np.asarray((rows + rows.T) / 2.0)


def hessian(
    landscape: Landscape, k: FloatArray, v: FloatArray, bias: float, *, learn_bias: bool
) -> FloatArray:
    """Return the second derivatives in ``k``, ``v`` (and the bias), by central differences."""
    extra = [bias] if learn_bias else []

    def gradient(y: FloatArray) -> FloatArray:
        slope = landscape(y[:SIZE], y[SIZE : 2 * SIZE], float(y[-1]) if learn_bias else bias)
        return np.concatenate([slope.k, slope.v, [slope.bias] if learn_bias else []])

    return differences(gradient, np.concatenate([k, v, extra]), landscape.smooth)


def minimum_at(
    landscape: Landscape, candidate: Candidate, *, learn_bias: bool, curvatures: bool = True
) -> Minimum:
    """Return what is to be said about the end of a descent, without its Hessian if so asked."""
    order = overlaps_of(candidate.k, candidate.v)
    bends = np.empty(0)
    if curvatures:
        second = hessian(landscape, candidate.k, candidate.v, candidate.bias, learn_bias=learn_bias)
        bends = np.asarray(np.linalg.eigvalsh(second), dtype=float)
    return Minimum(
        status=candidate.status,
        kind=kind_of(order),
        risk=candidate.risk,
        order=order,
        bias=candidate.bias,
        curvatures=bends,
        gradient_norm=candidate.gradient_norm,
        found=1,
    )


def _starts(count: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    """Yield keys: matched and mismatched at two sizes, then random ones."""
    for size in (1.0, 3.0):
        yield np.array([size, 0.0, 0.0, 0.0])
        yield np.array([0.0, size, 0.0, 0.0])
    for size in np.geomspace(*_SIZES, max(count - 4, 1))[: count - 4]:
        direction = rng.standard_normal(3)
        yield np.append(size * direction / np.linalg.norm(direction), 0.0)


def _same(known: Minimum, candidate: Candidate) -> bool:
    """Return whether a candidate is a known minimum or its mirror image."""
    order = overlaps_of(candidate.k, candidate.v)
    if known.at_infinity or candidate.status is Status.BOUNDARY:
        both = known.at_infinity and candidate.status is Status.BOUNDARY
        return both and kind_of(order) is known.kind
    there = known.order
    gaps = (
        order.m_kk - there.m_kk,
        abs(order.m_kv) - abs(there.m_kv),
        math.sqrt(max(order.q_kk, 0.0)) - math.sqrt(max(there.q_kk, 0.0)),
        candidate.bias - known.bias,
    )
    return max(map(abs, gaps)) < _SAME * (1.0 + math.sqrt(there.q_kk))
