"""The atlas as files: tables in CSV, Markdown and HTML, a picture, a page for each activation."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from slrlab.experiments.atlas.panel import COLUMNS, ranking, texts
from slrlab.experiments.atlas.training_table import training_texts
from slrlab.figures import style
from slrlab.figures.atlas_pages import file_name, write_pages
from slrlab.figures.atlas_training import TRAINING_CAPTION, TRAINING_TITLE, write_training
from slrlab.figures.figure_atlas import ABOUT, CAPTION, draw
from slrlab.figures.page import cell, page, picture, wide
from slrlab.model.cards import ABSENT

TITLE = "Atlas of attention activations"


def write_atlas(
    frame: pd.DataFrame,
    out: Path,
    more: Mapping[str, pd.DataFrame] | None = None,
    training: pd.DataFrame | None = None,
) -> list[Path]:
    """Write the tables, their picture and the pages; return the files.

    ``more`` has further tables with a column ``activation``, by a name in a few words. With the
    table ``training`` of `atlas_training` the ranking has its columns, too.
    """
    out.mkdir(parents=True, exist_ok=True)
    names = ("atlas.csv", "atlas-ranking.csv", "atlas.md", "atlas.html", "atlas.png")
    paths = [out / name for name in names]
    table = ranking(frame)
    frame.to_csv(paths[0], index=False)
    table.to_csv(paths[1], index=False)
    columns, lines = _ranked(table, training)
    paths[2].write_text(_markdown(columns, lines), encoding="utf-8")
    _picture(frame, paths[4])
    drawn = picture(paths[4].read_bytes(), ABOUT.title, f"<p>{html.escape(CAPTION)}</p>")
    tables = dict(more or {})
    for name, extra in tables.items():
        paths.append(out / f"atlas-{name.replace(' ', '-')}.csv")
        extra.to_csv(paths[-1], index=False)
    if training is not None:
        paths += write_training(training, out)
        words = f"<p>{html.escape(TRAINING_CAPTION)}</p>"
        drawn += picture(paths[-1].read_bytes(), TRAINING_TITLE, words)
        tables["training"] = training
    paths[3].write_text(_index(columns, lines, drawn), encoding="utf-8")
    return [*paths, *write_pages(frame, table, out / "atlas", tables)]


def _ranked(
    table: pd.DataFrame, training: pd.DataFrame | None
) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of the ranking for people."""
    if training is None:
        return [*COLUMNS], texts(table)
    columns, cells = training_texts(training)
    return [*COLUMNS, *columns], [line + cells[line[1]] for line in texts(table)]


def _markdown(columns: list[str], ranked: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *ranked]
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    absent = [f"- {one.name} ({one.source}): {one.reason}." for one in ABSENT]
    parts = [f"# {TITLE}", "", *rows, "", "Not in the atlas:", "", *absent]
    return "\n".join([*parts, ""])


def _index(columns: list[str], ranked: list[list[str]], drawn: str) -> str:
    """Return a page with the pictures, the ranking with links, and those left out."""
    rows = []
    for line in ranked:
        link = f"<td><a href='atlas/{file_name(line[1])}'>{html.escape(line[1])}</a></td>"
        rows.append([cell(line[0], "n"), link, *map(cell, line[2:])])
    absent = "".join(
        f"<li>{html.escape(f'{one.name} ({one.source}): {one.reason}.')}</li>" for one in ABSENT
    )
    return page(
        TITLE,
        f"{drawn}<h2>Ranking</h2>"
        "<p>By the mean loss over the panel. An activation breaks at the lengths where it misses "
        "more than a tenth of the attainable gain (spiked-SLR, signal 9).</p>"
        f"{wide(columns, rows)}<h2>Not in the atlas</h2><ul>{absent}</ul>",
    )


def _picture(frame: pd.DataFrame, path: Path) -> None:
    import matplotlib as mpl

    with style.house_style(), mpl.rc_context({"backend": "agg"}):
        import matplotlib.pyplot as plt

        drawn = draw(frame)
        drawn.savefig(path)
        plt.close(drawn)
