r"""The Bayes risk of multi-head single-location regression, for any signals and probabilities.

The posterior of location and direction is the Bayes-softmax, ``p_ℓj ∝ π_j exp(√ν_j χ*_ℓj −
ν_j/2)``, and the Bayes risk is ``Δ² + 1 − E[p_εj] = Δ² + 1 − E Σ p_ℓj²``. As everywhere, ``1/S =
∫e^{−tS}dt`` makes it an integral of one-score factors, now of all tokens and directions. With equal
signals and probabilities it is the Bayes risk of spiked-SLR at a length of ``K L``. Independent of
activations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slrlab._result import Result, Status
from slrlab._types import FloatArray
from slrlab.model.heads import MultiHeadSLR
from slrlab.numerics.simplex import LaplaceGrid, TokenFactors, token_factors, window
from slrlab.theory.moments.nodes import EDGE, gauss_weights, node_step
from slrlab.theory.population.bayes_risk import judged

_RESOLUTIONS = (1.0, 1.35)
_NOTHING = 746.0  # e to the minus this is below the smallest double
_DISTINCT = 8.0 * _NOTHING  # signal from which a direction is confused with no other


@dataclass(frozen=True)
class HeadsBayesRisk(Result):
    """The least risk of any predictor.

    Attributes
    ----------
    risk
        ``Δ² + 1 − E Σ p_ℓj²``.
    nishimori_gap
        Relative difference between the two forms of the noiseless risk.
    error
        Estimate of the numerical error of ``risk``.
    """

    risk: float
    nishimori_gap: float
    error: float


def heads_bayes_risk(task: MultiHeadSLR) -> HeadsBayesRisk:
    """Return the least risk of any predictor: that of the Bayes-softmax at the teachers.

    Parameters
    ----------
    task
        The task with several directions.

    Returns
    -------
    HeadsBayesRisk
        The risk with its error and status.

    Examples
    --------
    >>> from slrlab import MultiHeadSLR, SpikedSLR, bayes_risk
    >>> risk = heads_bayes_risk(MultiHeadSLR(6.0, 5, directions=4)).risk
    >>> print(f"{risk:.4f}", abs(risk - bayes_risk(SpikedSLR(6.0, 20)).risk) < 1e-10)
    0.4058 True
    """
    limit = HeadsBayesRisk(Status.LIMIT, risk=task.noise**2, nishimori_gap=0.0, error=0.0)
    if (task.directions == 1 and task.length.longest == 1) or _negligible(task):
        return limit
    (coarse, _), (squares, location) = (_risks(task, resolution) for resolution in _RESOLUTIONS)
    if squares == 0.0:  # below the smallest double
        return limit
    status, gap, error = judged(coarse, squares, location)
    risk = task.noise**2 + squares
    return HeadsBayesRisk(status=status, risk=risk, nishimori_gap=gap, error=error)


def _negligible(task: MultiHeadSLR) -> bool:
    """Return whether a bound on the noiseless risk is below the smallest double.

    ``E[1 − p] ≤ ½ E Σ (r/r_own)^½`` over all other locations and directions, where a pair of
    directions has ``(π/π_own)^½ e^{−(ν + ν_own)/8}``.
    """
    shares = task.probabilities
    rivals = task.length.longest * task.directions / 2.0 * math.sqrt(max(shares) / min(shares))
    return math.log(rivals) - min(task.signals) / 4.0 < -_NOTHING


def _laws(
    task: MultiHeadSLR, resolution: float
) -> tuple[FloatArray, list[FloatArray], list[tuple[float, int, int]]]:
    """Return nodes of ``log φ`` and laws on them; and probability, relevant and other law of each.

    Directions that are equal share their laws.
    """
    reach = math.sqrt(EDGE**2 + 2.0 * math.log(task.length.longest * task.directions))
    # by the bound of `_negligible` a longer shift changes nothing
    strengths = [min(signal, _DISTINCT) for signal in task.signals]
    pairs = list(zip(strengths, task.probabilities, strict=True))
    kinds = list(dict.fromkeys(pairs))
    parts, entries = [], []
    for signal, share in kinds:
        shift = math.sqrt(signal)
        step = node_step(shift, resolution)
        x = np.arange(-reach, shift + reach, step)
        log_phi = shift * x - signal / 2.0 + math.log(share)
        parts.append((log_phi, gauss_weights(x - shift, step), gauss_weights(x, step)))
    sizes = [log_phi.size for log_phi, *_ in parts]
    laws = []
    for index, (_, *own) in enumerate(parts):
        before, after = sum(sizes[:index]), sum(sizes[index + 1 :])
        laws += [np.pad(law, (before, after)) for law in own]
    for signal, share in pairs:
        index = kinds.index((signal, share))
        entries.append((share, 2 * index, 2 * index + 1))
    return np.concatenate([log_phi for log_phi, *_ in parts]), laws, entries


def _risks(task: MultiHeadSLR, resolution: float) -> tuple[float, float]:
    """Return ``E(1−p_ε)² + off`` and ``E(1−p_ε)``, where ``off`` is the rest of ``E Σ p²``.

    Both forms are sums of positive terms; their equality is the Nishimori identity.
    """
    log_phi, laws, entries = _laws(task, resolution)

    def rows(u: FloatArray, nodes: FloatArray, *weights: FloatArray) -> FloatArray:
        factors = token_factors(u, nodes, *weights)
        parts = [
            share * _of_direction(task, factors, entries, own)
            for own, (share, _, _) in enumerate(entries)
        ]
        return np.asarray(np.sum(parts, axis=0))

    u, weights = LaplaceGrid(0.3 / resolution).nodes(window(rows, log_phi, *laws))
    square, off, missing = (rows(u, log_phi, *laws) @ weights).tolist()
    return square + off, missing


def _of_direction(
    task: MultiHeadSLR,
    factors: list[TokenFactors],
    entries: list[tuple[float, int, int]],
    own: int,
) -> FloatArray:
    """Return integrands of ``E(1−p)²``, ``E Σ_others p²`` and ``E(1−p)`` given the direction.

    The relevant score stands against the other scores of its token (one for each other direction)
    and against all scores of the other tokens.
    """
    relevant = factors[entries[own][1]]
    others = [factors[other] for _, _, other in entries]
    log_token = np.sum([one.log_zero for one in others], axis=0)  # of a token that is not relevant
    g0, g1, g2 = task.length.generating(log_token)
    token = np.exp(log_token)
    # sums over the scores of one token of T e^{−T} and T² e^{−T}, over its factors e^{−T}
    ones = [one.one / np.maximum(one.zero, 1e-290) for one in others]
    twos = [one.two / np.maximum(one.zero, 1e-290) for one in others]
    first, second = np.sum(ones, axis=0), np.sum(twos, axis=0)
    pairs = first**2 - np.sum(np.square(ones), axis=0)
    rest = token / np.maximum(others[own].zero, 1e-290)  # the other scores of the relevant token
    first_here, second_here = first - ones[own], second - twos[own]
    pairs_here = first_here**2 - (np.sum(np.square(ones), axis=0) - ones[own] ** 2)
    off = rest * (second_here * g0 + token * second * g1)
    missing = rest * (first_here * g0 + token * first * g1)
    cross = pairs_here * g0 + (2.0 * first_here * token * first + token * pairs) * g1
    cross = rest * (cross + (token * first) ** 2 * g2)
    return np.asarray(relevant.zero * np.stack([off + cross, off, missing]))
