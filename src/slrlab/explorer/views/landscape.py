"""Landscape: the risk over the key overlaps, its minima, and gradient flow from any start."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from slrlab._plot import END_COLORS
from slrlab._result import Status
from slrlab._types import Report
from slrlab.experiments.requirements.rows import Row, rows_of
from slrlab.explorer import charts
from slrlab.explorer.controls import Controls
from slrlab.explorer.tables import REFUSED, reasons, reported, rows_or_reason, script
from slrlab.explorer.view import Call, Choice, Panel, StaticTable, Variant, View
from slrlab.figures.risk_plane import interpolated_risk, plane_risk
from slrlab.model.activations import make_activation
from slrlab.model.tasks import Task
from slrlab.theory.landscape import gradient_flow, local_minima
from slrlab.theory.landscape.minima import LocalMinima
from slrlab.theory.landscape.risk import SIZE, is_sampled, make_landscape

_POINTS, _FEW = 21, 11  # computed along an axis: of an integral, of a sample
_FINE = 49  # interpolated along an axis
_CROWDING = 3.0  # of the computed points near 0, where the risk varies
_REACH = 6.0  # half width of the plane that the position of a minimum alone asks for
_MARGIN = 1.15  # beyond what the plane must show, as a factor
_STEP = 2.0  # of the half width that a start asks for: most clicks leave the plane as it is
_FLAT = 1e-6  # range of the risk, in units of the trivial risk, that is the error of integrals
_CEILING = 1.2  # highest risk that is coloured, in units of the trivial risk
_STARTS = 8  # number of starts of the search for minima
_PATH = 60  # points of a flow that are drawn
_TIME = 1e4
_STATIC_SIGNALS = (2.0, 8.0)
_STATIC_POINTS = 33
_STATIC_STARTS = tuple(itertools.product((-1.5, 0.2, 1.5), (0.3, 1.2, 2.4)))
_START = Controls(signal=2.0)
_ALONG_K, _ALONG_V = "m_kk: keys along k*", "m_kv: keys along v*"
_ENDS = END_COLORS | {"other": charts.GREY}  # black is lost on a dark page


@lru_cache(maxsize=8)
def _minima(task: Task, name: str) -> LocalMinima:
    return local_minima(task, name, starts=_STARTS)


def _reach(search: LocalMinima, least: float) -> float:
    """Return the half width of a plane that shows the minima, and all below a least one."""
    finite = [minimum.order for minimum in search.minima if not minimum.at_infinity]
    largest = max((max(abs(at.m_kk), abs(at.m_kv)) for at in finite), default=0.0)
    return max(min(2.6 * largest, _REACH), _MARGIN * largest, least)


def _reach_of_start(m_kk: float, m_kv: float) -> float:
    """Return the half width that a start asks for, in steps."""
    return _STEP * math.ceil(_MARGIN * max(abs(m_kk), abs(m_kv), 1.0) / _STEP)


def plane_rows(task: Task, name: str, least: float, fine: int = _FINE) -> list[Row]:
    """Return the minima, and the risk over the plane of the teachers at the best values.

    The half width of the plane is ``least`` or more. A row with the reason, if all keys are equal.
    """
    return rows_or_reason(name, _plane_rows, task, name, least, fine)


def _plane_rows(task: Task, name: str, least: float, fine: int) -> list[Row]:
    search = _minima(task, name)
    activation = make_activation(name)
    landscape = make_landscape(task, activation)
    points, reach = _FEW if is_sampled(activation) else _POINTS, _reach(search, least)
    spread = np.linspace(-_CROWDING, _CROWDING, points)
    m_kk = reach * np.sinh(spread) / np.sinh(_CROWDING)
    m_kv = m_kk[points // 2 :]
    computed = plane_risk(landscape, m_kk, m_kv, search.minima[0].bias)
    if np.ptp(computed) <= _FLAT * task.trivial_risk:
        raise ValueError("the risk is the same for all keys, and there is no landscape")
    axis = np.linspace(-reach, reach, fine)
    risk = interpolated_risk(m_kk, m_kv, computed, axis, axis)
    half = float(axis[1] - axis[0]) / 2.0
    ceiling = _CEILING * task.trivial_risk
    cells = [
        {"part": "plane", "m_kk": x, "m_kv": y, "risk": value, "shown": min(value, ceiling)}
        | {"from_kk": x - half, "to_kk": x + half, "from_kv": y - half, "to_kv": y + half}
        for y, line in zip(axis.tolist(), risk.tolist(), strict=True)
        for x, value in zip(axis.tolist(), line, strict=True)
    ]
    return [*cells, *_minimum_rows(search)]


def _minimum_rows(search: LocalMinima) -> list[Row]:
    """Return a row for each minimum and its mirror image; minima at infinity are left out."""
    rows = []
    for minimum in search.minima:
        at = minimum.order
        row = {"part": "minimum", "kind": str(minimum.kind), "risk": minimum.risk}
        row |= {"m_vk": at.m_vk, "m_vv": at.m_vv, "bias": minimum.bias}
        row |= {"at_infinity": minimum.at_infinity, "starts": minimum.starts}
        for sign in (1.0, -1.0) if abs(at.m_kv) > 1e-6 else (1.0,):
            rows.append(row | {"m_kk": at.m_kk, "m_kv": sign * at.m_kv, "mirror": sign < 0.0})
    return rows


def flow_rows(task: Task, name: str, m_kk: float, m_kv: float) -> list[Row]:
    """Return gradient flow from keys in the plane, and values that are the best for them."""
    activation = make_activation(name)
    landscape = make_landscape(task, activation)
    k = np.zeros(SIZE)
    k[:2] = m_kk, m_kv
    v, _ = landscape.at_best_values(k, activation.bias or 0.0)
    flow = gradient_flow(task, name, start=(k, v), time=_TIME, landscape=landscape)
    kept = np.unique(np.linspace(0, flow.times.size - 1, _PATH).astype(int))
    table = flow.to_frame().iloc[kept].rename(columns={"times": "time"})
    rows = rows_of(table)
    end = {"minimum": flow.minimum, "status": str(flow.status), "part": "flow"}
    return [row | end | {"order": order} for order, row in enumerate(rows)]


def _cut(frame: pd.DataFrame) -> pd.DataFrame:
    """End the path of a flow at the edge of the plane, if it leaves it."""
    edge = frame["to_kk"].max() if "to_kk" in frame else math.nan
    flow = frame["part"] == "flow"
    at = frame.loc[flow, ["m_kk", "m_kv"]].astype(float)
    outside = at.abs().max(axis=1) > edge
    frame["at_kk"], frame["at_kv"] = at["m_kk"], at["m_kv"]
    if not outside.any():
        return frame
    first = int(np.argmax(outside))  # the start is inside
    before, after = at.iloc[first - 1].to_numpy(), at.iloc[first].to_numpy()
    steps = after - before
    with np.errstate(divide="ignore", invalid="ignore"):
        fractions = (np.copysign(edge, steps) - before) / steps
    frame.loc[at.index[first:], ["at_kk", "at_kv"]] = math.nan
    frame.loc[at.index[first], ["at_kk", "at_kv"]] = before + np.nanmin(fractions) * steps
    return frame


def _plane() -> Any:
    import altair as alt

    pick = alt.selection_point(name="pick", fields=["m_kk", "m_kv"], on="click", empty=False)
    x, at_x = (charts.x(name, _ALONG_K, nice=False, grid=False) for name in ("m_kk", "at_kk"))
    y, at_y = (charts.y(name, _ALONG_V, nice=False, grid=False) for name in ("m_kv", "at_kv"))
    colors = alt.Scale(scheme="viridis", reverse=True)
    legend = alt.Legend(title="risk", orient="bottom", type="symbol", columns=3)
    # without a border a thin gap shows between neighbouring cells
    cells = charts.part("plane").mark_rect(strokeWidth=1)
    minima = charts.part("minimum").transform_filter("!datum.at_infinity")
    kinds = ["matched", "mismatched", "other"]
    ends = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=kinds, range=[_ENDS[kind] for kind in kinds]),
        legend=alt.Legend(title=None, orient="top", columns=3),
    )
    # nothing drawn lies outside the cells, whose edges are thus the ends of the axes
    path = charts.part("flow").transform_filter("isValid(datum.at_kk)")
    start = path.transform_filter("datum.order == 0")
    tips = charts.tooltip("m_kk", "m_kv", "risk")
    line: dict[str, Any] = {"strokeWidth": 3, "color": "white", "clip": True}
    return charts.layered(
        cells.encode(
            x=charts.x("from_kk", _ALONG_K, nice=False, grid=False),
            y=charts.y("from_kv", _ALONG_V, nice=False, grid=False),
            x2="to_kk",
            y2="to_kv",
            fill=alt.Fill("shown:Q", scale=colors, legend=legend),
            stroke=alt.Stroke("shown:Q", scale=colors, legend=None),
            tooltip=tips,
        ).add_params(pick),
        path.mark_line(**line).encode(x=at_x, y=at_y, order="order:Q"),
        path.mark_line(**line | {"color": "black", "strokeWidth": 1.4}).encode(
            x=at_x, y=at_y, order="order:Q"
        ),
        start.mark_point(size=90, fill="white", stroke="black", clip=True).encode(
            x=x, y=y, tooltip=tips
        ),
        minima.mark_point(shape="diamond", size=170, filled=True, opacity=1.0, clip=True).encode(
            x=x, y=y, color=ends, tooltip=charts.tooltip("kind:N", "m_kk", "m_kv", "risk")
        ),
        height=480,
    )


def _descent(controls: Controls) -> Any:
    """Return the risk along the flow, and the levels of the minima."""
    rows = charts.part("flow").transform_calculate(after="datum.time + 0.01")
    x = charts.x("after", "time + 0.01", log=True)
    y = charts.y("risk")
    tips = charts.tooltip("time", "risk", "m_kk", "m_kv", "m_vk", "m_vv")
    shade = charts.color_of(controls.focus, controls.activations)
    levels = (
        charts.part("minimum")
        .transform_filter("!datum.mirror")
        .mark_rule(strokeDash=[2, 3], color=charts.GREY)
    )
    return charts.layered(
        levels.encode(y=y, tooltip=charts.tooltip("kind:N", "risk")),
        rows.mark_line(strokeWidth=charts.WIDTH, color=shade).encode(x=x, y=y, tooltip=tips),
        title="risk along the flow; dotted: the minima",
    )


_SCRIPT = """
import numpy as np
import pandas as pd

from slrlab import gradient_flow, local_minima, make_activation, make_task
from slrlab.theory.landscape.risk import make_landscape

task = $make_task
activation = make_activation($activation)
minima = local_minima(task, activation, starts=$starts).minima
landscape = make_landscape(task, activation)

# keys on the basis (k*, v*, two free directions), and the values that are best for them
keys = np.array([$m_kk, $m_kv, 0.0, 0.0])
values, slope = landscape.at_best_values(keys, activation.bias or 0.0)
flow = gradient_flow(task, activation, start=(keys, values), time=$time, landscape=landscape)
ends = flow.to_frame().iloc[[0, -1]].assign(part="flow")
table = pd.DataFrame(
    {
        "part": "minimum",
        "kind": [str(minimum.kind) for minimum in minima],
        "risk": [minimum.risk for minimum in minima],
        "m_kk": [minimum.order.m_kk for minimum in minima],
        "m_kv": [minimum.order.m_kv for minimum in minima],
    }
)
table = pd.concat([table, ends])
$print
"""


class Landscape(View):
    """The risk over the key overlaps, its minima, and gradient flow."""

    name = "landscape"
    title = "Landscape: where training goes"
    about = (
        "Colours are the risk of keys in the plane of the two teachers, with the values that are "
        "best for them; diamonds are its minima. At the matched minimum the keys have learned k*; "
        "at a mismatched one they have learned v*, and training is stuck there. Click anywhere, "
        "or give a start, and follow gradient flow from it."
    )
    formula = r"\dot{k} = -\partial E / \partial k, \quad \dot{v} = -\partial E / \partial v"
    controls = ("activation", "m_kk", "m_kv")
    start = _START
    drawn_by = ("activation", "activations")
    part = "minimum"
    columns = ("kind", "risk", "m_kk", "m_kv", "m_vk", "m_vv", "bias", "at_infinity")
    legend = False

    def setting(self, controls: Controls) -> str:
        return controls.words("activation", "m_kk", "m_kv")

    def calls(self, controls: Controls) -> list[Call]:
        task, name = controls.make_task(), controls.focus
        start = (controls.m_kk, controls.m_kv)
        plane = Call(plane_rows, (task, name, _reach_of_start(*start)))
        return [plane, Call(flow_rows, (task, name, *start))]

    def frame(self, rows: list[Row], controls: Controls) -> pd.DataFrame:
        frame = pd.DataFrame(rows)
        refused = frame[frame["part"] == REFUSED]
        frame = _cut(frame) if refused.empty else refused
        wanted = ["part", "kind", "risk", "shown", "time", "order", "at_infinity", "mirror"]
        wanted += ["minimum"]
        return frame.reindex(columns=[*dict.fromkeys([*frame.columns, *wanted])])

    def panels(self, controls: Controls, shape: Any) -> list[Panel]:
        parts = ("plane", "minimum", "flow")
        return [
            Panel(_plane(), parts, selects="pick"),
            Panel(_descent(controls), ("flow", "minimum")),
        ]

    def drawn(self, frame: pd.DataFrame, controls: Controls) -> list[Panel]:
        return [] if frame["part"].eq(REFUSED).all() else super().drawn(frame, controls)

    def marked(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the minima without their mirror images."""
        minima = super().marked(frame)
        return minima[~minima["mirror"].eq(True)]

    def notes(self, frame: pd.DataFrame, controls: Controls) -> list[str]:
        notes = reasons(frame)
        flow = frame[frame["part"] == "flow"]
        if len(flow):
            end = flow.iloc[-1]
            way = f"leads to the {end['minimum']} minimum"
            if end["status"] != Status.CONVERGED:
                way = f"heads towards the {end['minimum']} minimum (not converged)"
            notes.append(
                f"From ({controls.m_kk:g}, {controls.m_kv:g}) the flow {way}: risk "
                f"{end['risk']:.5g} at time {end['time']:.3g}."
            )
            if flow["at_kk"].isna().any():
                notes.append("The path leaves the plane; its risk is drawn to the end.")
        if "at_infinity" in frame and frame["at_infinity"].eq(True).any():
            notes.append(
                "A minimum at infinity has no place in the plane: the risk falls as the keys grow."
            )
        if controls.focus == "erf" or make_activation(controls.focus).bias is None:
            notes.append("The bias is learned by the flow; the plane has that of the best minimum.")
        return notes

    def code(self, controls: Controls) -> str:
        shown = repr(controls.focus)
        return script(_SCRIPT, controls, activation=shown, starts=_STARTS, time=_TIME)

    def static(self, report: Report | None) -> StaticTable:
        base = _START
        labels = [f"({x:g}, {y:g})" for x, y in _STATIC_STARTS]
        least = max(itertools.starmap(_reach_of_start, _STATIC_STARTS))
        frames = []
        settings = itertools.product(base.activations, _STATIC_SIGNALS)
        for name, signal in reported(settings, report, self.name):
            task = base.make_task(signal=signal)
            given: Row = {"activation": name, "signal": signal}
            plane = plane_rows(task, name, least, _STATIC_POINTS)
            for label, start in zip(labels, _STATIC_STARTS, strict=True):
                path = [row | {"start": label} for row in flow_rows(task, name, *start)]
                drawn = self.frame([*plane, *path], base).assign(**given)
                frames.append(drawn if label == labels[0] else drawn[drawn["part"] == "flow"])
        frame = pd.concat(frames, ignore_index=True)
        kept = ["part", "activation", "signal", "start", "m_kk", "m_kv", "shown", "risk"]
        kept += ["from_kk", "from_kv", "to_kk", "to_kv", "kind", "m_vk", "m_vv", "bias"]
        kept += ["at_kk", "at_kv", "at_infinity", "mirror", "time", "order", "minimum", "status"]
        return StaticTable(
            frame[kept],
            (
                Choice("activation", "activation", base.activations, base.activation),
                Choice("signal", "signal ν", _STATIC_SIGNALS, base.signal),
                Choice(
                    *("start", "start of the flow", tuple(labels), labels[4]),
                    tuple({"m_kk": m_kk, "m_kv": m_kv} for m_kk, m_kv in _STATIC_STARTS),
                ),
            ),
            {"": Variant(base, ("activation", "signal", "start"))},
            columns=(*self.columns[:6], "at_infinity"),
            note=f"The flow has {len(labels)} starts; a click into the plane chooses the nearest.",
            notes=self.notes,
            setting=f"spiked-SLR, length L = {base.length}, noise Δ = 0",
        )
