"""Many gradient flows of one setting from small random starts, and where each ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.activations import make_activation
from slrlab.model.order_parameters import FullOrderParameters
from slrlab.model.tasks import Task
from slrlab.theory.landscape.branches import minimum_from
from slrlab.theory.landscape.ensemble import FlowEnsemble, flow_ensemble
from slrlab.theory.landscape.minima import kind_of
from slrlab.theory.landscape.path import start_vectors
from slrlab.theory.landscape.risk import overlaps_of
from slrlab.theory.landscape.table import tabulate
from slrlab.theory.population.minimal import PopulationRisk, minimal_risk

_ACCURACY = 1e-4  # accuracy of the table: risks to about 1e-5
_STD = 1.5  # std of the table; keys of a small start stay shorter until they turn to k*
INFINITY = "infinity"
ENDS = ("matched", "mismatched", INFINITY, "other", "not converged")


@dataclass(frozen=True)
class SmallStarts:
    """Flows from small random starts: what each leads to (`ENDS`), and where."""

    best: PopulationRisk
    flows: FlowEnsemble
    ends: list[str]
    orders: list[FullOrderParameters]

    def count(self, end: str) -> int:
        """Return the number of flows with this end."""
        return self.ends.count(end)


def small_starts(
    task: Task, activation: str, *, runs: int, size: float, time: float = 1e6
) -> SmallStarts:
    """Follow flows from the random starts of `slrlab.gradient_flow` with seeds 0, 1, ….

    A flow that leaves the table is finished by a descent on the exact risk.
    """
    best = minimal_risk(task, activation)
    starts = [start_vectors("random", size, seed) for seed in range(runs)]
    k, v = np.array(starts).transpose(1, 0, 2)
    low, high = min(-5.0 * size, float(k[:, 0].min())), best.m_k + 5.0 * size
    table = tabulate(task, activation, m=(low, high), std=_STD, tolerance=_ACCURACY)
    flows = flow_ensemble(table, k, v, time=time, tolerance=1e-7)
    ended = [
        _end(task, activation, str(status), k, v)
        for status, k, v in zip(flows.statuses, flows.k, flows.v, strict=True)
    ]
    return SmallStarts(best, flows, [end for end, _ in ended], [order for _, order in ended])


def _end(
    task: Task, activation: str, status: str, k: FloatArray, v: FloatArray
) -> tuple[str, FullOrderParameters]:
    order = overlaps_of(k, v)
    if status == "converged":
        return str(kind_of(order)), order
    if status != "diverged":
        return "not converged", order
    minimum = minimum_from(task, make_activation(activation), k, curvatures=False)
    assert minimum is not None  # a descent from keys always ends at a minimum
    return INFINITY if minimum.at_infinity else str(minimum.kind), minimum.order
