"""Turn the formulas of a page into MathML while the site is built.

The pages then need neither a script nor a font from elsewhere.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

_BAR = ('<mo stretchy="true">&#x000AF;</mo>', '<mo stretchy="false">&#x000AF;</mo>')
# outside \left and \right a bar is as high as a letter; without the attribute it fills its line
_PLAIN_BAR = re.compile(r"<mo>(&#x0(?:2016|007C|2223|2225);)</mo>")


def mathml(source: str, display: str = "inline") -> str:
    """Return a formula as a ``<math>`` element; one that cannot be read stops the build."""
    # a bar asked to stretch disappears where the reader has no mathematical font
    # the converter knows aligned lines by the name split alone
    formula = convert(source.strip().replace("{aligned}", "{split}"), display=display)
    formula = formula.replace(*_BAR)
    formula = _PLAIN_BAR.sub(r'<mo stretchy="false">\1</mo>', formula)
    if "\\" in formula or ">&<" in formula:
        raise ExtensionError(f"formula not understood: {source}")
    return formula


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer; ``html_math_renderer`` of the configuration chooses it."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
