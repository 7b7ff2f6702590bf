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

from slrlab._errors import ComputationError
from slrlab._result import Estimate, Status
from slrlab._types import Report
from slrlab.experiments.atlas.activations import Compared, Kind, portable
from slrlab.experiments.running.parallel import parallel_map
from slrlab.model.activations import ACTIVATIONS, make_activation
from slrlab.model.cards import CARDS
from slrlab.model.setting import Setting
from slrlab.model.tasks import MaxSLR, SpikedSLR, Task
from slrlab.theory.population.bayes_risk import bayes_risk
from slrlab.theory.population.minimal import minimal_risk
from slrlab.theory.population.weight_statistics import weights_of

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
)
WEIGHTS = ("hit_rate", "mean_weight", "entropy", "miscalibration")
"""Columns of what the weights do; each is followed by one with its error."""
_SETTING = ["task", "signal", "length", "noise"]
_NONE = 1e-9  # loss that is rounding
_BROKEN = 0.1  # loss on spiked-SLR at signal 9 above which an activation breaks at a length
_SAME = 1e-6  # excess below which an activation is the best predictor for all purposes
_DOUBT = 0.01  # error of a loss from which it is said


def atlas(
    activations: Sequence[Kind] | None = None,
    *,
    panel: Sequence[Task] = PANEL,
    workers: int | None = None,
    report: Report | None = None,
) -> pd.DataFrame:
    """Return one row for each setting of the panel and each activation.

    `WEIGHTS` are those of `slrlab.WeightStatistics` at the same keys, from a smaller sample, each
    followed by its error: 0 for the hit rate of an activation that increases and for the mean
    weight, which come from quadratures. A setting that cannot be computed has the status
    ``failed``, nan for its numbers and a ``note`` that says why.

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
    numbers = [*_NUMBERS, *(name + end for name in WEIGHTS for end in ("", "_error"))]
    frame = pd.DataFrame(rows).astype(dict.fromkeys(numbers, float))
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
        frame = pd.read_csv(file, dtype={"length": str}, keep_default_na=False, na_values=[""])
    return frame.astype(dict.fromkeys(_NUMBERS[:2], float)).assign(note="")


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
    bayes = bayes_risk(task)
    try:
        best = minimal_risk(task, kind)
        row = Compared(best, bayes).to_dict() | {"note": ""}
        weights = weights_of(best)
    except ComputationError as error:
        row = Setting(task, make_activation(kind)).to_dict() | dict.fromkeys(_NUMBERS[2:], math.nan)
        row |= {"alpha": math.inf, "bayes_risk": bayes.risk}
        row |= {"status": str(Status.FAILED), "note": str(error)}
        weights = dict.fromkeys(WEIGHTS, Estimate(math.nan, math.nan))
    for name, number in weights.items():
        row |= {name: number.value, f"{name}_error": number.error}
    return row


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

    The hit rate is a mean over the panel, the same for every activation that increases. An
    activation breaks at the lengths of spiked-SLR at signal 9 where it misses more than a tenth of
    the attainable gain. Mean losses that differ by no more than their errors share the best rank.
    Means are over the settings that could be computed. ``missing`` counts the others, ``doubtful``
    those that are not accurate to a hundredth of the attainable gain, by status in ``doubts``.
    """
    gain = 1.0 + frame["noise"] ** 2 - frame["bayes_risk"]
    # a loss below rounding is none
    loss = frame["loss"].where(frame["loss"] > _NONE, 0.0)
    loss = loss.where(frame["loss"].notna())
    frame = frame.assign(loss=loss, loss_error=frame["error"] / gain)
    frame["doubt"] = ~(frame["loss_error"] <= _DOUBT)
    groups = frame.groupby("activation", sort=False)
    known = frame.assign(loss=loss.fillna(-1.0)).groupby("activation", sort=False)["loss"]
    worst = frame.loc[known.idxmax()].set_index("activation")
    table = pd.DataFrame(
        {
            "family": groups["family"].first(),
            "hit_rate": groups["hit_rate"].mean(),
            "mean_loss": groups["loss"].mean(),
            "worst_loss": groups["loss"].max(),
            "worst_setting": worst["setting"].where(worst["loss"] > 0.0, ""),
            "breaks_at": pd.Series({name: _broken_lengths(rows) for name, rows in groups}),
            "same_as_best": (groups["excess"].max() < _SAME) & (groups["doubt"].sum() == 0),
            "settings": groups.size(),
            "missing": groups.size() - groups["loss"].count(),
            "doubtful": groups["doubt"].sum(),
            "doubts": pd.Series({name: _doubts(rows) for name, rows in groups}),
            "worst_error": groups["loss_error"].max(),
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


def _doubts(rows: pd.DataFrame) -> str:
    """Return how many of the rows in doubt have which status."""
    counts = rows.loc[rows["doubt"], "status"].value_counts()
    return ", ".join(f"{count} {status}" for status, count in counts.items())


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
    """Return on an activation what its row in the ranking says, with what is not known."""
    if row["same_as_best"]:
        return "As good as the best predictor on every setting of the panel."
    if row["missing"] == row["settings"]:
        return "Its risk could not be computed on any setting of the panel."
    words = (
        f"Loses {row['mean_loss']:.2g} of what can be gained on average, and "
        f"{row['worst_loss']:.2g} at worst ({row['worst_setting']})."
    )
    if row["doubtful"]:
        words += (
            f" Not accurate to 0.01 on {row['doubtful']} of {row['settings']} settings "
            f"({row['doubts']})"
        )
        words += f": errors up to {row['worst_error']:.1g}." if row["worst_error"] > 0.0 else "."
    if row["missing"]:
        words += f" The mean is over the other {row['settings'] - row['missing']} settings."
    return words


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
