r"""Laws of one token's score, with weights whose sums are expectations and their derivatives.

A score is ``χ = m χ* + √S u`` with ``u`` a standard normal. For any function ``F`` of the score,
integration by parts gives ``E[χ*ᵃ F⁽ⁿ⁾(χ)] = E[χ*ᵃ F(χ) He_n(u)]/S^{n/2}``: derivatives of the
activation are never needed, and those in ``m`` and ``S`` are entries of the same table,

    ∂_m E[χ*ᵃ F⁽ⁿ⁾] = E[χ*ᵃ⁺¹ F⁽ⁿ⁺¹⁾],      ∂_S E[χ*ᵃ F⁽ⁿ⁾] = ½ E[χ*ᵃ F⁽ⁿ⁺²⁾].

If ``u`` has variance ``γ²``, the first has ``He_n(u/γ)/γⁿ`` and the last a factor ``γ²``.
Independent of activations and risks.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import hermite_e

from slrlab._types import FloatArray
from slrlab.numerics.graded import edges_around, panels
from slrlab.theory.moments.nodes import EDGE, NODE_STEP, gauss_weights

ORDER = 4  # largest a + n that a risk and its gradient need
PAIRS = tuple((a, n) for a in range(ORDER) for n in range(ORDER + 1 - a))
# power of m in each coefficient of `_powers`
_DEGREES = np.array([[max(column - n, 0) for column in range(ORDER + 1)] for _, n in PAIRS])
# below this std derivatives would be lost to rounding; a change of 1e-5 in a score changes a
# smooth risk by 1e-10
_LEAST_STD = 1e-5
# with a larger step the average of He_4, divided by a power of a small std, is not zero
_STEP = 0.65
# panels of nodes: at a bend, in standard deviations, and the widest, in units of the score
_FINEST_PANEL, _WIDEST_PANEL = 1e-8, 2.0


@dataclass(frozen=True)
class TokenLaws:
    """Nodes of the score and, for relevant and other tokens, one row of weights for each pair.

    The sum of ``relevant[i] * F(scores)`` is ``E[χ*ᵃ F⁽ⁿ⁾(χ)]`` with ``(a, n) = PAIRS[i]``.
    """

    scores: FloatArray
    relevant: FloatArray
    others: FloatArray


def hermite(u: FloatArray, count: int) -> FloatArray:
    """Return the rows ``He_0(u) … He_{count-1}(u)``, ``count >= 2``."""
    rows = np.empty((count, *u.shape))
    rows[0], rows[1] = 1.0, u
    for n in range(2, count):
        rows[n] = u * rows[n - 1] - (n - 1) * rows[n - 2]
    return rows


def gaussian_laws(
    shift: float,
    m: float,
    std: float,
    edge: float,
    resolution: float,
    relevant_std: float = 1.0,
    bends: Sequence[float] = (),
) -> TokenLaws:
    """Return the laws where ``χ*`` is ``N(shift, γ²)`` for the relevant token, ``N(0, 1)`` else.

    Nodes shrink towards ``bends``, scores at which a map has a kink or a zero; they are for
    ``γ = 1`` only.

    ``γ`` is the standard deviation of the relevant token in every direction, that of ``u``
    included. Then the score is Gaussian too, and given the score the average of
    ``He_b((χ*−shift)/γ) He_n(u/γ)`` is ``m^b s^n τ^{−b−n} He_{b+n}`` of the standardised score,
    ``τ² = m² + s²``: the score alone is integrated over.
    """
    tau = max(math.hypot(m, std), _LEAST_STD)
    if relevant_std == 1.0:  # one grid for both laws
        low, high = min(0.0, m * shift) - edge * tau, max(0.0, m * shift) + edge * tau
        scores, steps = _score_nodes(low, high, tau, bends, resolution)
        laws = [_gaussian_law(scores, steps, mean, 1.0, m, tau) for mean in (shift, 0.0)]
        # at a very large signal there is an empty interval between the two laws
        kept = (laws[0][0] > 0.0) | (laws[1][0] > 0.0)
        return TokenLaws(scores[kept], laws[0][:, kept], laws[1][:, kept])
    grids, rows = [], []
    for mean, scale in ((shift, relevant_std), (0.0, 1.0)):
        step = scale * tau * _step(scale * tau, resolution)
        scores = m * mean + np.arange(-edge * scale * tau, edge * scale * tau + step, step)
        grids.append(scores)
        rows.append(_gaussian_law(scores, step, mean, scale, m, tau))
    relevant, others = (np.zeros((len(PAIRS), sum(map(len, grids)))) for _ in grids)
    relevant[:, : len(grids[0])], others[:, len(grids[0]) :] = rows
    return TokenLaws(np.concatenate(grids), relevant, others)


def _score_nodes(
    low: float, high: float, tau: float, bends: Sequence[float], resolution: float
) -> tuple[FloatArray, FloatArray | float]:
    """Return nodes of a Gaussian score of standard deviation ``tau``, and their steps."""
    inside = np.array([bend for bend in bends if low < bend < high])
    if not inside.size:
        step = tau * _step(tau, resolution)
        return np.arange(low, high + step, step), step
    widest = min(tau, _WIDEST_PANEL)
    return panels(edges_around(low, high, inside, _FINEST_PANEL * tau, widest), resolution)


def _gaussian_law(
    scores: FloatArray, step: FloatArray | float, mean: float, scale: float, m: float, tau: float
) -> FloatArray:
    """Return the rows of weights of one token whose ``χ*`` is ``N(mean, scale²)``."""
    g = (scores - m * mean) / (scale * tau)
    density = np.exp(-(g**2) / 2.0) * (step / (scale * tau * math.sqrt(2.0 * math.pi)))
    slopes = density * hermite(g, ORDER + 1) / tau ** np.arange(ORDER + 1)[:, None]
    return np.asarray(_powers(mean, scale) * m**_DEGREES @ slopes)


@lru_cache(maxsize=64)
def _powers(mean: float, scale: float) -> FloatArray:
    """Return the coefficients of ``(mean + scale·x)^a/scale^n`` in ``He_b(x)``.

    They are at column ``b + n`` of a pair ``(a, n)``.
    """
    coefficients = np.zeros((len(PAIRS), ORDER + 1))
    for row, (a, n) in zip(coefficients, PAIRS, strict=True):
        power = np.polynomial.polynomial.polypow([mean, scale], a)
        row[n : n + a + 1] = hermite_e.poly2herme(power) / scale**n
    return coefficients


def product_laws(
    x: FloatArray, relevant: FloatArray, others: FloatArray, m: float, std: float, resolution: float
) -> TokenLaws:
    """Return the laws for any law of ``χ*`` given by weights on nodes ``x``."""
    u, slopes = gaussian_slopes(std, resolution)
    scores = (m * x[:, None] + u).ravel()
    laws = [
        np.stack([np.outer(law * x**a, slopes[n]).ravel() for a, n in PAIRS])
        for law in (relevant, others)
    ]
    return TokenLaws(scores, laws[0], laws[1])


def gaussian_slopes(std: float, resolution: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes of ``s·u`` and rows of weights that sum to ``E[F⁽ⁿ⁾]``, ``n`` up to `ORDER`."""
    s = max(std, _LEAST_STD)
    step = _step(s, resolution)
    u = np.arange(-EDGE, EDGE + step, step)
    weights = gauss_weights(u, step) * hermite(u, ORDER + 1)
    return s * u, weights / s ** np.arange(ORDER + 1)[:, None]


def _step(std: float, resolution: float) -> float:
    """Return the step of the nodes of a Gaussian, in units of its standard deviation."""
    return min(NODE_STEP / (max(std, 0.5) * resolution), _STEP)
