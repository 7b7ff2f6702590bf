"""Population: risk, weight on the relevant token and hit rate against the signal or the length."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from slrlab._types import Report
from slrlab.experiments.requirements.rows import Row, population_row
from slrlab.experiments.stored import LENGTHS, SIGNALS, stored_population_row, table
from slrlab.explorer import charts
from slrlab.explorer.controls import Controls
from slrlab.explorer.tables import script
from slrlab.explorer.view import Call, Choice, Panel, StaticTable, Variant, View
from slrlab.model.tasks import Task

FLOOR = 1e-4  # least risk that is drawn
_COARSE = 5  # every fifth point comes first
_TITLES = {"signal": "signal ν", "length": "length L"}
_HEADS = {
    "risk": "minimal risk",
    "weight": "mean weight on the relevant token",
    "hit_rate": "hit rate",
}


def population_rows(task: Task, kind: str | None) -> list[Row]:
    """Return the row of one setting, stored or computed."""
    return [stored_population_row(task, kind) or population_row(task, kind)]


def population_calls(tasks: list[Task], activations: tuple[str, ...]) -> list[Call]:
    """Return a call for each task and activation, and for Bayes."""
    return [
        Call(population_rows, (task, kind), stored_population_row(task, kind) is not None)
        for task in tasks
        for kind in (None, *activations)
    ]


def _tasks(controls: Controls) -> list[Task]:
    """Return the tasks of the curves, the one that is marked first, then the coarse ones."""
    points: list[Any] = list(SIGNALS[controls.task] if controls.x == "signal" else LENGTHS)
    ordered = sorted(range(len(points)), key=lambda i: (i % _COARSE != 0, i))
    tasks = [controls.make_task(**{controls.x: points[i]}) for i in ordered]
    here = controls.make_task()
    return [here, *(task for task in tasks if task != here)]


_SCRIPT = """
import pandas as pd

from slrlab import make_task
from slrlab.experiments.requirements.rows import population_row

points = $points
kinds = $kinds  # None is the best predictor
tasks = [make_task($task, $x=point, $rest) for point in points]
table = pd.DataFrame([population_row(task, kind) for task in tasks for kind in kinds])
$print
"""


class Population(View):
    """Curves against the signal or the length, with infinite data."""

    name = "population"
    title = "Population: what each attention can reach with infinite data"
    about = (
        "Each line is the least risk of an attention over all its keys and values, with infinite "
        "data; grey is the Bayes risk, the least of any predictor. Softmax lies on it; attention "
        "without the exponential or without the normalisation leaves it as the signal or the "
        "length grows. All increasing activations rank the tokens in the same order and have the "
        "same hit rate: they differ in how much of the relevant token they read."
    )
    formula = (
        r"E_\sigma = \Delta^2 + 1 - \max_{k}\, \frac{A^2}{B}, \quad "
        r"A = \mathrm{E}[\sigma_\varepsilon], \quad B = \mathrm{E}\, \sum_\ell \sigma_\ell^2"
    )
    controls = ("x",)
    drawn_by = ("x", "activations")
    columns = ("activation", "risk", "weight", "hit_rate", "m_k", "m_v", "bias", "status")

    def calls(self, controls: Controls) -> list[Call]:
        return population_calls(_tasks(controls), controls.activations)

    def frame(self, rows: list[Row], controls: Controls) -> pd.DataFrame:
        here = controls.make_task()
        frame = pd.DataFrame(rows)
        same = (frame["signal"] == here.signal) & (frame["length"] == str(here.length))
        frame = frame.assign(here=same, tokens=pd.to_numeric(frame["length"], errors="coerce"))
        return frame.sort_values(["tokens", "signal"], ignore_index=True, kind="stable")

    def panels(self, controls: Controls, shape: Any) -> list[Panel]:
        import altair as alt

        field = "signal" if controls.x == "signal" else "tokens"
        x = charts.x(field, _TITLES[controls.x], log=True)
        quantities = {
            "risk": charts.y("risk", log=True, domainMin=FLOOR),
            "weight": charts.y("weight", domainMin=0.0),
            "hit_rate": charts.y("hit_rate", domain=[0.0, 1.0]),
        }
        # an infinite signal, and a law of lengths, have no place on the axis
        where = alt.Chart().transform_filter(f"isFinite(datum.{field}) && datum.{field} > 0")
        marked = where.transform_filter("datum.here")
        panels = []
        for name, y in quantities.items():
            kept = where.transform_filter("datum.risk > 1e-9") if name == "risk" else where
            tips = ("activation:N", "signal", "length:N", name)
            lines = charts.curves(kept, x, y, controls.activations, tooltip=tips)
            marks = charts.rule(marked, x_field=field)
            panels.append(Panel(charts.layered(*lines, marks, title=_HEADS[name])))
        return panels

    def marked(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the setting."""
        return frame[frame["here"]]

    def notes(self, frame: pd.DataFrame, controls: Controls) -> list[str]:
        notes = []
        if not controls.law.label.isdigit() and controls.x == "length":
            notes.append(
                f"The curves are those of fixed lengths; the table is that of {controls.law}."
            )
        if math.isinf(controls.signal) and controls.x == "signal":
            notes.append("The table is that of an infinite signal, which the curves do not reach.")
        rough = frame.loc[frame["status"].isin(["inaccurate", "failed"]), "activation"].unique()
        if len(rough):
            notes.append(f"Some points have a larger error than usual: {', '.join(rough)}.")
        return notes

    def code(self, controls: Controls) -> str:
        tasks = sorted(_tasks(controls), key=lambda task: (task.length.mean, task.signal))
        points = [task.signal if controls.x == "signal" else str(task.length) for task in tasks]
        given = {"signal": controls.signal, "length": controls.length, "noise": controls.noise}
        rest = ", ".join(f"{name}={v!r}" for name, v in given.items() if name != controls.x)
        kinds = [None, *controls.activations]
        return script(_SCRIPT, controls, points=points, kinds=kinds, x=controls.x, rest=rest)

    def static(self, report: Report | None) -> StaticTable:
        frame = table("population")
        columns = ["task", "signal", "length", "activation", "risk", "weight", "hit_rate"]
        frame = frame[columns].assign(tokens=pd.to_numeric(frame["length"]))
        defaults = Controls()
        signals = tuple(SIGNALS["spiked"])
        most = {name: max(known) for name, known in SIGNALS.items()}
        lengths = tuple(map(str, LENGTHS))
        return StaticTable(
            frame,
            (
                Choice("task", "task", tuple(SIGNALS), defaults.task),
                Choice("signal", "signal ν", signals, defaults.signal, most={"task": most}),
                Choice("length", "length L", lengths, defaults.length),
            ),
            {
                "signal": Variant(Controls(x="signal"), ("task", "length"), {"signal": "signal"}),
                "length": Variant(Controls(x="length"), ("task", "signal"), {"length": "length"}),
            },
            columns=self.columns[:4],
            variant_label="against",
            setting="noise Δ = 0, infinite data",
        )
