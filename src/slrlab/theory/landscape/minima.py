r"""Local minima of the risk: a search from many starts, kinds of minima, and their curvatures.

Independent of time.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from slrlab import _checks
from slrlab._plot import END_COLORS, Mark, axes_of
from slrlab._result import Result, Status
from slrlab._types import Axes, DataFrame, FloatArray, Report
from slrlab.model.activations import Activation
from slrlab.model.order_parameters import FullOrderParameters
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.theory.landscape.reduced import Candidate, ReducedRisk
from slrlab.theory.landscape.risk import make_landscape
from slrlab.theory.population.minimal import checked

_SAME = 1e-3  # distance below which two minima are the same
_SIZES = (0.2, 8.0)  # |k| of the random starts


class Kind(StrEnum):
    """Alignment of a pair of vectors with the teachers."""

    MATCHED = "matched"
    """``k`` along ``k*`` and ``v`` along ``v*``."""
    MISMATCHED = "mismatched"
    """``k`` along ``v*`` and ``v`` with a component along ``k*``, up to a common sign."""
    OTHER = "other"
    """Neither."""


def kind_of(order: FullOrderParameters) -> Kind:
    """Return the kind of alignment.

    Matched: more than half of ``|k|²`` is along ``k*`` and more than half of ``|v|²`` along ``v*``.
    Mismatched: more than half of ``|k|²`` is along ``v*`` and ``m_vk`` has the sign of ``m_kv``; as
    the signal grows, the values of that minimum turn from ``k*`` towards ``−v*``.

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
        numbers are those at which the descent stopped; ``not converged``.
    kind
        ``matched``, ``mismatched`` or ``other``.
    risk
        Risk, label noise included.
    order, bias
        Overlaps and bias. A mirror image (``m_kv``, ``m_vk`` and ``q_kv`` of the other sign) has
        the same risk.
    curvatures
        Eigenvalues of the Hessian in ``k, v ∈ R⁴`` (and a free bias), smallest first.
    gradient_norm
        Length of the gradient in ``k`` (and a free bias) at the best ``v``.
    starts
        Number of starts that led here.
    """

    kind: Kind
    risk: float
    order: FullOrderParameters
    bias: float
    curvatures: FloatArray
    gradient_norm: float
    starts: int

    @property
    def at_infinity(self) -> bool:
        """Whether the risk falls as the keys grow without bound."""
        return self.status is Status.BOUNDARY

    def __str__(self) -> str:
        where = " as |k| grows without bound" if self.at_infinity else ""
        return f"{self.kind} minimum: risk {self.risk:.6g}{where}, {self.status}"


@dataclass(frozen=True)
class LocalMinima(Result):
    """All local minima of a search, the lowest first."""

    minima: tuple[Minimum, ...]
    starts: int
    setting: Setting

    def best(self, kind: Kind | str) -> Minimum | None:
        """Return the lowest minimum of a kind, if there is one."""
        kind = Kind(_checks.choice(kind, "kind", [str(item) for item in Kind]))
        return next((minimum for minimum in self.minima if minimum.kind is kind), None)

    def to_frame(self) -> DataFrame:
        """Return one row for each minimum."""
        import pandas as pd

        rows = []
        for minimum in self.minima:
            row = minimum.to_dict()
            order, _ = row.pop("order"), row.pop("curvatures")
            softest, stiffest = minimum.curvatures[[0, -1]]
            rows.append(row | order | {"softest": softest, "stiffest": stiffest})
        return pd.DataFrame(rows)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the risk of each minimum against the cosine of its keys with ``k*``."""
        axes = axes_of(ax)
        for number, kind in enumerate(Kind):
            minima = [minimum for minimum in self.minima if minimum.kind is kind]
            if minima:
                cosines = [item.order.m_kk / math.sqrt(item.order.q_kk) for item in minima]
                mark = Mark(str(kind), END_COLORS[kind], "ov^"[number], "none")
                axes.plot(cosines, [item.risk for item in minima], **mark.line())
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
    direction and size (evenly spaced in the logarithm, 0.2 to 8), each with its best values.

    Parameters
    ----------
    task, activation
        Task and attention; a free bias is part of the search.
    starts, seed
        Number of starts, at least 4, and the seed of the random ones.
    report
        Called as ``report(done, total, label)`` after each start.

    Returns
    -------
    LocalMinima
        The distinct minima, lowest risk first.

    Raises
    ------
    ValueError
        If the signal is infinite and shifts the relevant token, or a number is out of range.

    Examples
    --------
    >>> from slrlab import SpikedSLR, local_minima
    >>> search = local_minima(SpikedSLR(signal=2.0, length=10), "softmax", starts=6)
    >>> [f"{minimum.kind} {minimum.risk:.4f}" for minimum in search.minima]
    ['matched 0.6665', 'mismatched 0.9307']
    """
    chosen = checked(task, activation, 1.0).without_idle_bias()
    starts = _checks.integer(starts, "starts", low=4)
    coarse, fine = (
        ReducedRisk(make_landscape(task, chosen, resolution=r, seed=seed), chosen.bias is None)
        for r in (0.8, 1.0)
    )
    rng = np.random.default_rng(_checks.integer(seed, "seed", low=0))
    minima: list[Minimum] = []
    for done, k in enumerate(_starts(starts, rng), start=1):
        candidate = coarse.descend(k, chosen.bias or 0.0)
        known = next((i for i, minimum in enumerate(minima) if _same(minimum, candidate)), None)
        if known is None:
            if candidate.status is not Status.BOUNDARY:
                candidate = fine.descend(candidate.k, candidate.bias)
            minima.append(minimum_at(fine, candidate))
        else:
            minima[known] = replace(minima[known], starts=minima[known].starts + 1)
        if report is not None:
            report(done, starts, "local minima")
    minima.sort(key=lambda minimum: minimum.risk)
    return LocalMinima(
        status=Status.worst(minimum.status for minimum in minima),
        minima=tuple(minima),
        starts=starts,
        setting=Setting(task, chosen),
    )


def minimum_at(risk: ReducedRisk, candidate: Candidate, *, curvatures: bool = True) -> Minimum:
    """Return the minimum at a candidate, without its Hessian if ``curvatures`` is False."""
    eigenvalues = np.empty(0)
    if curvatures:
        hessian = risk.hessian(candidate.k, candidate.v, candidate.bias)
        eigenvalues = np.asarray(np.linalg.eigvalsh(hessian), dtype=float)
    return Minimum(
        status=candidate.status,
        kind=kind_of(candidate.order),
        risk=candidate.risk,
        order=candidate.order,
        bias=candidate.bias,
        curvatures=eigenvalues,
        gradient_norm=candidate.gradient_norm,
        starts=1,
    )


def key_distance(a: FullOrderParameters, b: FullOrderParameters) -> float:
    """Return the largest difference of the key overlaps of two points, up to a mirror image."""
    along, across = a.m_kk - b.m_kk, abs(a.m_kv) - abs(b.m_kv)
    return max(abs(along), abs(across), abs(math.sqrt(a.q_kk) - math.sqrt(b.q_kk)))


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
    if known.at_infinity or candidate.status is Status.BOUNDARY:
        both = known.at_infinity and candidate.status is Status.BOUNDARY
        return both and kind_of(candidate.order) is known.kind
    distance = max(key_distance(candidate.order, known.order), abs(candidate.bias - known.bias))
    return distance < _SAME * (1.0 + math.sqrt(known.order.q_kk))
