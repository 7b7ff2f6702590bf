"""Write the tables of commands, figures, computations and activations into a page of the site.

A page says ``<!-- commands -->``, ``<!-- figures -->``, ``<!-- computations -->``,
``<!-- cards -->``, ``<!-- absent -->`` or ``<!-- full only -->``; what stands there comes from the
code.
"""

from __future__ import annotations

from sphinx.application import Sphinx

from slrlab.cli.main import app
from slrlab.experiments.sweeps.computations import computations_table
from slrlab.figures.registry import (
    FIGURES,
    TABLES,
    figure_module,
    reported_figures,
    table_module,
)
from slrlab.model.activations import ACTIVATIONS
from slrlab.model.cards import ABSENT, CARDS


def commands() -> str:
    """Return what each command does, by the first sentence of its help."""
    callbacks = [command.callback for command in app.registered_commands]
    return _table(
        "does", {f"slrlab {one.__name__}": one.__doc__.splitlines()[0] for one in callbacks}
    )


def figures() -> str:
    """Return what each figure and each table shows."""
    titles = {f"slrlab figure {name}": figure_module(name).ABOUT.title for name in FIGURES}
    titles |= {f"slrlab table {name}": table_module(name).ABOUT.title for name in TABLES}
    return _table("shows", titles)


def full_only() -> str:
    """Return the figures that only the report of the full profile has."""
    *names, last = [f"`{name}`" for name in FIGURES if name not in reported_figures("quick")]
    return f"{', '.join(names)} and {last}"


def cards() -> str:
    """Return formula, source, parameters and limits of each activation."""
    lines = [
        f"| `{name}` | ${card.formula}$ | {card.note} {card.limits} | {card.source} |"
        for name, card in ((name, CARDS[name]) for name in ACTIVATIONS)
    ]
    head = "| name | weight of token $l$ | parameters and limits | source |"
    return "\n".join([":::{table}", ":class: cards", "", head, "|---|---|---|---|", *lines, ":::"])


def absent() -> str:
    """Return the attentions that the atlas leaves out, with the reason."""
    return "\n".join(f"- {one.name} ({one.source}): {one.reason}." for one in ABSENT)


def _table(verb: str, rows: dict[str, str]) -> str:
    lines = [f"| `{command}` | {words.rstrip('.')} |" for command, words in rows.items()]
    return "\n".join([f"| command | {verb} |", "|---|---|", *lines])


def with_tables(markdown: str) -> str:
    """Return a page with its marks replaced by their tables."""
    tables = {"commands": commands, "figures": figures, "computations": computations_table}
    tables |= {"cards": cards, "absent": absent, "full only": full_only}
    for name, make in tables.items():
        if f"<!-- {name} -->" in markdown:
            markdown = markdown.replace(f"<!-- {name} -->", make())
    return markdown


def _replace(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = with_tables(source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Replace the marks of each page when it is read."""
    app.connect("source-read", _replace)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
