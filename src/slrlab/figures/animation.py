"""A film of flows over the risk: training falls into its minima.

The plane is that of ``m_kk`` and ``m_kv``, keys along ``k*`` and along ``v*``; contours show the
risk of keys in that plane with the values that are best for them. Where values have not settled,
or keys leave the plane, a flow is higher than the contour below it: the panel at the side shows
its own risk. Nothing but matplotlib, and the Pillow
that comes with it, is needed to write the file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slrlab import _checks
from slrlab._result import Status
from slrlab._types import FloatArray, Report
from slrlab.figures.style import house_style
from slrlab.theory.landscape.minima import Minimum
from slrlab.theory.landscape.path import Flow
from slrlab.theory.landscape.risk import SIZE, Landscape, make_landscape

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL.Image import Image

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00")
MARKERS = {"matched": "*", "mismatched": "X", "other": "P"}
_MARGIN, _LEAST = 0.15, 0.6  # of the plane around the paths: share of their extent, least extent
_MOST = 6.0  # |m| beyond which a path that runs away is cut
_LEVELS = 17
_FINE = 120  # points of the contours drawn
_CEILING = 1.3  # highest risk shown, in units of that of the trivial predictor
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
        If the file is no ``.gif``, there is no flow, or they belong to different settings.

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
    paths = [flows] if isinstance(flows, Flow) else list(flows)
    count, speed = _checks.integer(frames, "frames", low=2), _checks.integer(rate, "rate")
    side = _checks.integer(points, "points", low=4)
    if len({flow.setting for flow in paths}) != 1:
        raise ValueError(f"flows must be one or more of a single setting, got {len(paths)} flows")
    bias = _bias(paths)
    plane = _Plane(paths, landscape or _landscape(paths[0], bias), bias, side, report)
    target.parent.mkdir(parents=True, exist_ok=True)
    import matplotlib as mpl

    with mpl.rc_context({"backend": "agg"}), house_style():
        import matplotlib.pyplot as plt

        film = _Film(plane)
        pictures = film.pictures(count, report)
        plt.close(film.figure)
    pause = round(1000.0 / speed)
    pictures[0].save(
        target,
        format="GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=[pause] * (count - 1) + [_STAY],
        loop=0,
    )
    return target


def draw_moment(
    flows: Flow | Sequence[Flow],
    time: float = math.inf,
    *,
    points: int = 19,
    landscape: Landscape | None = None,
) -> Figure:
    """Return one picture of the film: all that happened until a time."""
    paths = [flows] if isinstance(flows, Flow) else list(flows)
    bias = _bias(paths)
    plane = _Plane(paths, landscape or _landscape(paths[0], bias), bias, points, None)
    with house_style():
        film = _Film(plane)
        film.show(min(time, film.end))
        return film.figure


def _bias(flows: Sequence[Flow]) -> float:
    """Return the bias of the contours: that of the best minimum that is reached."""
    ends = [flow.destination for flow in flows if flow.destination is not None]
    return min(ends, key=lambda end: end.risk).bias if ends else float(flows[0].bias[-1])


def _landscape(flow: Flow, bias: float) -> Landscape:
    return make_landscape(flow.setting.task, flow.setting.activation_at(bias))


class _Plane:
    """The risk over (m_kk, m_kv), its minima there, and the paths."""

    def __init__(
        self,
        flows: Sequence[Flow],
        landscape: Landscape,
        bias: float,
        points: int,
        report: Report | None,
    ) -> None:
        self.flows = flows
        self.minima = _minima(flows)
        ends = [(item.order.m_kk, item.order.m_kv) for item in self.minima]
        marked = np.array([(0.0, 0.0), *ends]).T
        across = [marked[0], *(flow.m_kk for flow in flows)]
        along = [marked[1], *(flow.m_kv for flow in flows)]
        self.x, self.y = _ends(across, _FINE), _ends(along, _FINE)
        self.risk = _contours(landscape, bias, (self.x, self.y), points, report)


def _contours(
    landscape: Landscape,
    bias: float,
    axes: tuple[FloatArray, FloatArray],
    points: int,
    report: Report | None,
) -> FloatArray:
    """Return the risk over the plane, interpolated from fewer points: it is smooth, even in y."""
    from scipy.interpolate import RectBivariateSpline

    x = np.linspace(axes[0][0], axes[0][-1], points)
    y = np.linspace(0.0, float(np.abs(axes[1]).max()), points // 2 + 2)
    half = np.empty((y.size, x.size))
    for row, m_kv in enumerate(y):
        for column, m_kk in enumerate(x):
            keys = np.zeros(SIZE)
            keys[:2] = m_kk, m_kv
            half[row, column] = landscape.at_best_values(keys, bias)[1].risk
        if report is not None:
            report(row + 1, y.size, "contours of the risk")
    both = np.concatenate([-y[:0:-1], y])
    spline = RectBivariateSpline(both, x, np.concatenate([half[:0:-1], half]))
    return np.asarray(spline(axes[1], axes[0]))


def _ends(values: Sequence[FloatArray], points: int) -> FloatArray:
    """Return a grid around all values."""
    found = np.clip(np.concatenate(list(values)), -_MOST, _MOST)
    low, high = float(found.min()), float(found.max())
    margin = max(_MARGIN * (high - low), (_LEAST - (high - low)) / 2.0)
    return np.linspace(low - margin, high + margin, points)


def _minima(flows: Sequence[Flow]) -> list[Minimum]:
    """Return where flows end, each point once; ends at infinity are left out."""
    found: list[Minimum] = []
    for flow in flows:
        end = flow.destination
        if end is None or end.at_infinity or end.status is not Status.CONVERGED:
            continue
        gaps = (
            math.hypot(end.order.m_kk - known.order.m_kk, end.order.m_kv - known.order.m_kv)
            for known in found
        )
        if min(gaps, default=math.inf) > 1e-2:
            found.append(end)
    return found


class _Film:
    """A figure that shows the flows until any time."""

    def __init__(self, plane: _Plane) -> None:
        import matplotlib.pyplot as plt

        self.plane = plane
        self.task = plane.flows[0].setting.task
        self.end = max(float(flow.times[-1]) for flow in plane.flows)
        self.figure, (left, right) = plt.subplots(
            1, 2, figsize=(8.4, 4.2), dpi=_DPI, width_ratios=(1.35, 1.0), layout="constrained"
        )
        self._contours(left)
        self.marks = self._minima(left)
        self.tracks = [_track(left, i) for i in range(len(plane.flows))]
        self.curves = [_track(right, i) for i in range(len(plane.flows))]
        self._side(right)
        task, name = self.task, plane.flows[0].setting.activation_name
        signal = "\\infty" if math.isinf(task.signal) else f"{task.signal:g}"
        left.set_title(f"{name} on {task.name}-SLR, $\\nu={signal}$, $L={task.length}$")
        self.clock = right.set_title("time 0")

    def pictures(self, count: int, report: Report | None) -> list[Image]:
        """Return the frames; what does not move is drawn once."""
        from PIL import Image as Pillow

        lines = [artist for pair in (*self.tracks, *self.curves) for artist in pair]
        moving = [*lines, *self.marks, self.clock]
        for artist in moving:
            artist.set_animated(True)
        canvas: Any = self.figure.canvas
        self.show(0.0)  # the layout cannot place lines that have no extent yet
        canvas.draw()
        still = canvas.copy_from_bbox(self.figure.bbox)
        drawn = []
        for number, moment in enumerate(self.moments(count), start=1):
            self.show(moment)
            canvas.restore_region(still)
            for artist in moving:
                self.figure.draw_artist(artist)
            drawn.append(Pillow.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy()))
            if report is not None:
                report(number, count, "drawing frames")
        # colours by how much there is of them: swatches keep those of thin lines
        sample = drawn[-1].copy()
        for number, colour in enumerate(COLOURS):
            sample.paste(colour, (40 * number, 0, 40 * number + 40, 60))
        palette = sample.quantize(_SHADES)
        return [picture.quantize(palette=palette, dither=Pillow.Dither.NONE) for picture in drawn]

    def moments(self, count: int) -> FloatArray:
        """Return the times of the frames."""
        found = np.expm1(np.linspace(0.0, math.log1p(self.end), count))
        found[-1] = self.end
        return found

    def show(self, moment: float) -> None:
        """Draw everything until a time."""
        for flow, track, curve in zip(self.plane.flows, self.tracks, self.curves, strict=True):
            until = np.append(flow.times[flow.times < moment], min(moment, flow.times[-1]))
            names = ("m_kk", "m_kv", "risk")
            x, y, risk = (np.interp(until, flow.times, getattr(flow, name)) for name in names)
            track[0].set_data(x, y)
            track[1].set_data(x[-1:], y[-1:])
            curve[0].set_data(until, risk)
            curve[1].set_data(until[-1:], risk[-1:])
        self.clock.set_text(f"time {moment:.3g}" if moment < 1e4 else f"time {moment:.1e}")

    def _contours(self, panel: Axes) -> None:
        from matplotlib.colors import BoundaryNorm

        plane = self.plane
        # as much area between any two levels: valleys of any depth show, and so do plateaus
        levels = np.unique(np.quantile(plane.risk, np.linspace(0.0, 1.0, _LEVELS)).round(6))
        levels = levels if levels.size > 1 else levels[0] + np.array([-1e-3, 1e-3])
        norm = BoundaryNorm(levels, 256)
        fills = panel.contourf(
            plane.x, plane.y, plane.risk, levels=levels, cmap="Greys_r", norm=norm, alpha=0.6
        )
        panel.contour(plane.x, plane.y, plane.risk, levels=levels, colors="0.35", linewidths=0.4)
        bar = self.figure.colorbar(fills, ax=panel, format="%.3g")
        bar.set_label("risk at the best values")
        panel.set(
            xlabel="$m_{kk}$: keys along $k^*$",
            ylabel="$m_{kv}$: keys along $v^*$",
            xlim=(plane.x[0], plane.x[-1]),
            ylim=(plane.y[0], plane.y[-1]),
        )
        panel.grid(visible=False)

    def _minima(self, panel: Axes) -> list[Artist]:
        drawn: list[Artist] = []
        for item in self.plane.minima:
            x, y = item.order.m_kk, item.order.m_kv
            mark = MARKERS[str(item.kind)]
            drawn += panel.plot(
                x, y, mark, color="white", markeredgecolor="black", markersize=14, zorder=4
            )
            low, top = self.plane.y[0], self.plane.y[-1]
            high = y > low + 0.3 * (top - low)
            right = x > (self.plane.x[0] + self.plane.x[-1]) / 2.0
            label = panel.annotate(
                f"{item.kind}\nrisk {item.risk:.4f}",
                (x, y),
                textcoords="offset points",
                xytext=(-9 if right else 9, -12 if high else 12),
                ha="right" if right else "left",
                va="top" if high else "bottom",
                fontsize=8,
                bbox={"boxstyle": "round,pad=0.2", "fc": "white", "ec": "none", "alpha": 0.85},
                zorder=6,
            )
            drawn.append(label)
        return drawn

    def _side(self, panel: Axes) -> None:
        risks = np.concatenate([flow.risk for flow in self.plane.flows])
        low, high = float(risks.min()), float(risks.max())
        # a start far above the trivial risk would flatten all that follows: it enters from above
        high = max(min(high, _CEILING * self.task.trivial_risk), 1.05 * low)
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
