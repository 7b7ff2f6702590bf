"""Write the entries of the Python reference: signatures and docstrings of the public names.

A page says ``<!-- names: minimal_risk, risk_at -->``. There it gets a table of these names with the
first sentence of each, and below it their entries. Names of other projects in signatures become
links: ``inventories/`` lists them by the names under which those projects document them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

import slrlab

_MARK = re.compile(r"<!-- names:(.*?)-->", re.DOTALL)
_DOCUMENTED = {  # names in signatures: those under which they are documented
    "Axes": "matplotlib.axes.Axes",
    "DataFrame": "pandas.DataFrame",
    "pd.DataFrame": "pandas.DataFrame",
    "numpy.random._generator.Generator": "numpy.random.Generator",
}


def names_of(markdown: str) -> list[str]:
    """Return the public names that a page documents."""
    return [name for mark in _MARK.findall(markdown) for name in re.findall(r"\w+", mark)]


def entries(names: list[str]) -> str:
    """Return a table and the entries of some public names, as a block of a page."""
    return "\n".join(["```{eval-rst}", *_lines(names), "```"])


def _lines(names: list[str]) -> Iterator[str]:
    yield from (".. autosummary::", "   :nosignatures:", "")
    yield from (f"   ~slrlab.{name}" for name in names)
    for name in names:
        value = getattr(slrlab, name)
        kind = "function" if not isinstance(value, type) else "class"
        if isinstance(value, type) and issubclass(value, BaseException):
            kind = "exception"
        elif not callable(value):
            kind = "data"
        yield from ("", f".. auto{kind}:: slrlab.{name}")
        if kind == "class":
            yield "   :members:"


def _replace(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = _MARK.sub(lambda mark: entries(names_of(mark[0])), source[0])


def _rename(
    app: Sphinx, env: BuildEnvironment, node: nodes.Element, shown: nodes.TextElement
) -> None:
    node["reftarget"] = _DOCUMENTED.get(node["reftarget"], node["reftarget"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Replace the marks of each page when it is read, and complete names before they are linked."""
    app.connect("source-read", _replace)
    app.connect("missing-reference", _rename, priority=100)  # before intersphinx
    return {"parallel_read_safe": True, "parallel_write_safe": True}
