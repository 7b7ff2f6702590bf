"""One self-contained HTML page: every figure, table and claim, and the numbers behind them."""

from __future__ import annotations

import base64
import html
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slrlab._machine import cores
from slrlab._result import Estimate
from slrlab.experiments.claims import CLAIMS, Verdict
from slrlab.experiments.store import versions
from slrlab.experiments.student import difference, family_p, normal_score
from slrlab.figures.registry import FIGURES, PROFILES, TABLES, figure_module, table_module
from slrlab.theory.erm.fields import BLOCKS

if TYPE_CHECKING:
    import pandas as pd

CLAIMS_ITEM = "claims"
_STYLE = """
body{font:1rem/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}
h1{font-size:1.6rem;line-height:1.25} h2{margin-top:2.5rem} h3{margin:2rem 0 .5rem}
h1,h2,h3,p,summary{overflow-wrap:anywhere} .note{color:#555;font-size:.9rem}
figure{margin:0} img{display:block;max-width:100%;height:auto} .wide{overflow-x:auto}
.zoom input{position:absolute;opacity:0} .zoom img{cursor:zoom-in}
.zoom input:checked+img{max-width:none;cursor:zoom-out} .zoom input:focus-visible+img{outline:auto}
table{border-collapse:collapse;font-size:.85rem;min-width:100%}
th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid #ddd;vertical-align:top}
td.t{min-width:10rem} td.n{font-variant-numeric:tabular-nums;white-space:nowrap}
.holds{color:#00694d;font-weight:600} .fails{color:#a3370b;font-weight:700}
.pending{color:#555;font-style:italic} summary{cursor:pointer}
@media (max-width:40rem){body{margin-top:1rem} h1{font-size:1.35rem} th,td{padding:.2rem .35rem}}
"""


@dataclass
class Contents:
    """What a page can show: files in a folder, verdicts, and when each item was finished."""

    out: Path
    profile: str
    verdicts: list[Verdict] | None = None
    finished: dict[str, float] = field(default_factory=dict)

    @property
    def figures(self) -> list[str]:
        """Names of the figures that are there."""
        return [name for name in FIGURES if figure_item(name) in self.finished]

    @property
    def pending(self) -> list[str]:
        """Items that are not there yet."""
        items = [*map(figure_item, FIGURES), *map(table_item, TABLES), CLAIMS_ITEM]
        return [item for item in items if item not in self.finished]


def figure_item(name: str) -> str:
    """Return what a figure is called in progress and timings."""
    return f"figure {name}"


def table_item(name: str) -> str:
    """Return what a table is called in progress and timings."""
    return f"table {name}"


def render(contents: Contents) -> str:
    """Return the page; what is not there yet is listed as pending."""
    profile, verdicts = contents.profile, contents.verdicts
    pictures = "".join(_picture(contents, name) for name in FIGURES)
    tables = "".join(_table(contents, name) for name in TABLES)
    details = "".join(_details(verdict) for verdict in verdicts or [])
    packages = ", ".join(f"{name} {number}" for name, number in versions().items())
    spent = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in contents.finished.items())
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>slrlab: reproduction report</title><style>{_STYLE}</style></head><body>
<h1>Statistical advantage of softmax attention: reproduction report</h1>
<p>Profile <b>{html.escape(profile)}</b>. {_state(contents)} The paper:
Duranthon, Marion, Boyer, Loureiro, Zdeborová, arXiv 2509.21936.</p>
<h2>Claims</h2>{_claims(verdicts)}
<h2>Figures</h2>
<p class="note">Click or tap a figure to enlarge it. Data (CSV) and vector graphic (PDF) are files
beside this page.</p>
{pictures}
<h2>Tables</h2>{tables}
<h2>Deviations</h2>{_deviations(contents)}
<h2>Settings</h2>{_all_settings(profile)}
<h2>Every comparison</h2>{details or _PENDING}
<h2>Versions and timings</h2>
<p>{html.escape(packages)} on {sys.platform}, {cores()} cores.</p>
<p>Finished after: {html.escape(spent)}.</p></body></html>
"""


_PENDING = "<p class='pending'>pending</p>"


def _state(contents: Contents) -> str:
    """Return what there is in one sentence."""
    parts = []
    if contents.verdicts is not None:
        held = sum(verdict.holds for verdict in contents.verdicts)
        parts.append(f"{held} of {len(contents.verdicts)} claims hold.")
    if contents.pending:
        parts.append(
            f"<b>Pending: {', '.join(contents.pending)}.</b> The page grows while they are "
            "computed: load it again."
        )
    return " ".join(parts)


def _claims(verdicts: list[Verdict] | None) -> str:
    if verdicts is None:
        return _PENDING
    names = ("claim", "source", "statement", "verdict", "comparisons", "tightest comparison")
    return _wide(names, "".join(map(_summary, verdicts)))


def _wide(names: tuple[str, ...], rows: str) -> str:
    """Return a table that scrolls by itself where the window is narrow."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    return f"<div class='wide'><table><tr>{head}</tr>{rows}</table></div>"


_FINE = {"converged", "limit", "sampled"}  # statuses that need no word


def _deviations(contents: Contents) -> str:
    """Return what did not come out as it should: failed claims, and points with a status."""
    import pandas as pd

    rows = [
        _deviation(
            f"claim {verdict.name}",
            check.case,
            f"{check.left:.8g} {check.relation} {check.right:.8g} fails",
        )
        for verdict in contents.verdicts or []
        for check in verdict.checks
        if not check.holds
    ]
    for name in contents.figures:
        frame = pd.read_csv(contents.out / f"figure-{name}.csv")
        for column in [str(label) for label in frame.columns if "status" in str(label)]:
            counts = frame[column].dropna().value_counts()
            rest = {str(status): int(n) for status, n in counts.items() if status not in _FINE}
            if rest:
                told = ", ".join(f"{n} {status}" for status, n in rest.items())
                words = f"{told} of {int(counts.sum())} points"
                rows.append(_deviation(f"figure {name}", column, words))
        compared = _against_training(frame)
        if compared:
            rows.append(_deviation(f"figure {name}", "training against theory", compared))
    if not rows:
        return (
            _PENDING
            if contents.pending
            else "<p>None: every claim holds and every point reached its accuracy.</p>"
        )
    words = (
        "Claims that fail, and points whose computation did not simply converge: at the edge of "
        "the theory (boundary), where it cannot be trusted (unstable), or short of the accuracy "
        "asked for; each is marked in its figure and in its table. Then training against theory, "
        "where the theory holds: a drift of order 1/D is part of the differences."
    )
    return f"<p>{words}</p>" + _wide(("where", "what", "deviation"), "".join(rows))


_SIDES = {"risk": "error", "test_risk": "test_risk_error"}  # theory, as tables call it


def _deviation(where: str, what: str, words: str) -> str:
    cells = (f"<td>{html.escape(text)}</td>" for text in (where, what))
    return f"<tr>{''.join(cells)}<td class='t'>{html.escape(words)}</td></tr>"


def _against_training(frame: pd.DataFrame) -> str:
    """Return how far simulated training is from the theory where that is to be trusted."""
    if "z" in frame.columns:
        worst = family_p(frame["p_value"])
        return (
            f"of {len(frame)} comparisons the smallest p-value is {frame['p_value'].min():.2g}, "
            f"after Bonferroni {worst:.2g}; median |z| {frame['z'].abs().median():.2f} (0.67 is "
            "chance)"
        )
    theory = next((side for side in _SIDES if side in frame.columns), None)
    if theory is None or "simulated_risk" not in frame.columns:
        return ""
    part = frame[frame["simulated_risk"].notna() & frame["status"].isin([*_FINE, "boundary"])]
    gaps = [
        difference(
            Estimate(row["simulated_risk"], row["simulated_error"], row["seeds"] - 1.0),
            Estimate(row[theory], row[_SIDES[theory]], BLOCKS - 1.0),
        )
        for row in part.to_dict("records")
    ]
    sizes = np.abs([gap.value for gap in gaps])
    z = np.median(np.abs([normal_score(gap) for gap in gaps]))
    return (
        f"largest difference of test risks {sizes.max():.3f} "
        f"(median {np.median(sizes):.4f}; median |z| {z:.2f}) of {len(part)} points"
    )


def _all_settings(profile: str) -> str:
    """Return the sizes that each figure was made with, read off its module."""
    modules = {figure_item(name): figure_module(name) for name in FIGURES}
    modules |= {table_item(name): table_module(name) for name in TABLES}
    rows = []
    for name, module in modules.items():
        own = {key: _at(value, profile) for key, value in vars(module).items() if key.isupper()}
        told = "; ".join(
            f"{key.lower().replace('_', ' ')} {_plain(value)}"
            for key, value in own.items()
            if not key.startswith("_") and _plain(value)
        )
        rows.append(f"<tr><td>{name}</td><td class='t'>{html.escape(told)}</td></tr>")
    return _wide(("item", f"settings of profile {profile}"), "".join(rows))


def _at(value: object, profile: str) -> object:
    by_profile = isinstance(value, dict) and set(value) == set(PROFILES)
    return value[profile] if by_profile else value  # type: ignore[index]  # a dict


def _plain(value: object) -> str:
    """Return numbers, and tuples of numbers and names, in words; nothing for other constants."""
    if isinstance(value, bool):
        return ""
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, tuple):
        parts = [item if isinstance(item, str) else _plain(item) for item in value]
        return ", ".join(f"({part})" if "," in part else part for part in parts if part)
    if isinstance(value, dict):
        parts = [f"{name}: {_plain(item)}" for name, item in value.items() if _numbers(item)]
        return ", ".join(parts)
    return ""


def _numbers(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, int | float) for item in value)


def _picture(contents: Contents, name: str) -> str:
    about = figure_module(name).ABOUT
    title = html.escape(f"Figure {name}: {about.title}")
    words = f"<p>{html.escape(about.caption)}</p>"
    if name not in contents.figures:
        return f"<h3>{title}</h3>{words}{_PENDING}"
    drawn = (contents.out / f"figure-{name}.png").read_bytes()
    data = base64.b64encode(drawn).decode("ascii")
    image = f"<input type='checkbox'><img alt='{title}' src='data:image/png;base64,{data}'>"
    return (
        f"<h3>{title}</h3><figure><div class='wide'><label class='zoom'>{image}</label></div>"
        f"<figcaption>{words}</figcaption></figure>"
    )


def _table(contents: Contents, name: str) -> str:
    import pandas as pd

    title = html.escape(f"Table {name}: {table_module(name).ABOUT.title}")
    if table_item(name) not in contents.finished:
        return f"<h3>{title}</h3>{_PENDING}"
    frame = pd.read_csv(contents.out / f"table-{name}.csv")
    rows = "".join(
        "<tr>" + "".join(_cell(value) for value in row) + "</tr>"
        for row in frame.itertuples(index=False)
    )
    return f"<h3>{title}</h3>" + _wide(tuple(map(str, frame.columns)), rows)


def _cell(value: object) -> str:
    if isinstance(value, float):
        digits = ".6g" if value == 0.0 or abs(value) >= 1e-2 else ".2g"
        return f"<td class='n'>{'' if math.isnan(value) else format(value, digits)}</td>"
    return f"<td>{html.escape(str(value))}</td>"


def _verdict(holds: bool) -> str:
    return "<td class='holds'>holds</td>" if holds else "<td class='fails'>fails</td>"


def _summary(verdict: Verdict) -> str:
    check = verdict.tightest
    tight = f"{check.case}: {check.left:.8g} {check.relation} {check.right:.8g}"
    return (
        f"<tr><td>{verdict.name}</td><td>{html.escape(CLAIMS[verdict.name].source)}</td>"
        f"<td class='t'>{html.escape(verdict.statement)}</td>{_verdict(verdict.holds)}"
        f"<td class='n'>{len(verdict.checks)}</td><td class='t'>{html.escape(tight)}</td></tr>"
    )


def _details(verdict: Verdict) -> str:
    rows = "".join(
        f"<tr><td class='t'>{html.escape(check.case)}</td>"
        f"<td>{html.escape(check.left_name)}<br>{check.left:.12g}</td>"
        f"<td class='n'>{html.escape(check.relation)}</td>"
        f"<td>{html.escape(check.right_name)}<br>{check.right:.12g}</td>"
        f"<td class='n'>{check.margin:.3g}</td>{_verdict(check.holds)}</tr>"
        for check in verdict.checks
    )
    table = _wide(("case", "left", "", "right", "margin", "verdict"), rows)
    title = html.escape(f"{verdict.name}: {verdict.statement}")
    return f"<details><summary>{title}</summary>{table}</details>"
