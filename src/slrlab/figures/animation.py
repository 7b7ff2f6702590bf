"""A film of gradient flows over the risk, from their starts to the minima where they end.

The plane is that of ``m_kk`` and ``m_kv``; contours show the risk of keys in that plane with the
values that are best for them (`slrlab.figures.risk_plane`). The risk of a flow itself is higher
where its values have not converged or its keys leave the plane; the panel at the side shows it.
Writing the file needs only matplotlib and Pillow, which comes with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab import _checks
from slrlab._types import Axes, Figure, FloatArray, Report
from slrlab.figures.risk_plane import RiskPlane, risk_plane
from slrlab.figures.style import house_style, in_symbols, new_figure
from slrlab.theory.landscape.path import Flow
from slrlab.theory.landscape.risk import Landscape

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from PIL.Image import Image

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00")
MARKERS = {"matched": "*", "mismatched": "X", "other": "P"}
_LEVELS = 17  # number of contour levels
_CEILING = 1.3  # highest risk shown, in units of the trivial risk
_DPI = 90
_STAY = 2500  # milliseconds of the last frame
_SHADES = 96  # colours of the file: lines, dots and grey


def check_suffix(path: Path, name: str = "animation") -> None:
    """Raise ValueError if the name of a film does not end as it must."""
    if path.suffix.lower() != ".gif":
        raise ValueError(f"{name} must be a file name ending in .gif, got {path}")


def animate_flow(
    flows: Flow | Sequence[Flow],
    path: Path | str,
    *,
    frames: int = 60,
    rate: int = 12,
    points: int = 19,
    landscape: Landscape | None = None,
    report: Report | None = None,
) -> Path:
    """Write a GIF of flows of one setting in the plane (m_kk, m_kv) over the risk; return it.

    Frames are even in ``log(1 + time)``: flows are fast at first and slow at the end.

    Parameters
    ----------
    flows
        One flow or several of the same task and activation.
    path
        File to write, ``.gif``.
    frames, rate
        Number of pictures and how many a second; the last one stays longer.
    points
        Risks computed along each direction for the contours, which are interpolated.
    landscape
        Where the contours come from; None for the task and the activation of the flows.
    report
        Called as ``report(done, total, label)`` along the way.

    Raises
    ------
    ValueError
        If the file is not a ``.gif``, there is no flow, or they belong to different settings.

    Examples
    --------
    >>> import tempfile
    >>> from slrlab import SpikedSLR, gradient_flow
    >>> from slrlab.figures.animation import animate_flow
    >>> flow = gradient_flow(SpikedSLR(2.0, 3), "linear", start="matched", time=10.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     film = animate_flow(flow, f"{folder}/flow.gif", frames=2, points=5)
    ...     film.read_bytes()[:3]
    b'GIF'
    """
    target = Path(path)
    check_suffix(target)
    flows = [flows] if isinstance(flows, Flow) else list(flows)
    frames, rate = _checks.integer(frames, "frames", low=2), _checks.integer(rate, "rate")
    points = _checks.integer(points, "points", low=4)
    if len({flow.setting for flow in flows}) != 1:
        raise ValueError(f"flows must be one or more of a single setting, got {len(flows)} flows")
    plane = risk_plane(flows, landscape, points=points, report=report)
    target.parent.mkdir(parents=True, exist_ok=True)
    import matplotlib as mpl

    with mpl.rc_context({"backend": "agg"}), house_style():
        import matplotlib.pyplot as plt

        film = _Film(plane)
        first, *rest = film.pictures(frames, report)
        plt.close(film.figure)
    times = [round(1000.0 / rate)] * len(rest) + [_STAY]
    options: dict[str, Any] = {"save_all": True, "append_images": rest, "loop": 0}
    first.save(target, format="GIF", duration=times, **options)
    return target


@house_style()
def draw_moment(
    flows: Flow | Sequence[Flow],
    time: float = math.inf,
    *,
    points: int = 19,
    landscape: Landscape | None = None,
) -> Figure:
    """Return one picture of the film: the flows until a time."""
    flows = [flows] if isinstance(flows, Flow) else list(flows)
    film = _Film(risk_plane(flows, landscape, points=points))
    film.show(min(time, film.end))
    return film.figure


class _Film:
    """A figure that shows the flows until any time."""

    def __init__(self, plane: RiskPlane) -> None:
        setting = plane.flows[0].setting
        task = setting.task
        self.plane, self.trivial_risk = plane, task.trivial_risk
        self.end = max(float(flow.times[-1]) for flow in plane.flows)
        options: dict[str, Any] = {"dpi": _DPI, "width_ratios": (1.35, 1.0)}
        self.figure, ((left, right),) = new_figure(1, 2, 8.4, 4.2, **options)
        self._draw_contours(left)
        self.marks = self._draw_minima(left)
        self.tracks = [_track(left, number) for number in range(len(plane.flows))]
        self.curves = [_track(right, number) for number in range(len(plane.flows))]
        self._draw_side(right)
        symbols = in_symbols(signal=task.signal, length=task.length)
        left.set_title(f"{setting.activation_name} on {task.name}-SLR, {symbols}")
        self.clock = right.set_title("time 0")

    def pictures(self, count: int, report: Report | None) -> list[Image]:
        """Return the frames; the background is drawn once."""
        from PIL import Image as Pillow

        lines = [artist for pair in (*self.tracks, *self.curves) for artist in pair]
        moving = [*lines, *self.marks, self.clock]
        for artist in moving:
            artist.set_animated(True)
        canvas: Any = self.figure.canvas
        self.show(0.0)  # the layout cannot place lines that have no extent yet
        canvas.draw()
        background = canvas.copy_from_bbox(self.figure.bbox)
        pictures = []
        for number, time in enumerate(self.times(count), start=1):
            self.show(time)
            canvas.restore_region(background)
            for artist in moving:
                self.figure.draw_artist(artist)
            pictures.append(Pillow.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy()))
            if report is not None:
                report(number, count, "drawing frames")
        # a palette has the most frequent colours: swatches add those of the thin lines
        sample = pictures[-1].copy()
        for number, colour in enumerate(COLOURS):
            sample.paste(colour, (40 * number, 0, 40 * number + 40, 60))
        palette = sample.quantize(_SHADES)
        dither = Pillow.Dither.NONE
        return [picture.quantize(palette=palette, dither=dither) for picture in pictures]

    def times(self, count: int) -> FloatArray:
        """Return the times of the frames."""
        times = np.expm1(np.linspace(0.0, math.log1p(self.end), count))
        times[-1] = self.end
        return times

    def show(self, time: float) -> None:
        """Draw the flows until a time."""
        for flow, track, curve in zip(self.plane.flows, self.tracks, self.curves, strict=True):
            until = np.append(flow.times[flow.times < time], min(time, flow.times[-1]))
            names = ("m_kk", "m_kv", "risk")
            x, y, risk = (np.interp(until, flow.times, getattr(flow, name)) for name in names)
            track[0].set_data(x, y)
            track[1].set_data(x[-1:], y[-1:])
            curve[0].set_data(until, risk)
            curve[1].set_data(until[-1:], risk[-1:])
        self.clock.set_text(f"time {time:.3g}" if time < 1e4 else f"time {time:.1e}")

    def _draw_contours(self, panel: Axes) -> None:
        from matplotlib.colors import BoundaryNorm

        plane = self.plane
        # equal areas between the levels show valleys of any depth, and plateaus too
        levels = np.unique(np.quantile(plane.risk, np.linspace(0.0, 1.0, _LEVELS)).round(6))
        levels = levels if levels.size > 1 else levels[0] + np.array([-1e-3, 1e-3])
        grid = (plane.x, plane.y, plane.risk)
        style: dict[str, Any] = {"cmap": "Greys_r", "norm": BoundaryNorm(levels, 256), "alpha": 0.6}
        fills = panel.contourf(*grid, levels=levels, **style)
        panel.contour(*grid, levels=levels, colors="0.35", linewidths=0.4)
        self.figure.colorbar(fills, ax=panel, format="%.3g", label="risk at the best values")
        panel.set(
            xlabel="$m_{kk}$: keys along $k^*$",
            ylabel="$m_{kv}$: keys along $v^*$",
            xlim=(plane.x[0], plane.x[-1]),
            ylim=(plane.y[0], plane.y[-1]),
        )
        panel.grid(visible=False)

    def _draw_minima(self, panel: Axes) -> list[Artist]:
        artists: list[Artist] = []
        low, high = self.plane.y[[0, -1]]
        look: dict[str, Any] = {"color": "white", "markeredgecolor": "black", "markersize": 14}
        box = {"boxstyle": "round,pad=0.2", "fc": "white", "ec": "none", "alpha": 0.85}
        for minimum in self.plane.minima:
            x, y = minimum.order.m_kk, minimum.order.m_kv
            artists += panel.plot(x, y, MARKERS[str(minimum.kind)], zorder=4, **look)
            upper, right = y > low + 0.3 * (high - low), x > self.plane.x[[0, -1]].mean()
            label = panel.annotate(
                f"{minimum.kind}\nrisk {minimum.risk:.4f}",
                (x, y),
                textcoords="offset points",
                xytext=(-9 if right else 9, -12 if upper else 12),
                ha="right" if right else "left",
                va="top" if upper else "bottom",
                fontsize=8,
                bbox=box,
                zorder=6,
            )
            artists.append(label)
        return artists

    def _draw_side(self, panel: Axes) -> None:
        risks = np.concatenate([flow.risk for flow in self.plane.flows])
        low, high = float(risks.min()), float(risks.max())
        # a start far above the trivial risk would compress the rest of the curve
        high = max(min(high, _CEILING * self.trivial_risk), 1.05 * low)
        margin = 0.06 * max(high - low, 0.05)
        for item in self.plane.minima:
            panel.axhline(item.risk, color="0.5", linewidth=0.8, linestyle=(0, (4, 3)))
        panel.set_xscale("symlog", linthresh=1.0)
        panel.set(
            xlim=(0.0, 1.05 * self.end),
            ylim=(low - margin, high + margin),
            xlabel="time of the flow",
            ylabel="risk of the flow",
        )


def _track(panel: Axes, number: int) -> tuple[Any, Any]:
    """Return a line and the dot at its end, both still empty."""
    colour = COLOURS[number % len(COLOURS)]
    (line,) = panel.plot([], [], color=colour, linewidth=1.8, zorder=3)
    (dot,) = panel.plot([], [], "o", color=colour, markeredgecolor="white", markersize=7, zorder=5)
    return line, dot
