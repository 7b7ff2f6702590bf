"""Loss and gradient of the capacity test, compiled; `capacity_reference` is the same in NumPy.

A token is a row of the key table plus a row of the value table. Tokens are computed twice, for the
weights and for the gradient, so that nothing of the size of a batch is kept. Independent of how the
layer is trained.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math

import numpy as np
from numba import njit

from slrlab.model.weights_rows import SAFE_MATH

_compiled = njit(cache=True, error_model="numpy", fastmath=SAFE_MATH)
SOFTMAX, ELU, DPFP, FAVOR = range(4)
EPSILON = 1e-6  # constant of the published code: weights vanish below it


@_compiled
def _features(kind, shifts, directions, x, half, out):
    """Write the features of a token into ``out``; ``half`` is scratch of size ``2d``."""
    d = x.shape[0]
    if kind == SOFTMAX:
        for i in range(d):
            out[i] = x[i]
    elif kind == ELU:
        for i in range(d):
            out[i] = x[i] + np.float32(1.0) if x[i] > 0.0 else math.exp(x[i])
    elif kind == DPFP:
        for i in range(d):
            half[i] = max(x[i], np.float32(0.0))
            half[d + i] = max(-x[i], np.float32(0.0))
        for j in range(shifts):
            first = 2 * d * j
            for i in range(j + 1):
                out[first + i] = half[i] * half[2 * d + i - j - 1]
            for i in range(j + 1, 2 * d):
                out[first + i] = half[i] * half[i - j - 1]
    else:
        count = directions.shape[0]
        shift = np.float32(math.log(2.0 * count) / 2.0)
        for i in range(d):
            shift += x[i] * x[i] / np.float32(2.0)
        for r in range(count):
            along = np.float32(0.0)
            for i in range(d):
                along += directions[r, i] * x[i]
            out[r] = math.exp(along - shift)
            out[count + r] = math.exp(-along - shift)


@_compiled
def _pull_back(kind, shifts, directions, x, half, out, slope, dx):
    """Add the gradient in the token, given features ``out`` and the gradient in them, ``slope``."""
    d = x.shape[0]
    if kind == SOFTMAX:
        for i in range(d):
            dx[i] += slope[i]
    elif kind == ELU:
        for i in range(d):
            dx[i] += slope[i] * min(out[i], np.float32(1.0))
    elif kind == DPFP:
        for j in range(shifts):
            for i in range(2 * d):
                other = i - j - 1 if i > j else 2 * d + i - j - 1
                own = slope[2 * d * j + i]
                if half[i] > 0.0:
                    if i < d:
                        dx[i] += own * half[other]
                    else:
                        dx[i - d] -= own * half[other]
                if half[other] > 0.0:
                    if other < d:
                        dx[other] += own * half[i]
                    else:
                        dx[other - d] -= own * half[i]
    else:
        count = directions.shape[0]
        total = np.float32(0.0)
        for r in range(count):
            up, down = slope[r] * out[r], slope[count + r] * out[count + r]
            total += up + down
            for i in range(d):
                dx[i] += (up - down) * directions[r, i]
        for i in range(d):
            dx[i] -= total * x[i]


@_compiled
def _dot(a, b):
    total = np.float32(0.0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@_compiled
def _weigh(kind, products, weights):
    """Turn products into weights; return their sum before it is divided out."""
    N = products.shape[0]
    total = np.float32(0.0)
    if kind == SOFTMAX:
        largest = products.max()
        for j in range(N):
            weights[j] = math.exp(products[j] - largest)
            total += weights[j]
    else:
        total = np.float32(EPSILON)
        for j in range(N):
            weights[j] = products[j]
            total += products[j]
    for j in range(N):
        weights[j] /= total
    return total


@_compiled
def capacity_losses(kind, shifts, directions, table, offsets, values, queries, asked, grads):
    """Return the loss of each query; add gradients of their mean if ``grads`` has any.

    ``table`` and ``offsets`` ``(N, d)`` give key ``j`` of sequence ``b`` the token ``table[j] +
    offsets[values[b, j]]``. ``queries[b, c]`` asks for key ``asked[b, c]``. ``directions`` has a
    random projection a row. ``grads`` are arrays like ``table``, ``offsets`` and ``queries``.
    """
    B, Q, d = queries.shape
    N = table.shape[0]
    m = 2 * directions.shape[0] if kind == FAVOR else (2 * d * shifts if kind == DPFP else d)
    scale = np.float32(1.0 / math.sqrt(d)) if kind == SOFTMAX else np.float32(1.0)
    losses = np.zeros((B, Q))
    x, half = np.zeros(d, np.float32), np.zeros(2 * d, np.float32)
    of_query, of_key = np.zeros((Q, m), np.float32), np.zeros(m, np.float32)
    halves = np.zeros((Q, 2 * d), np.float32)
    products, weights = np.zeros((Q, N), np.float32), np.zeros((Q, N), np.float32)
    totals = np.zeros(Q, np.float32)
    slope, slopes = np.zeros(m, np.float32), np.zeros((Q, m), np.float32)
    push = np.zeros(d, np.float32)
    for b in range(B):
        for c in range(Q):
            _features(kind, shifts, directions, queries[b, c], halves[c], of_query[c])
        for j in range(N):
            shift = offsets[values[b, j]]
            for i in range(d):
                x[i] = table[j, i] + shift[i]
            _features(kind, shifts, directions, x, half, of_key)
            for c in range(Q):
                products[c, j] = scale * _dot(of_query[c], of_key)
        for c in range(Q):
            totals[c] = _weigh(kind, products[c], weights[c])
            squares = 0.0
            for j in range(N):
                squares += weights[c, j] * weights[c, j]
            losses[b, c] = (squares - 2.0 * weights[c, asked[b, c]] + 1.0) / 2.0
        if grads[0].shape[0] == 0:
            continue
        for c in range(Q):
            # products become the gradient in the products; weights sum to 1 or, with ε, to less
            mean = np.float32(0.0)
            for j in range(N):
                products[c, j] = weights[c, j] - np.float32(1.0 if j == asked[b, c] else 0.0)
                mean += products[c, j] * weights[c, j]
            for j in range(N):
                inner = products[c, j] - mean
                outer = weights[c, j] if kind == SOFTMAX else np.float32(1.0) / totals[c]
                products[c, j] = scale * inner * outer / np.float32(B * Q)
        slopes[:] = 0.0
        for j in range(N):
            shift = offsets[values[b, j]]
            for i in range(d):
                x[i] = table[j, i] + shift[i]
            _features(kind, shifts, directions, x, half, of_key)
            slope[:] = 0.0
            for c in range(Q):
                for i in range(m):
                    slope[i] += products[c, j] * of_query[c, i]
                    slopes[c, i] += products[c, j] * of_key[i]
            push[:] = 0.0
            _pull_back(kind, shifts, directions, x, half, of_key, slope, push)
            for i in range(d):  # a token is the sum of a row of each table
                grads[0][j, i] += push[i]
                grads[1][values[b, j], i] += push[i]
        for c in range(Q):
            own = grads[2][b, c]
            _pull_back(
                kind, shifts, directions, queries[b, c], halves[c], of_query[c], slopes[c], own
            )
    return losses


@_compiled
def adam_step(values, slopes, first, second, step, rate):
    """Take step number ``step`` of Adam in place, with the usual constants (Kingma 2014)."""
    fast, slow = np.float32(0.9), np.float32(0.999)
    one, small = np.float32(1.0), np.float32(1e-8)
    size = np.float32(rate / (1.0 - 0.9**step))
    root = np.float32(1.0 / math.sqrt(1.0 - 0.999**step))
    for i in range(values.shape[0]):
        first[i] = fast * first[i] + (one - fast) * slopes[i]
        second[i] = slow * second[i] + (one - slow) * slopes[i] * slopes[i]
        values[i] -= size * first[i] / (math.sqrt(second[i]) * root + small)
