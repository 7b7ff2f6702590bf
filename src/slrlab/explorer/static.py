"""Static pages: the charts of the explorer over tables computed when the pages are built.

Each page carries everything with it and needs neither a server nor a network.
"""

from __future__ import annotations

import html
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from slrlab import _checks
from slrlab._types import Report
from slrlab.explorer import charts
from slrlab.explorer.controls import Controls
from slrlab.explorer.export import together
from slrlab.explorer.server import STATIC_EXTRA, need_extra
from slrlab.explorer.view import Choice, Panel, StaticTable, Variant, View
from slrlab.explorer.views import VIEWS
from slrlab.figures.page import formula, page

_SHADE = re.compile(r"#[0-9A-Fa-f]{6}\b")  # a colour, in a chart or in the legend
_DIGITS = 6  # significant digits of the numbers in a page
_SCRIPT = Path(__file__).with_name("static.js")
_STYLE = """
<style>
:root{color-scheme:light dark} body{max-width:76rem} nav{display:flex;flex-wrap:wrap;gap:.2rem 1rem}
#choices{display:flex;flex-wrap:wrap;gap:.5rem 1.5rem;margin:1rem 0;align-items:center}
#choices label{white-space:nowrap}
#choices output{display:inline-block;min-width:4.5rem;padding-left:.4rem}
#choices input{vertical-align:middle;width:min(11rem,40vw)} select,button{font:inherit}
.panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,var(--least)),1fr));gap:1rem}
.panels[hidden]{display:none} .panels>div{width:100%;min-width:0;overflow-x:auto}
pre{overflow-x:auto;font-size:.85rem;padding:.6rem;border:1px solid #8886;border-radius:.3rem}
#message{color:#a3370b} @media (prefers-color-scheme:dark){#message{color:#ff9166}}
 th{cursor:pointer}
.panels summary{display:none}
</style>
"""
_THEME: dict[str, Any] = charts.CONFIG | {
    "axis": charts.CONFIG["axis"] | {"labelColor": "currentColor", "titleColor": "currentColor"},
    "legend": charts.CONFIG["legend"]
    | {"labelColor": "currentColor", "titleColor": "currentColor"},
    "title": {"color": "currentColor", "fontSize": 13, "anchor": "start"},
}
"""Charts take the colour of the text of the page, light or dark."""


def build_static(
    folder: Path | str, views: Iterable[str] | None = None, *, report: Report | None = None
) -> list[Path]:
    """Write a page for each view, and a page that lists them; return the files.

    Parameters
    ----------
    folder
        Where the pages go; it is made if it does not exist.
    views
        Names of views; None for all.
    report
        Called as ``report(done, total, label)`` while tables are computed.

    Raises
    ------
    SlrlabError
        If the extra ``explorer`` is not installed.
    ValueError
        If a view is not known.
    """
    need_extra(STATIC_EXTRA)
    names = [_checks.choice(name, "view", VIEWS) for name in (views or VIEWS)]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in names:
        paths.append(folder / f"{name}.html")
        text = static_page(VIEWS[name], names, report)
        paths[-1].write_text(text, encoding="utf-8")
    paths.append(folder / "index.html")
    paths[-1].write_text(_index(names), encoding="utf-8")
    return paths


def _index(names: Iterable[str]) -> str:
    items = "".join(
        f"<li><a href='{name}.html'>{html.escape(VIEWS[name].title)}</a><br>"
        f"{html.escape(VIEWS[name].about)}</li>"
        for name in names
    )
    return page("Explorer", f"<ul>{items}</ul>")


def static_page(view: View, names: Iterable[str], report: Report | None = None) -> str:
    """Return the page of one view."""
    import vl_convert

    made = view.static(report)
    data = page_data(view, made)
    # a closing tag inside a script would end it
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("</", "<\\/")
    links = "".join(
        f"<b>{name}</b>" if name == view.name else f"<a href='{name}.html'>{name}</a>"
        for name in names
    )
    legend = charts.legend(Controls().activations) if view.legend else ""
    dark = {shade: charts.on_dark(shade) for shade in _SHADE.findall(f"{legend}{text}")}
    buttons = "".join(f"<button id='{kind}'>{kind.upper()}</button> " for kind in _KINDS)
    return page(
        view.title,
        f"""{_STYLE}<nav>{links}</nav>
<p>{html.escape(view.about)}</p>
<p id="message" role="alert"></p>
<div id="choices"></div>{legend}<div id="charts"></div>
<p class="note" id="none" hidden>This page has no numbers for this combination.</p>
<div class="wide"><table id="numbers"></table></div>
<p>{buttons}</p>
<p class="note" id="notes"></p>
<p class="note">Fixed: {html.escape(made.setting)}. {html.escape(made.note)} Here the choices are
those of a table. The live explorer,
<code>slrlab explore</code>, takes any setting, and activations of your own.</p>
<details><summary>Formula and Python</summary><p>{formula(view.formula)}</p>
<p>This script computes the table of this page. <button id="copy">Copy</button></p>
<pre id="code"></pre></details>
<script type="application/json" id="page">{text}</script>
<script type="application/json" id="dark">{json.dumps(dark)}</script>
<script>{vl_convert.javascript_bundle()}</script>
<script>{_SCRIPT.read_text(encoding="utf-8")}</script>
""",
    )


_KINDS = ("png", "svg", "csv")


def page_data(view: View, made: StaticTable) -> dict[str, Any]:
    """Return what the script of a page reads: table, choices, charts and code."""
    return {
        "name": f"slrlab-{view.name}",
        "title": view.title,
        "setting": made.setting,
        "table": packed(made.frame),
        "choices": [_choice(choice) for choice in made.choices],
        "variants": [_variant(view, made, name, one) for name, one in made.variants.items()],
        "variant_label": made.variant_label,
        "columns": made.columns or view.columns,
        "part": made.part or view.part,
        "config": _THEME,
    }


def _choice(choice: Choice) -> dict[str, Any]:
    kept = {"name": choice.name, "label": choice.label, "values": choice.values}
    numbers = [
        {name: value for name, value in change.items() if isinstance(value, float)}
        for change in choice.changes
    ]
    places = numbers if all(len(number) == 2 for number in numbers) else []
    return kept | {"value": choice.value, "places": places, "most": choice.most}


def _variant(view: View, made: StaticTable, name: str, one: Variant) -> dict[str, Any]:
    panels = view.drawn(made.frame, one.controls)
    specs = [_spec(panel, one) for panel in panels]
    return {
        "name": name,
        "match": one.match,
        "here": one.here,
        "coded": (*one.match, *one.coded),
        "panels": [
            {"spec": spec, "parts": panel.parts} for spec, panel in zip(specs, panels, strict=True)
        ],
        "picture": together(view, specs),
        "codes": _of_each(made, one, lambda _, controls: view.code(controls)),
        "notes": _of_each(made, one, made.notes) if made.notes else {},
    }


def _spec(panel: Panel, variant: Variant) -> dict[str, Any]:
    """Return the spec of a chart that draws the rows of the choices."""
    filters: list[dict[str, Any]] = [
        {"filter": f"datum['{name}'] == null || datum['{name}'] == choice_{name}"}
        for name in variant.match
    ]
    if variant.here:
        tests = [f"datum['{column}'] == choice_{name}" for column, name in variant.here.items()]
        filters.append({"calculate": " && ".join(tests), "as": "here"})
    return panel.spec | {"transform": [*filters, *panel.spec.get("transform", [])]}


def _of_each(
    made: StaticTable, variant: Variant, function: Callable[[pd.DataFrame, Controls], Any]
) -> dict[str, Any]:
    """Return what a function makes of each combination of the choices of a variant."""
    names = (*variant.match, *variant.coded)
    choices = [next(c for c in made.choices if c.name == name) for name in names]
    results = {}
    for values in itertools.product(*(choice.values for choice in choices)):
        controls, rows = variant.controls, made.frame
        for choice, value in zip(choices, values, strict=True):
            controls = choice.controls(controls, value)
            if choice.name in variant.match:
                rows = rows[rows[choice.name].isna() | (rows[choice.name] == value)]
        results["|".join(map(_as_js, values))] = function(rows, controls)
    return results


def _as_js(value: Any) -> str:
    """Return a value as text, as JavaScript writes it."""
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


def packed(frame: pd.DataFrame) -> dict[str, Any]:
    """Return a table by columns, texts by their index in a list, numbers with six digits."""
    columns = {str(name): _packed(frame[name]) for name in frame.columns}
    return {"length": len(frame), "columns": columns}


def _packed(column: pd.Series) -> Any:
    values = [None if _missing(value) else value for value in column.tolist()]
    if any(isinstance(value, str) for value in values):
        texts = list(dict.fromkeys(value for value in values if value is not None))
        index = {text: code for code, text in enumerate(texts)} | {None: -1}
        return {"texts": texts, "codes": [index[value] for value in values]}
    return [_rounded(value) for value in values]


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _rounded(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, float):
        return value
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
