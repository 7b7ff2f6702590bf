r"""Compiled averages over a sample of the effective problem: risk, gradient and noise of SGD.

A sequence is ``L`` tokens of R⁴ with a label. With ``χ = Xk + bias``, ``z = Xv``, the residual ``ρ
= y − σ(χ)ᵀz`` and ``g = Jᵀz`` the pass sums ``ρ²``, its gradient and the squared length of one
stochastic step. Nothing is allocated per sequence; blocks are what runs in parallel, so results do
not depend on the number of threads. `slrlab.theory.landscape.sample_reference` says the same in
NumPy. Independent of tasks.
"""

# notation: docs/notation.md, "Landscape"
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import numpy as np
from numba import njit

from slrlab._types import FloatArray
from slrlab.model.weights_kernel import residual
from slrlab.model.weights_rows import ALL_ROWS, FORCE, SAFE_MATH, SIGMA, TRIAL, VALUE
from slrlab.numerics.threads import run_ranges

_SIZE = 4  # coordinates of a token
_COLUMNS = 2 * _SIZE + 5
_compiled = njit(cache=True, error_model="numpy", fastmath=SAFE_MATH)


@_compiled
def _one(sample, tokens, labels, square, k, v, bias, activation, table, work, sums):
    """Add the contribution of one sequence."""
    count = work.shape[1]
    for i in range(count):
        chi, z = bias, 0.0
        for d in range(_SIZE):
            chi += tokens[sample, i, d] * k[d]
            z += tokens[sample, i, d] * v[d]
        work[TRIAL, i], work[VALUE, i] = chi, z
    rho = residual(work, labels[sample], activation, table)
    gg, gs, ss, push = 0.0, 0.0, 0.0, 0.0
    for i in range(count):
        sigma, g = work[SIGMA, i], work[FORCE, i]
        push += g
        weight = square if i == 0 else 1.0
        gg += weight * g * g
        gs += weight * g * sigma
        ss += weight * sigma * sigma
        for d in range(_SIZE):
            sums[1 + d] -= 2.0 * rho * g * tokens[sample, i, d]
            sums[1 + _SIZE + d] -= 2.0 * rho * sigma * tokens[sample, i, d]
    loss = rho * rho
    sums[0] += loss
    sums[2 * _SIZE + 1] -= 2.0 * rho * push
    sums[2 * _SIZE + 2] += 4.0 * loss * gg
    sums[2 * _SIZE + 3] += 4.0 * loss * gs
    sums[2 * _SIZE + 4] += 4.0 * loss * ss


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SAFE_MATH)
def sample_blocks(tokens, labels, square, k, v, bias, activation, table, blocks, sums):
    """Fill the rows of ``sums`` with the means over blocks of sequences.

    ``blocks`` are the first of them and the one after the last.
    """
    size, count = tokens.shape[1], tokens.shape[2]
    work = np.empty((ALL_ROWS, count))
    for block in range(blocks[0], blocks[1]):
        own, answers, total = tokens[block], labels[block], sums[block]
        for i in range(size):
            _one(i, own, answers, square, k, v, bias, activation, table, work, total)
        for i in range(total.size):
            total[i] /= size


def sample_means(
    tokens: FloatArray,
    labels: FloatArray,
    square: float,
    k: FloatArray,
    v: FloatArray,
    bias: float,
    activation: tuple[float, ...],
    table: FloatArray,
) -> FloatArray:
    """Return the means of each block, one row a block.

    ``tokens`` has shape ``(blocks, size, L, 4)``, ``labels`` ``(blocks, size)``. Columns: risk,
    gradient in ``k`` (4), in ``v`` (4), in the bias, ``4ρ²|g|²``, ``4ρ² g·σ``, ``4ρ²|σ|²``; in
    these products the first token, the relevant one, has the factor ``square``.
    """
    sums = np.zeros((labels.shape[0], _COLUMNS))
    given = (tokens, labels, square, k, v, bias, activation, table)
    run_ranges(lambda part: sample_blocks(*given, part, sums), labels.shape[0])
    return sums
