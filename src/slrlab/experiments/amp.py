"""Message passing on data beside its state evolution, iteration by iteration.

Each iteration is tested with Student's t. Iterations are not independent of each other: the whole
path is judged by the smallest p-value after Bonferroni, which holds all the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from slrlab._plot import axes_of, draw_quantities
from slrlab._result import Estimate, Result, Status
from slrlab._types import Report
from slrlab.experiments.student import difference, family_p, p_value
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.simulation.message_passing.amp import AmpSimulation, run_amp
from slrlab.theory.bayes_optimal import AmpStateEvolution, amp_state_evolution
from slrlab.theory.bayes_optimal.selected import PATHS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

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
        What state evolution says.
    q_k_p_value, q_v_p_value, risk_p_value
        How often chance alone makes so large a difference (Student's t); nan with one seed.
    family_p
        For each of the three the smallest p-value times the number of iterations, at most 1.
    gap_q_k, gap_q_v, gap_risk
        The largest distance of the two over all iterations; nan if there is none.
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
        for at, iteration in enumerate(self.iteration):
            row = [str(iteration)]
            for name in COMPARED:
                value, error = getattr(self, name)[at], getattr(self, f"{name}_error")[at]
                error_text = "" if math.isnan(error) else f"±{error:.3f}"
                row += [f"{value:.4f}{error_text}", f"{getattr(self, f'{name}_se')[at]:.4f}"]
            rows.append(row)
        return columns, rows

    def sides(self, name: str) -> list[tuple[Estimate, Estimate]]:
        """Return simulation and theory of one quantity after each iteration, with errors."""
        columns = (getattr(self, f"{name}{kind}") for kind in ("", "_error", "_se"))
        return [
            (
                Estimate(value, error, self.seeds - 1.0),
                Estimate(exact, self.theory_error, self.theory_freedom),
            )
            for value, error, exact in zip(*columns, strict=True)
        ]

    def gaps(self, name: str) -> list[Estimate]:
        """Return simulation minus theory of one quantity after each iteration."""
        return [difference(*pair) for pair in self.sides(name)]

    def to_frame(self) -> pd.DataFrame:
        """Return the numbers with one row for each iteration."""
        import pandas as pd

        lists = {name: value for name, value in vars(self).items() if isinstance(value, tuple)}
        return pd.DataFrame(lists)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw overlaps and risk against the iteration: points measured, lines in the limit."""
        axes = axes_of(ax)
        names = [
            name for name in ("q_k", "q_v", "risk") if any(map(math.isfinite, getattr(self, name)))
        ]
        exact = {name: getattr(self, f"{name}_se") for name in names}
        draw_quantities(axes, self.iteration, exact, labels=False)
        measured = {name: getattr(self, name) for name in names}
        errors = {name: getattr(self, f"{name}_error") for name in names}
        draw_quantities(axes, self.iteration, measured, errors, points=True)
        axes.set(xlabel="iteration", title="points: simulated, lines: state evolution")
        axes.legend()
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
    seed: int = 0,
    steps: int = 20,
    test_samples: int = 20_000,
    dtype: str = "float32",
    report: Report | None = None,
) -> AmpComparison:
    """Run message passing and its state evolution on one setting.

    The parameters are those of `slrlab.run_amp`. State evolution is computed at the ``N/D`` of the
    data, which differs from ``alpha`` by the rounding of ``N``. A drift of order ``1/D`` is part of
    the differences; `slrlab.experiments.dimensions.extrapolate_amp` estimates it.

    Raises
    ------
    TypeError
        If the task belongs to neither family.
    ValueError
        If a number is out of range, the task contradicts itself, the data would not fit into
        memory, a length is too long for a selection task, or the signal of a tilted task is
        infinite.

    Examples
    --------
    >>> from slrlab import SpikedSLR, compare_amp
    >>> found = compare_amp(SpikedSLR(2.0, 3, noise=0.3), alpha=2.0, dim=400, seeds=2, steps=5)
    >>> found.gap_q_v < 0.1
    True
    """
    # a length that only the theory refuses is refused before any data are drawn
    amp_state_evolution(task, alpha=alpha, steps=1)
    simulation = run_amp(
        task,
        alpha=alpha,
        dim=dim,
        seeds=seeds,
        seed=seed,
        steps=steps,
        test_samples=test_samples,
        dtype=dtype,
        report=report,
    )
    return _together(
        simulation, amp_state_evolution(task, alpha=simulation.setting.alpha, steps=steps)
    )


def _largest_gap(simulation: Sequence[float], expected: Sequence[float]) -> float:
    """Return the largest distance over the iterations that the simulation reached."""
    # zip stops at the shorter: a run that diverged has fewer iterations
    return max((abs(a - b) for a, b in zip(simulation, expected, strict=False)), default=math.nan)


def _together(simulation: AmpSimulation, theory: AmpStateEvolution) -> AmpComparison:
    reached, unknown = len(simulation.iteration), (math.nan,) * len(simulation.iteration)
    both = AmpComparison(
        status=simulation.status if theory.status.reached else Status.INACCURATE,
        iteration=simulation.iteration,
        q_k=simulation.q_k,
        q_v=simulation.q_v,
        risk=simulation.risk,
        q_k_error=simulation.errors["q_k"],
        q_v_error=simulation.errors["q_v"],
        risk_error=simulation.errors["risk"],
        q_k_se=theory.q_k[:reached],
        q_v_se=theory.q_v[:reached],
        risk_se=theory.risk[:reached],
        q_k_p_value=unknown,
        q_v_p_value=unknown,
        risk_p_value=unknown,
        family_p={},
        gap_q_k=_largest_gap(simulation.q_k, theory.q_k),
        gap_q_v=_largest_gap(simulation.q_v, theory.q_v),
        gap_risk=_largest_gap(simulation.risk, theory.risk),
        theory_error=theory.error,
        theory_freedom=PATHS - 1.0 if theory.status is Status.SAMPLED else math.inf,
        seconds=simulation.seconds,
        dim=simulation.dim,
        samples=simulation.samples,
        seeds=simulation.seeds,
        setting=simulation.setting,
    )
    values = {name: tuple(map(p_value, both.gaps(name))) for name in COMPARED}
    return replace(
        both,
        family_p={name: family_p(row) for name, row in values.items()},
        **{f"{name}_p_value": row for name, row in values.items()},  # type: ignore[arg-type]
    )
