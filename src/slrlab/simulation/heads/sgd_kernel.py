r"""Compiled stochastic descent of several heads, one sequence after the other.

Row ``h`` of ``vectors`` is ``k_h/√D``, row ``H + h`` is ``v_h/√D``. A step subtracts ``size/2``
times the gradient of ``ρ²``. `slrlab.simulation.heads.sgd_reference` is the NumPy reference.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

import math

import numpy as np
from numba import njit

from slrlab.model.heads_kernel import answer_of
from slrlab.model.weights_rows import ALL_ROWS, SAFE_MATH


@njit(cache=True, error_model="numpy", fastmath=SAFE_MATH)
def descend_heads(
    tokens, offsets, labels, vectors, biases, size, bias_size, joint, activation, table
):
    """Take a step for each sequence; ``vectors`` and ``biases`` are changed in place."""
    heads, dim = biases.size, vectors.shape[1]
    longest = 0
    for n in range(labels.size):
        longest = max(longest, offsets[n + 1] - offsets[n])
    fields, rates = np.empty((2 * heads, longest)), np.empty((2 * heads, longest))
    work = np.empty((ALL_ROWS, longest))
    for n in range(labels.size):
        first, count = offsets[n], offsets[n + 1] - offsets[n]
        for a in range(2 * heads):
            shift = 0.0
            if a < heads:
                shift = biases[a]
                if joint:
                    square = 0.0
                    for d in range(dim):
                        square += vectors[a, d] * vectors[a, d]
                    shift = -math.log(heads) - square / 2.0
            for i in range(count):
                field = 0.0
                for d in range(dim):
                    field += tokens[first + i, d] * vectors[a, d]
                fields[a, i] = field + shift
        rho = labels[n] - answer_of(
            fields[:heads, :count],
            fields[heads:, :count],
            rates[heads:, :count],
            rates[:heads, :count],
            joint,
            activation,
            table,
            work[:, :count],
        )
        step = size * rho
        for a in range(2 * heads):
            push = 0.0
            for i in range(count):
                push += rates[a, i]
            if a < heads:
                biases[a] += bias_size * rho * push
                if joint:  # the bias falls with the squared length of the keys
                    shrink = 1.0 - step * push
                    for d in range(dim):
                        vectors[a, d] *= shrink
            for i in range(count):
                weight = step * rates[a, i]
                for d in range(dim):
                    vectors[a, d] += weight * tokens[first + i, d]
