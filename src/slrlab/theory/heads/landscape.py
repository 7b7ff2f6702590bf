r"""Risk, gradient and noise of several heads, as averages over a fixed sample.

As ``D → ∞`` the risk depends on the vectors of the heads through their overlaps with the teachers
and with each other only: the effective problem has vectors of ``R^{2K+2H}`` on a basis of the
``2K`` teachers and ``2H`` free directions. One sample serves a whole flow, so that the gradient is
exactly that of its risk. Independent of time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from slrlab import _checks
from slrlab._result import Estimate
from slrlab._types import FloatArray
from slrlab.model.activation_code import ActivationCode, activation_code
from slrlab.model.activations import SOFTMAX, Activation
from slrlab.model.heads import MultiHeadSLR
from slrlab.numerics.qmc import normal_replicates
from slrlab.theory.landscape.sampled import TokenGroup

BLOCKS = 8
_MOST_ENTRIES = 1 << 27  # numbers of a sample: one GiB
_SOBOL = 512  # dimensions up to which quasi-random points are drawn


@dataclass(frozen=True)
class HeadsSlope:
    """Risk at a point, its standard error and gradients, and the noise of a stochastic step.

    ``noise[a, b]`` is ``4E[ρ² Σ_ℓ g^a_ℓ g^b_ℓ]``: a step of rate ``η`` on one sequence adds
    ``(η/D)·η`` times it to the products of vectors over ``D``.
    """

    risk: float
    error: float
    vectors: FloatArray
    biases: FloatArray
    noise: FloatArray


@dataclass(frozen=True)
class HeadsLandscape:
    """The landscape of several heads on a sample of effective tokens.

    ``activation`` is None for the Bayes-softmax. Its biases are then not free:
    ``b_h = log(1/H) − |k_h|²/2``, which is that of the posterior at the teachers.
    """

    task: MultiHeadSLR
    heads: int
    activation: Activation | None
    code: ActivationCode
    groups: tuple[TokenGroup, ...]

    @classmethod
    def draw(
        cls,
        task: MultiHeadSLR,
        activation: Activation | None,
        *,
        heads: int,
        samples: int,
        free: int | None = None,
        seed: int = 0,
    ) -> HeadsLandscape:
        """Draw a sample of sequences; ``free`` is the number of free directions, ``2H`` if None.

        Raises
        ------
        ValueError
            If the sample does not fit into a gigabyte.
        """
        heads = _checks.integer(heads, "heads")
        samples = _checks.integer(samples, "samples", low=8 * BLOCKS)
        width = 2 * task.directions + (2 * heads if free is None else free)
        log2_size = (samples - 1).bit_length() - 3
        shares = task.length.shares(log2_size)
        entries = sum(BLOCKS * n * width << log2 for n, _, log2 in shares)
        if entries > _MOST_ENTRIES:
            fits = samples * _MOST_ENTRIES // entries
            _checks.fail("samples", f"at most {fits} for these heads and lengths", samples)
        code = activation_code(activation or SOFTMAX, task.length.longest)
        groups = [_draw(task, n, p, log2, width, (seed, n)) for n, p, log2 in shares]
        return cls(task, heads, activation, code, tuple(groups))

    @property
    def learns_bias(self) -> bool:
        """Whether each head learns a bias of its own."""
        return self.activation is not None and self.activation.bias is None

    def biases_of(self, vectors: FloatArray, biases: FloatArray) -> FloatArray:
        """Return the biases of a point: given ones, or those of the Bayes-softmax."""
        if self.activation is not None:
            return biases
        squares = np.einsum("hd,hd->h", vectors[: self.heads], vectors[: self.heads])
        return np.asarray(-math.log(self.heads) - squares / 2.0)

    def __call__(self, vectors: FloatArray, biases: FloatArray) -> HeadsSlope:
        """Return the risk of this sample, its exact gradient, and the noise."""
        given = self.biases_of(vectors, biases)
        risks, slopes = np.zeros(BLOCKS), np.zeros(self.heads)
        gradient, noise = np.zeros(vectors.shape), np.zeros((2 * self.heads,) * 2)
        for group in self.groups:
            score, shift, factor = self.code.scale(group.tokens.shape[2])
            scale = np.repeat([score, factor], self.heads)[:, None]
            rates, rho = self._rates(group, scale * vectors, given + shift)
            risks += group.weight * (rho**2).mean(axis=1)
            rates = rates.reshape(-1, len(vectors))
            rho = np.repeat(rho.ravel(), group.tokens.shape[2])[:, None]
            pushed, weight = rho * rates, group.weight / group.labels.size
            tokens = group.tokens.reshape(len(rates), -1)
            gradient -= 2.0 * weight * scale * (pushed.T @ tokens)
            slopes -= 2.0 * weight * pushed[:, : self.heads].sum(axis=0)
            noise += 4.0 * weight * (scale * scale.T) * (pushed.T @ pushed)
        if self.activation is None:  # the biases fall with the squared lengths of the keys
            gradient[: self.heads] -= slopes[:, None] * vectors[: self.heads]
        risk = Estimate.of(risks)
        return HeadsSlope(risk.value, risk.error, gradient, slopes, noise)

    def _rates(
        self, group: TokenGroup, vectors: FloatArray, biases: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``∂f/∂χ`` and ``∂f/∂z`` of all heads and tokens, and the residuals."""
        from slrlab.theory.heads.sample_kernel import heads_rates

        shape = (*group.tokens.shape[:3], len(vectors))
        fields = (group.tokens.reshape(-1, vectors.shape[1]) @ vectors.T).reshape(shape)
        code = (next(self.code.locations(fields.shape[2])), self.code.table)
        rates, rho = heads_rates(fields, group.labels, biases, self.activation is None, *code)
        return rates, rho


def _draw(
    task: MultiHeadSLR,
    length: int,
    weight: float,
    log2_size: int,
    width: int,
    seed: tuple[int, int],
) -> TokenGroup:
    """Draw the sequences of one length; the first token is the relevant one."""
    K, size = task.directions, 1 << log2_size
    dimension = length * width + 2
    if dimension <= _SOBOL and log2_size >= 6:
        replicates = list(normal_replicates(dimension, log2_size, BLOCKS, seed))
    else:
        streams = np.random.SeedSequence(seed).spawn(BLOCKS)
        replicates = [np.random.default_rng(s).standard_normal((size, dimension)) for s in streams]
    tokens, labels = np.empty((BLOCKS, size, length, width)), np.empty((BLOCKS, size))
    ends, rows = np.cumsum(task.probabilities), np.arange(size)
    for block, normals in enumerate(replicates):
        chosen = np.minimum(np.searchsorted(ends, special.ndtr(normals[:, 0])), K - 1)
        own = normals[:, 2:].reshape(size, length, width)
        tokens[block] = own
        tokens[block, rows, 0, chosen] += np.sqrt(task.signals)[chosen]
        labels[block] = tokens[block, rows, 0, K + chosen] + task.noise * normals[:, 1]
    return TokenGroup(weight, tokens, labels)
