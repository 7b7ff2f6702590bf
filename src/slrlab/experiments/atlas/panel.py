"""The atlas: every registered activation on a panel of settings, ranked.

An activation is scored by its loss, ``(risk − Bayes risk)/(trivial risk − Bayes risk)``: 0 for the
best predictor, 1 for one that predicts 0. The ranking is by the mean loss over the panel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import resources
from typing import Any

import pandas as pd

from slrlab._types import Report
from slrlab.experiments.atlas.activations import Compared, Kind, portable
from slrlab.experiments.running.parallel import parallel_map
from slrlab.model.activations import ACTIVATIONS, make_activation
from slrlab.model.cards import CARDS
from slrlab.model.tasks import MaxSLR, SpikedSLR, Task
from slrlab.model.traits import increasing
from slrlab.theory.population.bayes_risk import bayes_risk
from slrlab.theory.population.hit_rate import hit_rate
from slrlab.theory.population.minimal import minimal_risk

RANDOM = "uniform(1,10)"
PANEL: tuple[Task, ...] = (
    *(SpikedSLR(signal, 10) for signal in (1.0, 4.0, 9.0, 25.0)),
    *(SpikedSLR(9.0, length) for length in (2, 100, 10_000, RANDOM)),
    SpikedSLR(9.0, 10, noise=0.5),
    *(MaxSLR(signal, 10) for signal in (1.0, 3.0, math.inf)),
    *(MaxSLR(3.0, length) for length in (2, RANDOM)),
)
COLUMNS = (
    *("rank", "activation", "family", "hit rate", "mean loss", "worst loss", "worst setting"),
    *("breaks at", "source"),
)
_NUMBERS = (
    "signal",
    "noise",
    "alpha",
    "risk",
    "error",
    "bayes_risk",
    "excess",
    "m_k",
    "m_v",
    "bias",
    "hit_rate",
)
_SETTING = ["task", "signal", "length", "noise"]
_NONE = 1e-9  # loss that is rounding
_BROKEN = 0.1  # loss on spiked-SLR at signal 9 above which an activation breaks at a length
_SAME = 1e-6  # excess below which an activation is the best predictor for all purposes


def atlas(
    activations: Sequence[Kind] | None = None,
    *,
    panel: Sequence[Task] = PANEL,
    workers: int | None = None,
    report: Report | None = None,
) -> pd.DataFrame:
    """Return one row for each setting of the panel and each activation.

    ``hit_rate`` is `slrlab.hit_rate` where the largest weight is that of the largest score, else
    nan: `slrlab.weight_statistics` samples it.

    Parameters
    ----------
    activations
        Names, expressions or activations; None for all that are registered.
    panel
        Tasks with their settings.
    workers, report
        As for `slrlab.compare`.

    Raises
    ------
    ValueError
        If an activation is not known and cannot be read.
    """
    kinds = list(ACTIVATIONS) if activations is None else list(activations)
    points = [(task, portable(kind, workers)) for task in panel for kind in kinds]
    rows = parallel_map(_row, points, label="atlas", report=report, workers=workers)
    frame = pd.DataFrame(rows).astype(dict.fromkeys(_NUMBERS, float))
    families = {name: make_activation(name).family for name in frame["activation"].unique()}
    trivial = 1.0 + frame["noise"] ** 2
    return frame.assign(
        family=frame["activation"].map(families),
        setting=setting_labels(frame),
        loss=frame["excess"] / (trivial - frame["bayes_risk"]),
    )


def stored_atlas() -> pd.DataFrame:
    """Return the table of activations on the panel that the package ships.

    Its numbers are those of `atlas`, to nine digits; ``make tables`` computes them again, for all
    activations that are registered then. One registered later is not in the table:
    `ranked_among_stored` computes it like an expression.
    """
    with (resources.files("slrlab.experiments.stored") / "atlas.csv").open(
        encoding="utf-8"
    ) as file:
        return pd.read_csv(file, dtype={"length": str}).astype(dict.fromkeys(_NUMBERS[:2], float))


def ranked_among_stored(
    activations: Sequence[Kind], *, report: Report | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the table of the atlas with further activations, and its ranking.

    Only these are computed, in this process: the others are those of `stored_atlas`.

    Raises
    ------
    ValueError
        If an activation is not known and cannot be read.
    """
    own, known = atlas(activations, workers=1, report=report), stored_atlas()
    frame = pd.concat([known[~known["activation"].isin(own["activation"])], own], ignore_index=True)
    return frame, ranking(frame)


def _row(point: tuple[Task, Kind]) -> dict[str, Any]:
    """Return the row of one task and activation."""
    task, kind = point
    row = Compared(minimal_risk(task, kind), bayes_risk(task)).to_dict()
    return row | {"hit_rate": hit_rate(task) if increasing(make_activation(kind)) else math.nan}


def setting_labels(frame: pd.DataFrame) -> pd.Series:
    """Return the setting of each row in a few characters."""

    def label(row: pd.Series) -> str:
        noise = f" Δ={row['noise']:g}" if row["noise"] else ""
        signal = "∞" if math.isinf(row["signal"]) else f"{row['signal']:g}"
        length = row["length"].replace("uniform(1,10)", "1…10")
        return f"{row['task']} ν={signal} L={length}{noise}"

    return frame[_SETTING].apply(label, axis=1)


def ranking(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each activation: mean and worst loss, where it is worst, where it breaks.

    The hit rate is the mean over the panel, the same for every activation that increases.
    It breaks at the lengths of spiked-SLR at signal 9 where it misses more than a tenth of the
    attainable gain. Mean losses that differ by no more than their errors share the best rank.
    """
    gain = 1.0 + frame["noise"] ** 2 - frame["bayes_risk"]
    # a loss below rounding is none
    loss = frame["loss"].where(frame["loss"] > _NONE, 0.0)
    frame = frame.assign(loss=loss, loss_error=frame["error"] / gain)
    groups = frame.groupby("activation", sort=False)
    worst = frame.loc[groups["loss"].idxmax()].set_index("activation")
    table = pd.DataFrame(
        {
            "family": groups["family"].first(),
            "hit_rate": groups["hit_rate"].mean(),
            "mean_loss": groups["loss"].mean(),
            "worst_loss": groups["loss"].max(),
            "worst_setting": worst["setting"].where(worst["loss"] > 0.0, ""),
            "breaks_at": pd.Series({name: _broken_lengths(rows) for name, rows in groups}),
            "same_as_best": groups["excess"].max() < _SAME,
        }
    ).sort_values("mean_loss", kind="stable")
    errors = groups["loss_error"].mean().reindex(table.index).fillna(0.0)
    table.insert(0, "rank", _ranks(table["mean_loss"].tolist(), errors.tolist()))
    table["source"] = [CARDS[name].source if name in CARDS else "" for name in table.index]
    return table.rename_axis("activation").reset_index()


def _ranks(losses: list[float], errors: list[float]) -> list[int]:
    """Return the ranks, from 1, of losses in rising order; equal ones share the first."""
    ranks, first = [], 0
    for here, (loss, error) in enumerate(zip(losses, errors, strict=True)):
        if loss - losses[first] > error + errors[first] + _NONE:
            first = here
        ranks.append(first + 1)
    return ranks


def _broken_lengths(rows: pd.DataFrame) -> str:
    """Return the lengths, as text, at which the rows of one activation exceed the loss."""
    lengths = pd.to_numeric(rows["length"], errors="coerce")
    probe = (rows["task"] == "spiked") & (rows["signal"] == 9.0) & (rows["noise"] == 0.0)
    broken = lengths[probe & (rows["loss"] > _BROKEN)].dropna()
    return ", ".join(f"{length:,.0f}" for length in sorted(broken))


def texts(table: pd.DataFrame) -> list[list[str]]:
    """Return the rows of a ranking for people, under `COLUMNS`."""
    return [
        [
            str(row["rank"]),
            row["activation"],
            row["family"],
            "–" if math.isnan(row["hit_rate"]) else f"{row['hit_rate']:.4f}",
            f"{row['mean_loss']:.2g}",
            f"{row['worst_loss']:.2g}",
            row["worst_setting"],
            row["breaks_at"],
            row["source"],
        ]
        for row in table.to_dict("records")
    ]


def verdict(row: pd.Series) -> str:
    """Return one sentence on an activation from its row in the ranking."""
    if row["same_as_best"]:
        return "As good as the best predictor on every setting of the panel."
    return (
        f"Loses {row['mean_loss']:.2g} of what can be gained on average, and "
        f"{row['worst_loss']:.2g} at worst ({row['worst_setting']})."
    )


def advice(row: pd.Series) -> str:
    """Return when to use an activation, from its row in the ranking."""
    if row["same_as_best"]:
        return "Use it wherever softmax serves: with infinite data nothing is lost."
    if not row["breaks_at"] and row["worst_loss"] > _BROKEN:
        return (
            "At signal 9 on spiked-SLR it misses less than a tenth of the attainable gain at all "
            f"lengths of the panel, but {row['worst_loss']:.2g} at {row['worst_setting']}: avoid "
            "it where the signal or the task is like that."
        )
    if not row["breaks_at"]:
        return (
            "At signal 9 it misses less than a tenth of the attainable gain at all lengths of the "
            "panel: use it if another of its properties is worth the loss."
        )
    if row["breaks_at"].startswith("2"):
        return (
            "At signal 9 it misses more than a tenth of the attainable gain already at two tokens: "
            "use it for reasons other than retrieval only."
        )
    return (
        "At signal 9 it misses more than a tenth of the attainable gain at length "
        f"{row['breaks_at']}: avoid it there."
    )
