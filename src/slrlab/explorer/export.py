"""Pictures of a view as files, drawn without a browser."""

from __future__ import annotations

from typing import Any

import pandas as pd

from slrlab.explorer import charts
from slrlab.explorer.controls import Controls
from slrlab.explorer.view import View

_SIZE = (430, 300)  # width and height of a panel, in pixels
_SCALE = 2.0
_WHITE = {"background": "white"}


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table without what is missing, in types of JSON."""
    import json

    text = frame.to_json(orient="records", double_precision=12)
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in json.loads(text)
    ]


def picture_spec(view: View, frame: pd.DataFrame, controls: Controls) -> dict[str, Any]:
    """Return the panels of a view beside each other, with their data."""
    width, height = _SIZE
    panels = []
    for panel in view.drawn(frame, controls):
        tall = max(height, int(panel.spec.get("height", height)))
        panels.append(panel.spec | {"width": width, "height": tall})
    if view.legend:  # on a page it stands above the panels
        panels[0] = _with_legend(panels[0])
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": view.title,
        "data": {"values": records(frame)},
        "concat": panels,
        "columns": 2,
        "resolve": {"scale": {"color": "independent", "size": "independent"}},
        "config": charts.CONFIG | _WHITE,
    }


def _with_legend(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of a panel with a legend of the activations."""
    layers = []
    for layer in spec["layer"]:
        channels = layer.get("encoding", {})
        if channels.get("color", {}).get("field") == "activation":
            shown = channels["color"] | {"legend": {"title": None, "orient": "bottom"}}
            layer = layer | {"encoding": channels | {"color": shown}}
        layers.append(layer)
    return spec | {"layer": layers}


def picture(view: View, frame: pd.DataFrame, controls: Controls, kind: str) -> bytes:
    """Return a view as PNG or SVG.

    Raises
    ------
    ValueError
        If the kind is another one.
    """
    import vl_convert

    spec = picture_spec(view, frame, controls)
    given: dict[str, Any] = {"vl_version": "6.4", "allowed_base_urls": []}
    if kind == "png":
        return bytes(vl_convert.vegalite_to_png(spec, scale=_SCALE, **given))
    if kind == "svg":
        return str(vl_convert.vegalite_to_svg(spec, **given)).encode()
    raise ValueError(f"kind must be png or svg, got {kind}")
