"""One self-contained HTML page: figures, tables and claims, and the numbers behind them."""

from __future__ import annotations

import html
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from slrlab._machine import cores
from slrlab._plot import FINE_STATUSES
from slrlab._result import Estimate
from slrlab.experiments.claims import CLAIMS, Check, Verdict
from slrlab.experiments.comparison.student import difference, family_p, normal_score
from slrlab.experiments.running.store import versions
from slrlab.figures.page import cell, page, picture, wide
from slrlab.figures.registry import (
    TABLES,
    depends_on_profile,
    figure_module,
    reported_figures,
    table_module,
)
from slrlab.theory.erm.fields import BLOCKS

CLAIMS_ITEM = "claims"
EXPLORER_FOLDER = "explorer"


@dataclass
class Contents:
    """What a page shows: files in a folder, verdicts, and when each item was finished."""

    out: Path
    profile: str
    verdicts: list[Verdict] | None = None
    finished: dict[str, float] = field(default_factory=dict)

    @property
    def figures(self) -> list[str]:
        """Names of the finished figures."""
        names = reported_figures(self.profile)
        return [name for name in names if figure_item(name) in self.finished]

    @property
    def pending(self) -> list[str]:
        """Items that are not finished."""
        figures = map(figure_item, reported_figures(self.profile))
        items = [*figures, *map(table_item, TABLES), CLAIMS_ITEM]
        return [item for item in items if item not in self.finished]


def figure_item(name: str) -> str:
    """Return the name of a figure in progress and timings."""
    return f"figure {name}"


def table_item(name: str) -> str:
    """Return the name of a table in progress and timings."""
    return f"table {name}"


def render(contents: Contents) -> str:
    """Return the page; items that are not finished are listed as pending."""
    profile, verdicts = contents.profile, contents.verdicts
    pictures = "".join(_sections(contents))
    tables = "".join(_table(contents, name) for name in TABLES)
    details = "".join(_details(verdict) for verdict in verdicts or [])
    packages = ", ".join(f"{name} {number}" for name, number in versions().items())
    spent = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in contents.finished.items())
    title = "Statistical advantage of softmax attention: reproduction report"
    return page(
        title,
        f"""
<p>Profile <b>{html.escape(profile)}</b>. {_state(contents)} The paper:
Duranthon, Marion, Boyer, Loureiro, Zdeborová, arXiv 2509.21936.</p>
{_explorer(contents)}
<h2>Claims</h2>{_claims(verdicts)}
<p class="note">Click or tap a figure to enlarge it. Data (CSV) and vector graphic (PDF) are files
beside this page.</p>
{pictures}
<h2>Tables</h2>{tables}
<h2>Deviations</h2>{_deviations(contents)}
<h2>Settings</h2>{_all_settings(profile)}
<h2>Every comparison</h2>{details or _PENDING}
<h2>Versions and timings</h2>
<p>{html.escape(packages)} on {sys.platform}, {cores()} cores.</p>
<p>Finished after: {html.escape(spent)}.</p>""",
    )


_PENDING = "<p class='pending'>pending</p>"


def _explorer(contents: Contents) -> str:
    """Return a link to the pages of the explorer, or how to get them."""
    index = Path(EXPLORER_FOLDER, "index.html")
    if (contents.out / index).exists():
        return f"<p><a href='{index.as_posix()}'>Explore the theory</a>: pages with sliders.</p>"
    return (
        "<p class='note'>Pages with sliders are not among the files: they need the extra "
        "<code>explorer</code> (<code>pip install 'slrlab[explorer]'</code>) and are then written "
        "by <code>slrlab reproduce --explorer</code>.</p>"
    )


def _state(contents: Contents) -> str:
    """Return how many claims hold and which items are pending."""
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
    return wide(names, map(_summary, verdicts))


def _deviations(contents: Contents) -> str:
    """Return failed claims, points with a status that is not fine, and training against theory."""
    deviations = [
        (f"claim {verdict.name}", check.case, f"{_relation(check)} fails")
        for verdict in contents.verdicts or []
        for check in verdict.checks
        if not check.holds
    ]
    for name in contents.figures:
        frame = pd.read_csv(contents.out / f"figure-{name}.csv")
        for column in [str(label) for label in frame.columns if "status" in str(label)]:
            counts = frame[column].dropna().value_counts()
            rest = [f"{n} {status}" for status, n in counts.items() if status not in FINE_STATUSES]
            if rest:
                words = f"{', '.join(rest)} of {int(counts.sum())} points"
                deviations.append((figure_item(name), column, words))
        compared = _against_training(frame)
        if compared:
            deviations.append((figure_item(name), "training against theory", compared))
    if not deviations and contents.pending:
        return _PENDING
    if not deviations:
        return "<p>None: every claim holds and every point reached its accuracy.</p>"
    words = (
        "Claims that fail, and points whose computation did not simply converge: at the edge of "
        "the search or of the theory (boundary), where the theory cannot be trusted (unstable), or "
        "above the tolerance; each is marked in its figure and in its table. Then training against "
        "theory, where the theory holds: the differences include a drift of order 1/D."
    )
    rows = ([cell(where), cell(what), cell(text, "t")] for where, what, text in deviations)
    return f"<p>{words}</p>" + wide(("where", "what", "deviation"), rows)


_SIDES = {"risk": "error", "test_risk": "test_risk_error"}  # columns of the theory


def _against_training(frame: pd.DataFrame) -> str:
    """Return how far simulated training is from the theory where the theory can be trusted."""
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
    trusted = frame["status"].isin([*FINE_STATUSES, "boundary"])
    part = frame[frame["simulated_risk"].notna() & trusted]
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
    """Return the constants of each module: the sizes that its figure or table was made with."""
    modules = {figure_item(name): figure_module(name) for name in reported_figures(profile)}
    modules |= {table_item(name): table_module(name) for name in TABLES}
    rows = []
    for name, module in modules.items():
        settings = []
        for key, value in vars(module).items():
            if key.isupper() and not key.startswith("_"):
                text = _plain(value[profile] if depends_on_profile(value) else value)
                settings += [f"{key.lower().replace('_', ' ')} {text}"] if text else []
        rows.append([cell(name), cell("; ".join(settings), "t")])
    return wide(("item", f"settings of profile {profile}"), rows)


def _plain(value: object) -> str:
    """Return numbers, and tuples of numbers and names, as text; "" for other constants."""
    if isinstance(value, bool):
        return ""
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, tuple):
        parts = [item if isinstance(item, str) else _plain(item) for item in value]
        return ", ".join(f"({part})" if "," in part else part for part in parts if part)
    if isinstance(value, dict):
        numbers = {
            name: item
            for name, item in value.items()
            if isinstance(item, tuple) and all(isinstance(x, int | float) for x in item)
        }
        return ", ".join(f"{name}: {_plain(item)}" for name, item in numbers.items())
    return ""


def _sections(contents: Contents) -> Iterator[str]:
    """Yield the figures, under a heading for each section."""
    names: dict[str, list[str]] = {}
    for name in reported_figures(contents.profile):
        names.setdefault(figure_module(name).ABOUT.section, []).append(name)
    for section, members in names.items():
        yield f"<h2>{section}</h2>{''.join(_picture(contents, name) for name in members)}"


def _picture(contents: Contents, name: str) -> str:
    about = figure_module(name).ABOUT
    title = html.escape(f"Figure {name}: {about.title}")
    words = f"<p>{html.escape(about.caption)}</p>"
    if name not in contents.figures:
        return f"<h3>{title}</h3>{words}{_PENDING}"
    drawn = picture((contents.out / f"figure-{name}.png").read_bytes(), title, words)
    shown = ""
    if about.rows is not None:
        shown = _frame(about.rows(pd.read_csv(contents.out / f"figure-{name}.csv")))
    return f"<h3>{title}</h3>{drawn}{shown}"


def _table(contents: Contents, name: str) -> str:
    title = html.escape(f"Table {name}: {table_module(name).ABOUT.title}")
    if table_item(name) not in contents.finished:
        return f"<h3>{title}</h3>{_PENDING}"
    return f"<h3>{title}</h3>" + _frame(pd.read_csv(contents.out / f"table-{name}.csv"))


def _frame(frame: pd.DataFrame) -> str:
    rows = (list(map(_table_cell, row)) for row in frame.itertuples(index=False))
    return wide(map(str, frame.columns), rows)


def _table_cell(value: object) -> str:
    if not isinstance(value, float):
        return cell(value)
    digits = ".6g" if value == 0.0 or abs(value) >= 1e-2 else ".2g"
    return cell("" if math.isnan(value) else format(value, digits), "n")


def _verdict(holds: bool) -> str:
    return cell("holds", "holds") if holds else cell("fails", "fails")


def _relation(check: Check) -> str:
    return f"{check.left:.8g} {check.relation} {check.right:.8g}"


def _summary(verdict: Verdict) -> list[str]:
    return [
        cell(verdict.name),
        cell(CLAIMS[verdict.name].source),
        cell(verdict.statement, "t"),
        _verdict(verdict.holds),
        cell(len(verdict.checks), "n"),
        cell(f"{verdict.tightest.case}: {_relation(verdict.tightest)}", "t"),
    ]


def _details(verdict: Verdict) -> str:
    rows = (
        [
            cell(check.case, "t"),
            f"<td>{html.escape(check.left_name)}<br>{check.left:.12g}</td>",
            cell(check.relation, "n"),
            f"<td>{html.escape(check.right_name)}<br>{check.right:.12g}</td>",
            cell(f"{check.margin:.3g}", "n"),
            _verdict(check.holds),
        ]
        for check in verdict.checks
    )
    table = wide(("case", "left", "", "right", "margin", "verdict"), rows)
    title = html.escape(f"{verdict.name}: {verdict.statement}")
    return f"<details><summary>{title}</summary>{table}</details>"
