r"""Universality: the theory of Gaussian tokens against training on tokens of another law.

Attention is trained on tokens of several laws at several dimensions. Simulation minus theory is
fitted as ``a + b/D`` for each quantity; the theory holds for a law if ``a`` is 0 up to chance, and
``b`` is the drift. Tokens with correlated coordinates are also compared with the theory that knows
their covariance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from numbers import Real
from typing import Any, NamedTuple

from slrlab import _checks
from slrlab._plot import axes_of
from slrlab._result import Estimate, Result, Status, plain
from slrlab._types import Axes, DataFrame, Report
from slrlab.experiments.comparison.dimensions import gap_limit
from slrlab.experiments.comparison.student import (
    Limit,
    difference,
    family_p,
    gap_columns,
    half_width,
    p_value,
)
from slrlab.experiments.running.parallel import parallel_map
from slrlab.model.activations import Activation
from slrlab.model.setting import Setting
from slrlab.model.tasks import SelectionTask, SpikedSLR, Task
from slrlab.model.token_laws import TokenLaw
from slrlab.simulation.training.erm import simulate_erm, trainable, training_bytes
from slrlab.theory.erm import CorrelatedTheory, ErmTheory, correlated_theory, erm_theory
from slrlab.theory.erm.fields import BLOCKS

QUANTITIES = ("test_risk", "train_mse", "m_k", "q_k", "m_v", "q_v")
LAWS = (
    "gaussian",
    "rademacher",
    "laplace",
    "student(5)",
    "student(3)",
    "gaussian+ar1(0.5)",
    "rademacher+ar1(0.5)",
    "gaussian+shared(0.3)",
)
DIMS = (300, 600)
UNCORRELATED, CORRELATED = "uncorrelated", "correlated"
"""The theory of independent Gaussian entries, and that with the covariance of the tokens."""
LEVEL = 0.01  # p-value, after Bonferroni over the quantities, below which a theory does not hold


class _Point(NamedTuple):
    """What one call simulates."""

    setting: Setting
    law: str
    dim: int
    seeds: int
    seed: int
    test_samples: int


@dataclass(frozen=True)
class LawVerdict:
    """Whether a theory holds for a law of tokens.

    Attributes
    ----------
    law, theory
        The law, and ``uncorrelated`` or ``correlated``.
    limits
        For each quantity the fit ``a + b/D`` to simulation minus theory.
    """

    law: str
    theory: str
    limits: dict[str, Limit]

    @property
    def family_p(self) -> float:
        """The smallest p-value of ``a = 0`` times the number of quantities, at most 1."""
        return family_p(p_value(fit.value) for fit in self.limits.values())

    @property
    def holds(self) -> bool:
        """Whether no difference is seen as ``D → ∞``."""
        return self.family_p >= LEVEL

    def to_dict(self) -> dict[str, Any]:
        """Return the fits and the test, JSON-ready."""
        own = {"law": self.law, "theory": self.theory, "family_p": self.family_p}
        return dict(plain(own | {"holds": self.holds, "limits": self.limits}))


@dataclass(frozen=True)
class Universality(Result):
    """Training on tokens of several laws beside the theory.

    Attributes
    ----------
    verdicts
        One for each law and theory.
    rows
        A table with a row for each law, theory, quantity and dimension; ``dim`` is inf for the fit.
    setting
        Task, activation, ``alpha`` and ridges.
    """

    verdicts: tuple[LawVerdict, ...]
    rows: DataFrame
    setting: Setting

    def to_dict(self) -> dict[str, Any]:
        """Return setting, verdicts and rows as JSON-ready values."""
        rows = self.rows.astype(object).where(self.rows.notna(), None).to_dict("records")
        own = {"status": str(self.status), "verdicts": plain(list(self.verdicts))}
        return self.setting.to_dict() | own | {"rows": plain(rows)}

    def to_frame(self) -> DataFrame:
        """Return the rows."""
        return self.rows

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return columns and rows for people: the test risk as ``D → ∞`` and the verdict."""
        columns = ["law", "theory", "gap of the test risk", "drift b", "p", "holds"]
        return columns, [
            [
                one.law,
                one.theory,
                f"{fit.value.value:.4f} ± {half_width(fit.value):.4f}",
                str(fit.drift),
                f"{one.family_p:.2g}",
                "yes" if one.holds else "no",
            ]
            for one in self.verdicts
            for fit in [one.limits["test_risk"]]
        ]

    def __str__(self) -> str:
        return f"{self.setting}, tokens of {len({one.law for one in self.verdicts})} laws"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the gap of the test risk as ``D → ∞`` for each law, with 95 % intervals."""
        axes = axes_of(ax)
        for theory, color, marker in ((UNCORRELATED, "#000000", "o"), (CORRELATED, "#E69F00", "D")):
            part = [one for one in self.verdicts if one.theory == theory]
            gaps = [one.limits["test_risk"].value for one in part]
            axes.errorbar(
                [one.law for one in part],
                [gap.value for gap in gaps],
                yerr=[half_width(gap) for gap in gaps],
                fmt=marker,
                color=color,
                capsize=3,
                label=f"{theory} theory",
            )
        axes.axhline(0.0, color="0.6", linewidth=0.8)
        axes.tick_params(axis="x", rotation=30)
        axes.set(xlabel="token law", ylabel="test risk, simulation minus theory")
        axes.legend()
        return axes


def universality(
    task: Task,
    activation: Activation | str = "softmax",
    *,
    alpha: float,
    ridge_k: float,
    ridge_v: float,
    laws: Sequence[str | TokenLaw] = LAWS,
    dims: Sequence[int] = DIMS,
    seeds: int | Sequence[int] = 16,
    seed: int = 0,
    test_samples: int = 4000,
    tolerance: float = 1e-3,
    workers: int | None = 1,
    report: Report | None = None,
) -> Universality:
    r"""Train on tokens of several laws and compare with the theory, as ``D → ∞``.

    Parameters
    ----------
    task, activation
        Task and activation; the activation by its name if there are several workers.
    alpha, ridge_k, ridge_v
        Samples per dimension and ridges.
    laws
        Laws of the entries, as `slrlab.TokenLaw` reads them.
    dims
        Two or more dimensions.
    seeds, seed
        Trainings at each dimension, one number for all or one for each of ``dims``, and the first
        of their seeds; each dimension has its own.
    test_samples
        Fresh sequences that measure the risk of each training.
    tolerance
        Standard error of the test risk of the theory.
    workers, report
        As for `slrlab.compare`.

    Returns
    -------
    Universality
        A verdict for each law and theory, and all differences as a table.

    Raises
    ------
    ValueError
        If a law is not known, or a number is out of range, before any work.

    Examples
    --------
    >>> from slrlab import SpikedSLR, universality
    >>> result = universality(SpikedSLR(2.0, 2), "linear", alpha=4.0, ridge_k=1.0, ridge_v=1.0,
    ...     laws=["rademacher"], dims=(50, 100), seeds=8)
    >>> result.verdicts[0].holds
    True
    """
    import pandas as pd

    kinds = [TokenLaw.of(law) for law in laws]
    sizes = [_checks.integer(dim, "dims", low=2) for dim in dims]
    if not kinds:
        _checks.fail("laws", "one or more laws of tokens", "an empty list")
    if len(set(sizes)) < 2:
        _checks.fail("dims", "at least two different dimensions", list(dims))
    test_samples = _checks.integer(test_samples, "test_samples")
    counts = [seeds] if isinstance(seeds, int | Real) else list(seeds)
    if len(counts) not in (1, len(sizes)):
        _checks.fail("seeds", "one number, or one for each of dims", counts)
    numbers = [_checks.integer(n, "seeds", low=2) for n in counts] * (len(sizes) // len(counts))
    runs = dict(sorted(zip(sizes, numbers, strict=True)))
    starts = accumulate(runs.values(), initial=_checks.integer(seed, "seed", low=0))
    given: dict[str, Any] = {"alpha": alpha, "ridge_k": ridge_k, "ridge_v": ridge_v}
    setting = Setting(task, trainable(activation), **given)
    theories = _theories(setting, kinds, tolerance, report)
    points = [
        _Point(setting, str(law), dim, runs[dim], first, test_samples)
        for dim, first in reversed(list(zip(runs, starts, strict=False)))  # costly ones first
        for law in kinds
    ]
    size = training_bytes(task, max(runs), alpha)
    done = parallel_map(
        _simulated, points, label="universality", report=report, workers=workers, size=size
    )
    means = {(point.law, point.dim): one for point, one in zip(points, done, strict=True)}
    tests = [
        _test(str(law), name, theories[covariance], [(dim, means[str(law), dim]) for dim in runs])
        for law in kinds
        for name, covariance in _compared(setting.task, law)
    ]
    statuses = [Status(one["status"]) for one in done]
    return Universality(
        status=Status.worst([*statuses, *(theory.status for theory in theories.values())]),
        verdicts=tuple(verdict for verdict, _ in tests),
        rows=pd.concat([rows for _, rows in tests], ignore_index=True),
        setting=setting,
    )


def _compared(task: Task, law: TokenLaw) -> list[tuple[str, float]]:
    """Return the theories that a law is compared with: their names and correlations."""
    known = isinstance(task, SpikedSLR | SelectionTask) and law.ar1 > 0.0 and law.shared == 0.0
    return [(UNCORRELATED, 0.0), *([(CORRELATED, law.ar1)] if known else [])]


def _theories(
    setting: Setting, laws: Sequence[TokenLaw], tolerance: float, report: Report | None
) -> dict[float, ErmTheory | CorrelatedTheory]:
    """Return the theory for each correlation of neighbouring coordinates."""
    given: dict[str, Any] = setting.arguments | {"tolerance": tolerance, "report": report}
    theories: dict[float, ErmTheory | CorrelatedTheory] = {0.0: erm_theory(**given)}
    for law in laws:
        for _, covariance in _compared(setting.task, law):
            if covariance not in theories:
                theories[covariance] = correlated_theory(**given, spectrum=law.spectrum())
    return theories


def _simulated(point: _Point) -> dict[str, Any]:
    """Return the mean of each quantity over seeds with its error, and the status."""
    training = simulate_erm(
        **point.setting.arguments,
        dim=point.dim,
        seeds=point.seeds,
        seed=point.seed,
        test_samples=point.test_samples,
        token_law=point.law,
    )
    numbers = {name: training.estimate(name) for name in QUANTITIES}
    return {name: (one.value, one.error) for name, one in numbers.items()} | {
        "status": str(training.status),
        "freedom": point.seeds - 1.0,
    }


def _test(
    law: str,
    name: str,
    theory: ErmTheory | CorrelatedTheory,
    means: Sequence[tuple[int, dict[str, Any]]],
) -> tuple[LawVerdict, DataFrame]:
    """Return the fits of one law and one theory, and a row for each quantity and dimension."""
    import pandas as pd

    rows, limits = [], {}
    for quantity in QUANTITIES:
        error = theory.errors.get(quantity, theory.test_risk_error)
        exact = Estimate(getattr(theory, quantity), error, BLOCKS - 1.0)
        seen = [
            Estimate(mean[quantity][0], mean[quantity][1], mean["freedom"]) for _, mean in means
        ]
        limits[quantity] = gap_limit([(one, exact) for one in seen], [dim for dim, _ in means])
        same = {"quantity": quantity, "theory_value": exact.value, "theory_error": exact.error}
        for one, (dim, mean) in zip(seen, means, strict=True):
            tested = gap_columns(difference(one, exact))
            own = {"simulation": one.value, "simulation_error": one.error}
            where = {"dim": dim, "seeds": mean["freedom"] + 1.0, "status": mean["status"]}
            rows.append(same | own | tested | where)
        rows.append(same | limits[quantity].columns | {"dim": math.inf})
    return LawVerdict(law, name, limits), pd.DataFrame(rows).assign(law=law, theory=name)
