"""Pictures of a view as files, drawn without a browser."""

from __future__ import annotations

from typing import Any

import pandas as pd

from slrlab.explorer import charts
from slrlab.explorer.controls import Controls
from slrlab.explorer.view import View

_SIZE = (430, 300)  # width and height of a panel, in pixels
_SCALE = 2.0
_WHITE = {
    "background": "white",
    "title": {"anchor": "start", "subtitleFontSize": 12, "subtitlePadding": 4},
}
_LEGEND = {
    "title": None,
    "orient": "bottom",
    "symbolType": "stroke",
    "symbolOpacity": 1,
    "symbolSize": 600,
}


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table without what is missing, in types of JSON."""
    import json

    text = frame.to_json(orient="records", double_precision=12)
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in json.loads(text)
    ]


def picture_spec(view: View, frame: pd.DataFrame, controls: Controls) -> dict[str, Any]:
    """Return the panels of a view beside each other, with their data and the setting."""
    specs = [panel.spec for panel in view.drawn(frame, controls)]
    return together(view, specs) | {
        "title": {"text": view.title, "subtitle": view.setting(controls)},
        "data": {"values": records(frame)},
    }


def together(view: View, specs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return panels beside each other on white, the first that has activations with a legend."""
    width, height = _SIZE
    panels = [
        spec | {"width": width, "height": max(height, int(spec.get("height", height)))}
        for spec in specs
    ]
    if view.legend:  # on a page it stands above the panels
        first = next(i for i, panel in enumerate(panels) if any(map(_colored, panel["layer"])))
        panels[first] = _with_legend(panels[first])
    channels = ("color", "fill", "stroke", "strokeDash", "size")
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "concat": panels,
        "columns": 2,
        "resolve": {"scale": dict.fromkeys(channels, "independent")},
        "config": charts.CONFIG | _WHITE,
    }


def _colored(layer: dict[str, Any]) -> bool:
    """Return whether the colours of a layer are activations."""
    return bool(layer.get("encoding", {}).get("color", {}).get("field") == "activation")


def _with_legend(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of a panel with a legend of the activations, of lines with their dashes."""
    layers = []
    for layer in spec["layer"]:
        if _colored(layer):
            channels = layer["encoding"]
            shown = {
                name: channels[name] | {"legend": _LEGEND}
                for name in ("color", "strokeDash")
                if name in channels
            }
            layer = layer | {"encoding": channels | shown}
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
