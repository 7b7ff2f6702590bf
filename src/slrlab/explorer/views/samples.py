"""Samples: test risk after training against the number of samples per dimension."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from slrlab._types import Report
from slrlab.experiments.requirements.demands import BAYES_NAME
from slrlab.experiments.requirements.rows import Row, bayes_optimal_row, trained_row
from slrlab.experiments.stored import (
    ALPHAS,
    TOLERANCE,
    TRAINED_LENGTH,
    TRAINED_SIGNALS,
    bayes_alphas,
    stored_bayes_alphas,
    stored_trained_row,
)
from slrlab.explorer import charts
from slrlab.explorer.controls import Controls
from slrlab.explorer.tables import reasons, rows_or_reason, script
from slrlab.explorer.view import Call, Choice, Panel, StaticTable, Variant, View
from slrlab.explorer.views.population import population_calls
from slrlab.model.tasks import SelectionTask, Task
from slrlab.theory.bayes_optimal.selected import LONGEST

_COARSE = (4.0, 32.0, 1.0)  # samples per dimension that come first
_ROUGH = (0.5, 0.5)  # ridges until the best ones are found
_WANTED = ("alpha", "risk", "risk_amp", "low", "high", "from_alpha", "to_alpha", "trusted", "rough")
LONGEST_TRAINED = 100  # training on longer sequences takes minutes a point
_START = Controls(length=str(TRAINED_LENGTH))


def trained_rows(
    task: Task, kind: str, alpha: float, ridges: tuple[float, float] | None
) -> list[Row]:
    """Return the row of one training, stored or computed; the reason if it has no solution."""
    rows = rows_or_reason(kind, _trained_rows, task, kind, alpha, ridges)
    return [{"alpha": alpha} | row for row in rows]


def _trained_rows(
    task: Task, kind: str, alpha: float, ridges: tuple[float, float] | None
) -> list[Row]:
    stored = stored_trained_row(task, kind, alpha) if ridges is None else None
    return [{"part": "trained"} | (stored or trained_row(task, kind, alpha, ridges, TOLERANCE))]


def bayes_rows(task: Task, alpha: float) -> list[Row]:
    """Return the Bayes-optimal row, stored or computed."""
    row = stored_trained_row(task, None, alpha) or bayes_optimal_row(task, alpha)
    return [{"part": "bayes", "trusted": True} | row]


def all_bayes_rows(task: Task) -> list[Row]:
    """Return the Bayes-optimal curve with its jumps; the reason if there is no such theory."""
    return rows_or_reason(BAYES_NAME, _all_bayes_rows, task)


def _all_bayes_rows(task: Task) -> list[Row]:
    return [row for alpha in bayes_alphas(task) for row in bayes_rows(task, alpha)]


def trained_calls(
    task: Task, activations: tuple[str, ...], ridges: tuple[float, float] | None
) -> list[Call]:
    """Return a call for each activation and alpha, a coarse curve first."""
    alphas = [*_COARSE, *(alpha for alpha in ALPHAS if alpha not in _COARSE)]
    return [
        Call(
            trained_rows,
            (task, kind, alpha, ridges),
            ridges is None and stored_trained_row(task, kind, alpha) is not None,
        )
        for alpha in alphas
        for kind in activations
    ]


def rough_rows(task: Task, kind: str, alpha: float) -> list[Row]:
    """Return a training at medium ridges: an upper bound at once, until the best are found."""
    return [row | {"rough": True} for row in trained_rows(task, kind, alpha, _ROUGH)]


def _rough_calls(calls: list[Call]) -> list[Call]:
    """Return coarse calls to show until the search for the best ridges ends."""
    slow = [call.given for call in calls if not call.quick and call.given[3] is None]
    return [Call(rough_rows, given[:3], stage=0) for given in slow if given[2] in _COARSE]


def bayes_rows_or_none(task: Task, alpha: float) -> list[Row]:
    """Return the Bayes-optimal row; the reason if there is no such theory."""
    return rows_or_reason(BAYES_NAME, bayes_rows, task, alpha)


def _hard_phase(bayes: list[Row]) -> list[Row]:
    """Return the interval in which message passing does not reach the Bayes-optimal risk."""
    hard = [row["alpha"] for row in bayes if row["hard"]]
    return [{"part": "hard", "from_alpha": min(hard), "to_alpha": max(hard)}] if hard else []


_SCRIPT = """
import pandas as pd

from slrlab import make_task
from slrlab.experiments.requirements.rows import bayes_optimal_row, trained_row
from slrlab.experiments.stored import bayes_alphas

task = $make_task
ridges = $ridges  # of keys and values; None: the best ones
rows = [bayes_optimal_row(task, alpha) for alpha in $bayes]
for name in $activations:
    for alpha in $alphas:
        rows.append(trained_row(task, name, alpha, ridges, tolerance=$tolerance))
table = pd.DataFrame(rows)
$print
"""


_LIMIT_SCRIPT = """
import pandas as pd

from slrlab import make_task
from slrlab.experiments.requirements.rows import population_row

task = $make_task
kinds = $kinds  # None is the best predictor; infinite data, since the sequences are too long
table = pd.DataFrame([population_row(task, kind) for kind in kinds])
$print
"""


class Samples(View):
    """Curves against alpha, after training."""

    name = "samples"
    title = "Samples: how much each attention learns from finite data"
    about = (
        "Lines are the test risk after training on N = αD samples, at the best ridges or at given "
        "ones; bands are two standard errors, and the range of the theory where it is unstable. "
        "The wide grey line is the Bayes-optimal risk, the dotted one what message passing "
        "reaches; between them, shaded, lies the hard phase. Open circles mark where the theory "
        "is not to be trusted, and dotted levels the risk with infinite data."
    )
    formula = (
        r"\min_{k,v}\; \sum_\mu (y_\mu - f(X_\mu))^2 / 2 "
        r"+ r_k |k|^2 / 2 + r_v |v|^2 / 2, \quad \alpha = N/D"
    )
    controls = ("ridge", "ridge_k", "ridge_v")
    start = _START
    drawn_by = ("activations",)
    part = "trained"
    columns = ("activation", "alpha", "risk", "error", "ridge_k", "ridge_v", "trusted", "status")

    def setting(self, controls: Controls) -> str:
        if controls.ridge == "given":
            return controls.words("ridge_k", "ridge_v")
        return f"{controls.words()}, best ridges"

    def calls(self, controls: Controls) -> list[Call]:
        task = controls.make_task()
        ridges = (controls.ridge_k, controls.ridge_v) if controls.ridge == "given" else None
        known = stored_bayes_alphas(task)
        if known:
            bayes = [Call(bayes_rows, (task, alpha), True) for alpha in known]
        elif isinstance(task, SelectionTask):  # each takes seconds
            bayes = [Call(bayes_rows_or_none, (task, alpha)) for alpha in ALPHAS]
        else:
            bayes = [Call(all_bayes_rows, (task,))]
        limits = population_calls([task], controls.activations)
        if task.length.longest > LONGEST_TRAINED:
            return limits
        trained = trained_calls(task, controls.activations, ridges)
        return [*limits, *_rough_calls(trained), *bayes, *trained]

    def frame(self, rows: list[Row], controls: Controls) -> pd.DataFrame:
        limits = [{"part": "limit"} | row for row in rows if "part" not in row]
        exact = {(row["activation"], row.get("alpha")) for row in rows if not row.get("rough")}
        parts: list[Row] = [
            {"rough": False} | row
            for row in rows
            if "part" in row
            and not (row.get("rough") and (row["activation"], row.get("alpha")) in exact)
        ]
        bayes = [row for row in parts if row["part"] == "bayes"]
        frame = pd.DataFrame([*parts, *_hard_phase(bayes), *limits])
        frame = frame.reindex(columns=[*dict.fromkeys([*frame.columns, *_WANTED])])
        return frame.sort_values("alpha", ignore_index=True, kind="stable")

    def panels(self, controls: Controls, shape: Any) -> list[Panel]:
        import altair as alt

        shade = charts.color(controls.activations)
        dash = charts.dashes(controls.activations)
        x = charts.x("alpha", "samples per dimension α", log=True, values=ALPHAS)
        y = charts.y("risk", domainMin=0.0)
        trained, bayes = charts.part("trained"), charts.part("bayes")
        tips = charts.tooltip(
            "activation:N", "alpha", "risk", "error", "ridge_k", "ridge_v", "status:N"
        )
        hard = charts.part("hard").mark_rect(color=charts.NEEDLE, opacity=0.25)
        band = trained.mark_area(opacity=0.25, clip=True)
        line = trained.mark_line(strokeWidth=charts.WIDTH, clip=True)
        dots = trained.mark_point(size=55, strokeWidth=2, clip=True)
        fill = alt.condition("datum.trusted", shade, alt.value("transparent"))
        amp = bayes.mark_line(strokeDash=[2, 3], strokeWidth=2, color=charts.GREY, clip=True)
        best = bayes.mark_line(strokeWidth=6, opacity=0.55, clip=True)
        limit = charts.part("limit").transform_filter(f"datum.activation != '{BAYES_NAME}'")
        return [
            Panel(
                charts.layered(
                    hard.encode(x="from_alpha:Q", x2="to_alpha:Q"),
                    band.encode(x=x, y=alt.Y("low:Q", stack=None), y2="high:Q", color=shade),
                    best.encode(x=x, y=y, color=shade, tooltip=charts.tooltip("alpha", "risk")),
                    amp.encode(x=x, y="risk_amp:Q", tooltip=charts.tooltip("alpha", "risk_amp")),
                    line.encode(x=x, y=y, color=shade, strokeDash=dash),
                    dots.encode(x=x, y=y, color=shade, fill=fill, tooltip=tips),
                    limit.mark_rule(strokeDash=[1, 4], opacity=0.8).encode(y="risk:Q", color=shade),
                    title="test risk",
                    height=420,
                ),
                ("trained", "bayes", "hard", "limit"),
            )
        ]

    def marked(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the trained rows, one activation after the other."""
        return super().marked(frame).sort_values(["activation", "alpha"])

    def notes(self, frame: pd.DataFrame, controls: Controls) -> list[str]:
        notes = []
        if controls.law.longest > LONGEST_TRAINED:
            notes.append(f"Training is computed here for lengths up to {LONGEST_TRAINED}.")
        trained = frame[frame["part"] == "trained"]
        rough = trained.loc[trained["rough"].eq(True), "activation"].unique()
        if len(rough):
            notes.append(
                f"Until the best ridges are found, some points of {', '.join(rough)} have ridges "
                f"of {_ROUGH[0]:g}: their risk is an upper bound."
            )
        for name, rows in trained.groupby("activation", sort=False):
            doubtful = rows.loc[~rows["trusted"].astype(bool), "alpha"]
            if len(doubtful):
                at = ", ".join(f"{alpha:g}" for alpha in doubtful)
                notes.append(
                    f"The theory of {name} is not to be trusted at α = {at} (open circles): "
                    "training may end anywhere in the band, or outside."
                )
        hard = frame[frame["part"] == "hard"]
        notes += [
            f"Hard phase (shaded): between α = {row['from_alpha']:.4g} and {row['to_alpha']:.4g} "
            "message passing (dotted) stays above the Bayes-optimal risk."
            for _, row in hard.iterrows()
        ]
        return [*notes, *reasons(frame)]

    def code(self, controls: Controls) -> str:
        ridges = (controls.ridge_k, controls.ridge_v) if controls.ridge == "given" else None
        task = controls.make_task()
        if task.length.longest > LONGEST_TRAINED:
            return script(_LIMIT_SCRIPT, controls, kinds=[None, *controls.activations])
        bayes: Any = "bayes_alphas(task)"
        if isinstance(task, SelectionTask):
            bayes = list(ALPHAS) if task.length.longest <= LONGEST else []
        return script(
            _SCRIPT,
            controls,
            ridges=ridges,
            bayes=bayes,
            alphas=list(ALPHAS),
            tolerance=TOLERANCE,
        )

    def static(self, report: Report | None) -> StaticTable:
        base = _START
        frames = []
        for signal in TRAINED_SIGNALS:
            at = replace(base, signal=signal)
            frames.append(self.table(at).assign(signal=signal))
        return StaticTable(
            pd.concat(frames, ignore_index=True),
            (Choice("signal", "signal ν", TRAINED_SIGNALS, base.signal),),
            {"": Variant(base, ("signal",))},
            notes=self.notes,
            setting=f"spiked-SLR, length L = {base.length}, noise Δ = 0, best ridges",
        )
