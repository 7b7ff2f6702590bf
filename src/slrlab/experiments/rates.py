"""Every fitted rate beside its prediction: what claim C5 judges and Table 1 shows."""

from __future__ import annotations

from itertools import chain

from slrlab._result import Status
from slrlab._types import Report
from slrlab.experiments.running.encoding import storable
from slrlab.experiments.running.parallel import parallel_map
from slrlab.model.lengths import LengthLaw
from slrlab.theory.population.rates import RateFit, elementwise_rate, linear_rate, softmax_rate

storable(Status, LengthLaw, RateFit)
LAWS = ("2", "10", "1,2,3")
LENGTHS = (2, 3, 10)
Item = tuple[str, str]


def rate_fits(report: Report | None = None) -> list[RateFit]:
    """Fit the risks of linear attention, softmax and the best elementwise activation."""
    items = [("linear", law) for law in LAWS]
    items += [(name, str(length)) for name in ("softmax", "elementwise") for length in LENGTHS]
    return list(chain(*parallel_map(_fits, items, label="rates", report=report)))


def _fits(item: Item) -> list[RateFit]:
    name, length = item
    if name == "linear":
        return linear_rate(LengthLaw.of(length))
    return (softmax_rate if name == "softmax" else elementwise_rate)(int(length))
