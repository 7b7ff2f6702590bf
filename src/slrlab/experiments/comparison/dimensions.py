r"""Theory beside simulation as ``D → ∞``: the drift ``O(1/D)`` estimated from several dimensions.

A simulation at finite ``D`` differs from the theory by about ``b/D`` even if the theory is right.
The difference is fitted as ``a + b/D``, and ``a`` is compared with 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from slrlab import _checks
from slrlab._plot import axes_of, draw_quantities
from slrlab._result import Estimate, Result, Status, plain
from slrlab._types import Axes, DataFrame, Report
from slrlab.experiments.comparison.amp import COMPARED, AmpComparison, compare_amp
from slrlab.experiments.comparison.student import Limit, difference, family_p, limit, p_value
from slrlab.experiments.comparison.training import Comparison, compare_erm
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task
from slrlab.simulation.training.erm import samples_of
from slrlab.theory.erm import ErmTheory


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
        axes, gaps = axes_of(ax), [fit.value for fit in self.limits.values()]
        values, errors = [gap.value for gap in gaps], [gap.error for gap in gaps]
        axes.errorbar(list(self.limits), values, yerr=errors, fmt="ko", capsize=3)
        axes.axhline(0.0, color="0.6", linewidth=0.8)
        axes.set(xlabel="quantity", ylabel="simulation minus theory, $D \\to \\infty$")
        return axes

    @property
    def p_values(self) -> dict[str, float]:
        """For each quantity the p-value of ``a = 0``: that the theory holds as ``D → ∞``."""
        return {name: p_value(fit.value) for name, fit in self.limits.items()}

    @property
    def family_p(self) -> float:
        """The smallest p-value times the number of quantities (Bonferroni), at most 1."""
        return family_p(self.p_values.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the limits and every comparison, JSON-ready."""
        return _to_dict(self)

    def to_frame(self) -> DataFrame:
        """Return one row for each dimension and quantity, and one for each limit (``dim`` inf)."""
        import pandas as pd

        rows = [{"quantity": name, **fit.columns} for name, fit in self.limits.items()]
        last = pd.DataFrame(rows).assign(dim=float("inf"))
        return pd.concat([*(c.to_frame() for c in self.comparisons), last], ignore_index=True)


@dataclass(frozen=True)
class AmpExtrapolation(Result):
    """Message passing beside its state evolution, as `ErmExtrapolation` for each iteration.

    ``iteration`` is 1, 2, …, as far as the runs at all dimensions got.
    """

    comparisons: tuple[AmpComparison, ...]
    iteration: tuple[int, ...]
    limits: dict[str, tuple[Limit, ...]]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw simulation minus theory as ``D → ∞`` against the iteration, with errors."""
        gaps = {name: [fit.value.value for fit in path] for name, path in self.limits.items()}
        errors = {name: [fit.value.error for fit in path] for name, path in self.limits.items()}
        axes = draw_quantities(ax, self.iteration, gaps, errors, points=True)
        axes.axhline(0.0, color="0.6", linewidth=0.8)
        axes.set(xlabel="iteration", ylabel="simulation minus theory, $D \\to \\infty$")
        return axes

    @property
    def family_p(self) -> dict[str, float]:
        """For each quantity the smallest p-value of ``a = 0`` times the number of iterations."""
        return {
            name: family_p(p_value(fit.value) for fit in path) for name, path in self.limits.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the limits and every comparison, JSON-ready."""
        return _to_dict(self)


def _to_dict(extrapolation: ErmExtrapolation | AmpExtrapolation) -> dict[str, Any]:
    values = {
        "status": extrapolation.status,
        "dims": [comparison.dim for comparison in extrapolation.comparisons],
        "limits": extrapolation.limits,
        "limit_family_p": extrapolation.family_p,
        "comparisons": extrapolation.comparisons,
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

    ``given`` are the other arguments of `slrlab.experiments.comparison.training.compare_erm` but
    ``theory``.
    Each dimension takes ``seeds`` seeds of its own. The weights of the fit are those of
    `slrlab.experiments.comparison.student.limit`.

    Raises
    ------
    ValueError
        If there are fewer than two different dimensions or two seeds, or a number is out of range.

    Examples
    --------
    >>> from slrlab import SpikedSLR
    >>> from slrlab.experiments.comparison.dimensions import extrapolate_erm
    >>> given = {"alpha": 4.0, "ridge_k": 1.0, "ridge_v": 1.0}
    >>> limits = extrapolate_erm(SpikedSLR(2.0, 2), "linear", dims=(50, 100), seeds=8, **given)
    >>> limits.family_p > 0.001
    True
    """
    comparisons: list[Comparison] = []
    theories: dict[float, ErmTheory] = {}  # the same N/D has the same theory: it is solved once
    for size in _sizes(dims, seeds, seed, report):
        ratio = samples_of(alpha, size["dim"]) / size["dim"]
        size |= {"alpha": alpha, "theory": theories.get(ratio)}
        comparisons.append(compare_erm(task, activation, **size, **given))
        theories[ratio] = comparisons[-1].theory
    dims = [one.dim for one in comparisons]
    limits = {
        name: gap_limit([one.sides(name) for one in comparisons], dims)
        for name in comparisons[0].gaps
    }
    status = Status.worst(one.status for one in comparisons)
    return ErmExtrapolation(status=status, comparisons=tuple(comparisons), limits=limits)


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
    sizes = _sizes(dims, seeds, seed, report)
    comparisons = tuple(compare_amp(task, **size, **given) for size in sizes)
    dims = [one.dim for one in comparisons]
    limits = {}
    for name in COMPARED:
        sides = [one.sides(name) for one in comparisons]
        limits[name] = tuple(gap_limit(pairs, dims) for pairs in zip(*sides, strict=False))
    return AmpExtrapolation(
        status=Status.worst(one.status for one in comparisons),
        comparisons=comparisons,
        iteration=min((one.iteration for one in comparisons), key=len),
        limits=limits,
    )


def gap_limit(pairs: Sequence[tuple[Estimate, Estimate]], dims: Sequence[int]) -> Limit:
    """Fit ``a + b/D`` to simulation minus theory, given both at each dimension.

    The theories of all dimensions share one sample, so their error is common to all gaps: it is
    part of the limit and not of the drift.
    """
    gaps = [Estimate(mean.value - exact.value, mean.error, mean.freedom) for mean, exact in pairs]
    fit, (_, exact) = limit(gaps, dims), pairs[-1]
    common = Estimate(0.0, exact.error, exact.freedom)
    return replace(fit, value=difference(fit.value, common))


def _sizes(
    dims: Sequence[int], seeds: int, seed: int, report: Report | None
) -> list[dict[str, Any]]:
    """Return the arguments at each dimension, the smallest first: each has its own seeds."""
    sizes = sorted({_checks.integer(dim, "dims", low=2) for dim in dims})
    if len(sizes) < 2:
        raise ValueError(f"dims must be at least two different dimensions, got {list(dims)}")
    _checks.integer(seeds, "seeds", low=2)
    seed = _checks.integer(seed, "seed", low=0)
    return [
        {"dim": dim, "seeds": seeds, "seed": seed + index * seeds}
        | {"report": report and partial(_report_part, report, index, len(sizes), dim)}
        for index, dim in enumerate(sizes)
    ]


def _report_part(
    report: Report, index: int, count: int, dim: int, done: int, total: int, label: str
) -> None:
    """Report the progress of one of several equal parts as a share of the whole."""
    report(index * total + done, count * total, f"D {dim}, {label}")
