r"""Compiled residuals and rates of a sample of sequences, for several heads.

``fields`` holds, for each sequence and token, the key scores of all heads and then their value
scores. The pass fills ``rates`` with ``∂f/∂χ`` (keys) and ``σ = ∂f/∂z`` (values) and returns the
residuals ``ρ = y − f``; gradients are products of rates and tokens. It takes milliseconds, too
little for threads. `slrlab.theory.heads.sample_reference` is the NumPy reference.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import numpy as np
from numba import njit

from slrlab._types import FloatArray
from slrlab.model.heads_kernel import answer_of
from slrlab.model.weights_rows import ALL_ROWS, SAFE_MATH


@njit(cache=True, error_model="numpy", fastmath=SAFE_MATH)
def _block(fields, labels, biases, joint, activation, table, rates, rho):
    """Fill rates and residuals of a block."""
    size, count, heads = fields.shape[0], fields.shape[1], fields.shape[2] // 2
    # views, as in descent: what they go to is compiled once for both
    rows = np.empty((4 * heads, count))
    chi, z = rows[:heads, :count], rows[heads : 2 * heads, :count]
    force, sigma = rows[2 * heads : 3 * heads, :count], rows[3 * heads :, :count]
    work = np.empty((ALL_ROWS, count))[:, :count]
    for s in range(size):
        for i in range(count):
            for h in range(heads):
                chi[h, i] = fields[s, i, h] + biases[h]
                z[h, i] = fields[s, i, heads + h]
        answer = answer_of(chi, z, sigma, force, joint, activation, table, work)
        rho[s] = labels[s] - answer
        for i in range(count):
            for h in range(heads):
                rates[s, i, h] = force[h, i]
                rates[s, i, heads + h] = sigma[h, i]


def heads_rates(
    fields: FloatArray,
    labels: FloatArray,
    biases: FloatArray,
    joint: bool,
    activation: tuple[float, ...],
    table: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the rates ``(blocks, size, L, 2H)`` and the residuals ``(blocks, size)``."""
    rates, rho = np.empty(fields.shape), np.empty(labels.shape)
    code = (biases, joint, activation, table)
    for block in range(fields.shape[0]):
        _block(fields[block], labels[block], *code, rates[block], rho[block])
    return rates, rho
