"""Predictions of the theory beside what trained models do.

The excess risk of an activation on spiked-SLR is one number of the stored atlas; the error of the
model trained with the attention map of that name is measured. The setting of the atlas was fixed
before the full study: signal 9 and length 10, where the atlas states all its excesses.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from slrlab import _checks
from slrlab.experiments.retrieval.runs import WIDTH
from slrlab.experiments.retrieval.study import TRAINED_SIZES, rank_correlation
from slrlab.experiments.stored import table
from slrlab.retrieval.attention_maps import MAPS

SIGNAL, LENGTH = 9.0, "10"
LEAST = 1e-6
"""Excess risks below this one are rounding of zero and count as equal."""

TRUSTED = 0.05
"""A fit that misses the hit rate of its own data by more than this one is not trusted."""


def predicted_excess(signal: float = SIGNAL, length: str = LENGTH) -> dict[str, float]:
    """Return the excess risk of each activation on spiked-SLR, from the stored atlas.

    >>> excess = predicted_excess()
    >>> print(excess["softmax"], round(excess["linear"], 3))
    1e-06 0.355
    """
    rows = table("atlas")
    same = (rows["task"] == "spiked") & (rows["signal"] == signal) & (rows["length"] == length)
    if not same.any():
        _checks.fail("signal", "one of the stored atlas", signal)
    own = rows[same & rows["activation"].isin(MAPS)]
    return {
        str(name): max(LEAST, float(excess))
        for name, excess in zip(own["activation"], own["excess"], strict=True)
    }


def prediction_table(tests: pd.DataFrame, heads: pd.DataFrame) -> pd.DataFrame:
    """Return predictions beside measurements, from the tables of a study.

    Rows of the panels ``recall`` and ``max`` are activations: the excess risk, the mean error of
    the trained models with its range over seeds, and the rank correlation of the panel. Rows of
    the panel ``heads`` are heads: hit rates at four times the length of the diagnosis; ``trusted``
    are those whose fit agrees with their hit rate at the length of the diagnosis.
    """
    excess = predicted_excess()
    parts = []
    for name, size in TRAINED_SIZES.items():
        chosen = (tests["test"] == name) & (tests["size"] == size) & (tests["width"] == WIDTH)
        own = tests[chosen & tests["mixer"].isin(excess)]
        error = (1.0 - own["accuracy"]).groupby(own["mixer"], sort=False)
        frame = pd.DataFrame(
            {
                "measured": error.mean(),
                "low": error.min(),
                "high": error.max(),
                "seeds": error.size(),
            }
        ).reset_index()
        frame = frame.assign(panel=name, predicted=frame["mixer"].map(excess))
        ends = (math.nan,) * 3
        if len(frame) >= 3:
            ends = rank_correlation(frame["predicted"].tolist(), frame["measured"].tolist())
        names = ("correlation", "correlation_low", "correlation_high")
        frame = frame.assign(**dict(zip(names, ends, strict=True)))
        parts.append(frame)
    parts.append(_head_rows(heads))
    return pd.concat(parts, ignore_index=True)


PAIRS_OF_COLUMNS = (
    ("signal", "long_error"),
    ("hit_rate", "long_error"),
    ("error", "long_error"),
    ("predicted_hit_rate", "long_hit_rate"),
    ("hit_rate", "long_hit_rate"),
)
"""What is known at the length of the diagnosis, and what is measured at four times that length."""


def head_correlations(heads: pd.DataFrame) -> pd.DataFrame:
    """Return rank correlations of what heads are at one length with what they do at four times it.

    A row for each task and pair of `PAIRS_OF_COLUMNS`: ``error`` is that of the whole model on the
    sequences of the diagnosis, ``long_error`` that on those of the measurement. Heads that could
    not be diagnosed are left out. The interval is a bootstrap over heads.
    """
    own = heads[heads["status"] != "refused"]
    own = own.assign(error=1.0 - own["accuracy"], long_error=1.0 - own["long_accuracy"])
    rows = []
    for task, part in own.groupby("task", sort=False):
        for known, measured in PAIRS_OF_COLUMNS:
            value, low, high = rank_correlation(part[known].tolist(), part[measured].tolist())
            row: dict[str, Any] = {"task": task, "known": known, "measured": measured}
            rows.append(row | {"correlation": value, "low": low, "high": high, "heads": len(part)})
    return pd.DataFrame(rows)


def _head_rows(heads: pd.DataFrame) -> pd.DataFrame:
    rows: list[dict[str, Any]] = [
        {
            "panel": "heads",
            "task": row["task"],
            "mixer": row["mixer"],
            "seed": row["seed"],
            "predicted": row.get("predicted_hit_rate"),
            "measured": row["long_hit_rate"],
            "trusted": abs(row.get("fitted_hit_rate", math.nan) - row["hit_rate"]) <= TRUSTED,
            "status": row["status"],
        }
        for row in heads.to_dict("records")
    ]
    return pd.DataFrame(rows)
