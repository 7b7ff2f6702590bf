"""Traits of an activation, read off its weights."""

from __future__ import annotations

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.activations import Activation
from slrlab.model.families import LengthScaled

_SEQUENCES, _LENGTH = 200, 6
_ROUNDING = 1e-9


def traits(activation: Activation) -> tuple[str, ...]:
    """Return what holds for the weights of an activation, in a few words each.

    Each trait is checked on the weights of random scores; a free bias is set to 0.5.

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
        "unchanged by a factor on all scores": _close(fixed.weights(2.0 * scores), weights),
        "depends on the order of the tokens": not _close(
            fixed.weights(scores[:, ::-1])[:, ::-1], weights
        ),
        "sees the length": isinstance(activation, LengthScaled),
    }
    return tuple(words for words, true in holds.items() if true)


def _close(left: FloatArray, right: FloatArray | float) -> bool:
    return bool(np.allclose(left, right, rtol=_ROUNDING, atol=_ROUNDING))
