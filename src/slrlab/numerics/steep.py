r"""Selection from ``w = e^{νx}`` at a large slope ``ν``, at a cost that does not depend on it.

``w_ε/Σw`` is the probability that ``ε`` wins a race in which each score gets a Gumbel variable
divided by ``ν``. With ``s = e^{−νM}``, ``M`` the winning value, ``e^{−sw}`` is the probability that
a token at ``x`` stays below ``M``: a step of width ``1/ν`` at ``x = M``. All variables are measured
from that step, so ``ν`` may be as large as the largest double. This module knows standard normal
tokens and slopes, not tasks or activations.
"""

# notation: docs/notation.md, "Laplace variables"
from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special

from slrlab._types import FloatArray
from slrlab.numerics.graded import panels
from slrlab.numerics.selection import SoftKernel, exponential_decay, selection_first_moments
from slrlab.numerics.simplex import STEP, Generating, log_expectation

STEEP = 64.0  # slope from which Gaussian factors are smooth on the scale of the Gumbel variable
HARD = 1e8  # ratio of slopes beyond which the steeper one is a step to rounding
_SCALED = 1e10  # slope beyond which ``1 − E[σ_ε]`` is proportional to its inverse
_REACH = 9.3  # standard deviations kept of a jitter
_ROOT_2PI = math.sqrt(2.0 * math.pi)
_BELOW, _ABOVE = -45.0, 4.5  # reach of the step in units of 1/ν: e^{−45} and e^{−e^{4.5}}
_CUTS = np.array([_BELOW, -22.0, -11.0, -6.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, _ABOVE])


def _normal(x: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-(x**2) / 2.0) / _ROOT_2PI)


@lru_cache(maxsize=4)
def _gumbel_rule(count: int) -> tuple[FloatArray, FloatArray]:
    """Return the Gauss rule of the density ``e^{y − e^y}``, by Lanczos on a fine trapezoid rule."""
    y = np.arange(_BELOW - 20.0, _ABOVE, 0.05)
    weight = 0.05 * np.exp(y - np.exp(y))
    basis = np.empty((count + 1, y.size))
    diagonal, off = np.zeros(count), np.zeros(count)
    basis[0] = np.sqrt(weight / weight.sum())
    for k in range(count):
        following = y * basis[k]
        diagonal[k] = basis[k] @ following
        for _ in range(2):  # twice: once leaves rounding errors that grow
            following = following - basis[: k + 1].T @ (basis[: k + 1] @ following)
        off[k] = math.sqrt(following @ following)
        basis[k + 1] = following / off[k]
    matrix = np.diag(diagonal) + np.diag(off[:-1], 1) + np.diag(off[:-1], -1)
    nodes, vectors = np.linalg.eigh(matrix)
    return nodes, vectors[0] ** 2


def steep_factors(
    values: FloatArray, slope: float, resolution: float = 1.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return ``E[1−e^{−T}]``, ``log E[e^{−T}]`` and ``slope·E[T e^{−T}]``, ``T = e^{slope(x−M)}``.

    They are Gumbel averages of the tail, the law and the density of a normal at ``M``.
    """
    y, weights = _gumbel_rule(math.ceil(20 * resolution))
    x = values[..., None] + y / slope
    missing = special.ndtr(-x) @ weights
    log_zero = log_expectation(special.ndtr(x) @ weights, missing)
    return missing, log_zero, _normal(x) @ weights


def several(log_z: FloatArray, generating: Generating) -> FloatArray:
    """Return ``Σ P(L) L z^(L−1)``."""
    g0, g1, _ = generating(log_z)
    return np.asarray(np.exp(log_z) * g1 + g0)


def winning_mass(values: FloatArray, slope: float, generating: Generating) -> FloatArray:
    """Return the density of the winning value ``M``."""
    _, log_z, density = steep_factors(values, slope)
    return several(log_z, generating) * density


def winning_density(
    x: FloatArray, slope: float, generating: Generating, resolution: float = 1.0
) -> FloatArray:
    """Return the density of the selected token's score over that of a standard normal."""
    y, weights = _gumbel_rule(math.ceil(20 * resolution))
    density = np.empty(x.size)
    rows = max(1, (1 << 18) // y.size**2)
    for start in range(0, x.size, rows):
        block = slice(start, start + rows)
        _, log_z, _ = steep_factors(x[block, None] - y / slope, slope, resolution)
        density[block] = several(log_z, generating) @ weights
    return density


def missing_energy(
    values: FloatArray, step: float, slope: float, generating: Generating, resolution: float
) -> float:
    """Return ``1 − E Σ σ_ℓ²`` for ``σ = softmax(slope·x)``, by a trapezoid rule over ``M``."""
    _, log_z, density = steep_factors(values, slope, resolution)
    _, g1, g2 = generating(log_z)
    return float((density**2 @ (np.exp(log_z) * g2 + 2.0 * g1)) * step) / slope


def softmax_first(
    values: FloatArray,
    weights: FloatArray,
    signal: float,
    slope: float,
    generating: Generating,
    resolution: float,
) -> tuple[float, float]:
    """Return ``E[σ_ε]`` and ``1 − E[σ_ε]`` for ``σ = softmax(slope·x)``, ``slope > 0``."""
    # the two factors play symmetric parts: measure from the steeper one
    steep, flat = max(signal, slope), min(signal, slope)
    scale = max(1.0, flat / _SCALED)
    flat /= scale
    steep = min(steep / scale, HARD * max(flat, 1.0))
    target, missed = aligned_moments(steep, flat, values, weights, generating, resolution)
    return (target if scale == 1.0 else 1.0 - missed / scale), missed / scale


def aligned_moments(
    signal: float,
    slope: float,
    values: FloatArray,
    weights: FloatArray,
    generating: Generating,
    resolution: float,
    *,
    width: float = 0.0,
    check: bool = True,
) -> tuple[float, float]:
    """Return ``E[σ_ε]`` and ``E[1−σ_ε]`` over winning values with the given weights.

    The location is drawn with slope ``signal``; ``σ = softmax(slope·x + width·n)``, ``n`` normal.
    Both factors are steps; the second Laplace variable is measured from where they meet, the tokens
    from the first step on a sinh grid that resolves both.
    """
    steep, ratio = max(signal, abs(slope)), abs(slope) / signal
    # log t from where T = 1 at the winning value; the winner is down to 45/signal below it, and
    # all tokens together reach T = 1 before any of them does
    far, close = -_BELOW * ratio, _ABOVE * ratio
    low, high = (close, far) if slope > 0.0 else (far, close)
    low += math.log1p(float(generating(np.zeros(1))[1][0]))
    away = _REACH * width
    delta = np.arange(-46.0 - low - away, 5.0 + high + away, STEP * max(1.0, ratio) / resolution)
    top = math.asinh((24.0 + float(np.abs(values).max())) * steep)
    theta = np.arange(-top, top, 0.05 / (max(1.0, ratio) * resolution))
    y = np.sinh(theta) / steep
    law = _normal(values[:, None] + y) * (np.cosh(theta) * ((theta[1] - theta[0]) / steep))
    race = np.exp(np.minimum(signal * y, 700.0))
    stay = np.exp(-race)
    kernel = SoftKernel(signal * weights, law @ -np.expm1(-race), stay * law, (race * stay) * law)
    decay = exponential_decay(delta, slope * y, width, resolution)
    spacing = np.full(delta.size, delta[1] - delta[0])
    return selection_first_moments(kernel, decay, spacing, generating, check=check)


def panel_kernel(
    values: FloatArray, weights: FloatArray, edges: FloatArray, signal: float, resolution: float
) -> tuple[FloatArray, SoftKernel]:
    """Return token nodes and the kernel of winning values on panels that may be wide.

    A function of the score is replaced on each panel by its interpolant, and the interpolant times
    the step is integrated exactly: panels must resolve the function, not the step.
    """
    x, plain = panels(edges, resolution)
    order = x.size // (edges.size - 1)
    points, share = np.polynomial.legendre.leggauss(order)
    # ∫ f·g over a panel is Σ f(x_i) C_ik ∫ P_k g
    basis = np.polynomial.legendre.legvander(points, order - 1)
    basis *= share[:, None] * (np.arange(order) + 0.5)
    first = np.maximum(np.searchsorted(edges, values + _BELOW / signal, "right") - 1, 0)
    below = np.arange(edges.size - 1) < first[:, None]
    stay = (np.repeat(below, order, axis=1) * plain).reshape(values.size, -1, order)
    go = np.zeros_like(stay)
    row, panel, low, high = _pieces(values, edges, first, signal)
    half = (high - low) / 2.0
    inner = low[:, None] + half[:, None] * (1.0 + points)  # measured from the value
    start, width = edges[panel] - values[row], np.diff(edges)[panel]
    position = 2.0 * (inner - start[:, None]) / width[:, None] - 1.0
    modes = np.polynomial.legendre.legvander(position, order - 1)
    race = np.exp(signal * inner)
    chance = np.exp(-race) * share * half[:, None]
    for matrix, factor in ((stay, chance), (go, chance * race * signal)):
        np.add.at(matrix, (row, panel), np.einsum("ij,ijk->ik", factor, modes) @ basis.T)
    missing, _, _ = steep_factors(values, signal, resolution)
    law = _normal(x)
    flat = (values.size, x.size)
    return x, SoftKernel(weights, missing, stay.reshape(flat) * law, go.reshape(flat) * law)


def _pieces(
    values: FloatArray, edges: FloatArray, first: npt.NDArray[np.intp], signal: float
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], FloatArray, FloatArray]:
    """Return intervals on which both step and panel are smooth: value, panel, and ends.

    Ends are measured from the value: at a huge slope the difference would have no digits.
    """
    ends = edges - values[:, None]
    low, high = edges[first] - values, np.minimum(_ABOVE / signal, ends[:, -1])
    cuts = np.concatenate(
        [np.broadcast_to(_CUTS / signal, (values.size, _CUTS.size)), ends], axis=1
    )
    cuts = np.sort(np.clip(cuts, low[:, None], np.maximum(low, high)[:, None]), axis=1)
    row, column = np.nonzero(np.diff(cuts, axis=1) > 0.0)
    low, high = cuts[row, column], cuts[row, column + 1]
    panel = np.searchsorted(edges, values[row] + (low + high) / 2.0) - 1
    return row, np.clip(panel, 0, edges.size - 2), low, high
