"""Message passing on data beside its state evolution, iteration by iteration.

Each iteration is tested with Student's t. The whole path is judged by the smallest p-value after
Bonferroni, which holds although the iterations depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slrlab._plot import draw_quantities
from slrlab._result import Estimate, Result, Status
from slrlab._types import Axes, DataFrame
from slrlab.experiments.comparison.student import difference, family_p, p_value
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.simulation.message_passing.amp import AmpSimulation, run_amp
from slrlab.theory.bayes_optimal import AmpStateEvolution, amp_state_evolution
from slrlab.theory.bayes_optimal.selected import PATHS

COMPARED = ("q_k", "q_v", "risk")


@dataclass(frozen=True)
class AmpComparison(Result):
    """Message passing and its state evolution, one number for each iteration.

    Attributes
    ----------
    iteration
        1, 2, …, as far as the simulation got.
    q_k, q_v, risk
        Overlaps with the teachers and risk on fresh data, averaged over seeds.
    q_k_error, q_v_error, risk_error
        Their standard errors over seeds; nan with one seed.
    q_k_se, q_v_se, risk_se
        Predictions of state evolution.
    q_k_p_value, q_v_p_value, risk_p_value
        How often chance alone makes so large a difference (Student's t); nan with one seed.
    family_p
        For each of the three the smallest p-value times the number of iterations, at most 1.
    gap_q_k, gap_q_v, gap_risk
        Largest absolute difference over the iterations; nan without iterations.
    theory_error, theory_freedom
        Error of the state evolution, and its degrees of freedom: few if it is sampled.
    """

    iteration: tuple[int, ...]
    q_k: tuple[float, ...]
    q_v: tuple[float, ...]
    risk: tuple[float, ...]
    q_k_error: tuple[float, ...]
    q_v_error: tuple[float, ...]
    risk_error: tuple[float, ...]
    q_k_se: tuple[float, ...]
    q_v_se: tuple[float, ...]
    risk_se: tuple[float, ...]
    q_k_p_value: tuple[float, ...]
    q_v_p_value: tuple[float, ...]
    risk_p_value: tuple[float, ...]
    family_p: dict[str, float]
    gap_q_k: float
    gap_q_v: float
    gap_risk: float
    theory_error: float
    theory_freedom: float
    seconds: float
    dim: int
    samples: int
    seeds: int
    setting: Setting

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return columns and rows for people: each number beside what theory says."""
        columns = ["t", *(head for name in COMPARED for head in (name, "theory"))]
        rows = []
        for iteration, *pairs in zip(self.iteration, *map(self.sides, COMPARED), strict=True):
            row = [str(iteration)]
            for mean, exact in pairs:
                error = "" if math.isnan(mean.error) else f"±{mean.error:.3f}"
                row += [f"{mean.value:.4f}{error}", f"{exact.value:.4f}"]
            rows.append(row)
        return columns, rows

    def sides(self, name: str) -> list[tuple[Estimate, Estimate]]:
        """Return simulation and theory of one quantity after each iteration, with errors."""
        values, errors, exact = (getattr(self, f"{name}{kind}") for kind in ("", "_error", "_se"))
        return _sides(values, errors, self.seeds, exact, self.theory_error, self.theory_freedom)

    def gaps(self, name: str) -> list[Estimate]:
        """Return simulation minus theory of one quantity after each iteration."""
        return [difference(*pair) for pair in self.sides(name)]

    def to_frame(self) -> DataFrame:
        """Return the numbers with one row for each iteration."""
        import pandas as pd

        lists = {name: value for name, value in vars(self).items() if isinstance(value, tuple)}
        return pd.DataFrame(lists)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw overlaps and risk against the iteration: points measured, lines in the limit."""
        names = [name for name in COMPARED if any(map(math.isfinite, getattr(self, name)))]
        exact = {name: getattr(self, f"{name}_se") for name in names}
        axes = draw_quantities(ax, self.iteration, exact, labels=False)
        measured = {name: getattr(self, name) for name in names}
        errors = {name: getattr(self, f"{name}_error") for name in names}
        axes = draw_quantities(axes, self.iteration, measured, errors, points=True)
        axes.set(xlabel="iteration", title="points: simulated, lines: state evolution")
        return axes

    def __str__(self) -> str:
        return (
            f"AMP on {self.setting}, D {self.dim}, {len(self.iteration)} iterations: largest gap "
            f"to state evolution {self.gap_q_k:.4f} in q_k, {self.gap_q_v:.4f} in q_v, "
            f"{self.gap_risk:.4f} in the risk, {self.status}"
        )


def compare_amp(
    task: Task,
    *,
    alpha: float,
    dim: int,
    seeds: int = 16,
    steps: int = 20,
    **options: Any,
) -> AmpComparison:
    """Run message passing and its state evolution on one setting.

    The parameters, ``options`` among them, are those of `slrlab.run_amp`. State evolution is
    computed at the ``N/D`` of the data, which differs from ``alpha`` by the rounding of ``N``. A
    drift of order ``1/D`` is part of the differences;
    `slrlab.experiments.comparison.dimensions.extrapolate_amp` estimates it.

    Parameters
    ----------
    task
        The task that is sampled and solved.
    alpha
        Samples per dimension.
    dim
        Number of dimensions.
    seeds
        Number of runs, each on its own data.
    steps
        Number of iterations.
    **options
        The other parameters of `slrlab.run_amp`.

    Returns
    -------
    AmpComparison
        Both sides and their differences, iteration by iteration.

    Raises
    ------
    TypeError, ValueError
        As `slrlab.run_amp` and `slrlab.amp_state_evolution`, before any data are drawn.

    Examples
    --------
    >>> from slrlab import SpikedSLR, compare_amp
    >>> task = SpikedSLR(2.0, 3, noise=0.3)
    >>> compare_amp(task, alpha=2.0, dim=400, seeds=2, steps=5).gap_q_v < 0.1
    True
    """
    # the theory refuses some lengths that the simulation accepts: check before drawing data
    amp_state_evolution(task, alpha=alpha, steps=1)
    simulation = run_amp(task, alpha=alpha, dim=dim, seeds=seeds, steps=steps, **options)
    theory = amp_state_evolution(task, alpha=simulation.setting.alpha, steps=steps)
    return _together(simulation, theory)


def _together(simulation: AmpSimulation, theory: AmpStateEvolution) -> AmpComparison:
    freedom = PATHS - 1.0 if theory.status is Status.SAMPLED else math.inf
    columns: dict[str, Any] = {"family_p": {}}
    for name in COMPARED:
        values, errors = getattr(simulation, name), simulation.errors[name]
        exact = getattr(theory, name)[: len(values)]  # a run that diverged has fewer iterations
        pairs = _sides(values, errors, simulation.seeds, exact, theory.error, freedom)
        p_values = tuple(p_value(difference(*pair)) for pair in pairs)
        gaps = (abs(a - b) for a, b in zip(values, exact, strict=True))
        columns |= {name: values, f"{name}_error": errors, f"{name}_se": exact}
        columns |= {f"{name}_p_value": p_values, f"gap_{name}": max(gaps, default=math.nan)}
        columns["family_p"][name] = family_p(p_values)
    kept = ("iteration", "seconds", "dim", "samples", "seeds", "setting")
    return AmpComparison(
        status=simulation.status if theory.status.reached else Status.INACCURATE,
        **columns,
        theory_error=theory.error,
        theory_freedom=freedom,
        **{name: getattr(simulation, name) for name in kept},
    )


def _sides(
    values: Sequence[float],
    errors: Sequence[float],
    seeds: int,
    exact: Sequence[float],
    theory_error: float,
    theory_freedom: float,
) -> list[tuple[Estimate, Estimate]]:
    return [
        (Estimate(value, error, seeds - 1.0), Estimate(limit, theory_error, theory_freedom))
        for value, error, limit in zip(values, errors, exact, strict=True)
    ]
