"""Quadrature of scores: trapezoid nodes, token laws on them, and grids of Laplace variables."""

from __future__ import annotations

import math

import numpy as np

from slrlab._errors import ComputationError
from slrlab._types import FloatArray
from slrlab.model.activations import Normalised
from slrlab.model.tasks import Task, TiltedTask
from slrlab.numerics.graded import graded_edges, panels
from slrlab.numerics.simplex import STEP, LaplaceGrid

EDGE = 9.3  # standard deviations kept of a Gaussian: mass 1e-20 beyond
NODE_STEP = 0.35  # grid step in units of the width of the sharpest factor
REACH = 39.0  # standard deviations until a Gaussian is below the smallest double
MOST_NODES = 1 << 13  # largest uniform grid; sharper maps get graded panels
_MOST_ENTRIES = 4_000_000  # largest matrix on a grid that cannot be graded
_WIDTH_STEP = 0.3  # step in units of the Gaussian width of an entire factor


def edge(task: Task) -> float:
    """Return the cutoff of Gaussian scores, the largest of a sequence included."""
    return math.sqrt(EDGE**2 + 2.0 * math.log(task.length.longest))


def gauss_weights(x: FloatArray, step: float) -> FloatArray:
    """Return trapezoid weights of the standard normal density."""
    return np.exp(-(x**2) / 2.0) * (step / math.sqrt(2.0 * math.pi))


def node_step(sharpness: float, resolution: float) -> float:
    """Return the step in ``χ*`` that resolves ``1/sharpness``."""
    return NODE_STEP / (max(sharpness, 0.5) * resolution)


def key_nodes(task: Task, sharpness: float, resolution: float) -> tuple[FloatArray, float]:
    """Return trapezoid nodes for the key score ``χ*`` of any token, and their step."""
    step = node_step(sharpness, resolution)
    count = interval_length(task) / step
    if count > _MOST_ENTRIES:
        raise ComputationError(
            f"{task.name} at signal {task.signal:g} and scores of slope {sharpness:.4g} needs "
            f"{count:.1e} points, too large for memory"
        )
    return np.concatenate([np.arange(a, b + step, step) for a, b in _pieces(task)]), step


def score_interval(task: Task) -> tuple[float, float]:
    """Return the interval that holds the key scores ``χ*`` of all tokens."""
    first, last = task.relevant_interval if isinstance(task, TiltedTask) else (0.0, 0.0)
    return min(-edge(task), first), max(edge(task), last)


def _pieces(task: Task) -> list[tuple[float, float]]:
    """Return the intervals that hold the scores of all tokens; two if they are far apart."""
    if isinstance(task, TiltedTask):
        first, last = task.relevant_interval
        if first > 2.0 * REACH or last < -2.0 * REACH:
            return [(-REACH, REACH), (first - REACH, last + REACH)]
    return [score_interval(task)]


def interval_length(task: Task) -> float:
    """Return the total length of the intervals that hold the scores of all tokens."""
    return sum(high - low for low, high in _pieces(task))


def tilted_nodes(
    task: TiltedTask, sharpness: float, resolution: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return nodes for ``χ*`` and the weights of relevant and other tokens on them.

    Nodes without any mass, between two laws that are far apart, are left out.
    """
    if task.gaussian_shift is not None:
        return gaussian_nodes(task.gaussian_shift, edge(task), sharpness, resolution)
    x, step = key_nodes(task, max(sharpness, task.steepness), resolution)
    log_normal = -(x**2) / 2.0 + math.log(step / math.sqrt(2.0 * math.pi))
    relevant, others = np.exp(log_normal + task.log_ratio(x)), np.exp(log_normal)
    kept = (relevant > 0.0) | (others > 0.0)
    return x[kept], relevant[kept], others[kept]


def gaussian_nodes(
    shift: float, reach: float, sharpness: float, resolution: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return nodes, and weights of ``N(shift, 1)`` and ``N(0, 1)`` on them."""
    step = node_step(sharpness, resolution)
    if abs(shift) > 2.0 * REACH:  # no point has mass of both
        x = np.arange(-REACH, REACH + step, step)
        law, none = gauss_weights(x, step), np.zeros_like(x)
        return np.append(x, shift + x), np.append(none, law), np.append(law, none)
    x = np.arange(min(-reach, shift - 9.0), max(reach, shift + 9.0) + step, step)
    return x, gauss_weights(x - shift, step), gauss_weights(x, step)


def jitter_nodes(R_k: float, resolution: float) -> tuple[FloatArray, FloatArray]:
    """Return the part of the score orthogonal to the teacher and its weights."""
    if R_k == 0.0:
        return np.zeros(1), np.ones(1)
    step = node_step(math.sqrt(R_k), resolution)
    a = np.arange(-EDGE, EDGE + step, step)
    return math.sqrt(R_k) * a, gauss_weights(a, step)


def laplace_step(width: float, longest: int) -> float:
    """Return the step in ``log t`` where factors are Gaussian averages of this width.

    The largest of ``longest`` normals has a standard deviation of about ``1/√(2 log longest)``.
    """
    return max(STEP, _WIDTH_STEP * width / math.sqrt(1.0 + math.log(longest)))


def laplace_grid(
    activation: Normalised, task: Task, width: float, resolution: float
) -> LaplaceGrid:
    """Return the grid in ``log t`` for scores of standard deviation ``width``."""
    wide = laplace_step(width, task.length.longest)
    if activation.sink > 0.0:  # e^{−tb} is one step of width 1 in log t, which is not smoothed
        return LaplaceGrid(STEP / resolution)
    if activation.exponential == "everywhere":
        return LaplaceGrid(wide / resolution)
    stretch = wide / STEP if activation.exponential == "left" else 1.0
    # where the step grows a hundredfold within a few steps, it must be finer to start with
    return LaplaceGrid(STEP / (2.0 if stretch > 30.0 else 1.0) / resolution, stretch)


def step_centres(activation: Normalised, u: FloatArray) -> FloatArray:
    """Return the score around which ``e^{−tφ}`` varies fastest, for each ``u = log t``."""
    # where φ is exponential its step is at log φ = −u; elsewhere φ bends at minus the bias
    follow = {"everywhere": -u, "left": -np.maximum(u, 0.0)}
    return follow.get(activation.exponential, np.zeros_like(u)) - float(activation.bias or 0.0)


def graded_scores(
    mean: float, width: float, reach: float, centre: FloatArray, resolution: float
) -> tuple[FloatArray, FloatArray]:
    """Return scores ``N(mean, width²)`` and weights, fine around each centre (one row each)."""
    edges = graded_edges(-reach, reach, (centre - mean) / width, 1.0 / width)
    y, weights = panels(edges, resolution)
    return mean + width * y, gauss_weights(y, 1.0) * weights
