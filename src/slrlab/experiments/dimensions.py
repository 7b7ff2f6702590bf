r"""Theory beside simulation as ``D → ∞``: the drift ``O(1/D)`` estimated from several dimensions.

What is simulated at a finite ``D`` differs from the theory by ``b/D`` even if the theory is right.
The difference is fitted as ``a + b/D``; ``a`` is what is to be compared with 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slrlab import _checks
from slrlab._plot import axes_of, draw_quantities
from slrlab._result import Estimate, Result, Status, plain
from slrlab._types import Report
from slrlab.experiments.amp import COMPARED, AmpComparison, compare_amp
from slrlab.experiments.comparison import Comparison, compare_erm
from slrlab.experiments.student import (
    Limit,
    difference,
    family_p,
    interval,
    limit,
    normal_score,
    p_value,
)
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task
from slrlab.simulation.training.erm import samples_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class ErmExtrapolation(Result):
    """Trained attention beside its theory at several dimensions and in their limit.

    Attributes
    ----------
    comparisons
        One for each dimension, the smallest first; each has its own data.
    limits
        For each quantity the fit ``a + b/D`` to simulation minus theory.
    """

    comparisons: tuple[Comparison, ...]
    limits: dict[str, Limit]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw simulation minus theory as ``D → ∞`` for each quantity, with its error."""
        axes, names = axes_of(ax), list(self.limits)
        limits = [self.limits[name].value for name in names]
        errors = [limit.error for limit in limits]
        axes.errorbar(names, [limit.value for limit in limits], yerr=errors, fmt="ko", capsize=3)
        axes.axhline(0.0, color="0.6", linewidth=0.8)
        axes.set(xlabel="quantity", ylabel="simulation minus theory, $D \\to \\infty$")
        return axes

    @property
    def p_values(self) -> dict[str, float]:
        """For each quantity the p-value of ``a = 0``: that the theory holds as ``D → ∞``."""
        return {name: p_value(found.value) for name, found in self.limits.items()}

    @property
    def family_p(self) -> float:
        """The smallest p-value times the number of quantities (Bonferroni), at most 1."""
        return family_p(self.p_values.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the limits and every comparison, JSON-ready."""
        return {
            "status": str(self.status),
            "dims": [found.simulation.dim for found in self.comparisons],
            "limits": {name: limit_dict(found) for name, found in self.limits.items()},
            "limit_family_p": plain(self.family_p),
            "comparisons": [found.to_dict() for found in self.comparisons],
        }

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each dimension and quantity, and one for each limit (``dim`` inf)."""
        import pandas as pd

        rows = []
        for name, found in self.limits.items():
            gap = found.value
            row = {"quantity": name, "gap": gap.value, "gap_error": gap.error}
            row |= {"freedom": gap.freedom, "p_value": p_value(gap), "z": normal_score(gap)}
            rows.append(row | {"drift": found.drift.value, "drift_error": found.drift.error})
        last = pd.DataFrame(rows).assign(dim=float("inf"))
        return pd.concat([*(c.to_frame() for c in self.comparisons), last], ignore_index=True)


@dataclass(frozen=True)
class AmpExtrapolation(Result):
    """Message passing beside its state evolution at several dimensions and in their limit.

    Attributes
    ----------
    comparisons
        One for each dimension, the smallest first; each has its own data.
    iteration
        1, 2, …, as far as the runs at all dimensions got.
    limits
        For ``q_k``, ``q_v`` and ``risk`` the fit ``a + b/D`` to simulation minus theory, one for
        each iteration.
    """

    comparisons: tuple[AmpComparison, ...]
    iteration: tuple[int, ...]
    limits: dict[str, tuple[Limit, ...]]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw simulation minus theory as ``D → ∞`` against the iteration, with errors."""
        axes = axes_of(ax)
        gaps = {name: [found.value.value for found in path] for name, path in self.limits.items()}
        errors = {name: [found.value.error for found in path] for name, path in self.limits.items()}
        draw_quantities(axes, self.iteration, gaps, errors, points=True)
        axes.axhline(0.0, color="0.6", linewidth=0.8)
        axes.set(xlabel="iteration", ylabel="simulation minus theory, $D \\to \\infty$")
        axes.legend()
        return axes

    @property
    def family_p(self) -> dict[str, float]:
        """For each of the three the smallest p-value of ``a = 0`` times the iterations."""
        return {
            name: family_p(p_value(found.value) for found in path)
            for name, path in self.limits.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the limits and every comparison, JSON-ready."""
        return {
            "status": str(self.status),
            "dims": [found.dim for found in self.comparisons],
            "limits": {
                name: [limit_dict(found) for found in path] for name, path in self.limits.items()
            },
            "limit_family_p": plain(self.family_p),
            "comparisons": [found.to_dict() for found in self.comparisons],
        }


def limit_dict(found: Limit) -> dict[str, Any]:
    """Return a limit of simulation minus theory as JSON-ready values."""
    gap, drift = found.value, found.drift
    values = {
        "gap": gap.value,
        "gap_error": gap.error,
        "freedom": gap.freedom,
        "gap_interval": interval(gap),
        "p_value": p_value(gap),
        "z": normal_score(gap),
        "drift": drift.value,
        "drift_error": drift.error,
        "drift_p_value": p_value(drift),
    }
    return {name: plain(value) for name, value in values.items()}


def extrapolate_erm(
    task: Task,
    activation: Activation | str,
    *,
    alpha: float,
    dims: Sequence[int],
    seeds: int = 16,
    seed: int = 0,
    report: Report | None = None,
    **given: Any,
) -> ErmExtrapolation:
    r"""Compare training with the theory at several dimensions, and as ``D → ∞``.

    ``given`` are the other arguments of `slrlab.experiments.comparison.compare_erm`. Each dimension
    takes ``seeds`` seeds of its own. The weights of the fit are those of
    `slrlab.experiments.student.limit`.

    Raises
    ------
    ValueError
        If there are fewer than two different dimensions or two seeds, or a number is out of range.

    Examples
    --------
    >>> from slrlab import SpikedSLR
    >>> from slrlab.experiments.dimensions import extrapolate_erm
    >>> given = {"alpha": 4.0, "ridge_k": 1.0, "ridge_v": 1.0}
    >>> found = extrapolate_erm(SpikedSLR(2.0, 2), "linear", dims=(50, 100), seeds=8, **given)
    >>> found.family_p > 0.001
    True
    """
    sizes, first = _sizes(dims, seeds), _checks.integer(seed, "seed", low=0)
    found: list[Comparison] = []
    for at, dim in enumerate(sizes):
        # the same N/D has the same theory: it is solved once
        ratio = samples_of(alpha, dim) / dim
        known = [old.theory for old in found if old.simulation.setting.alpha == ratio]
        here = {"alpha": alpha, "dim": dim, "seeds": seeds, "seed": first + at * seeds, **given}
        here |= {"theory": known[0] if known else None}
        part = _part(report, at, len(sizes), dim)
        found.append(compare_erm(task, activation, report=part, **here))
    limits = {name: gap_limit([one.sides(name) for one in found], sizes) for name in found[0].gaps}
    status = Status.worst(one.status for one in found)
    return ErmExtrapolation(status=status, comparisons=tuple(found), limits=limits)


def extrapolate_amp(
    task: Task,
    *,
    dims: Sequence[int],
    seeds: int = 16,
    seed: int = 0,
    report: Report | None = None,
    **given: Any,
) -> AmpExtrapolation:
    """Compare message passing with its state evolution at several dimensions, and as ``D → ∞``.

    ``given`` are the other arguments of `slrlab.compare_amp`; see `extrapolate_erm`.

    Raises
    ------
    TypeError, ValueError
        As `slrlab.compare_amp`, and if there are fewer than two different dimensions or two seeds.
    """
    sizes, first = _sizes(dims, seeds), _checks.integer(seed, "seed", low=0)
    found = []
    for at, dim in enumerate(sizes):
        here = {"dim": dim, "seeds": seeds, "seed": first + at * seeds, **given}
        found.append(compare_amp(task, report=_part(report, at, len(sizes), dim), **here))
    reached = min((one.iteration for one in found), key=len)
    limits = {}
    for name in COMPARED:
        sides = [one.sides(name) for one in found]
        limits[name] = tuple(gap_limit(pairs, sizes) for pairs in zip(*sides, strict=False))
    status = Status.worst(one.status for one in found)
    return AmpExtrapolation(
        status=status, comparisons=tuple(found), iteration=reached, limits=limits
    )


def gap_limit(pairs: Sequence[tuple[Estimate, Estimate]], dims: Sequence[int]) -> Limit:
    """Fit ``a + b/D`` to simulation minus theory, given both at each dimension.

    The theories of all dimensions share one sample, so their error is common to all gaps: it is
    part of the limit and not of the drift.
    """
    gaps = [Estimate(ours.value - exact.value, ours.error, ours.freedom) for ours, exact in pairs]
    found, (_, exact) = limit(gaps, dims), pairs[-1]
    common = Estimate(0.0, exact.error, exact.freedom)
    return Limit(difference(found.value, common), found.drift)


def _sizes(dims: Sequence[int], seeds: int) -> list[int]:
    sizes = sorted({_checks.integer(dim, "dims", low=2) for dim in dims})
    if len(sizes) < 2:
        raise ValueError(f"dims must be at least two different dimensions, got {list(dims)}")
    _checks.integer(seeds, "seeds", low=2)
    return sizes


def _part(report: Report | None, at: int, count: int, dim: int) -> Report | None:
    """Return the report of one of several equal parts, as a share of the whole."""
    if report is None:
        return None

    def share(done: int, total: int, label: str) -> None:
        report(at * total + done, count * total, f"D {dim}, {label}")

    return share
