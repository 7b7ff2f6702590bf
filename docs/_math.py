"""Turn the formulas of a page into MathML while the site is built.

The arithmatex extension marks formulas; this hook replaces each mark by a ``<math>`` element, so
the pages need neither a script nor a font from elsewhere.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_BAR = ('<mo stretchy="true">&#x000AF;</mo>', '<mo stretchy="false">&#x000AF;</mo>')
# outside \left and \right a bar is as high as a letter; without the attribute it fills its line
_PLAIN_BAR = re.compile(r"<mo>(&#x0(?:2016|007C|2223|2225);)</mo>")
_DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Replace every marked formula; a formula that cannot be read stops the build."""

    def element(display: str) -> Any:
        def replace(found: re.Match[str]) -> str:
            source = html.unescape(found[1]).strip()
            # a bar asked to stretch disappears where the reader has no mathematical font
            formula = convert(source, display=display).replace(*_BAR)
            formula = _PLAIN_BAR.sub(r'<mo stretchy="false">\1</mo>', formula)
            if "\\" in formula:
                raise ValueError(f"{page.file.src_uri}: formula not understood: {source}")
            return formula

        return replace

    return _INLINE.sub(element("inline"), _DISPLAY.sub(element("block"), content))
