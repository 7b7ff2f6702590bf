r"""Compiled weights of several heads with their derivatives, for one sequence.

Heads with weights of their own take `slrlab.model.weights_kernel`, one after the other; the
Bayes-softmax is normalised over tokens and heads together. The caller owns all arrays. In NumPy the
weights are `slrlab.model.heads.head_weights`.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math

from numba import njit

from slrlab.model.weights_kernel import residual
from slrlab.model.weights_rows import FORCE, SAFE_MATH, SIGMA, TRIAL, VALUE

_compiled = njit(cache=True, error_model="numpy", fastmath=SAFE_MATH)


@_compiled
def _joint(chi, z, sigma, force):
    """Fill weights and forces of the Bayes-softmax; return the answer."""
    heads, count = chi.shape
    top = chi[0, 0]
    for h in range(heads):
        for i in range(count):
            top = max(top, chi[h, i])
    total, answer = 0.0, 0.0
    for h in range(heads):
        for i in range(count):
            weight = math.exp(chi[h, i] - top)
            sigma[h, i] = weight
            total += weight
            answer += weight * z[h, i]
    answer /= total
    for h in range(heads):
        for i in range(count):
            sigma[h, i] /= total
            force[h, i] = sigma[h, i] * (z[h, i] - answer)
    return answer


@_compiled
def answer_of(chi, z, sigma, force, joint, activation, table, work):
    """Fill the weights ``σ`` and ``∂f/∂χ`` (force) of all heads; return ``f = Σ_h σ_hᵀ z_h``.

    ``chi`` are the scores with their biases, ``z`` the value scores, both ``(H, L)``.
    """
    if joint:
        return _joint(chi, z, sigma, force)
    heads, count = chi.shape
    answer = 0.0
    for h in range(heads):
        for i in range(count):
            work[TRIAL, i] = chi[h, i]
            work[VALUE, i] = z[h, i]
        answer -= residual(work, 0.0, activation, table)
        for i in range(count):
            sigma[h, i] = work[SIGMA, i]
            force[h, i] = work[FORCE, i]
    return answer
