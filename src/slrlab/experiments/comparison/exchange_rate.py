"""What a label of the location is worth in labels ``y``: where a curve of theory is as good."""

from __future__ import annotations

import math

import numpy as np

from slrlab._result import Estimate, Status
from slrlab._types import DataFrame, FloatArray


def exchange_rate(curve: DataFrame, alpha: float, overlap: Estimate) -> tuple[Estimate, Status]:
    """Return the number of ``y`` per label, and the worst status of the two points around it.

    The error is half the difference of the rates one standard error of the overlap up and down.
    """
    value, high, low = (
        same_overlap(curve, overlap.value + shift * overlap.error) / alpha for shift in (0, 1, -1)
    )
    rate, rows = Estimate(value, (high - low) / 2.0), _by_alpha(curve)
    if not math.isfinite(value):
        return rate, Status.FAILED
    last = int(np.clip(np.searchsorted(rows["alpha"], alpha * value), 1, len(rows) - 1))
    return rate, Status.worst(Status(row) for row in rows["status"].iloc[last - 1 : last + 1])


def same_overlap(curve: DataFrame, overlap: float) -> float:
    """Return the ``alpha`` at which a curve reaches an overlap; nan beyond its ends.

    ``log α`` is interpolated in the log odds of the overlap, in which the curve is nearly straight.
    """
    rows = _by_alpha(curve)
    reached: FloatArray = np.maximum.accumulate(rows["overlap"].to_numpy())
    odds = np.log(reached / (1.0 - reached))
    wanted = math.log(overlap / (1.0 - overlap)) if 0.0 < overlap < 1.0 else math.nan
    if not odds[0] <= wanted <= odds[-1]:
        return math.nan
    return float(np.exp(np.interp(wanted, odds, np.log(rows["alpha"].to_numpy()))))


def _by_alpha(curve: DataFrame) -> DataFrame:
    return curve[curve["status"] != str(Status.FAILED)].dropna().sort_values("alpha")
