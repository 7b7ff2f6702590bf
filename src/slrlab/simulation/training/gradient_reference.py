"""Loss and gradient of attention in NumPy: the reference of the compiled kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from slrlab._types import FloatArray
from slrlab.model.activation_code import ActivationNumbers
from slrlab.model.weights_reference import CodedWeights
from slrlab.simulation.data.packing import tables_by_length


def loss_and_gradient(
    tokens: npt.NDArray[Any],
    offsets: npt.NDArray[np.int64],
    labels: FloatArray,
    weights: FloatArray,
    k: FloatArray,
    v: FloatArray,
    bias: float,
    activation: ActivationNumbers,
    table: FloatArray,
    scales: FloatArray,
    chunks: int,
) -> tuple[float, FloatArray, float, float]:
    """Return ``½Σwρ²``, its gradient in ``(k, v)`` as rows and in the bias, and ``Σwρ``.

    Works in float64 with dense Jacobians, one length at a time; ``chunks`` is ignored.
    """
    attention = CodedWeights(activation, table)
    weights = weights if weights.size else np.ones(labels.size)
    loss, gradient, grad_bias, residual_sum = 0.0, np.zeros((2, k.size)), 0.0, 0.0
    for same, rows in tables_by_length(offsets[:-1], np.diff(offsets)):
        x = tokens[rows].astype(float)
        score, shift, factor = scales[rows.shape[1]] if scales.size else (1.0, 0.0, 1.0)
        chi, z = score * (x @ k.astype(float)) + bias + shift, factor * (x @ v.astype(float))
        sigma, jacobian, _ = attention.derivatives(chi, np.zeros_like(chi))
        rho = labels[same] - np.einsum("nl,nl->n", sigma, z)
        weighted = weights[same] * rho
        a = -weighted[:, None] * np.einsum("njl,nj->nl", jacobian, z)
        b = -weighted[:, None] * sigma
        loss += 0.5 * float(weighted @ rho)
        by_k, by_v = np.einsum("nl,nld->d", a, x), np.einsum("nl,nld->d", b, x)
        gradient += np.stack([score * by_k, factor * by_v])
        grad_bias += float(a.sum())
        residual_sum += float(weighted.sum())
    return loss, gradient, grad_bias, residual_sum
