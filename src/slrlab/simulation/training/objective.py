"""The training objective on a dataset, its gradient, and predictions.

``F(k, v) = ½Σw(y − b − σ(Xk/√D)ᵀXv/√D)² + ½ r_k|k|² + ½ r_v|v|²``; by default the weights ``w`` of
the samples are 1 and the intercept ``b`` is 0. Independent of how ``F`` is minimised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from slrlab._types import FloatArray
from slrlab.model.activation_code import ActivationCode, activation_code
from slrlab.model.activations import Activation
from slrlab.model.order_parameters import FullOrderParameters
from slrlab.simulation.data.dataset import Dataset, Teacher

_SMALL = 1 << 21  # numbers below which one thread is faster than several
_CHUNK, _MOST_CHUNKS = 1 << 18, 32


@dataclass(frozen=True)
class Weights:
    """Trainable parameters of attention: the vectors ``k, v`` and a bias of the scores.

    An ``intercept`` is added to the answers.
    """

    k: FloatArray
    v: FloatArray
    bias: float = 0.0
    intercept: float = 0.0

    def overlaps(self, teacher: Teacher) -> FullOrderParameters:
        """Return the order parameters with respect to a teacher."""
        return FullOrderParameters.of(self.k, self.v, teacher.keys, teacher.values)

    def to_vector(self, *, learn_bias: bool, learn_intercept: bool = False) -> FloatArray:
        """Return ``(k, v)``, followed by the bias and the intercept if they are learned."""
        ends = [self.bias] * learn_bias + [self.intercept] * learn_intercept
        return np.concatenate([self.k, self.v, ends])


def chunks_of(data: Dataset) -> int:
    """Return the number of chunks of a pass; it depends on the size, not on the threads."""
    if data.tokens.size < _SMALL:
        return 1
    return min(_MOST_CHUNKS, data.samples, data.tokens.size // _CHUNK)


def predict(data: Dataset, activation: Activation, weights: Weights) -> FloatArray:
    """Return the answer ``σ(χ)ᵀz``, plus the intercept, to each sequence."""
    sigma, z = token_weights(data, activation, weights)
    return np.asarray(np.add.reduceat(sigma * z, data.offsets[:-1]) + weights.intercept)


def token_weights(
    data: Dataset, activation: Activation, weights: Weights
) -> tuple[FloatArray, FloatArray]:
    """Return the weight ``σ`` and the value ``z`` of each token, in the order of the rows."""
    from slrlab.simulation.training.gradient_kernel import project

    kind, root = data.tokens.dtype, math.sqrt(data.dim)
    k, v = (weights.k / root).astype(kind), (weights.v / root).astype(kind)
    chi, z = project(data.tokens, k, v, chunks_of(data))
    shown = activation.with_bias(weights.bias)
    sigma = np.empty(z.size)
    for _, rows in data.by_length():
        sigma[rows] = shown.weights(chi[rows])
    return sigma, z


@dataclass
class Objective:
    """``F`` and its gradient as functions of one vector ``(k, v)``, or ``(k, v, bias, b)``.

    The bias is learned if that of the activation is free (None), the intercept ``b`` if
    ``learns_intercept``. ``sample_weight`` is empty for weights of 1. ``passes`` counts the passes
    over the tokens, ``loss`` is the last ``½Σwρ²``.
    """

    data: Dataset
    activation: Activation
    ridge_k: float
    ridge_v: float
    learns_intercept: bool = False
    sample_weight: FloatArray = field(default_factory=lambda: np.empty(0))
    passes: int = 0
    loss: float = math.nan
    _code: ActivationCode = field(init=False)

    def __post_init__(self) -> None:
        self._code = activation_code(self.activation, int(self.data.lengths.max()))

    @property
    def learns_bias(self) -> bool:
        """Whether the bias is one of the parameters."""
        return self.activation.bias is None

    def weights(self, theta: FloatArray) -> Weights:
        """Return the parameters in a vector by their names."""
        dim = self.data.dim
        bias = float(theta[2 * dim]) if self.learns_bias else float(self.activation.bias or 0.0)
        intercept = float(theta[-1]) if self.learns_intercept else 0.0
        return Weights(theta[:dim].copy(), theta[dim : 2 * dim].copy(), bias, intercept)

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return ``F`` and its gradient."""
        from slrlab.simulation.training.gradient_kernel import loss_and_gradient

        data, dim = self.data, self.data.dim
        root, kind = math.sqrt(dim), data.tokens.dtype
        weights = self.weights(theta)
        k, v = (weights.k / root).astype(kind), (weights.v / root).astype(kind)
        labels = data.labels - weights.intercept if self.learns_intercept else data.labels
        given = (data.tokens, data.offsets, labels, self.sample_weight)
        code = (self._code.numbers, self._code.table, self._code.scales)
        loss, rows, grad_bias, residual_sum = loss_and_gradient(
            *given, k, v, weights.bias, *code, chunks_of(data)
        )
        self.passes += 1
        self.loss = float(loss)
        gradient = np.empty_like(theta)
        gradient[:dim] = rows[0] / root + self.ridge_k * weights.k
        gradient[dim : 2 * dim] = rows[1] / root + self.ridge_v * weights.v
        if self.learns_bias:
            gradient[2 * dim] = grad_bias
        if self.learns_intercept:
            gradient[-1] = -residual_sum
        squares = float(weights.k @ weights.k), float(weights.v @ weights.v)
        penalty = self.ridge_k * squares[0] + self.ridge_v * squares[1]
        return self.loss + 0.5 * penalty, gradient
