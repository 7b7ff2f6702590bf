"""The search for the least signal or alpha that meets a demand.

The risk falls and the hit rate grows with either, so the least one that is enough is a root.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

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
class Value:
    """Risk or hit rate somewhere, or the reason why it could not be computed."""

    estimate: Estimate
    status: Status
    reason: str = ""


@dataclass(frozen=True)
class Demand:
    """A bound on the risk from above, or on the hit rate from below."""

    quantity: str
    target: float

    def excess(self, value: Value) -> float:
        """Return a number that is positive where the demand is not met, and smooth.

        It is 1 where nothing could be computed.
        """
        if value.reason:
            return 1.0
        low = 1e-300
        ratio = math.log(max(value.estimate.value, low) / self.target)
        return ratio if self.quantity == "risk" else -ratio


def least_meeting(
    at: Callable[[float], Value],
    edges: tuple[float, float, float, float],
    demand: Demand,
    accuracy: float,
) -> tuple[float, Value, str]:
    """Return the least number at which a demand is met, with the value there and a note."""
    from scipy.optimize import brentq

    low, middle, high, limit = edges
    largest, best, reason = _largest(at, edges)
    if best.reason:
        return math.nan, best, f"could not be computed: {best.reason}"
    if demand.excess(best) > 0.0:
        side = "above" if demand.quantity == "risk" else "below"
        note = f"its {demand.quantity.replace('_', ' ')} stays {side} {best.estimate.value:.4g}"
        if largest == limit:
            return math.nan, best, f"impossible: {note}"
        return math.nan, best, f"{note} up to {largest:g}, beyond which: {reason}"

    def excess(log_x: float) -> float:
        return demand.excess(at(math.exp(log_x)))

    # from the middle outwards: the ends are the most expensive
    high = min(high, largest)
    step = _STEP if excess(math.log(middle)) > 0.0 else 1.0 / _STEP
    inner, outer = middle, middle * step
    while low <= outer <= high and (excess(math.log(outer)) > 0.0) == (step > 1.0):
        inner, outer = outer, outer * step
    if not low <= outer <= high:
        value = at(inner)
        if step < 1.0:
            return inner, value, f"{inner:g} or less"
        if value.reason:
            return math.nan, value, f"could not be computed at {inner:g}: {value.reason}"
        needed = f"more than {inner:g} is needed"
        return math.nan, replace(value, status=Status.BOUNDARY), needed
    root = brentq(excess, math.log(inner), math.log(outer), xtol=accuracy, rtol=1e-12)
    answer = math.exp(root)
    for _ in range(20):  # the root is known up to the accuracy: end on the side that meets it
        value = at(answer)
        if demand.excess(value) <= 0.0:
            break
        answer *= math.exp(accuracy)
    return answer, value, ""


def _largest(
    at: Callable[[float], Value], edges: tuple[float, float, float, float]
) -> tuple[float, Value, str]:
    """Return the largest number that can be computed, its value, and why the limit cannot."""
    _, middle, high, limit = edges
    number, value = limit, at(limit)
    reason = value.reason
    while value.reason and number > middle:
        number = high if number > high else number / 10.0
        value = at(number)
    return number, value, reason


class Search:
    """Risk or hit rate of one activation (None: the best predictor) at any signal and alpha."""

    def __init__(self, task: Task, kind: Kind | None, demand: Demand, tolerance: float) -> None:
        self.task, self.demand, self.tolerance = task, demand, tolerance
        self.activation = None if kind is None else make_activation(kind)
        self.hits = demand.quantity == "hit_rate"
        own = "" if self.activation is None else self.activation.name
        self.name = own or (_ANY if self.hits else BAYES_NAME)
        self.trained: ErmTheory | None = None

    def at(self, signal: float, alpha: float) -> Value:
        """Return the value with its error and its status, or why there is none."""
        try:
            task = make_task(
                self.task.name, signal=signal, length=self.task.length, noise=self.task.noise
            )
            estimate, status = self._value(task, alpha)
        except (ComputationError, ValueError) as error:
            return Value(Estimate(math.nan, math.nan), Status.FAILED, str(error))
        known = status.usable and not math.isnan(estimate.value)
        return Value(estimate, status, "" if known else "the theory has no solution")

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
            raise ComputationError("the theory has no solution")
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
