r"""The least risk on the task of Marion et al., for three amounts of knowledge.

The relevant token differs from the others in every direction, so that what a predictor sees of a
token matters. With ``r`` the density ratio of a relevant token to another in what is seen:

``"keys"``
    The weights depend on the key scores alone, as in attention: ``f = Σ w_ℓ(χ*) z*_ℓ``. The best
    weights are ``w_ℓ = γ²r_ℓ/(γ²r_ℓ + Σ_{j≠ℓ} r_j)``.
``"scores"``
    The posterior mean given key and value scores, ``Σ p_ℓ z*_ℓ`` with ``p = r/Σr``: the size of a
    value score also distinguishes relevant tokens.
``"tokens"``
    The posterior mean given whole tokens in ``R^D``. The squared length of a token, about ``γ²D``
    or ``D``, distinguishes relevant tokens from others: the risk tends to ``Δ²`` as ``D`` grows.

For ``γ = 1`` all three are the Bayes risk of spiked-SLR. Independent of activations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from slrlab._types import FloatArray
from slrlab.model.marion import MarionSLR
from slrlab.numerics.graded import panels
from slrlab.numerics.simplex import LaplaceGrid, independent_moments, token_factors, window
from slrlab.theory.moments.nodes import NODE_STEP, edge, gauss_weights

KNOWLEDGE = ("keys", "scores", "tokens")
_CERTAIN = 60.0  # log ratio beyond that of all other tokens at which a token has all weight or none
_ANGLES = 128  # nodes of the angle between a token and the direction of the keys
_SHORTEST = 1e-300


@dataclass(frozen=True)
class _Laws:
    """Nodes of ``log r`` and, on them, the laws of a relevant and of another token.

    A token whose weight is asked for is marked: it has its own ``log r`` and its own laws.
    """

    log_ratio: FloatArray
    relevant: FloatArray
    others: FloatArray
    marked_ratio: FloatArray
    marked_relevant: FloatArray
    marked_others: FloatArray


def marion_risks(
    task: MarionSLR, resolution: float, knows: str, dim: int | None
) -> tuple[float, float]:
    r"""Return the noiseless risk over ``γ²`` in two forms, ``E_m[(1−w)²] + off`` and ``E_m[1−w]``.

    ``E_m`` is the mean of the weight of a relevant token that is marked; ``off`` is the sum over
    other tokens, each marked in turn, of ``E w²/γ²``. For ``"scores"`` and ``"tokens"`` the mark is
    a factor ``z²`` in the law of the token, over its mean.
    """
    if task.relevant_std == 1.0:
        laws = _equal_laws(task, resolution)
    else:  # directions that are seen beside that of the keys
        count = {"keys": 0, "scores": 1}.get(knows, (dim or 2) - 1)
        laws = _polar_laws(task, knows, count, resolution)
    grid = LaplaceGrid(0.3 / resolution)
    log_phi, (relevant, others) = _joined(
        (laws.marked_ratio, laws.marked_relevant), (laws.log_ratio, laws.others)
    )
    generating = task.length.generating
    moments = independent_moments(log_phi, relevant, others, generating, grid=grid)
    off = _off_target(task, laws, grid) / task.relevant_std**2
    return moments.shortfall_square + off, moments.shortfall


def _joined(*parts: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, list[FloatArray]]:
    """Return the nodes of several tokens in a row, and the law of each on all of them."""
    ends = np.cumsum([0, *(nodes.size for nodes, _ in parts)])
    laws = [np.zeros(ends[-1]) for _ in parts]
    for law, (_, own), low, high in zip(laws, parts, ends, ends[1:], strict=False):
        law[low:high] = own
    return np.concatenate([nodes for nodes, _ in parts]), laws


def _off_target(task: MarionSLR, laws: _Laws, grid: LaplaceGrid) -> float:
    """Return ``E Σ_{ℓ≠ε} w_ℓ² z_ℓ²``: one other token is marked, the relevant one is not."""
    log_phi, columns = _joined(
        (laws.log_ratio, laws.relevant),
        (laws.log_ratio, laws.others),
        (laws.marked_ratio, laws.marked_others),
    )

    def rows(u: FloatArray, nodes: FloatArray, *weights: FloatArray) -> FloatArray:
        rel, oth, marked = token_factors(u, nodes, *weights)
        return np.asarray(rel.zero * marked.two * task.length.generating(oth.log_zero)[1])[None]

    u, weights = grid.nodes(window(rows, log_phi, *columns))
    return float(rows(u, log_phi, *columns)[0] @ weights)


def _equal_laws(task: MarionSLR, resolution: float) -> _Laws:
    """Return the laws at ``γ = 1``, which is spiked-SLR: key scores are sufficient."""
    step = NODE_STEP / (max(task.shift, 1.0) * resolution)
    x = np.arange(-edge(task), task.shift + edge(task), step)
    laws = gauss_weights(x - task.shift, step), gauss_weights(x, step)
    return _Laws(task.log_ratio(x), *laws, task.log_ratio(x), *laws)


def _polar_laws(task: MarionSLR, knows: str, count: int, resolution: float) -> _Laws:
    r"""Return the laws of tokens seen in ``count`` directions orthogonal to that of the keys.

    ``log r`` is ``½(1 − γ⁻²)q²`` plus a constant, ``q`` being the distance of a token to the point
    ``−√ν/(γ²−1)`` on the axis of the keys: one variable, in any number of directions. A factor
    ``z²`` turns a chi-square law of ``n`` degrees of freedom into one of ``n + 2``.
    """
    std, curve = task.relevant_std, 1.0 - task.relevant_std**-2
    centre = -task.shift / (std**2 - 1.0)
    tokens = ((task.shift - centre, std), (-centre, 1.0))  # distance from the centre, and std
    q, weights = panels(_distances(task, count, tokens), resolution)
    log_ratio = 0.5 * curve * (q - abs(centre)) * (q + abs(centre))
    log_ratio += -0.5 * task.signal / std**2 - (count + 1.0) * math.log(std)
    log_ratio = np.append(log_ratio, -math.inf)

    def law(token: tuple[float, float], freedom: int) -> FloatArray:
        row = weights * _distance_density(q, *token, freedom)
        # mass beyond the nodes: tokens with no weight if r falls with q, with all of it if r grows
        return np.append(row, max(0.0, 1.0 - float(row.sum())) if std < 1.0 else 0.0)

    relevant, others = (law(token, count) for token in tokens)
    if knows == "keys":
        marked_ratio = log_ratio + 2.0 * math.log(std)
        return _Laws(log_ratio, relevant, others, marked_ratio, relevant, others)
    marked_relevant, marked_others = (law(token, count + 2) for token in tokens)
    return _Laws(log_ratio, relevant, others, log_ratio, marked_relevant, marked_others)


def _distances(task: MarionSLR, count: int, tokens: tuple[tuple[float, float], ...]) -> FloatArray:
    """Return edges of panels in ``q``: no wider than a density, nor than 1.5 in ``log r``."""
    reach, size = edge(task), math.sqrt(count + 2.0)
    curve = abs(1.0 - task.relevant_std**-2)
    ends = []
    for along, std in tokens:
        near = math.hypot(max(0.0, abs(along) - reach * std), max(0.0, size - reach) * std)
        ends.append((near, math.hypot(abs(along) + reach * std, (size + reach) * std)))
    low, high = min(near for near, _ in ends), max(far for _, far in ends)
    # beyond the token that decides, no token with a larger r (or smaller, if r falls) matters
    decides = ends[1 if task.relevant_std > 1.0 else 0][1]
    high = min(high, math.sqrt(decides**2 + 2.0 * _CERTAIN / curve))
    wide = np.linspace(low, high, 1 + math.ceil((high - low) / (1.5 * min(1.0, task.relevant_std))))
    even = 1 + math.ceil(curve * (high**2 - low**2) / 3.0)
    return np.unique(np.concatenate([wide, np.sqrt(np.linspace(low**2, high**2, even))]))


def _distance_density(q: FloatArray, along: float, std: float, freedom: int) -> FloatArray:
    """Return the density of ``q² = x² + y²``: ``x`` is ``N(along, std²)``, ``y/std`` a chi.

    In polar coordinates ``x = ±q cos a``, ``y = q sin a``; the angle is integrated over. Without
    any degree of freedom ``y`` is 0.
    """
    if freedom == 0:
        sides = sum(np.exp(-(((side * q - along) / std) ** 2) / 2.0) for side in (1.0, -1.0))
        return np.asarray(sides / (std * math.sqrt(2.0 * math.pi)))
    size, reach = math.sqrt(freedom), 12.0
    with np.errstate(divide="ignore"):
        ends = [np.minimum(1.0, std * end / q) for end in (max(0.0, size - reach), size + reach)]
    low, high = (np.arcsin(end)[:, None] for end in ends)
    nodes, weights = np.polynomial.legendre.leggauss(_ANGLES)
    angle = low + (high - low) * (nodes + 1.0) / 2.0
    y = np.maximum(q[:, None] * np.sin(angle) / std, _SHORTEST)
    log_chi = (freedom - 1.0) * np.log(y) - y**2 / 2.0
    log_chi -= (freedom / 2.0 - 1.0) * math.log(2.0) + special.gammaln(freedom / 2.0)
    density = np.zeros_like(angle)
    for side in (1.0, -1.0):
        x = (side * q[:, None] * np.cos(angle) - along) / std
        density += np.exp(log_chi - x**2 / 2.0)
    total = (density * weights).sum(axis=1) * ((high - low) / 2.0)[:, 0]
    return np.asarray(total * q / (std**2 * math.sqrt(2.0 * math.pi)))
