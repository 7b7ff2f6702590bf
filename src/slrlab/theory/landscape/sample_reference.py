r"""Plain NumPy reference of the compiled averages over a sample, for tests: a dense Jacobian.

Same signature as `slrlab.theory.landscape.sample_kernel`. It does not import the kernel.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.activation_code import ActivationNumbers
from slrlab.model.weights_reference import CodedWeights


def sample_means(
    tokens: FloatArray,
    labels: FloatArray,
    square: float,
    k: FloatArray,
    v: FloatArray,
    bias: float,
    activation: ActivationNumbers,
    table: FloatArray,
) -> FloatArray:
    """Return the means of each block, one row a block, as the kernel does."""
    blocks, size, length, width = tokens.shape
    x = tokens.reshape(-1, length, width)
    chi, z = x @ k + bias, x @ v
    sigma, jacobian, _ = CodedWeights(activation, table).derivatives(chi, z)
    rho = labels.reshape(-1) - np.einsum("nl,nl->n", sigma, z)
    g = np.einsum("njl,nj->nl", jacobian, z)
    squares = np.append(square, np.ones(length - 1))
    columns = np.column_stack(
        [
            rho**2,
            -2.0 * rho[:, None] * np.einsum("nl,nld->nd", g, x),
            -2.0 * rho[:, None] * np.einsum("nl,nld->nd", sigma, x),
            -2.0 * rho * g.sum(axis=1),
            4.0 * rho**2 * ((g * g) @ squares),
            4.0 * rho**2 * ((g * sigma) @ squares),
            4.0 * rho**2 * ((sigma * sigma) @ squares),
        ]
    )
    return np.asarray(columns.reshape(blocks, size, -1).mean(axis=1))
