"""Retrieve: one sequence, its hidden location, and what each attention reads from it."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from slrlab._types import Report
from slrlab.experiments.haystack import Haystack, draw_haystack
from slrlab.experiments.requirements.rows import Row
from slrlab.experiments.stored import LENGTHS, stored_population_row
from slrlab.explorer import charts
from slrlab.explorer.controls import Controls
from slrlab.explorer.tables import reported, script
from slrlab.explorer.view import Call, Choice, Panel, StaticTable, Variant, View
from slrlab.explorer.views.population import FLOOR, population_calls
from slrlab.model.tasks import Task

_TOP, _OTHERS = 100, 200  # tokens that are drawn: of largest score, and spread over the rest
_LONGEST = 10_000  # largest length of the curve of the risk
_STATIC_SIGNALS, _STATIC_SEEDS = (8.0, 16.0, 25.0), (1, 2, 3)
_STATIC_LENGTHS = (5, 10, 30, 100, 300, 1000, 3000, 10_000)
_STATIC_TOKENS = (15, 20)
_START = Controls(signal=16.0, length="100")


def haystack_rows(
    task: Task, activations: tuple[str, ...], seed: int, top: int = _TOP, others: int = _OTHERS
) -> list[Row]:
    """Return rows of tokens and predictions of one sequence."""
    known = {name: stored_population_row(task, name) for name in activations}
    optima = {name: SimpleNamespace(**row) for name, row in known.items() if row is not None}
    drawn = draw_haystack(task, activations, seed=seed, optima=optima)
    return [*_token_rows(drawn, top, others), *_prediction_rows(drawn)]


def _token_rows(drawn: Haystack, top: int, others: int) -> list[Row]:
    """Return a row for each token that is drawn and each activation."""
    order = np.argsort(-drawn.scores, kind="stable")
    rank = np.empty(order.size, dtype=int)
    rank[order] = np.arange(1, order.size + 1)
    shown = order[:top]
    if order.size > top:
        lower = np.unique(np.geomspace(top + 1, order.size, others).astype(int)) - 1
        shown = np.append(shown, order[lower])
    if drawn.location not in shown:
        shown = np.append(shown, drawn.location)
    tokens = [
        {
            "part": "token",
            "token": token + 1,
            "rank": int(rank[token]),
            "score": float(drawn.scores[token]),
            "value": float(drawn.values[token]),
            "relevant": token == drawn.location,
        }
        for token in shown.tolist()
    ]
    return [
        token | {"activation": name, "weight": float(weights[token["token"] - 1])}
        for name, weights in drawn.weights.items()
        for token in tokens
    ]


def _prediction_rows(drawn: Haystack) -> list[Row]:
    return [
        {"part": "prediction", "activation": name, "prediction": value, "label": drawn.label}
        | {"weight": drawn.needle_weights[name]}
        for name, value in drawn.predictions.items()
    ]


_NEEDLE: dict[str, Any] = {"shape": "diamond", "filled": True, "color": charts.NEEDLE}


def _plane(controls: Controls) -> Any:
    """Return the tokens in the plane of key score and value, sized by their weights."""
    import altair as alt

    tokens = charts.part("token").transform_filter({"field": "activation", "equal": controls.focus})
    tips = charts.tooltip("token", "score", "value", "weight")
    x = charts.x("score", "key score χ*", padding=16)
    y = charts.y("value", "value z*", padding=16)
    size = alt.Size("weight:Q", scale=alt.Scale(domain=[0, 1], range=[15, 700], clamp=True))
    dots = tokens.mark_circle(
        color=charts.color_of(controls.focus, controls.activations), opacity=0.6
    )
    needle = tokens.transform_filter("datum.relevant")
    return charts.layered(
        dots.encode(x=x, y=y, size=size.legend(None), tooltip=tips),
        needle.mark_point(size=160, stroke="white", **_NEEDLE).encode(x=x, y=y, tooltip=tips),
        title=f"tokens, sized by the weight of {controls.focus}",
    )


def _weights(controls: Controls) -> Any:
    """Return the weights of the tokens in the order of their scores."""
    tokens = charts.part("token")
    x = charts.x("rank", "rank of the key score", log=True)
    y = charts.y("weight")
    tips = ("activation:N", "rank", "score", "weight")
    lines = charts.curves(tokens, x, y, controls.activations, tooltip=tips, interpolate="linear")
    needle = tokens.transform_filter("datum.relevant").mark_point(size=70, **_NEEDLE)
    return charts.layered(
        *lines,
        needle.encode(x=x, y=y, tooltip=charts.tooltip(*tips)),
        title="weights of the tokens",
    )


def _predictions(controls: Controls) -> Any:
    """Return what each attention predicts beside the label."""
    import altair as alt

    rows = charts.part("prediction")
    names = charts.names_with_bayes(controls.activations)
    y = alt.Y("activation:N", sort=names, title=None, axis=alt.Axis(labelLimit=110))
    x = charts.x("prediction", "prediction; line: the label")
    shade = charts.color(controls.activations)
    tips = charts.tooltip("activation:N", "prediction", "label", "weight")
    label = rows.mark_rule(color=charts.NEEDLE, strokeWidth=2)
    return charts.layered(
        label.encode(x=alt.X("label:Q", aggregate="max")),
        rows.mark_rule(strokeDash=[2, 3], color=charts.GREY).encode(x=alt.datum(0.0)),
        rows.mark_circle(size=140, opacity=1.0).encode(x=x, y=y, color=shade, tooltip=tips),
        title="predictions and label",
    )


def _risks(controls: Controls) -> Any:
    """Return the least risk against the length, with the present length marked."""
    rows = charts.part("curve")
    x = charts.x("tokens", "length L", log=True)
    y = charts.y("risk", log=True, domainMin=FLOOR)
    lines = charts.curves(
        rows.transform_filter("datum.risk > 1e-9"),
        *(x, y, controls.activations),
        tooltip=("activation:N", "tokens", "risk"),
    )
    marked = charts.rule(rows.transform_filter("datum.here"), x_field="tokens")
    return charts.layered(*lines, marked, title="minimal risk at each length")


_SCRIPT = """
import pandas as pd

from slrlab import draw_haystack, make_task

task = $make_task
drawn = draw_haystack(task, $activations, seed=$seed)
table = pd.DataFrame(
    {
        "activation": list(drawn.predictions),
        "weight": list(drawn.needle_weights.values()),
        "prediction": list(drawn.predictions.values()),
        "label": drawn.label,
    }
)
$print
"""


class Retrieve(View):
    """One sequence: tokens, weights and predictions."""

    name = "retrieve"
    title = "Retrieve: find the one token that matters"
    about = (
        "A sequence is drawn; one of its tokens, the diamond, is the relevant one, and its value "
        "is the label, but its location is hidden. Each attention weighs the tokens by their key "
        "scores and predicts the weighted sum of their values, at its best keys, values and bias. "
        "Make the sequence longer: linear attention spreads its weight over all tokens and "
        "predicts almost 0, softmax still finds the token, until at some length another token has "
        "by chance a larger score."
    )
    formula = (
        r"f(X) = \sum_\ell \sigma(\chi)_\ell\, z_\ell, \quad \chi = m_k \chi^*, \quad z = m_v z^*"
    )
    controls = ("seed", "activation")
    start = _START
    drawn_by = ("activation", "activations")
    part = "prediction"
    columns = ("activation", "weight", "prediction", "label")

    def setting(self, controls: Controls) -> str:
        return controls.words("seed", "activation")

    def calls(self, controls: Controls) -> list[Call]:
        task = controls.make_task()
        stored = all(stored_population_row(task, name) for name in controls.activations)
        drawn = Call(haystack_rows, (task, controls.activations, controls.seed), stored)
        fixed = task.length.label.isdigit()
        lengths = [length for length in LENGTHS if length <= _LONGEST]
        tasks = [controls.make_task(length=length) for length in lengths]
        if fixed and task not in tasks:
            tasks.append(task)
        return [drawn, *population_calls(tasks, controls.activations)]

    def frame(self, rows: list[Row], controls: Controls) -> pd.DataFrame:
        length = str(controls.law)
        curve = [
            {"part": "curve", "tokens": float(row["length"]), "here": row["length"] == length}
            | {name: row[name] for name in ("activation", "risk")}
            for row in rows
            if "part" not in row
        ]
        return pd.DataFrame([*(row for row in rows if "part" in row), *curve])

    def panels(self, controls: Controls, shape: Any) -> list[Panel]:
        return [
            Panel(_plane(controls), ("token",)),
            Panel(_weights(controls), ("token",)),
            Panel(_predictions(controls), ("prediction",)),
            Panel(_risks(controls), ("curve",)),
        ]

    def notes(self, frame: pd.DataFrame, controls: Controls) -> list[str]:
        length = frame["rank"].max() if "rank" in frame else 0  # risks may be there before tokens
        if not length > _TOP:
            return []
        shown = frame.loc[frame["part"] == "token", "token"].nunique()
        return [
            f"{shown} of {length:,.0f} tokens are drawn: the {_TOP} of largest score, the relevant "
            "one, and some of each rank below."
        ]

    def code(self, controls: Controls) -> str:
        return script(_SCRIPT, controls)

    def static(self, report: Report | None) -> StaticTable:
        base = _START
        combinations = itertools.product(_STATIC_SIGNALS, _STATIC_SEEDS, _STATIC_LENGTHS)
        frames = []
        for signal, seed, length in reported(combinations, report, self.name):
            task = base.make_task(signal=signal, length=length)
            rows = haystack_rows(task, base.activations, seed, *_STATIC_TOKENS)
            given: Row = {"signal": signal, "seed": seed, "length": str(length)}
            frames.append(pd.DataFrame(rows).assign(**given))
        for signal in _STATIC_SIGNALS:
            tasks = [base.make_task(signal=signal, length=length) for length in LENGTHS]
            kept = [task for task in tasks if task.length.longest <= _LONGEST]
            rows = self.run(population_calls(kept, base.activations))
            curve = self.frame(rows, base).drop(columns="here")
            frames.append(curve.assign(signal=signal))
        frame = pd.concat(frames, ignore_index=True)
        lengths = tuple(map(str, _STATIC_LENGTHS))
        top, others = _STATIC_TOKENS
        return StaticTable(
            frame,
            (
                Choice("length", "length L", lengths, base.length),
                Choice("signal", "signal ν", _STATIC_SIGNALS, base.signal),
                Choice("seed", "draw", _STATIC_SEEDS, 1),
            ),
            {"": Variant(base, ("signal", "seed", "length"), {"tokens": "length"})},
            setting="spiked-SLR, noise Δ = 0",
            note=f"At most {top + others + 1} tokens are drawn: the {top} of largest score, the "
            f"relevant one, and {others} spread over the ranks below.",
        )
