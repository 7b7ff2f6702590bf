"""Plain NumPy reference of the compiled capacity test, for tests: gradients by differences.

Same signature as `slrlab.retrieval.capacity_kernel`. It does not import the kernel.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from slrlab._types import FloatArray
from slrlab.numerics.differences import central_differences

_STEP = 1e-5
_EPSILON = 1e-6


def _features(kind: int, shifts: int, directions: FloatArray, x: FloatArray) -> FloatArray:
    if kind == 0:
        return x
    if kind == 1:
        return np.where(x > 0.0, x + 1.0, np.exp(np.minimum(x, 0.0)))
    if kind == 2:
        halves = np.maximum(np.concatenate([x, -x], axis=-1), 0.0)
        rolled = [halves * np.roll(halves, j, axis=-1) for j in range(1, shifts + 1)]
        return np.concatenate(rolled, axis=-1)
    along = x @ directions.T
    shift = (x**2).sum(axis=-1, keepdims=True) / 2.0 + math.log(2.0 * len(directions)) / 2.0
    features: FloatArray = np.exp(np.concatenate([along, -along], axis=-1) - shift)
    return features


def capacity_losses(
    kind: int,
    shifts: int,
    directions: Any,
    table: Any,
    offsets: Any,
    values: Any,
    queries: Any,
    asked: Any,
    grads: tuple[Any, Any, Any],
) -> FloatArray:
    """Return the loss of each query; add gradients of their mean if ``grads`` has any."""
    arrays = [np.asarray(x, dtype=float) for x in (table, offsets, queries)]
    projections = np.asarray(directions, dtype=float)

    def losses(keys: FloatArray, shift: FloatArray, wanted: FloatArray) -> FloatArray:
        stored = _features(kind, shifts, projections, keys + shift[values])
        products = _features(kind, shifts, projections, wanted) @ np.swapaxes(stored, 1, 2)
        if kind == 0:
            products = np.exp(products / math.sqrt(keys.shape[1]))
        weights = products / (products.sum(axis=-1, keepdims=True) + _EPSILON * (kind > 0))
        own = np.take_along_axis(weights, asked[..., None], axis=-1)[..., 0]
        return np.asarray(((weights**2).sum(axis=-1) - 2.0 * own + 1.0) / 2.0)

    if grads[0].size:
        ends = np.cumsum([x.size for x in arrays])[:-1]

        def mean(point: FloatArray) -> float:
            parts = zip(np.split(point, ends), arrays, strict=True)
            return float(losses(*(part.reshape(x.shape) for part, x in parts)).mean())

        flat = central_differences(mean, np.concatenate([x.ravel() for x in arrays]), _STEP)
        for grad, part in zip(grads, np.split(flat, ends), strict=True):
            grad += part.reshape(grad.shape).astype(grad.dtype)
    return losses(*arrays)


def adam_step(values: Any, slopes: Any, first: Any, second: Any, step: int, rate: float) -> None:
    """Take step number ``step`` of Adam in place (Kingma and Ba 2014, algorithm 1)."""
    first[...] = 0.9 * first + 0.1 * slopes
    second[...] = 0.999 * second + 0.001 * slopes**2
    unbiased = first / (1.0 - 0.9**step), second / (1.0 - 0.999**step)
    values -= rate * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
