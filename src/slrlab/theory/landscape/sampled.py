r"""Risk, gradient and noise of a stochastic step as averages over a fixed sample.

Works for every activation: the only way for projections, whose threshold couples the tokens, and
an independent check of the quadrature for the others. One sample serves a whole flow and makes its
landscape an exact gradient; blocks are independent scrambles whose scatter is the error bar. This
module must not know what flows do with it.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from slrlab import _checks
from slrlab._result import Status
from slrlab._types import FloatArray
from slrlab.model.activation_code import PROJECTION, ActivationCode, activation_code
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task, TiltedTask
from slrlab.numerics.qmc import normal_replicates
from slrlab.theory.landscape.risk import SIZE, Slope

BLOCKS = 8
_LONGEST = 4096
_BLOCK_ENTRIES = 1 << 22  # numbers in a block of tokens: eight blocks take 256 MiB
_MOST_ENTRIES = 1 << 27
_FIRST, _LAST = 14, 20  # log2 of the smallest and largest sample of a single point
_FINEST = 1e-4  # standard error that a single point is refined to at most
_COLUMNS = 2 * SIZE + 5
_SOBOL_DIMENSION, _SOBOL_SIZE = 512, 6


@dataclass(frozen=True)
class TokenGroup:
    """Sequences of one length: tokens ``(blocks, size, L, 4)``, the relevant first, and labels."""

    weight: float
    tokens: FloatArray
    labels: FloatArray


@dataclass(frozen=True)
class SampledLandscape:
    """Risk and gradient of an activation on a fixed sample of effective tokens.

    A token is ``(χ*, z*, n₃, n₄)``: its components along the teachers and the two free directions.
    """

    groups: tuple[TokenGroup, ...]
    code: ActivationCode

    @classmethod
    def draw(
        cls, task: Task, activation: Activation, *, samples: int, seed: int = 0
    ) -> SampledLandscape:
        """Draw about ``samples`` sequences in `BLOCKS` blocks; fewer if they are long.

        Raises
        ------
        ValueError
            If a sequence is too long to be sampled, or its relevant score is not finite.
        """
        wanted = _checks.integer(samples, "samples", low=8 * BLOCKS)
        entropy = _checks.integer(seed, "seed", low=0)
        code = activation_code(activation)
        if isinstance(task, TiltedTask) and math.isinf(task.signal):
            raise ValueError(f"signal must be finite to sample task {task.name}, got inf")
        law = task.length
        fits = math.floor(math.log2(_BLOCK_ENTRIES / (SIZE * law.mean)))
        log2_size = min((wanted - 1).bit_length() - 3, fits)
        shares = law.shares(log2_size)
        entries = sum(BLOCKS * SIZE * n << share for n, _, share in shares)
        if law.longest > _LONGEST or entries > _MOST_ENTRIES:
            raise ValueError(
                f"length must be at most {_LONGEST} and take few values for {activation.name}, "
                f"which is sampled, got {law}"
            )
        groups = [_draw_group(task, n, p, share, (entropy, n)) for n, p, share in shares]
        return cls(tuple(groups), code)

    @property
    def smooth(self) -> bool:
        """Whether the gradient has no jumps: a projection has one where a weight vanishes."""
        return self.code.numbers[0] != PROJECTION

    @property
    def size(self) -> int:
        """Number of sequences."""
        return sum(group.labels.size for group in self.groups)

    def blocks(self, k: FloatArray, v: FloatArray, bias: float) -> FloatArray:
        """Return means over the length law, one row a block.

        Columns: risk, gradient in ``k`` (4), ``v`` (4) and the bias, ``N_kk``, ``N_kv``, ``N_vv``.
        """
        from slrlab.theory.landscape.sample_kernel import sample_means

        if not (np.isfinite(k).all() and np.isfinite(v).all() and math.isfinite(bias)):
            return np.full((BLOCKS, _COLUMNS), math.nan)
        total = np.zeros((BLOCKS, _COLUMNS))
        for group in self.groups:
            point = np.ascontiguousarray(k), np.ascontiguousarray(v), float(bias)
            given = group.tokens, group.labels, *point
            total += group.weight * sample_means(*given, self.code.numbers, self.code.table)
        return total

    def __call__(self, k: FloatArray, v: FloatArray, bias: float) -> Slope:
        """Return risk and gradient: exactly the gradient of the risk of this sample."""
        return self.slope_and_noise(k, v, bias)[0]

    def at_best_values(self, k: FloatArray, bias: float) -> tuple[FloatArray, Slope]:
        """Return the ``v`` of least risk for given keys, and the slope there.

        The risk of a sample is quadratic in ``v``: five gradients fix it exactly.
        """
        if not (np.isfinite(k).all() and math.isfinite(bias)):
            return np.full(SIZE, math.nan), self(k, np.zeros(SIZE), bias)
        ground = self(k, np.zeros(SIZE), bias).v
        rows = [self(k, unit, bias).v - ground for unit in np.eye(SIZE)]
        # directions in which no weight has any value are left alone
        v = np.asarray(np.linalg.lstsq(np.array(rows), -ground, rcond=1e-14)[0])
        return v, self(k, v, bias)

    def noise(self, k: FloatArray, v: FloatArray, bias: float) -> FloatArray:
        """Return ``N_kk = 4E[ρ²|g|²]``, ``N_kv = 4E[ρ² g·σ]``, ``N_vv = 4E[ρ²|σ|²]``.

        A step ``Δk = −η ∂ρ²/∂k`` on one sequence has ``E|Δk|²/D = (η/D)·η N_kk`` as ``D → ∞``:
        the tokens are then orthogonal, of squared length ``D``; so for ``Δk·Δv`` and ``|Δv|²``.
        """
        return self.slope_and_noise(k, v, bias)[1]

    def slope_and_noise(
        self, k: FloatArray, v: FloatArray, bias: float
    ) -> tuple[Slope, FloatArray]:
        """Return both from one pass over the sample."""
        means = self.blocks(k, v, bias).mean(axis=0)
        return _slope(means), means[2 * SIZE + 2 :]


def _draw_group(
    task: Task, length: int, weight: float, log2_size: int, seed: tuple[int, int]
) -> TokenGroup:
    shift = task.gaussian_shift
    uniforms = 0 if shift is not None else 1  # one more: it selects the location
    replicates = _normals(SIZE * length + 1 + uniforms, log2_size, seed)
    tokens = np.empty((BLOCKS, 1 << log2_size, length, SIZE))
    labels = np.empty((BLOCKS, 1 << log2_size))
    for block, normals in enumerate(replicates):
        # scores first: the first dimensions of a Sobol sequence are its best
        scores = normals[:, : length + uniforms]
        if shift is None:
            tokens[block, :, :, 0] = task.scores_from_uniforms(special.ndtr(scores))
        else:
            tokens[block, :, :, 0] = scores
            tokens[block, :, 0, 0] += shift
        rest = normals[:, length + uniforms : -1].reshape(-1, SIZE - 1, length)
        tokens[block, :, :, 1:] = rest.transpose(0, 2, 1)
        labels[block] = tokens[block, :, 0, 1] + task.noise * normals[:, -1]
    return TokenGroup(weight, tokens, labels)


def _normals(dimension: int, log2_size: int, seed: tuple[int, int]) -> Iterator[FloatArray]:
    """Yield the normals of each block."""
    if dimension <= _SOBOL_DIMENSION and log2_size >= _SOBOL_SIZE:
        yield from normal_replicates(dimension, log2_size, BLOCKS, seed)
        return
    # few points in many dimensions gain nothing from Sobol's order, and setting it up takes long
    for stream in np.random.SeedSequence(seed).spawn(BLOCKS):
        yield np.random.default_rng(stream).standard_normal((1 << log2_size, dimension))


def _slope(means: FloatArray) -> Slope:
    risk, bias = float(means[0]), float(means[2 * SIZE + 1])
    return Slope(risk, means[1 : SIZE + 1], means[SIZE + 1 : 2 * SIZE + 1], bias)


def sampled_slope(
    task: Task,
    activation: Activation,
    point: tuple[FloatArray, FloatArray, float],
    tolerance: float,
    seed: int = 0,
) -> tuple[Slope, float, float, Status]:
    """Return risk and gradient at one point, their standard errors and a status.

    The sample doubles until the standard error of the risk is below ``tolerance`` (or 1e-4), or
    there are ``2**20`` sequences. The second error is that of the worst entry of the gradient.
    """
    target = max(tolerance, _FINEST)
    drawn = 0
    for log2_samples in range(_FIRST, _LAST + 1):
        landscape = SampledLandscape.draw(task, activation, samples=1 << log2_samples, seed=seed)
        rows = landscape.blocks(*point)[:, : 2 * SIZE + 2]
        if not np.isfinite(rows).all():
            return _slope(rows.mean(axis=0)), math.nan, math.nan, Status.FAILED
        errors = rows.std(axis=0, ddof=1) / math.sqrt(BLOCKS)
        if errors[0] <= target or landscape.size == drawn:  # long sequences: memory is the limit
            break
        drawn = landscape.size
    return _slope(rows.mean(axis=0)), float(errors[0]), float(errors[1:].max()), Status.SAMPLED
