r"""Theory and simulation of trained attention on the same setting, with z-scores.

A z-score is the gap between the two over the standard error of the gap, from the spread over seeds
and the error of the theory. As ``D`` grows the simulation's own drift ``O(1/D)`` leaves it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab._plot import axes_of
from slrlab._result import Estimate, Result, Status, plain
from slrlab.model.activations import Activation, make_activation
from slrlab.model.tasks import Task, make_task
from slrlab.simulation.erm import ErmRun, ErmSimulation, simulate_erm
from slrlab.theory.erm import ErmTheory, erm_theory
from slrlab.theory.population import risk_at

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

QUANTITIES = ("m_k", "m_v", "q_k", "q_v", "test_risk", "train_mse")


@dataclass(frozen=True)
class Setting:
    """A point at which theory and simulation are compared."""

    task: str
    signal: float
    length: str | int
    noise: float
    activation: str
    alpha: float
    ridge_k: float
    ridge_v: float

    def make_task(self) -> Task:
        """Return the task."""
        return make_task(self.task, signal=self.signal, length=self.length, noise=self.noise)

    @property
    def training(self) -> dict[str, float]:
        """Return how it is trained, as arguments of `erm_theory` and `simulate_erm`."""
        return {"alpha": self.alpha, "ridge_k": self.ridge_k, "ridge_v": self.ridge_v}

    def __str__(self) -> str:
        noise = f", noise {self.noise:g}" if self.noise else ""
        where = f"{self.task} ν={self.signal:g}, L={self.length}{noise}"
        return f"{self.activation}, {where}, α={self.alpha:g}"


# both tasks, three activations, lengths 2 to 4 and a random one, with and without noise, on the
# side of the ridges where replica symmetry holds
STANDARD = (
    Setting("spiked", 2.0, 3, 0.0, "softmax", 4.0, 0.5, 0.8),
    Setting("spiked", 4.0, 2, 0.3, "softmax", 2.0, 0.6, 0.6),
    Setting("spiked", 3.0, 4, 0.0, "softmax", 3.0, 0.6, 1.0),
    Setting("spiked", 2.0, 3, 0.3, "linear", 4.0, 0.5, 2.0),
    Setting("spiked", 4.0, 4, 0.0, "linear", 3.0, 0.5, 2.0),
    Setting("spiked", 3.0, 2, 0.0, "softplus", 3.0, 0.4, 0.6),
    Setting("spiked", 2.0, "2,3,4", 0.0, "softmax", 4.0, 0.6, 0.8),
    Setting("max", 2.0, 3, 0.0, "softmax", 4.0, 0.5, 0.8),
    Setting("max", 3.0, 2, 0.3, "linear", 3.0, 0.5, 1.5),
    Setting("max", 3.0, 4, 0.3, "softplus", 4.0, 0.5, 0.8),
)


@dataclass(frozen=True)
class Comparison(Result):
    """Theory beside simulation.

    Attributes
    ----------
    theory, simulation
        The two results.
    order_risk
        Test risk of the simulation from the trained order parameters: exact, for normalised
        teachers, but for cross overlaps of order ``1/√D``, and without the noise of a test sample.
    z
        For each of `QUANTITIES`, simulation minus theory in standard errors.
    worst
        The largest ``|z|``.
    """

    theory: ErmTheory
    simulation: ErmSimulation
    order_risk: Estimate
    z: dict[str, float]
    worst: float

    def to_dict(self) -> dict[str, Any]:
        """Return z-scores and both results, JSON-ready."""
        return {
            "status": str(self.status),
            "worst": plain(self.worst),
            "z": plain(self.z),
            "order_risk": plain(self.order_risk.value),
            "order_risk_error": plain(self.order_risk.error),
            "theory": self.theory.to_dict(),
            "simulation": self.simulation.to_dict(),
        }

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each quantity."""
        import pandas as pd

        rows = []
        for name in QUANTITIES:
            ours, exact = self.sides(name)
            row = {"quantity": name, "theory": exact.value, "theory_error": exact.error}
            row |= {"simulation": ours.value, "simulation_error": ours.error, "z": self.z[name]}
            rows.append(row | {"dim": self.simulation.dim, "seeds": self.simulation.seeds})
        return pd.DataFrame(rows)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw simulation minus theory of each quantity, relative to the theory, with errors."""
        axes, frame = axes_of(ax), self.to_frame()
        scale = frame["theory"].abs()
        gap = (frame["simulation"] - frame["theory"]) / scale
        error = np.hypot(frame["simulation_error"], frame["theory_error"]) / scale
        axes.errorbar(frame["quantity"], gap, yerr=error, fmt="o", color="black", capsize=3)
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
    seed: int = 0,
    test_samples: int = 0,
    theory: ErmTheory | None = None,
    **options: Any,
) -> Comparison:
    """Train at given ridges on ``seeds`` datasets and compare with the theory.

    ``theory`` may be given if it is known; ``options`` go to `simulate_erm`. The test risk is
    compared through the trained order parameters, so ``test_samples`` may be 0.

    >>> from slrlab import SpikedSLR
    >>> from slrlab.experiments.comparison import compare_erm
    >>> found = compare_erm(SpikedSLR(2.0, 2), "linear", alpha=4.0, ridge_k=1.0, ridge_v=1.0,
    ...     dim=100, seeds=8)
    >>> found.worst < 4.0
    True
    """
    ridges: dict[str, Any] = {"ridge_k": ridge_k, "ridge_v": ridge_v}
    size: dict[str, Any] = {"dim": dim, "seeds": seeds, "seed": seed, "test_samples": test_samples}
    found = simulate_erm(task, activation, alpha=alpha, **ridges, **size, **options)
    # N is a whole number: the theory is solved at the ratio that the data have
    exact = theory or erm_theory(task, activation, alpha=found.alpha, **ridges)
    risk = order_risk(task, activation, found)
    z = {}
    for name in QUANTITIES:
        ours, wanted = _sides(exact, found, risk, name)
        z[name] = ours.z_score(wanted)
    worst = float(np.max(np.abs(list(z.values()))))  # nan if one is
    status = max(found.status, exact.status, key=list(Status).index)
    return Comparison(status, exact, found, risk, z, worst)


def order_risk(task: Task, activation: Activation | str, simulation: ErmSimulation) -> Estimate:
    """Return the test risk from the order parameters of each training, averaged over seeds."""
    chosen = make_activation(activation)
    risks = [run_risk(task, chosen, run) for run in simulation.runs]
    return Estimate.of(risks)


def run_risk(task: Task, activation: Activation, run: ErmRun) -> float:
    """Return the risk of one trained predictor from its order parameters on M."""
    if not (run.status.usable and math.isfinite(run.overlaps.q_kk)):
        return math.nan
    here = activation.with_bias(run.bias)
    return risk_at(task, here, run.overlaps.on_manifold, tolerance=1e-6).risk


def _sides(
    theory: ErmTheory, simulation: ErmSimulation, risk: Estimate, name: str
) -> tuple[Estimate, Estimate]:
    if name == "test_risk":
        return risk, theory.risk
    # the error of the training loss is not estimated; that of the test risk stands in for it
    error = theory.errors.get(name, theory.test_risk_error)
    return simulation.estimate(name), Estimate(getattr(theory, name), error)
