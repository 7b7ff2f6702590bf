r"""NumPy reference of the compiled descent of several heads, for tests: gradients by differences.

Same signature as `slrlab.simulation.heads.sgd_kernel`. It does not import the kernel.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.activation_code import ActivationNumbers
from slrlab.model.heads import joint_softmax
from slrlab.model.weights_reference import CodedWeights
from slrlab.numerics.differences import central_differences

_STEP = 1e-5


def descend_heads(
    tokens: FloatArray,
    offsets: FloatArray,
    labels: FloatArray,
    vectors: FloatArray,
    biases: FloatArray,
    size: float,
    bias_size: float,
    joint: bool,
    activation: ActivationNumbers,
    table: FloatArray,
) -> None:
    """Take a step for each sequence; ``vectors`` and ``biases`` are changed in place."""
    coded, heads = CodedWeights(activation, table), biases.size

    def loss(point: FloatArray, x: FloatArray, label: float) -> float:
        own, bias = point[: vectors.size].reshape(vectors.shape), point[vectors.size :]
        if joint:
            bias = -math.log(heads) - (own[:heads] ** 2).sum(axis=1) / 2.0
        chi, z = own[:heads] @ x.T + bias[:, None], own[heads:] @ x.T
        weights = joint_softmax(chi) if joint else coded.derivatives(chi, z)[0]
        return float((label - (weights * z).sum()) ** 2)

    for n, label in enumerate(labels.tolist()):
        x = tokens[offsets[n] : offsets[n + 1]].astype(float)
        point = np.concatenate([vectors.ravel(), biases])
        gradient = central_differences(partial(loss, x=x, label=label), point, _STEP)
        vectors -= size / 2.0 * gradient[: vectors.size].reshape(vectors.shape)
        biases -= bias_size / 2.0 * gradient[vectors.size :]
