"""Plan: which signal, how many samples and which activations meet a demand."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pandas as pd

from slrlab._types import Report
from slrlab.experiments.atlas.activations import STANDARD
from slrlab.experiments.requirements.demands import BAYES_NAME
from slrlab.experiments.requirements.iso_lines import iso_lines
from slrlab.experiments.requirements.require import require
from slrlab.experiments.requirements.rows import Row, rows_of
from slrlab.experiments.stored import (
    LENGTHS,
    TRAINED_LENGTH,
    TRAINED_SIGNALS,
    stored_bayes_alphas,
    stored_population,
)
from slrlab.explorer import charts
from slrlab.explorer.controls import Controls
from slrlab.explorer.tables import reasons, rows_or_reason, script, words
from slrlab.explorer.view import Call, Choice, Panel, StaticTable, Variant, View
from slrlab.explorer.views.population import population_calls
from slrlab.explorer.views.samples import LONGEST_TRAINED, bayes_rows, trained_calls
from slrlab.model.tasks import Task

# signals and lengths for activations that are not stored
_OWN_SIGNALS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_OWN_LENGTHS = (2, 5, 10, 30, 100, 1000, 10_000)
_STEP = 2.0  # ratio of the stored values of alpha
_ALPHA_RANGE, _SIGNAL_RANGE = [0.4, 80.0], [0.8, 20.0]  # ranges of the axes of training
_STATIC_TARGETS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_START = Controls(length=str(TRAINED_LENGTH), target=0.3)


def need_rows(task: Task, kind: str, demand: str, target: float, signal: float | None) -> list[Row]:
    """Return what an activation and the best predictor need: signal, or alpha at a signal."""
    return rows_or_reason(kind, _need_rows, task, kind, demand, target, signal)


def _need_rows(
    task: Task, kind: str, demand: str, target: float, signal: float | None
) -> list[Row]:
    asked: dict[str, Any] = {"length": task.length, "task": task.name, "noise": task.noise}
    answer = require(**asked | {demand: target}, signal=signal, activations=[kind])
    part = "samples" if signal is not None else "need"
    return [{"part": part} | row for row in rows_of(answer.to_frame())]


def stored_grid(task: str, noise: float) -> list[Row]:
    """Return the stored risks with infinite data at all signals and lengths."""
    return rows_of(stored_population(task, noise))


def _training(controls: Controls) -> list[Call]:
    """Return the trainings at several signals, where they are stored or asked for."""
    calls = []
    for signal in TRAINED_SIGNALS:
        task = controls.make_task(signal=signal)
        known = stored_bayes_alphas(task)
        calls += [Call(bayes_rows, (task, alpha), True) for alpha in known]
        if task.length.longest <= LONGEST_TRAINED:
            calls += trained_calls(task, controls.activations, None)
    return [call for call in calls if call.quick]


def _can_train(controls: Controls) -> bool:
    """Return whether the fewest samples can be computed at the setting."""
    return math.isfinite(controls.signal) and controls.law.longest <= LONGEST_TRAINED


def _training_notes(frame: pd.DataFrame, controls: Controls) -> list[str]:
    """Return what the lines with finite data lack, and where the fewest samples are computed."""
    notes = []
    names = {call.given[1] for call in _training(controls) if call.function is not bayes_rows}
    if not names:
        notes.append(
            "Lines with finite data are there for spiked-SLR without noise at length "
            f"{TRAINED_LENGTH}, and for {', '.join(STANDARD)}."
        )
    elif not (frame["part"] == "alpha").any():
        notes.append("No line with finite data: the demand is outside the range of what is stored.")
    else:
        missing = [name for name in controls.activations if name not in names]
        missing += [BAYES_NAME] * (controls.demand == "hit_rate")
        if missing:
            notes.append(f"No stored training, and no line with finite data: {', '.join(missing)}.")
        if not frame.loc[frame["part"] == "alpha", "trusted"].all():
            notes.append("Open circles: the theory of training is not to be trusted there.")
    limits = f"at finite signals and lengths up to {LONGEST_TRAINED}"
    if controls.exact and not _can_train(controls):
        notes.append(f"The fewest samples are not computed at this setting, but {limits}.")
    elif not controls.exact and not names:
        notes.append(f"The fewest samples are computed on request, {limits}.")
    return notes


def _population_lines(grid: pd.DataFrame, controls: Controls) -> list[pd.DataFrame]:
    names = charts.names_with_bayes(controls.activations)
    kept = grid[grid["activation"].isin(names)]
    line = iso_lines(
        kept.assign(tokens=pd.to_numeric(kept["length"], errors="coerce")),
        along="signal",
        by=["activation", "tokens"],
        quantity=controls.demand,
        level=controls.target,
    )
    return [line.assign(part="length")]


def _training_lines(trained: pd.DataFrame, controls: Controls) -> list[pd.DataFrame]:
    if trained.empty:
        return []
    line = iso_lines(
        trained[trained[controls.demand].notna()],
        along="alpha",
        by=["activation", "signal"],
        quantity=controls.demand,
        level=controls.target,
    )
    doubtful = trained[~trained["trusted"].astype(bool)]
    trusted = [not _near(row, doubtful) for row in rows_of(line)]
    return [line.assign(part="alpha", trusted=trusted)]


def _near(row: Row, doubtful: pd.DataFrame) -> bool:
    """Return whether a point of a line is interpolated between rows of which one is doubtful."""
    same = (doubtful["activation"] == row["activation"]) & (doubtful["signal"] == row["signal"])
    ratio = doubtful.loc[same, "alpha"] / row["alpha"]
    return bool(ratio.between(1.0 / _STEP, _STEP).any())


def _lengths(controls: Controls) -> Any:
    rows = charts.part("length")
    x = charts.x("tokens", "length L", log=True)
    y = charts.y("signal", "signal needed", log=True)
    tips = ("activation:N", "tokens", "signal")
    here = charts.part("here").transform_filter("datum.here")
    needs = charts.part("need").transform_filter("datum.possible && isFinite(datum.tokens)")
    exact = needs.mark_point(size=70, filled=True, opacity=1.0).encode(
        x=x,
        y=y,
        color=charts.color(controls.activations),
        tooltip=charts.tooltip("activation:N", "length:N", "signal", "value"),
    )
    return charts.layered(
        *charts.curves(rows, x, y, controls.activations, tooltip=tips),
        charts.rule(here, x_field="tokens"),
        exact,
        title="least signal, infinite data",
    )


def _alphas(controls: Controls) -> Any:
    rows = charts.part("alpha")
    x = charts.x("alpha", "samples per dimension α needed", log=True, domain=_ALPHA_RANGE)
    y = charts.y("signal", "signal ν", log=True, domain=_SIGNAL_RANGE)
    tips = ("activation:N", "alpha", "signal")
    lines = charts.curves(rows, x, y, controls.activations, tooltip=tips, interpolate="linear")
    here = charts.part("here").transform_filter("datum.here && isFinite(datum.signal)")
    marked = charts.rule(here, y_field="signal")
    doubtful = rows.transform_filter("!datum.trusted").mark_point(size=70, strokeWidth=2, clip=True)
    shade = charts.color(controls.activations)
    open_circles = doubtful.encode(x=x, y=y, color=shade, tooltip=charts.tooltip(*tips))
    title = f"least samples, length {controls.law}"
    return charts.layered(*lines, marked, open_circles, title=title)


def _cannot(rows: pd.DataFrame, controls: Controls) -> list[str]:
    """Return which activations stay above the demanded risk at all stored signals."""
    grid = stored_population(controls.task, controls.noise)
    grid = grid[grid["length"] == controls.length]
    least = grid.groupby("activation", sort=False)["risk"].min()
    above = least[(least > controls.target) & least.index.isin(controls.activations)]
    return [
        f"{name} cannot at signals up to {grid['signal'].max():g}: there its risk is {risk:.3g}."
        for name, risk in above.items()
    ]


_SCRIPT = """
import pandas as pd

from slrlab import require

demand = {$demand: $target}
setting = {"task": $task, "length": $length, "noise": $noise}
answer = require(**demand, **setting, activations=$activations)
table = answer.to_frame()
"""
_MORE = """samples = require(**demand, **setting, signal=$signal, activations=$activations)
table = pd.concat([table, samples.to_frame()])
"""


class Plan(View):
    """What a demand requires, and lines of equal risk or hit rate."""

    name = "plan"
    title = "Plan: what a demand requires"
    about = (
        "You need a risk of at most, or a hit rate of at least, some number: the lines show where "
        "it is just met. Left: the least signal with infinite data against the length; an "
        "activation without a line cannot meet the demand in this range. Right: the fewest samples "
        "per dimension, after training at the best ridges, at each signal."
    )
    formula = (
        r"\min \{\nu : E_\sigma(\nu, L) \leq x\}, \quad "
        r"\min \{\alpha : E_\sigma(\alpha, \nu) \leq x\}"
    )
    controls = ("demand", "target", "exact")
    start = _START
    drawn_by = ("activations", "length")
    columns = ("activation", "length", "signal", "alpha", "value", "possible", "note")

    def setting(self, controls: Controls) -> str:
        bound = "at most" if controls.demand == "risk" else "at least"
        demand = f"{words(controls.demand)} {bound} {controls.target:g}"
        return f"{controls.words()}, {demand}"

    def calls(self, controls: Controls) -> list[Call]:
        own = tuple(name for name in controls.activations if name not in STANDARD)
        tasks = [
            controls.make_task(signal=signal, length=length)
            for signal, length in itertools.product(_OWN_SIGNALS, _OWN_LENGTHS)
        ]
        grid = [call for call in population_calls(tasks, own) if call.given[1] is not None]
        here = controls.make_task()
        asked = (controls.demand, controls.target)
        needs = [Call(need_rows, (here, kind, *asked, None)) for kind in controls.activations]
        samples = []
        if controls.exact and _can_train(controls):
            given = (*asked, controls.signal)
            samples = [Call(need_rows, (here, kind, *given)) for kind in controls.activations]
        return [
            Call(stored_grid, (controls.task, controls.noise), True),
            *_training(controls),
            *needs,
            *grid,
            *samples,
        ]

    def frame(self, rows: list[Row], controls: Controls) -> pd.DataFrame:
        """Return lines of equal risk or hit rate, and the exact needs."""
        needs = [row for row in rows if row.get("part") in ("need", "samples", "refused")]
        grid = pd.DataFrame([row for row in rows if "part" not in row])
        trained = pd.DataFrame([row for row in rows if row.get("part") in ("trained", "bayes")])
        exact = pd.DataFrame(needs)
        if "length" in exact:
            exact = exact.assign(tokens=pd.to_numeric(exact["length"], errors="coerce"))
        parts = [exact, *_population_lines(grid, controls)]
        parts += _training_lines(trained, controls)
        here = {
            "part": "here",
            "tokens": controls.law.mean,
            "signal": controls.signal,
            "here": True,
        }
        frame = pd.concat([*parts, pd.DataFrame([here])], ignore_index=True)
        return frame.reindex(
            columns=[*dict.fromkeys([*frame.columns, "part", *self.columns, "tokens"])]
        )

    def shape(self, frame: pd.DataFrame) -> Any:
        return bool((frame["part"] == "alpha").any())

    def panels(self, controls: Controls, shape: Any) -> list[Panel]:
        panels = [Panel(_lengths(controls), ("length", "here", "need"))]
        if shape:
            panels.append(Panel(_alphas(controls), ("alpha", "here")))
        return panels

    def marked(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the exact needs, that of Bayes once."""
        rows = frame[frame["part"].isin(["need", "samples"])]
        return rows.drop_duplicates(["part", "activation", "signal", "alpha"])

    def notes(self, frame: pd.DataFrame, controls: Controls) -> list[str]:
        notes = []
        needs = frame[frame["part"] == "need"]
        can = needs[needs["possible"].eq(True) & (needs["activation"] != BAYES_NAME)]
        if len(can):
            best = can.sort_values("signal").iloc[0]
            notes.append(
                f"At length {controls.law} the least signal is {best['signal']:.4g}, with "
                f"{best['activation']}."
            )
        cannot = needs[~needs["possible"].eq(True)].drop_duplicates("activation")
        notes += [f"{row['activation']}: {row['note']}." for _, row in cannot.iterrows()]
        notes += _training_notes(frame, controls)
        return [*notes, *reasons(frame)]

    def code(self, controls: Controls) -> str:
        exact = controls.exact and _can_train(controls)
        return script(f"{_SCRIPT}{_MORE if exact else ''}$print\n", controls)

    def static(self, report: Report | None) -> StaticTable:
        frames = []
        for target in _STATIC_TARGETS:
            at = replace(_START, target=target)
            rows = self.run(call for call in self.calls(at) if call.quick)
            lines = self.frame(rows, at)
            lines = lines[lines["part"].isin(["length", "alpha"])]
            kept = lines[["part", "activation", "tokens", "signal", "alpha", "trusted"]]
            frames.append(kept.assign(target=target))
        lengths = tuple(map(str, LENGTHS))
        frames.append(pd.DataFrame({"part": "here", "tokens": LENGTHS}))
        return StaticTable(
            pd.concat(frames, ignore_index=True),
            (
                Choice("target", "risk at most", _STATIC_TARGETS, _START.target),
                Choice("length", "length L", lengths, _START.length),
            ),
            {"": Variant(_START, ("target",), {"tokens": "length"}, ("length",))},
            part="length",
            setting="spiked-SLR, noise Δ = 0",
            notes=_cannot,
            columns=("activation", "tokens", "signal"),
            note="The signals are interpolated in a table: at them the risk is within 0.5 % of the "
            "demanded one. The script computes them to seven digits. Open circles: the theory of "
            "training is not to be trusted there.",
        )
