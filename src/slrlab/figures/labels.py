"""Names beside points, at the nearest place where they cover nothing. Knows no result."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from slrlab._types import Axes, FloatArray

_ANGLES = np.arange(16) * np.pi / 8.0
_OFFSETS = np.array(  # in points, near ones first
    [
        (radius * np.cos(angle), radius * np.sin(angle))
        for radius in (6.0, 10.0, 15.0, 21.0, 28.0, 36.0, 46.0, 58.0, 72.0)
        for angle in _ANGLES
    ]
)
_NEAR = 8.0  # offset up to which no line leads to the name
_MARKER = 3.5  # half the width of a marker, in points
_STEPS = np.linspace(0.0, 1.0, 60)[:, None]
# what a place costs: outside, over a name, over a marker, its line across a name or a line or
# through a marker, over a line, and a point of distance
_OUTSIDE, _NAME, _OVER, _ACROSS, _THROUGH, _LINE, _FAR = 90.0, 40.0, 20.0, 30.0, 12.0, 10.0, 0.04
_ACROSS, _LINE, _FAR = 9.0, 6.0, 0.04


def place_labels(
    panel: Axes,
    names: Sequence[str],
    at: FloatArray,
    *,
    points: FloatArray | None = None,
    colors: Sequence[str] | None = None,
    fontsize: float = 6.5,
    start: float = 3.0,
) -> None:
    """Put each name near its point ``at``, given in data; ``points`` are all that are drawn.

    Names avoid markers, other texts and lines of the panel, and thin lines lead to those that are
    not beside their point. A line may pass markers nearer to its point than ``start`` half widths
    of a marker. To be called when the layout is complete.
    """
    figure: Any = panel.figure
    figure.draw_without_rendering()
    panel.autoscale(False)  # the lines to the names must not move the points
    renderer = figure.canvas.get_renderer()
    pixel, frame = figure.dpi / 72.0, panel.get_window_extent(renderer)
    markers = panel.transData.transform(at if points is None else points)
    lines = _drawn_lines(panel)
    taken = np.array([_box(text.get_window_extent(renderer)) for text in panel.texts])
    taken, leaders = taken.reshape(-1, 4), np.empty((0, 2))
    ends = panel.transData.transform(at)
    crowd = (np.abs(ends[:, None] - markers).max(-1) < 30.0 * pixel).sum(1)
    for index in np.argsort(-crowd, kind="stable"):
        point, color = ends[index], "black" if colors is None else colors[index]
        label = panel.text(at[index, 0], at[index, 1], names[index], fontsize=fontsize, color=color)
        extent = label.get_window_extent(renderer)
        half = np.array([extent.width, extent.height]) / 2.0 + pixel
        centres = point + pixel * _OFFSETS + np.sign(_OFFSETS.round(6)) * half
        boxes = np.hstack([centres - half, centres + half])
        edges = np.clip(point, boxes[:, :2], boxes[:, 2:])
        size = _MARKER * pixel
        away = np.abs(markers - point).max(1) > start * size  # a line starts among its neighbours
        cost = _FAR * np.linalg.norm(_OFFSETS, axis=1)
        low, high = [frame.x0, frame.y0] * 2, [frame.x1, frame.y1] * 2
        cost += _OUTSIDE * ((boxes < low) | (boxes > high)).any(1)
        for row, (box, edge) in enumerate(zip(boxes, edges, strict=True)):
            way = point + _STEPS * (edge - point)
            cost[row] += _NAME * (_overlapping(box, taken) + _inside(leaders, box).any())
            cost[row] += _OVER * _inside(markers, _wider(box, size)).sum()
            cost[row] += _LINE * _inside(lines, box).any()
            cost[row] += _ACROSS * any(_inside(way, other).any() for other in taken)
            cost[row] += _THROUGH * _close(way, markers[away], size).sum()
            cost[row] += _ACROSS * _close(way, leaders, pixel).any()
        best = int(cost.argmin())
        taken = np.vstack([taken, boxes[best]])
        ways = panel.transData.inverted().transform([point, edges[best], centres[best]])
        label.set(position=tuple(ways[2]), ha="center", va="center")
        if np.linalg.norm(_OFFSETS[best]) > _NEAR:
            leaders = np.vstack([leaders, point + _STEPS[5:] * (edges[best] - point)])
            panel.plot(ways[:2, 0], ways[:2, 1], color="0.6", lw=0.5, zorder=1)


def _box(extent: Any) -> list[float]:
    return [extent.x0, extent.y0, extent.x1, extent.y1]


def _wider(box: FloatArray, by: float) -> FloatArray:
    return box + by * np.array([-1.0, -1.0, 1.0, 1.0])


def _drawn_lines(panel: Axes) -> FloatArray:
    """Return points along the lines of the panel, in pixels."""
    parts = [np.empty((0, 2))]
    for line in panel.lines:
        corners = line.get_transform().transform(np.column_stack(line.get_data()).astype(float))
        if line.get_linestyle() != "None":
            parts += [a + _STEPS * (b - a) for a, b in itertools.pairwise(corners)]
    return np.concatenate(parts)


def _inside(points: FloatArray, box: FloatArray) -> Any:
    """Return which points are in a box."""
    return ((points > box[:2]) & (points < box[2:])).all(-1)


def _overlapping(box: FloatArray, others: FloatArray) -> int:
    """Return how many of the others a box overlaps."""
    return int(((box[:2] < others[:, 2:]) & (box[2:] > others[:, :2])).all(1).sum())


def _close(way: FloatArray, points: FloatArray, distance: float) -> Any:
    """Return which points a way passes by less than a distance."""
    return (np.abs(points[:, None] - way).max(-1) < distance).any(1)
