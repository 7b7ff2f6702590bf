r"""Compiled passes over a matrix of tokens: loss and gradient of attention, near memory speed.

A sequence is ``L`` consecutive rows of ``tokens``. While its rows are in cache the kernel computes
scores ``χ = Xk`` and ``z = Xv``, the residual ``ρ = y − σ(χ)ᵀz``, and adds the terms

    ∂/∂k += Σ_ℓ a_ℓ x_ℓ,  a = −wρ Jᵀz,      ∂/∂v += Σ_ℓ b_ℓ x_ℓ,  b = −wρ σ

with ``J`` the Jacobian of the weights and ``w`` the weight of the sequence in the loss ``½Σwρ²``,
so one gradient reads the tokens once. Row ``L`` of ``scales``, if it has any, is what an activation
that depends on the length does to the scores, the bias and the weights of such sequences. Rows
are processed three at a time: the vectors are then loaded a third as often, which takes 1.2 instead
of 1.7 times a plain read of memory. Sums over `_FLUSH` sequences have the precision of the tokens,
the sum of these float64. The number of chunks does not depend on the number of threads, so neither
do the results. `slrlab.simulation.training.gradient_reference` is the NumPy reference. Independent
of tasks, teachers and the factor ``1/√D``, which is part of the vectors it is given.
"""

# notation: docs/notation.md, "Trained attention"
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numba import njit

from slrlab._types import FloatArray
from slrlab.model.weights_kernel import residual
from slrlab.model.weights_rows import ALL_ROWS, FORCE, SAFE_MATH, SIGMA, TRIAL, VALUE
from slrlab.numerics.threads import run_ranges

Tokens: TypeAlias = npt.NDArray[Any]
"""Numbers of single or double precision."""
_FLUSH = 64
_compiled = njit(cache=True, nogil=True, error_model="numpy", fastmath=SAFE_MATH)


@_compiled
def _dot_one(x, k, v):
    zero = x.dtype.type(0.0)
    chi, z = zero, zero
    for d in range(x.size):
        chi += x[d] * k[d]
        z += x[d] * v[d]
    return chi, z


@_compiled
def _dot_two(x, y, k, v):
    zero = x.dtype.type(0.0)
    chi_x, z_x, chi_y, z_y = zero, zero, zero, zero
    for d in range(x.size):
        chi_x += x[d] * k[d]
        z_x += x[d] * v[d]
        chi_y += y[d] * k[d]
        z_y += y[d] * v[d]
    return chi_x, z_x, chi_y, z_y


@_compiled
def _dot_three(x, y, w, k, v):
    zero = x.dtype.type(0.0)
    chi_x, z_x, chi_y, z_y, chi_w, z_w = zero, zero, zero, zero, zero, zero
    for d in range(x.size):
        chi_x += x[d] * k[d]
        z_x += x[d] * v[d]
        chi_y += y[d] * k[d]
        z_y += y[d] * v[d]
        chi_w += w[d] * k[d]
        z_w += w[d] * v[d]
    return chi_x, z_x, chi_y, z_y, chi_w, z_w


@_compiled
def _scores(tokens, first, last, k, v, out, row, column):
    """Fill rows TRIAL and ``row`` of ``out``, from a column on, with ``χ`` and ``z`` of tokens."""
    rest, shift = last - (last - first) % 3, column - first
    for at in range(first, rest, 3):
        i = at + shift
        dots = _dot_three(tokens[at], tokens[at + 1], tokens[at + 2], k, v)
        out[TRIAL, i], out[row, i] = dots[0], dots[1]
        out[TRIAL, i + 1], out[row, i + 1] = dots[2], dots[3]
        out[TRIAL, i + 2], out[row, i + 2] = dots[4], dots[5]
    i = rest + shift
    if last - rest == 2:
        pair = _dot_two(tokens[rest], tokens[rest + 1], k, v)
        out[TRIAL, i], out[row, i] = pair[0], pair[1]
        out[TRIAL, i + 1], out[row, i + 1] = pair[2], pair[3]
    elif last - rest == 1:
        out[TRIAL, i], out[row, i] = _dot_one(tokens[rest], k, v)


@_compiled
def _add_one(x, a_x, b_x, grad_k, grad_v):
    for d in range(x.size):
        grad_k[d] += a_x * x[d]
        grad_v[d] += b_x * x[d]


@_compiled
def _add_two(x, y, a_x, b_x, a_y, b_y, grad_k, grad_v):
    for d in range(x.size):
        grad_k[d] += a_x * x[d] + a_y * y[d]
        grad_v[d] += b_x * x[d] + b_y * y[d]


@_compiled
def _add_three(x, y, w, a_x, b_x, a_y, b_y, a_w, b_w, grad_k, grad_v):
    for d in range(x.size):
        grad_k[d] += a_x * x[d] + a_y * y[d] + a_w * w[d]
        grad_v[d] += b_x * x[d] + b_y * y[d] + b_w * w[d]


@_compiled
def _add_rows(tokens, first, last, a, b, grad_k, grad_v):
    """Add ``Σ a_i x_i`` and ``Σ b_i x_i`` over tokens first to last."""
    rest = last - (last - first) % 3
    for at in range(first, rest, 3):
        i = at - first
        x, y, w = tokens[at], tokens[at + 1], tokens[at + 2]
        _add_three(x, y, w, a[i], b[i], a[i + 1], b[i + 1], a[i + 2], b[i + 2], grad_k, grad_v)
    i = rest - first
    if last - rest == 2:
        x, y = tokens[rest], tokens[rest + 1]
        _add_two(x, y, a[i], b[i], a[i + 1], b[i + 1], grad_k, grad_v)
    elif last - rest == 1:
        _add_one(tokens[rest], a[i], b[i], grad_k, grad_v)


@_compiled
def _coefficients(work, bias, label, weight, a, b, activation, table, scales):
    """Turn scores into the coefficients ``a, b`` of the tokens; return ``ρ`` and the bias's."""
    count = work.shape[1]
    score, shift, factor = 1.0, 0.0, 1.0
    if scales.size:
        score, shift, factor = scales[count, 0], scales[count, 1], scales[count, 2]
    for i in range(count):
        work[TRIAL, i] = score * work[TRIAL, i] + (bias + shift)
        work[VALUE, i] *= factor
    rho = residual(work, label, activation, table)
    weighted = weight * rho
    total = 0.0
    for i in range(count):
        force = -weighted * work[FORCE, i]
        total += force
        a[i] = score * force
        b[i] = -weighted * factor * work[SIGMA, i]
    return rho, total


@_compiled
def gradient_chunks(
    tokens, offsets, labels, weights, k, v, bias, activation, table, scales, chunks, parts, sums
):
    """Fill ``parts`` with the gradients of the chunks, ``sums`` with loss, ``Σ a`` and ``Σwρ``.

    ``chunks`` are the first of them and the one after the last.
    """
    longest = 1
    for i in range(labels.size):
        longest = max(longest, offsets[i + 1] - offsets[i])
    work = np.empty((ALL_ROWS, longest))
    a, b = np.empty(longest, tokens.dtype), np.empty(longest, tokens.dtype)
    grad_k, grad_v = np.zeros(k.size, tokens.dtype), np.zeros(k.size, tokens.dtype)
    for c in range(chunks[0], chunks[1]):
        low, high = c * labels.size // len(parts), (c + 1) * labels.size // len(parts)
        for i in range(low, high):
            weight = weights[i] if weights.size else 1.0
            first, last = offsets[i], offsets[i + 1]
            _scores(tokens, first, last, k, v, work, VALUE, 0)
            used = work[:, : last - first]
            rho, grad_bias = _coefficients(
                used, bias, labels[i], weight, a, b, activation, table, scales
            )
            sums[c, 0] += 0.5 * weight * rho * rho
            sums[c, 1] += grad_bias
            sums[c, 2] += weight * rho
            _add_rows(tokens, first, last, a, b, grad_k, grad_v)
            if (i - low) % _FLUSH == _FLUSH - 1 or i == high - 1:
                for d in range(k.size):
                    parts[c, 0, d] += grad_k[d]
                    parts[c, 1, d] += grad_v[d]
                grad_k[:] = 0.0
                grad_v[:] = 0.0


def loss_and_gradient(
    tokens: Tokens,
    offsets: npt.NDArray[np.int64],
    labels: FloatArray,
    weights: FloatArray,
    k: Tokens,
    v: Tokens,
    bias: float,
    activation: tuple[float, ...],
    table: FloatArray,
    scales: FloatArray,
    chunks: int,
) -> tuple[float, FloatArray, float, float]:
    """Return ``½Σwρ²``, its gradient in ``(k, v)`` and in the bias, and ``Σwρ``.

    ``weights`` holds one number for each sequence, or is empty for weights of 1. An intercept that
    is subtracted from the labels has the gradient ``−Σwρ``.
    """
    parts, sums = np.zeros((chunks, 2, k.size)), np.zeros((chunks, 3))
    given = (tokens, offsets, labels, weights, k, v, bias, activation, table, scales)
    run_ranges(lambda part: gradient_chunks(*given, part, parts, sums), chunks)
    loss, grad_bias, residuals = sums.sum(axis=0).tolist()
    return loss, np.asarray(parts.sum(axis=0)), grad_bias, residuals


@_compiled
def project_chunks(tokens, k, v, count, chunks, out):
    """Fill the columns of ``out`` of some of ``count`` chunks with scores."""
    rows = tokens.shape[0]
    for c in range(chunks[0], chunks[1]):
        low, high = c * rows // count, (c + 1) * rows // count
        _scores(tokens, low, high, k, v, out, 1, low)


def project(tokens: Tokens, k: Tokens, v: Tokens, chunks: int) -> FloatArray:
    """Return the scores ``(Xk, Xv)`` as rows in float64."""
    out = np.empty((2, tokens.shape[0]))
    run_ranges(lambda part: project_chunks(tokens, k, v, chunks, part, out), chunks)
    return out


@_compiled
def combine_chunks(tokens, a, b, chunks, parts):
    """Fill ``parts`` with the sums of the chunks."""
    count, dim = tokens.shape
    sums_a, sums_b = np.zeros(dim, tokens.dtype), np.zeros(dim, tokens.dtype)
    for c in range(chunks[0], chunks[1]):
        low, high = c * count // len(parts), (c + 1) * count // len(parts)
        for start in range(low, high, 3 * _FLUSH):
            stop = min(high, start + 3 * _FLUSH)
            _add_rows(tokens, start, stop, a[start:stop], b[start:stop], sums_a, sums_b)
            for d in range(dim):
                parts[c, 0, d] += sums_a[d]
                parts[c, 1, d] += sums_b[d]
            sums_a[:] = 0.0
            sums_b[:] = 0.0


def combine(tokens: Tokens, a: Tokens, b: Tokens, chunks: int) -> FloatArray:
    """Return ``(Xᵀa, Xᵀb)`` as rows in float64; ``a, b`` have the type of the tokens."""
    parts = np.zeros((chunks, 2, tokens.shape[1]))
    run_ranges(lambda part: combine_chunks(tokens, a, b, part, parts), chunks)
    return np.asarray(parts.sum(axis=0))


@_compiled
def descend(tokens, offsets, labels, order, k, v, bias, rate, shrink, activation, table, scales):
    """Take one step of stochastic descent per sequence in ``order``; return the sum of ``ρ²``.

    ``k, v`` change in place: ``k ← shrink_k·k − rate·∂½ρ²/∂k``. ``rate`` and ``shrink`` hold a
    number for the keys, the values and the bias (which is not shrunk). ``ρ`` is that before each
    step. Also returns the bias. ``k, v`` may be float64 with float32 tokens: a single step is small
    compared with the vectors, and float32 would round a shrinkage close to 1 away.
    """
    longest = 1
    for i in order:
        longest = max(longest, offsets[i + 1] - offsets[i])
    work = np.empty((ALL_ROWS, longest))
    a, b = np.empty(longest, tokens.dtype), np.empty(longest, tokens.dtype)
    rate_k, rate_v, rate_bias = rate
    keep_k, keep_v = k.dtype.type(shrink[0]), v.dtype.type(shrink[1])
    squares = 0.0
    for i in order:
        first, last = offsets[i], offsets[i + 1]
        _scores(tokens, first, last, k, v, work, VALUE, 0)
        used = work[:, : last - first]
        rho, grad_bias = _coefficients(used, bias, labels[i], 1.0, a, b, activation, table, scales)
        squares += rho * rho
        bias -= rate_bias * grad_bias
        for j in range(last - first):
            a[j] *= -rate_k
            b[j] *= -rate_v
        if shrink[0] != 1.0 or shrink[1] != 1.0:
            for d in range(k.size):
                k[d] *= keep_k
                v[d] *= keep_v
        _add_rows(tokens, first, last, a, b, k, v)
    return squares, bias
