"""The search for the least signal or alpha that meets a demand.

The risk falls and the hit rate grows with either, so the least one that is enough is a root.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from slrlab._errors import ComputationError
from slrlab._result import Estimate, Status
from slrlab.experiments.atlas.activations import Kind
from slrlab.model.activations import make_activation
from slrlab.model.task_registry import make_task
from slrlab.model.tasks import Task
from slrlab.theory.bayes_optimal import bayes_optimal
from slrlab.theory.erm import ErmTheory, optimal_ridge
from slrlab.theory.population.bayes_risk import bayes_risk
from slrlab.theory.population.hit_rate import hit_rate
from slrlab.theory.population.minimal import minimal_risk

BAYES_NAME = "Bayes"
_ANY = "any increasing"
_STEP = 3.0  # factor between the numbers that are tried


@dataclass(frozen=True)
class Demand:
    """A bound on the risk from above, or on the hit rate from below."""

    quantity: str
    target: float

    def excess(self, value: float) -> float:
        """Return a number that is positive where the demand is not met, and smooth."""
        low = 1e-300
        ratio = math.log(max(value, low) / self.target)
        return ratio if self.quantity == "risk" else -ratio


def least_meeting(
    at: Callable[[float], tuple[Estimate, Status]],
    edges: tuple[float, float, float, float],
    demand: Demand,
    accuracy: float,
) -> tuple[float, Estimate, Status, str]:
    """Return the least number at which a demand is met, with value, status and a note."""
    from scipy.optimize import brentq

    low, middle, high, limit = edges
    best, status = at(limit)
    words = demand.quantity.replace("_", " ")
    if demand.excess(best.value) > 0.0:
        edge = "above" if demand.quantity == "risk" else "below"
        return math.nan, best, status, f"impossible: its {words} stays {edge} {best.value:.4g}"

    def excess(log_x: float) -> float:
        return demand.excess(at(math.exp(log_x))[0].value)

    # from the middle outwards: the ends are the most expensive
    step = _STEP if excess(math.log(middle)) > 0.0 else 1.0 / _STEP
    inner, outer = middle, middle * step
    while low <= outer <= high and (excess(math.log(outer)) > 0.0) == (step > 1.0):
        inner, outer = outer, outer * step
    if not low <= outer <= high:
        value, status = at(inner)
        if step < 1.0:
            return inner, value, status, f"{inner:g} or less"
        return math.nan, value, Status.BOUNDARY, f"more than {inner:g} is needed"
    root = brentq(excess, math.log(inner), math.log(outer), xtol=accuracy, rtol=1e-12)
    answer = math.exp(root)
    for _ in range(20):  # the root is known up to the accuracy: end on the side that meets it
        value, status = at(answer)
        if demand.excess(value.value) <= 0.0:
            break
        answer *= math.exp(accuracy)
    return answer, value, status, ""


class Search:
    """Risk or hit rate of one activation (None: the best predictor) at any signal and alpha."""

    def __init__(self, task: Task, kind: Kind | None, demand: Demand, tolerance: float) -> None:
        self.task, self.demand, self.tolerance = task, demand, tolerance
        self.activation = None if kind is None else make_activation(kind)
        self.hits = demand.quantity == "hit_rate"
        own = "" if self.activation is None else self.activation.name
        self.name = own or (_ANY if self.hits else BAYES_NAME)
        self.trained: ErmTheory | None = None

    def at(self, signal: float, alpha: float) -> tuple[Estimate, Status]:
        """Return the value with its error, and its status."""
        task = make_task(
            self.task.name, signal=signal, length=self.task.length, noise=self.task.noise
        )
        try:
            return self._value(task, alpha)
        except (ComputationError, ValueError):
            worst = 0.0 if self.hits else task.trivial_risk
            return Estimate(worst, math.nan), Status.FAILED

    def _value(self, task: Task, alpha: float) -> tuple[Estimate, Status]:
        if self.activation is None or (math.isinf(alpha) and self.hits):
            return self._best(task, alpha)
        if math.isinf(alpha):
            result = minimal_risk(task, self.activation)
            return Estimate(result.risk, result.error), result.status
        start = self.trained
        trained = optimal_ridge(
            task, self.activation, alpha=alpha, tolerance=self.tolerance, start=start
        )
        if not trained.status.usable:
            raise ComputationError("no solution")
        self.trained = trained
        if self.hits:
            return Estimate(hit_rate(task, trained), math.nan), trained.status
        return trained.risk, trained.status

    def _best(self, task: Task, alpha: float) -> tuple[Estimate, Status]:
        if self.hits:
            return Estimate(hit_rate(task), 0.0), Status.CONVERGED
        if math.isinf(alpha):
            least = bayes_risk(task)
            return Estimate(least.risk, least.error), least.status
        optimal = bayes_optimal(task, alpha=alpha)
        return Estimate(optimal.risk_it, optimal.error), optimal.status
