"""Traits of an activation, read off its weights."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.activations import Activation, Normalised
from slrlab.model.families import CosineReweighted, LengthScaled

_SEQUENCES, _LENGTH = 200, 6
_ROUNDING = 1e-9
_FACTORS = (2.0, 2.0**10, 2.0**-10)  # factors that multiply all scores
_DIGITS = 1e-12


def traits(activation: Activation) -> tuple[str, ...]:
    """Return what holds for the weights of an activation, in a few words each.

    Each trait is checked on the weights of random scores; a free bias is set to 0.5. A factor on
    all scores multiplies a free bias, too.

    >>> from slrlab import make_activation
    >>> traits(make_activation("sparsemax"))
    ('weights sum to 1', 'exact zeros', 'unchanged by a shift of all scores')
    """
    fixed = activation if activation.bias is not None else activation.with_bias(0.5)
    scores = 2.0 * np.random.default_rng(0).standard_normal((_SEQUENCES, _LENGTH))
    weights = fixed.weights(scores)
    totals = weights.sum(axis=-1)
    negative = bool((weights < 0.0).any())
    holds = {
        "weights sum to 1": _close(totals, 1.0),
        "weights sum to 1 or 0": not _close(totals, 1.0) and _close(totals * (1.0 - totals), 0.0),
        "weights sum to at most 1": not negative
        and not _close(totals * (1.0 - totals), 0.0)
        and bool((totals <= 1.0 + _ROUNDING).all()),
        "negative weights": negative,
        "exact zeros": bool((weights == 0.0).any()),
        "unchanged by a shift of all scores": _close(fixed.weights(scores + 1.0), weights),
        "unchanged by a factor on all scores": degree(activation) == 0.0,
        "depends on the order of the tokens": not _close(
            fixed.weights(scores[:, ::-1])[:, ::-1], weights
        ),
        "sees the length": isinstance(activation, LengthScaled),
    }
    return tuple(words for words, true in holds.items() if true)


@lru_cache(maxsize=256)
def increasing(activation: Activation) -> bool:
    """Return whether the largest weight is that of the largest score, and of no other token.

    It is checked on random scores, a free bias set to 0.5 and to −2. Maps that are 0 on one side
    are not increasing in this sense: all weights of a sequence may be 0.

    >>> from slrlab import make_activation
    >>> [increasing(make_activation(name)) for name in ("linear", "hardmax", "relu", "spherical-2")]
    [True, True, False, False]
    """
    biases = (0.5, -2.0) if activation.bias is None else (activation.bias,)
    for length in (2, _LENGTH):
        scores = np.random.default_rng(length).standard_normal((_SEQUENCES, length))
        for bias in biases:
            weights = activation.with_bias(bias).weights(scores)
            second, first = np.sort(weights, axis=-1)[:, -2:].T
            found = weights.argmax(axis=-1) == scores.argmax(axis=-1)
            if not (found & (first > second)).all():
                return False
    return True


@lru_cache(maxsize=256)
def degree(activation: Activation) -> float | None:
    """Return ``d`` if a factor ``a`` on all scores multiplies all weights by ``a^d``, else None.

    A free bias is multiplied as well. With the degree 0 the length of the keys is without effect,
    with any other it is part of the length of the values.

    >>> from slrlab import make_activation
    >>> [degree(make_activation(name)) for name in ("relu-normalised", "relu", "softmax")]
    [0.0, 1.0, None]
    """
    bias = 0.5 if activation.bias is None else activation.bias
    moving = bias if activation.bias is None else 0.0
    degrees: set[float] = set()
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for length in (2, _LENGTH):
            scores = np.random.default_rng(length).standard_normal((_SEQUENCES, length))
            plain = activation.with_bias(bias).weights(scores)
            largest = np.unravel_index(np.argmax(np.abs(plain)), plain.shape)
            for factor in _FACTORS:
                given = activation.with_bias(bias - moving + factor * moving)
                weights = given.weights(factor * scores)
                ratio = float(weights[largest] / plain[largest])
                if not (math.isfinite(ratio) and ratio > 0.0):
                    return None
                if not np.allclose(weights, ratio * plain, rtol=_DIGITS, atol=_DIGITS * ratio):
                    return None
                degrees.add(round(math.log(ratio) / math.log(factor), 9))
    return degrees.pop() + 0.0 if len(degrees) == 1 else None


def jumps(activation: Activation) -> bool:
    """Return whether weights over their sum jump where the last positive map falls to 0.

    A map that is 0 on one side of a bend has this: one token keeps the weight 1 until it has none.
    Weights that jump where tokens enter the largest ones are refused by their family.

    >>> from slrlab import make_activation
    >>> [jumps(make_activation(name)) for name in ("cosformer", "relu", "cosine")]
    [True, False, False]
    """
    if not isinstance(activation, CosineReweighted | Normalised):
        return False
    if isinstance(activation, Normalised) and activation.sink > 0.0:
        return False
    sides = np.array([-1e-6, 1e-6])
    return any(
        np.count_nonzero(activation.phi.value(bend + sides)) == 1 for bend in activation.bends
    )


def _close(left: FloatArray, right: FloatArray | float) -> bool:
    return bool(np.allclose(left, right, rtol=_ROUNDING, atol=_ROUNDING))
