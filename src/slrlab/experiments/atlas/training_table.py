"""The table of the atlas after training: reading, comparing and writing it out.

It does not depend on how a row is computed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from slrlab._result import Estimate, Status
from slrlab.experiments.atlas.training import STARTS, TEXTS, WORSE

_SHOWN = ("hit rates", "replicon", "mismatched minimum", "training time", "starts", "reason")


def read_training(path: Path) -> pd.DataFrame:
    """Return a table of `atlas_training` that was written as ``atlas-training.csv``."""
    frame = pd.read_csv(path, dtype={"length": str})
    return frame.fillna(dict.fromkeys(TEXTS, ""))  # an empty text is not a missing number


def comparable(frame: pd.DataFrame) -> pd.Series:
    """Return which rows have a risk that stands beside others.

    Those without a reason against it, those worse than the prediction 0, and those of which an
    interval is known: the prox jumps, but replica symmetry is stable.
    """
    between = (frame["status"] == str(Status.UNSTABLE)) & (frame["replicon"] < 1.0)
    return frame["risk"].notna() & (frame["reason"].isin(["", WORSE]) | between)


def rank_agreement(frame: pd.DataFrame) -> dict[float, float]:
    """Return, for each finite ``alpha``, how far the order of the risks is that of infinite data.

    Spearman's correlation over the activations whose risks are `comparable`: 1 for the same order.
    """
    infinite = frame["alpha"].map(math.isinf)
    frame = frame[infinite | comparable(frame)]
    risks = frame.pivot(index="activation", columns="alpha", values="risk")
    alphas = [float(alpha) for alpha in risks.columns]
    return {
        alpha: float(risks[alpha].corr(risks[math.inf], method="spearman"))
        for alpha in alphas
        if math.isfinite(alpha)
    }


def training_texts(frame: pd.DataFrame) -> tuple[list[str], dict[str, list[str]]]:
    """Return columns for people, and the cells of each activation."""
    cells: dict[str, list[str]] = {}
    alphas: list[float] = []
    for name, part in frame.groupby("activation", sort=False):
        *finite, limit = sorted(part.to_dict("records"), key=lambda row: float(row["alpha"]))
        alphas = [float(row["alpha"]) for row in finite]
        reasons = dict.fromkeys(str(row["reason"]) for row in (*finite, limit) if row["reason"])
        reached, replicons = float(limit["reached"]), [float(row["replicon"]) for row in finite]
        cells[str(name)] = [
            *map(_risk_text, finite),
            ", ".join(_number(float(row["hit_rate"])) for row in (*finite, limit)),
            _number(max((r for r in replicons if not math.isnan(r)), default=math.nan)),
            _mismatched_text(limit),
            _number(float(limit["training_time"])),
            "–" if math.isnan(reached) else f"{reached:.0f} of {STARTS}",
            "; ".join(reasons),
        ]
    return [*(f"α = {alpha:g}" for alpha in alphas), *_SHOWN], cells


def _risk_text(row: Mapping[Hashable, Any]) -> str:
    if math.isnan(row["risk"]):
        return "–" if row["reason"] else str(row["status"])
    text = str(Estimate(row["risk"], row["error"]))
    return text if row["status"] == "sampled" else f"{text}, {row['status']}"


def _mismatched_text(limit: Mapping[Hashable, Any]) -> str:
    risk, where = limit["mismatched_risk"], limit["mismatched"]
    if math.isnan(risk):
        return "–" if limit["reason"] else str(where)
    return f"{risk:.3f}" if where == "exists" else f"{risk:.3f}, {where}"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2g}"
