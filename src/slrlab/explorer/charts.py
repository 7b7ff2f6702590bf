"""Parts of charts that the views share: colours, axes, lines. Charts hold no data.

The spec of a chart does not depend on the numbers that it draws, so that a browser need not build
it again when they change. Colours are those of the figures.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

from slrlab._plot import mark_of
from slrlab.experiments.requirements.demands import BAYES_NAME

GREY = "#808080"  # Bayes; readable on white and on black
NEEDLE = "#E69F00"
HEIGHT = 300
WIDTH = 2.0  # line width in pixels
_DARK = 0.22  # luminance below which a colour is lightened on a dark page
CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {"gridColor": "#80808040", "domainColor": "#808080", "tickColor": "#808080"},
    "legend": {
        "orient": "bottom",
        "columns": 3,
        "symbolStrokeWidth": 2.5,
        "symbolOpacity": 1,
        "labelLimit": 260,
    },
}
"""Look of charts outside Streamlit, which has its own."""


def color_of(activation: str, activations: Sequence[str]) -> str:
    """Return the colour of an activation among those compared."""
    return GREY if activation == BAYES_NAME else mark_of(activation, activations).color


def names_with_bayes(activations: Sequence[str]) -> list[str]:
    """Return Bayes and the activations, in the order of the legend."""
    return [BAYES_NAME, *activations]


def color(activations: Sequence[str]) -> Any:
    """Return the channel that colours rows by their activation; the page has the legend."""
    import altair as alt

    names = names_with_bayes(activations)
    scale = alt.Scale(domain=names, range=[color_of(name, activations) for name in names])
    return alt.Color("activation:N", scale=scale, legend=None)


def legend(activations: Sequence[str], *, dark: bool = False) -> str:
    """Return the legend of the activations as HTML, one for all panels of a page."""
    items = []
    for name in names_with_bayes(activations):
        shade = color_of(name, activations)
        shade = _lightened(shade) if dark else shade
        wide = name == BAYES_NAME
        look = f"height:{6 if wide else 3}px;opacity:{0.55 if wide else 1}"
        look += f";background:{_stripes(shade, _dashes(name, activations))}"
        line = f"<span style='display:inline-block;width:36px;vertical-align:middle;{look}'></span>"
        items.append(f"<span style='white-space:nowrap'>{line} {html.escape(name)}</span>")
    gap = "display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;font-size:.9rem;margin:.3rem 0"
    return f"<div class='legend' style='{gap}'>{''.join(items)}</div>"


def _stripes(shade: str, steps: Sequence[int]) -> str:
    """Return a dashed line as a background of CSS."""
    stops, at = [], 0
    for index, step in enumerate(steps):
        stops.append(f"{shade if index % 2 == 0 else 'transparent'} {at}px {at + step}px")
        at += step
    return f"repeating-linear-gradient(90deg,{','.join(stops)})"


def dashes(activations: Sequence[str]) -> Any:
    """Return the channel of the dashes of activations, known ones as in the figures."""
    import altair as alt

    names = names_with_bayes(activations)
    patterns = [_dashes(name, activations) for name in names]
    return alt.StrokeDash(
        "activation:N", scale=alt.Scale(domain=names, range=patterns), legend=None
    )


def _dashes(activation: str, activations: Sequence[str]) -> list[int]:
    look = "-" if activation == BAYES_NAME else mark_of(activation, activations).dashes
    return [1, 0] if isinstance(look, str) else [2 * step for step in look[1]]


def axis(
    field: str, title: str = "", *, log: bool = False, **scale: Any
) -> tuple[str, dict[str, Any]]:
    """Return the field of a position and its options."""
    import altair as alt

    look: dict[str, Any] = {"grid": scale.pop("grid", True)}
    if log:
        kind: dict[str, Any] = {"type": "log", "nice": False}
        look |= {"format": scale.pop("format", "~g"), "labelOverlap": True, "tickCount": 5}
        if "values" in scale:
            look["values"] = scale.pop("values")
            look["tickCount"] = len(look["values"])
    else:
        kind = {"zero": False}
        look["tickCount"] = 6
    options = {"title": title or None, "scale": alt.Scale(**kind | scale)}
    return f"{field}:Q", options | {"axis": alt.Axis(**look)}


def x(field: str, title: str = "", **options: Any) -> Any:
    """Return the horizontal channel."""
    import altair as alt

    shorthand, given = axis(field, title, **options)
    return alt.X(shorthand, **given)


def y(field: str, title: str = "", **options: Any) -> Any:
    """Return the vertical channel."""
    import altair as alt

    shorthand, given = axis(field, title, **options)
    return alt.Y(shorthand, **given)


def tooltip(*fields: str) -> list[Any]:
    """Return what is shown where the mouse is; ``name:N`` is text, other fields are numbers."""
    import altair as alt

    shown = []
    for field in fields:
        name, _, kind = field.partition(":")
        title = name.replace("_", " ")
        if kind:
            shown.append(alt.Tooltip(field, title=title))
        else:
            shown.append(alt.Tooltip(f"{name}:Q", title=title, format=".5~g"))
    return shown


def part(name: str) -> Any:
    """Return a chart of one part of the table."""
    import altair as alt

    return alt.Chart().transform_filter(f"datum.part == '{name}'")


def curves(
    where: Any, x_channel: Any, y_channel: Any, activations: Sequence[str], **options: Any
) -> list[Any]:
    """Return lines of activations, that of Bayes below them and wider, as in the figures."""
    shade = color(activations)
    channels = {"x": x_channel, "y": y_channel, "color": shade}
    tips = tooltip(*options["tooltip"])
    look: dict[str, Any] = {"clip": True, "interpolate": options.get("interpolate", "monotone")}
    bayes = (
        where.transform_filter(f"datum.activation == '{BAYES_NAME}'")
        .mark_line(strokeWidth=6, opacity=0.55, **look)
        .encode(**channels, tooltip=tips)
    )
    lines = (
        where.transform_filter(f"datum.activation != '{BAYES_NAME}'")
        .mark_line(strokeWidth=WIDTH, **look)
        .encode(**channels, strokeDash=dashes(activations), tooltip=tips)
    )
    # invisible circles show the tooltip near a line
    dots = where.mark_circle(size=120, opacity=0.0, clip=True).encode(**channels, tooltip=tips)
    return [bayes, lines, dots]


def rule(where: Any, *, x_field: str = "", y_field: str = "") -> Any:
    """Return a thin line across the chart at the marked rows."""
    import altair as alt

    channels: dict[str, Any] = {}
    if x_field:
        channels["x"] = alt.X(f"{x_field}:Q", aggregate="max")
    if y_field:
        channels["y"] = alt.Y(f"{y_field}:Q", aggregate="max")
    return where.mark_rule(strokeDash=[2, 3], color=GREY, strokeWidth=1.5).encode(**channels)


def layered(*layers: Any, title: str = "", height: int = HEIGHT) -> Any:
    """Return layers as one chart as wide as its place."""
    import altair as alt

    chart = alt.layer(*layers).properties(width="container", height=height)
    return chart.properties(title=title) if title else chart


def on_dark(spec: Any) -> Any:
    """Return a spec with its darkest colours lightened, for a dark page."""
    if isinstance(spec, dict):
        return {key: on_dark(value) for key, value in spec.items()}
    if isinstance(spec, list):
        return [on_dark(value) for value in spec]
    if isinstance(spec, str) and len(spec) == 7 and spec.startswith("#"):
        return _lightened(spec)
    return spec


def _lightened(shade: str) -> str:
    """Return a colour whose luminance is at least a bound, of the same hue."""
    channels = [int(shade[i : i + 2], 16) / 255.0 for i in (1, 3, 5)]
    while _luminance(channels) < _DARK:
        channels = [channel + 0.1 * (1.0 - channel) for channel in channels]
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)


def _luminance(channels: Iterable[float]) -> float:
    weights = (0.2126, 0.7152, 0.0722)
    return math.fsum(w * channel**2.2 for w, channel in zip(weights, channels, strict=True))
