r"""Plain NumPy reference of the compiled pass over a sample of several heads, for tests.

Same signature as `slrlab.theory.heads.sample_kernel`. It does not import the kernel.
"""

from __future__ import annotations

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.activation_code import ActivationNumbers
from slrlab.model.heads import joint_softmax
from slrlab.model.weights_reference import CodedWeights


def heads_rates(
    fields: FloatArray,
    labels: FloatArray,
    biases: FloatArray,
    joint: bool,
    activation: ActivationNumbers,
    table: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return rates and residuals, as the kernel does."""
    heads = biases.size
    rows = fields.reshape(-1, *fields.shape[2:]).transpose(0, 2, 1)
    chi, z = rows[:, :heads] + biases[:, None], rows[:, heads:]
    if joint:
        sigma = joint_softmax(chi)
        answer = (sigma * z).sum(axis=(1, 2))
        force = sigma * (z - answer[:, None, None])
    else:
        coded = CodedWeights(activation, table)
        parts = [coded.derivatives(chi[:, h], z[:, h])[:2] for h in range(heads)]
        sigma = np.stack([part[0] for part in parts], axis=1)
        forces = [np.einsum("njl,nj->nl", part[1], z[:, h]) for h, part in enumerate(parts)]
        force = np.stack(forces, axis=1)
        answer = (sigma * z).sum(axis=(1, 2))
    rates = np.concatenate([force, sigma], axis=1).transpose(0, 2, 1)
    return rates.reshape(fields.shape), labels - answer.reshape(labels.shape)
