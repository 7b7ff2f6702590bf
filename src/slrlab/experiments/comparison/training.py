r"""Theory and simulation of trained attention on the same setting, tested quantity by quantity.

The difference of the two is tested with Student's t: the error of the simulation comes from the
variance over seeds, that of the theory from the variance over blocks of its sample. At finite ``D``
a drift ``O(1/D)`` is part of the difference: `slrlab.experiments.comparison.dimensions` fits it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from slrlab._plot import axes_of
from slrlab._result import Estimate, Result, Status, plain
from slrlab._types import Axes, DataFrame
from slrlab.experiments.comparison.student import (
    difference,
    family_p,
    gap_columns,
    interval,
    normal_score,
    p_value,
)
from slrlab.experiments.running.encoding import storable
from slrlab.model.activations import LINEAR, SOFTMAX, SOFTPLUS, Activation
from slrlab.model.lengths import LengthLaw
from slrlab.model.setting import Setting
from slrlab.model.tasks import MaxSLR, SpikedSLR, Task
from slrlab.simulation.training.erm import ErmRun, ErmSimulation, simulate_erm
from slrlab.theory.erm import ErmBranch, ErmTheory, erm_theory
from slrlab.theory.erm.fields import BLOCKS
from slrlab.theory.population.minimal import risk_at

storable(Status, LengthLaw, Setting, ErmBranch, ErmTheory)
QUANTITIES = ("m_k", "m_v", "q_k", "q_v", "order_risk", "train_mse")
"""What is always compared; with test samples also ``test_risk``, measured on fresh data."""

# both tasks, three activations, lengths 2 to 4 and a random one, with and without noise, on the
# side of the ridges where replica symmetry holds
STANDARD = (
    Setting(SpikedSLR(2.0, 3), SOFTMAX, alpha=4.0, ridge_k=0.5, ridge_v=0.8),
    Setting(SpikedSLR(4.0, 2, 0.3), SOFTMAX, alpha=2.0, ridge_k=0.6, ridge_v=0.6),
    Setting(SpikedSLR(3.0, 4), SOFTMAX, alpha=3.0, ridge_k=0.6, ridge_v=1.0),
    Setting(SpikedSLR(2.0, 3, 0.3), LINEAR, alpha=4.0, ridge_k=0.5, ridge_v=2.0),
    Setting(SpikedSLR(4.0, 4), LINEAR, alpha=3.0, ridge_k=0.5, ridge_v=2.0),
    Setting(SpikedSLR(3.0, 2), SOFTPLUS, alpha=3.0, ridge_k=0.4, ridge_v=0.6),
    Setting(SpikedSLR(2.0, "2,3,4"), SOFTMAX, alpha=4.0, ridge_k=0.6, ridge_v=0.8),
    Setting(MaxSLR(2.0, 3), SOFTMAX, alpha=4.0, ridge_k=0.5, ridge_v=0.8),
    Setting(MaxSLR(3.0, 2, 0.3), LINEAR, alpha=3.0, ridge_k=0.5, ridge_v=1.5),
    Setting(MaxSLR(3.0, 4, 0.3), SOFTPLUS, alpha=4.0, ridge_k=0.5, ridge_v=0.8),
)


@dataclass(frozen=True)
class Comparison(Result):
    """Theory beside simulation, at one dimension.

    A trained predictor has two test risks. ``test_risk`` is measured on fresh data. ``order_risk``
    is computed from the trained order parameters, without the noise of a test sample; for
    normalised teachers it is exact up to cross overlaps of order ``1/√D``. Both are compared with
    the one test risk of the theory.

    Attributes
    ----------
    theory, simulation
        The two results.
    order_risk
        Mean over seeds of the test risk from the trained order parameters.
    gaps
        For each quantity simulation minus theory, with standard error and degrees of freedom.
    """

    theory: ErmTheory
    simulation: ErmSimulation
    order_risk: Estimate
    gaps: dict[str, Estimate]

    @property
    def dim(self) -> int:
        """Dimension of the simulation."""
        return self.simulation.dim

    @property
    def p_values(self) -> dict[str, float]:
        """For each quantity how often chance alone makes so large a gap (Student's t)."""
        return {name: p_value(gap) for name, gap in self.gaps.items()}

    @property
    def z(self) -> dict[str, float]:
        """For each quantity the gap as a normal score: the normal deviate of the same p-value."""
        return {name: normal_score(gap) for name, gap in self.gaps.items()}

    @property
    def worst(self) -> float:
        """The largest ``|z|``; nan if one is."""
        scores = [abs(score) for score in self.z.values()]
        return math.nan if any(map(math.isnan, scores)) else max(scores)

    @property
    def family_p(self) -> float:
        """The smallest p-value times the number of quantities (Bonferroni), at most 1."""
        return family_p(self.p_values.values())

    def to_dict(self) -> dict[str, Any]:
        """Return what each gap says and both results, JSON-ready."""
        values = {
            "status": self.status,
            "gaps": {name: gap.value for name, gap in self.gaps.items()},
            "gap_errors": {name: gap.error for name, gap in self.gaps.items()},
            "freedom": {name: gap.freedom for name, gap in self.gaps.items()},
            "gap_intervals": {name: interval(gap) for name, gap in self.gaps.items()},
            "p_values": self.p_values,
            "family_p": self.family_p,
            "z": self.z,
            "worst": self.worst,
            "order_risk": self.order_risk.value,
            "order_risk_error": self.order_risk.error,
            "theory": self.theory,
            "simulation": self.simulation,
        }
        return {name: plain(value) for name, value in values.items()}

    def to_frame(self) -> DataFrame:
        """Return one row for each quantity."""
        import pandas as pd

        rows = []
        for name, gap in self.gaps.items():
            simulated, exact = self.sides(name)
            row = {"quantity": name, "theory": exact.value, "theory_error": exact.error}
            row |= {"simulation": simulated.value, "simulation_error": simulated.error}
            rows.append(row | gap_columns(gap))
        return pd.DataFrame(rows).assign(dim=self.dim, seeds=self.simulation.seeds)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw simulation minus theory of each quantity, relative to the theory, with errors."""
        axes, frame = axes_of(ax), self.to_frame()
        scale = frame["theory"].abs()
        gap, error = frame["gap"] / scale, frame["gap_error"] / scale
        axes.errorbar(frame["quantity"], gap, yerr=error, fmt="ko", capsize=3)
        axes.axhline(0.0, color="0.6", linewidth=0.8)
        axes.set(ylabel="simulation over theory, minus 1")
        return axes

    def sides(self, name: str) -> tuple[Estimate, Estimate]:
        """Return simulation and theory of one quantity, each with its error."""
        return _sides(self.theory, self.simulation, self.order_risk, name)


def compare_erm(
    task: Task,
    activation: Activation | str,
    *,
    alpha: float,
    ridge_k: float,
    ridge_v: float,
    dim: int,
    seeds: int = 16,
    test_samples: int = 0,
    theory: ErmTheory | None = None,
    **options: Any,
) -> Comparison:
    """Train at given ridges on ``seeds`` datasets and compare with the theory.

    A known ``theory`` is not solved again; ``options`` go to `simulate_erm`. With two seeds or
    more every gap has a p-value; few seeds show only large differences.

    >>> from slrlab import SpikedSLR
    >>> from slrlab.experiments.comparison.training import compare_erm
    >>> comparison = compare_erm(SpikedSLR(2.0, 2), "linear", alpha=4.0, ridge_k=1.0,
    ...     ridge_v=1.0, dim=100, seeds=8)
    >>> comparison.family_p > 0.001
    True
    """
    ridges: dict[str, Any] = {"ridge_k": ridge_k, "ridge_v": ridge_v}
    options |= {"dim": dim, "seeds": seeds, "test_samples": test_samples}
    simulation = simulate_erm(task, activation, alpha=alpha, **ridges, **options)
    # N is a whole number: the theory is solved at the ratio that the data have
    theory = theory or erm_theory(task, activation, alpha=simulation.setting.alpha, **ridges)
    risk = order_risk(simulation)
    names = QUANTITIES if test_samples == 0 else (*QUANTITIES, "test_risk")
    return Comparison(
        status=Status.worst((simulation.status, theory.status)),
        theory=theory,
        simulation=simulation,
        order_risk=risk,
        gaps={name: difference(*_sides(theory, simulation, risk, name)) for name in names},
    )


def order_risk(simulation: ErmSimulation) -> Estimate:
    """Return the test risk from the order parameters of each training, averaged over seeds."""
    return Estimate.of([run_risk(simulation.setting, run) for run in simulation.runs])


def run_risk(setting: Setting, run: ErmRun) -> float:
    """Return the risk of one trained predictor from its order parameters on M."""
    if not (run.status.usable and math.isfinite(run.overlaps.q_kk)):
        return math.nan
    activation = setting.activation_at(run.bias)
    return risk_at(setting.task, activation, run.overlaps.on_manifold, tolerance=1e-6).risk


def _sides(
    theory: ErmTheory, simulation: ErmSimulation, risk: Estimate, name: str
) -> tuple[Estimate, Estimate]:
    is_risk = name in ("order_risk", "test_risk")
    value = theory.test_risk if is_risk else getattr(theory, name)
    error = theory.test_risk_error if is_risk else theory.errors[name]
    exact = Estimate(value, error, BLOCKS - 1.0)
    return risk if name == "order_risk" else simulation.estimate(name), exact
