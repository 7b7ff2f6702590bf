"""Self-contained HTML pages: one style, tables that scroll, embedded pictures."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable

STYLE = """
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
@media (prefers-color-scheme:dark){body{background:#181818;color:#ddd} th,td{border-color:#444}
.note,.pending{color:#aaa} a{color:#8ab4f8} .holds{color:#4cc79a} .fails{color:#ff9166}}
@media (max-width:40rem){body{margin-top:1rem} h1{font-size:1.35rem} th,td{padding:.2rem .35rem}}
"""


def page(title: str, body: str) -> str:
    """Return a page with a title and everything below it."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>slrlab: {html.escape(title)}</title><style>{STYLE}</style></head><body>
<h1>{html.escape(title)}</h1>
{body}</body></html>
"""


def wide(names: Iterable[str], rows: Iterable[list[str]]) -> str:
    """Return a table of cells that scrolls by itself where the window is narrow."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f"<div class='wide'><table><tr>{head}</tr>{body}</table></div>"


def cell(text: object, kind: str = "") -> str:
    """Return a cell of a table; its kind is a class of the style."""
    shape = f" class='{kind}'" if kind else ""
    return f"<td{shape}>{html.escape(str(text))}</td>"


def picture(data: bytes, alt: str, words: str) -> str:
    """Return a PNG that a click enlarges, above its caption; both texts are HTML already."""
    source = base64.b64encode(data).decode("ascii")
    image = f"<input type='checkbox'><img alt='{alt}' src='data:image/png;base64,{source}'>"
    return (
        f"<figure><div class='wide'><label class='zoom'>{image}</label></div>"
        f"<figcaption>{words}</figcaption></figure>"
    )


def formula(source: str) -> str:
    """Return a formula as a picture, its LaTeX as the text beside it."""
    from matplotlib.mathtext import math_to_image

    file = io.BytesIO()
    math_to_image(f"${source}$", file, dpi=110, format="svg", color="#777")
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return f"<img alt='{html.escape(source)}' src='data:image/svg+xml;base64,{data}'>"
