"""Loss and gradient of attention in plain NumPy: what the compiled kernel is tested against."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from slrlab._types import FloatArray
from slrlab.model.weights_reference import ActivationNumbers, CodedWeights


def loss_and_gradient(
    tokens: npt.NDArray[Any],
    offsets: npt.NDArray[np.int64],
    labels: FloatArray,
    k: FloatArray,
    v: FloatArray,
    bias: float,
    activation: ActivationNumbers,
    table: FloatArray,
    chunks: int = 1,
) -> tuple[float, FloatArray, float]:
    """Return ``½Σρ²``, its gradient in ``(k, v)`` as rows, and in the bias."""
    given = (tokens, offsets, labels, np.ones(labels.size))
    return weighted_loss_and_gradient(*given, k, v, bias, activation, table, chunks)[:3]


def weighted_loss_and_gradient(
    tokens: npt.NDArray[Any],
    offsets: npt.NDArray[np.int64],
    labels: FloatArray,
    weights: FloatArray,
    k: FloatArray,
    v: FloatArray,
    bias: float,
    activation: ActivationNumbers,
    table: FloatArray,
    chunks: int = 1,
) -> tuple[float, FloatArray, float, float]:
    """Return ``½Σwρ²``, its gradient in ``(k, v)`` as rows and in the bias, and ``Σwρ``.

    Works in float64 with dense Jacobians, one length at a time; ``chunks`` is ignored.
    """
    attention = CodedWeights(activation, table)
    lengths = np.diff(offsets)
    loss, gradient, push, left = 0.0, np.zeros((2, k.size)), 0.0, 0.0
    for length in np.unique(lengths):
        same = lengths == length
        rows = offsets[:-1][same, None] + np.arange(length)
        x = tokens[rows].astype(float)
        chi, z = x @ k.astype(float) + bias, x @ v.astype(float)
        sigma, jacobian, _ = attention.derivatives(chi, np.zeros_like(chi))
        rho = labels[same] - np.einsum("nl,nl->n", sigma, z)
        pull = weights[same] * rho
        a = -pull[:, None] * np.einsum("njl,nj->nl", jacobian, z)
        b = -pull[:, None] * sigma
        loss += 0.5 * float(pull @ rho)
        gradient += np.stack([np.einsum("nl,nld->d", a, x), np.einsum("nl,nld->d", b, x)])
        push += float(a.sum())
        left += float(pull.sum())
    return loss, gradient, push, left
