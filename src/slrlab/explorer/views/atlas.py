"""Atlas: all published activations, ranked, and the user's own among them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from slrlab._types import Report
from slrlab.experiments.atlas.panel import PANEL, atlas, ranking, setting_labels
from slrlab.experiments.requirements.rows import Row, rows_of
from slrlab.experiments.stored import table
from slrlab.explorer import charts
from slrlab.explorer.controls import Controls
from slrlab.explorer.tables import script, task_call, words
from slrlab.explorer.view import Call, Choice, Panel, StaticTable, Variant, View
from slrlab.model.tasks import Task

_LEAST = 1e-6  # loss that is drawn in place of a smaller one
_FAMILIES = {
    "elementwise": "#D55E00",
    "normalised": "#0072B2",
    "projection": "#009E73",
    "ratio": "#CC79A7",
    "ordered": "#808080",
}
_COLUMNS = ("rank", "activation", "family", "mean_loss", "worst_loss", "worst_setting", "breaks_at")
_BY = "mean loss"


def atlas_rows(kind: str, task: Task) -> list[Row]:
    """Return the row of one activation on one task."""
    return rows_of(atlas([kind], panel=[task], workers=1))


def stored_atlas_rows() -> list[Row]:
    """Return the rows of the activations on the panel that the package ships."""
    return rows_of(table("atlas"))


def _names() -> Any:
    import altair as alt

    order = alt.EncodingSortField(field="rank", op="min", order="ascending")
    look = alt.Axis(labelLimit=150, labelOverlap=False, labelFlush=False, labelFontSize=11)
    return alt.Y("activation:N", sort=order, title=None, axis=look)


def _ranking(height: int) -> Any:
    """Return the mean loss of each activation, and its worst."""
    import altair as alt

    rows = charts.part("ranking")
    x = charts.x("drawn", "loss (mean; line to the worst setting)", log=True, format="~e")
    names = list(_FAMILIES)
    shade = alt.Color(
        "family:N",
        scale=alt.Scale(domain=names, range=[_FAMILIES[name] for name in names]),
        legend=alt.Legend(title=None, orient="bottom", columns=2),
    )
    tips = charts.tooltip(
        "rank", "activation:N", "family:N", "mean_loss", "worst_loss", "worst_setting:N"
    )
    size = alt.condition("datum.compared", alt.value(190), alt.value(50))
    edge = alt.condition("datum.compared", alt.value(charts.NEEDLE), alt.value("transparent"))
    lines = rows.mark_rule(opacity=0.5, strokeWidth=1.5)
    dots = rows.mark_circle(opacity=1.0, strokeWidth=2)
    y = _names()
    return charts.layered(
        lines.encode(x=x, x2="worst:Q", y=y, color=shade),
        dots.encode(x=x, y=y, color=shade, size=size, stroke=edge, tooltip=tips),
        height=height,
    )


def _losses(height: int) -> Any:
    """Return the loss on each setting of the panel as colours."""
    import altair as alt

    rows = charts.part("loss")
    shade = alt.Color(
        "drawn:Q",
        scale=alt.Scale(type="log", scheme="viridis", domain=[_LEAST, 1.0], reverse=True),
        legend=alt.Legend(title="loss", orient="bottom", format="~e", gradientLength=160),
    )
    tips = charts.tooltip("activation:N", "setting:N", "loss", "risk", "bayes_risk")
    settings = setting_labels(_panel_frame()).tolist()
    x = alt.X(
        "setting:N",
        sort=settings,
        title=None,
        axis=alt.Axis(labelAngle=-50, labelLimit=140, labelOverlap=False),
    )
    cells = rows.mark_rect().encode(x=x, y=_names(), color=shade, tooltip=tips)
    return charts.layered(cells, height=height)


def _panel_frame() -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"task": task.name, "signal": task.signal, "length": str(task.length)}
            | {"noise": task.noise}
            for task in PANEL
        ]
    )


_SCRIPT = """
from slrlab import make_task
from slrlab.experiments.atlas.panel import PANEL, atlas, ranking, stored_atlas

activations = $names
panel = $panel
if __name__ == "__main__":  # the work is spread over processes
    table = ranking(atlas(activations, panel=panel))
    $print
"""


def _changes() -> tuple[dict[str, Any], ...]:
    """Return what it means to rank by the panel, and by each of its settings."""
    settings = [
        {"ranking": "setting", "task": task.name, "signal": task.signal, "noise": task.noise}
        | {"length": str(task.length)}
        for task in PANEL
    ]
    return ({}, *settings)


class Atlas(View):
    """The ranking of all activations, and their loss on each setting."""

    name = "atlas"
    title = "Atlas: every published activation, ranked"
    about = (
        "Each dot is the mean loss of an activation over a panel of 14 settings with infinite "
        "data, or its loss on the setting at the side; the line reaches to its worst setting. The "
        "loss is 0 for the best predictor and 1 for one that predicts 0. The live explorer also "
        "ranks activations that you type at the side, such as normalised: exp(x) + x**2."
    )
    formula = r"\mathrm{loss} = \frac{E_\sigma - E_\mathrm{Bayes}}{1 + \Delta^2 - E_\mathrm{Bayes}}"
    controls = ("ranking",)
    drawn_by = ("ranking",)
    part = "ranking"
    columns = _COLUMNS
    legend = False

    def setting(self, controls: Controls) -> str:
        return "14 settings" if controls.ranking == "panel" else controls.words()

    def calls(self, controls: Controls) -> list[Call]:
        known = table("atlas")["activation"].unique().tolist()
        own = [name for name in controls.activations if name not in known]
        if controls.ranking == "setting":
            task = controls.make_task()
            # those that are compared come first
            names = dict.fromkeys([*controls.activations, *known])
            return [Call(atlas_rows, (name, task)) for name in names]
        calls = [Call(stored_atlas_rows, (), True)]
        return [*calls, *(Call(atlas_rows, (name, task)) for name in own for task in PANEL)]

    def frame(self, rows: list[Row], controls: Controls) -> pd.DataFrame:
        """Return a row for each activation and setting, and the ranking."""
        frame = pd.DataFrame(rows)
        # an activation that is still being computed is ranked when all of its settings are there
        counts = frame.groupby("activation")["setting"].nunique()
        whole = counts[counts == counts.max()].index
        ranked = ranking(frame[frame["activation"].isin(whole)])
        compared = set(controls.activations)
        ranked = ranked.assign(
            part="ranking",
            compared=[name in compared for name in ranked["activation"]],
            drawn=ranked["mean_loss"].clip(lower=_LEAST),
            worst=ranked["worst_loss"].clip(lower=_LEAST),
        )
        order = ranked.set_index("activation")["rank"]
        losses = frame[["activation", "family", "setting", "loss", "risk", "bayes_risk", "status"]]
        losses = losses.assign(
            part="loss",
            rank=losses["activation"].map(order),
            drawn=losses["loss"].clip(lower=_LEAST),
        )
        return pd.concat([ranked, losses[losses["rank"].notna()]], ignore_index=True)

    def shape(self, frame: pd.DataFrame) -> Any:
        return frame["activation"].nunique()

    def panels(self, controls: Controls, shape: Any) -> list[Panel]:
        height = max(120, 17 * shape)
        panels = [Panel(_ranking(height), ("ranking",))]
        if controls.ranking == "panel":
            panels.append(Panel(_losses(height), ("loss",)))
        return panels

    def numbers(self, frame: pd.DataFrame, controls: Controls) -> pd.DataFrame:
        """Return numbers, not texts: the table is sorted by a click."""
        rows = self.marked(frame)[list(self.columns)].astype({"rank": int})
        return rows.rename(columns=words)

    def notes(self, frame: pd.DataFrame, controls: Controls) -> list[str]:
        ranked = frame[frame["part"] == "ranking"]
        total = len(ranked)
        own = ranked[ranked["compared"].astype(bool)]
        notes = [
            f"{row['activation']}: rank {row['rank']:.0f} of {total}, mean loss "
            f"{row['mean_loss']:.2g}, at worst {row['worst_loss']:.2g}"
            + (f" ({row['worst_setting']})." if row["worst_setting"] else ".")
            for _, row in own.iterrows()
        ]
        return [f"Losses below {_LEAST:g} are drawn as {_LEAST:g}.", *notes]

    def code(self, controls: Controls) -> str:
        known = table("atlas")["activation"].unique().tolist()
        panel = "PANEL  # 14 settings"
        if controls.ranking == "setting":
            panel = f"[{task_call(controls)}]"
        own = [name for name in controls.activations if name not in known]
        shipped = "stored_atlas()['activation'].unique()"
        names = f"[*{shipped}, {', '.join(map(repr, own))}]" if own else f"list({shipped})"
        return script(_SCRIPT, controls, names=names, panel=panel)

    def static(self, report: Report | None) -> StaticTable:
        base = Controls()
        frame = self.frame(stored_atlas_rows(), base)
        losses = frame[frame["part"] == "loss"]
        ranked = frame[frame["part"] == "ranking"].assign(by=_BY)
        parts = [ranked]
        settings = setting_labels(_panel_frame()).tolist()
        for label in settings:
            own = losses[losses["setting"] == label].assign(
                part="ranking", by=label, compared=False, worst=losses["drawn"]
            )
            own = own.assign(mean_loss=own["loss"], worst_loss=own["loss"])
            own = own.sort_values(["loss", "rank"], kind="stable")
            parts.append(own.assign(rank=range(1, len(own) + 1)))
        columns = ["part", "by", "activation", "family", "rank", "drawn", "worst", "compared"]
        columns += ["mean_loss", "worst_loss", "worst_setting", "breaks_at"]
        columns += ["setting", "loss", "risk", "bayes_risk"]
        return StaticTable(
            pd.concat([*parts, losses], ignore_index=True).reindex(columns=columns),
            (Choice("by", "rank by", (_BY, *settings), _BY, _changes()),),
            {"": Variant(base, ("by",))},
            setting="infinite data",
        )
