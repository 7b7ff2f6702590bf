"""Trained attention at the best ridge, spiked-SLR, length 3: what Figure 3 shows and C10 judges."""

from __future__ import annotations

from collections.abc import Sequence

from slrlab._result import Status
from slrlab.experiments.encoding import storable
from slrlab.experiments.parallel import Report, parallel_map
from slrlab.model.lengths import LengthLaw
from slrlab.model.tasks import Task, make_task
from slrlab.theory.erm import ErmBranch, ErmTheory, optimal_ridge

storable(Status, LengthLaw, ErmBranch, ErmTheory)

SIGNALS = (1.0, 2.0, 5.0)
LENGTH = 3
Place = tuple[str, float, float]
"""An activation, a signal and a number of samples per dimension."""


def curve_task(signal: float) -> Task:
    """Return the task of the curve."""
    return make_task("spiked", signal=signal, length=LENGTH)


def best_trained(
    places: Sequence[Place], tolerance: float, *, label: str, report: Report | None = None
) -> list[ErmTheory]:
    """Return the theory of training at the best ridge for each place."""
    items = [(*place, tolerance) for place in places]
    return parallel_map(_best, items, label=label, report=report)


def _best(item: tuple[str, float, float, float]) -> ErmTheory:
    activation, signal, alpha, tolerance = item
    return optimal_ridge(curve_task(signal), activation, alpha=alpha, tolerance=tolerance)
