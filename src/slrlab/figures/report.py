"""One self-contained HTML page: every figure, table and claim, and the numbers behind them."""

from __future__ import annotations

import base64
import html
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slrlab import _checks
from slrlab._result import Estimate
from slrlab.experiments.claims import CLAIMS, Verdict, run_claims
from slrlab.experiments.memo import remember
from slrlab.experiments.parallel import Report, default_workers, parallel_map, shared_workers
from slrlab.experiments.student import difference, family_p, normal_score
from slrlab.experiments.sweeps.run import versions
from slrlab.experiments.warm_up import compiling
from slrlab.figures import (
    FIGURES,
    PROFILES,
    TABLES,
    compute_figure,
    draw_figure,
    figure_module,
    make_table,
    table_module,
)
from slrlab.simulation.machine import cores
from slrlab.theory.erm.fields import BLOCKS

if TYPE_CHECKING:
    import pandas as pd

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}
img{max-width:100%;height:auto} table{border-collapse:collapse;font-size:.85rem;width:100%}
th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid #ddd;vertical-align:top}
td.n{font-variant-numeric:tabular-nums;white-space:nowrap} .holds{color:#00694d;font-weight:600}
.fails{color:#a3370b;font-weight:700} summary{cursor:pointer}
"""


def reproduce_all(
    out: Path, *, profile: str = "quick", report: Report | None = None
) -> tuple[list[Path], bool]:
    """Make every figure and table, check every claim, write ``report.html``.

    Returns the files and whether all claims hold.

    Stopped and called again, it goes on with what is missing: finished points are kept in ``out``.

    Raises
    ------
    ValueError
        If the profile is unknown.
    """
    _checks.choice(profile, "profile", PROFILES)
    out.mkdir(parents=True, exist_ok=True)
    timings: dict[str, float] = {}
    frames: list[tuple[str, Path, pd.DataFrame]] = []
    paths: list[Path] = []
    with shared_workers():
        with remember(out / f"finished-{profile}.sqlite"):
            with compiling() if default_workers() > 1 else nullcontext():
                for name in sorted(FIGURES, key=_needs_kernels):
                    with _timed(timings, f"figure {name}"):
                        frame = compute_figure(name, out, profile=profile, report=report)
                    frames.append((name, out, frame))
            for name in TABLES:
                with _timed(timings, f"table {name}"):
                    paths += make_table(name, out, profile=profile, report=report)
            with _timed(timings, "claims"):
                verdicts = run_claims(report=report)
        with _timed(timings, "drawing"):
            for drawn in parallel_map(draw_figure, frames, label="drawing", report=report):
                paths += drawn
    page = out / "report.html"
    page.write_text(_page(out, profile, verdicts, timings), encoding="utf-8")
    return [*paths, page], all(verdict.holds for verdict in verdicts)


def _needs_kernels(name: str) -> bool:
    """Return whether a figure waits for compiled code: the others run while it is made."""
    return name not in ("2", "4", "5", "basins", "length", "minima", "phases", "tension")


@contextmanager
def _timed(timings: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    timings[name] = time.perf_counter() - start


def _page(out: Path, profile: str, verdicts: list[Verdict], timings: dict[str, float]) -> str:
    held = sum(verdict.holds for verdict in verdicts)
    tables = "".join(_table(out, name) for name in TABLES)
    pictures = "".join(_picture(out, name) for name in FIGURES)
    summary = "".join(_summary(verdict) for verdict in verdicts)
    details = "".join(_details(verdict) for verdict in verdicts)
    packages = ", ".join(f"{name} {number}" for name, number in versions().items())
    spent = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in timings.items())
    spent += f"; {sum(timings.values()) / 60.0:.1f} min in this run"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>slrlab: reproduction report</title><style>{_STYLE}</style></head><body>
<h1>Statistical advantage of softmax attention: reproduction report</h1>
<p>Profile <b>{html.escape(profile)}</b>. {held} of {len(verdicts)} claims hold. The paper:
Duranthon, Marion, Boyer, Loureiro, Zdeborová, arXiv 2509.21936.</p>
<h2>Claims</h2>
<table><tr><th>claim</th><th>source</th><th>statement</th><th>verdict</th><th>comparisons</th>
<th>tightest comparison</th></tr>{summary}</table>
<h2>Figures</h2>{pictures}
<h2>Tables</h2>{tables}
<h2>Deviations</h2>{_deviations(out, verdicts)}
<h2>Settings</h2>{_all_settings(profile)}
<h2>Every comparison</h2>{details}
<h2>Versions and timings</h2>
<p>{html.escape(packages)} on {sys.platform}, {cores()} cores.</p>
<p>{html.escape(spent)}.</p></body></html>
"""


_FINE = {"converged", "limit", "sampled"}  # statuses that need no word


def _deviations(out: Path, verdicts: list[Verdict]) -> str:
    """Return what did not come out as it should: failed claims, and points with a status."""
    import pandas as pd

    rows = [
        _deviation(
            f"claim {verdict.name}",
            check.case,
            f"{check.left:.8g} {check.relation} {check.right:.8g} fails",
        )
        for verdict in verdicts
        for check in verdict.checks
        if not check.holds
    ]
    for name in FIGURES:
        frame = pd.read_csv(out / f"figure-{name}.csv")
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
        return "<p>None: every claim holds and every point reached its accuracy.</p>"
    words = (
        "Claims that fail, and points whose computation did not simply converge: at the edge of "
        "the theory (boundary), where it cannot be trusted (unstable), or short of the accuracy "
        "asked for; each is marked in its figure and in its table. Then training against theory, "
        "where the theory holds: a drift of order 1/D is part of the differences."
    )
    head = "<tr><th>where</th><th>what</th><th>deviation</th></tr>"
    return f"<p>{words}</p><table>{head}{''.join(rows)}</table>"


_SIDES = {"risk": "error", "test_risk": "test_risk_error"}  # theory, as tables call it


def _deviation(where: str, what: str, words: str) -> str:
    cells = (f"<td>{html.escape(text)}</td>" for text in (where, what, words))
    return f"<tr>{''.join(cells)}</tr>"


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
    modules = {f"figure {name}": figure_module(name) for name in FIGURES}
    modules |= {f"table {name}": table_module(name) for name in TABLES}
    rows = []
    for name, module in modules.items():
        own = {key: _at(value, profile) for key, value in vars(module).items() if key.isupper()}
        told = "; ".join(
            f"{key.lower().replace('_', ' ')} {_plain(value)}"
            for key, value in own.items()
            if not key.startswith("_") and _plain(value)
        )
        rows.append(f"<tr><td>{name}</td><td>{html.escape(told)}</td></tr>")
    head = f"<tr><th>item</th><th>settings of profile {profile}</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


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


def _picture(out: Path, name: str) -> str:
    data = base64.b64encode((out / f"figure-{name}.png").read_bytes()).decode("ascii")
    title = html.escape(f"Figure {name}: {figure_module(name).TITLE}")
    note = html.escape(f"figure-{name}.csv, figure-{name}.pdf")
    return (
        f"<h3>{title}</h3><img alt='{title}' src='data:image/png;base64,{data}'>"
        f"<p>Data and vector graphic: {note}, beside this page.</p>"
    )


def _table(out: Path, name: str) -> str:
    import pandas as pd

    frame = pd.read_csv(out / f"table-{name}.csv")
    head = "".join(f"<th>{html.escape(str(column))}</th>" for column in frame.columns)
    rows = "".join(
        "<tr>" + "".join(_cell(value) for value in row) + "</tr>"
        for row in frame.itertuples(index=False)
    )
    title = html.escape(f"Table {name}: {table_module(name).TITLE}")
    return f"<h3>{title}</h3><table><tr>{head}</tr>{rows}</table>"


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
        f"<td>{html.escape(verdict.statement)}</td>{_verdict(verdict.holds)}"
        f"<td class='n'>{len(verdict.checks)}</td><td>{html.escape(tight)}</td></tr>"
    )


def _details(verdict: Verdict) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(check.case)}</td>"
        f"<td>{html.escape(check.left_name)}<br>{check.left:.12g}</td>"
        f"<td class='n'>{html.escape(check.relation)}</td>"
        f"<td>{html.escape(check.right_name)}<br>{check.right:.12g}</td>"
        f"<td class='n'>{check.margin:.3g}</td>{_verdict(check.holds)}</tr>"
        for check in verdict.checks
    )
    head = "<tr><th>case</th><th>left</th><th></th><th>right</th><th>margin</th><th></th></tr>"
    title = html.escape(f"{verdict.name}: {verdict.statement}")
    return f"<details><summary>{title}</summary><table>{head}{rows}</table></details>"
