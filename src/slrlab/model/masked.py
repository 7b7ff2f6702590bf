"""Scores of −∞: tokens that are not there, whatever the activation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from slrlab import _checks
from slrlab._types import FloatArray


def weights_of_unmasked(
    weights: Callable[[FloatArray], FloatArray], scores: FloatArray
) -> FloatArray:
    """Return the weights along the last axis, those of scores of −∞ left out.

    Their weight is 0; the others are the weights of the sequence without them, all 0 if it is
    empty.

    Raises
    ------
    ValueError
        If a score is NaN.
    """
    low = float(np.min(scores, initial=math.inf))
    if low > -math.inf:
        return weights(scores)
    if math.isnan(low):
        _checks.fail("scores", "numbers, -inf for a masked token", low)
    kept = scores > -math.inf
    counts = kept.sum(axis=-1, keepdims=True)
    sigma = np.zeros(kept.shape)
    for count in np.unique(counts[counts > 0]):  # rows of one length at once
        rows = kept & (counts == count)
        sigma[rows] = weights(scores[rows].reshape(-1, count)).ravel()
    return sigma
