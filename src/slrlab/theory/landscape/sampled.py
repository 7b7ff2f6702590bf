r"""Risk, gradient and noise of a stochastic step as averages over a fixed sample.

It works for every activation with a gradient. Elementwise and normalised ones do not need it: for
them it is an independent check of the quadrature. One sample serves a whole flow, so that the
gradient is exactly that of the risk; standard errors are those of independent blocks. Independent
of flows.
"""

# notation: docs/notation.md, "Landscape"
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from slrlab import _checks
from slrlab._result import Status, standard_error
from slrlab._types import FloatArray
from slrlab.model.activation_code import ActivationCode, activation_code
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task
from slrlab.numerics.qmc import normal_replicates
from slrlab.theory.landscape.slope import SIZE, Slope

BLOCKS = 8
_LONGEST = 4096
_BLOCK_ENTRIES = 1 << 22  # numbers in a block of tokens: eight blocks take 256 MiB
_MOST_ENTRIES = 1 << 27
_FIRST, _LAST = 14, 20  # log2 of the smallest and largest sample of a single point
_FINEST = 1e-4  # least standard error to which a single point is refined
_SLOPE = 2 * SIZE + 2  # columns of risk and gradient; three of noise follow
_COLUMNS = _SLOPE + 3
_SOBOL_DIMENSION, _SOBOL_SIZE = 512, 6


@dataclass(frozen=True)
class TokenGroup:
    """Sequences of one length: tokens ``(blocks, size, L, width)``, relevant first; labels."""

    weight: float
    tokens: FloatArray
    labels: FloatArray


@dataclass(frozen=True)
class SampledLandscape:
    """Risk and gradient of an activation on a fixed sample of effective tokens.

    A token is ``(χ*, z*, n₃, n₄)``: its components along the teachers and the two free directions.
    ``square`` is the squared length of a relevant token over ``D``, 1 for the others.
    """

    groups: tuple[TokenGroup, ...]
    code: ActivationCode
    square: float

    @classmethod
    def draw(
        cls, task: Task, activation: Activation, *, samples: int, seed: int = 0
    ) -> SampledLandscape:
        """Draw about ``samples`` sequences in `BLOCKS` blocks; fewer if they are long.

        Raises
        ------
        ValueError
            If a sequence is too long for a sample, or its relevant score is not finite.
        """
        samples = _checks.integer(samples, "samples", low=8 * BLOCKS)
        seed = _checks.integer(seed, "seed", low=0)
        code = activation_code(activation, min(task.length.longest, _LONGEST))
        if task.has_infinite_score:
            raise ValueError(f"signal must be finite to sample task {task.name}, got inf")
        law = task.length
        fits = math.floor(math.log2(_BLOCK_ENTRIES / (SIZE * law.mean)))
        log2_size = min((samples - 1).bit_length() - 3, fits)
        shares = law.shares(log2_size)
        entries = sum(BLOCKS * SIZE * n << log2 for n, _, log2 in shares)
        if law.longest > _LONGEST or entries > _MOST_ENTRIES:
            raise ValueError(
                f"length must be at most {_LONGEST} and take few values for {activation.name}, "
                f"which is sampled, got {law}"
            )
        groups = [_draw_group(task, n, p, log2, (seed, n)) for n, p, log2 in shares]
        return cls(tuple(groups), code, task.relevant_std**2)

    @property
    def smooth(self) -> bool:
        """Whether the gradient has no jumps: a projection has one where a weight vanishes."""
        return not self.code.kinked

    @property
    def size(self) -> int:
        """Number of sequences."""
        return sum(group.labels.size for group in self.groups)

    def blocks(self, k: FloatArray, v: FloatArray, bias: float) -> FloatArray:
        """Return means over the length law, one row for each block.

        Columns: risk, gradient in ``k`` (4), ``v`` (4) and the bias, ``N_kk``, ``N_kv``, ``N_vv``.
        """
        from slrlab.theory.landscape.sample_kernel import sample_means

        if not (np.isfinite(k).all() and np.isfinite(v).all() and math.isfinite(bias)):
            return np.full((BLOCKS, _COLUMNS), math.nan)
        total = np.zeros((BLOCKS, _COLUMNS))
        for group in self.groups:
            length = group.tokens.shape[2]
            score, shift, factor = self.code.scale(length)
            point = score * np.asarray(k), factor * np.asarray(v), float(bias + shift)
            # the gradient in the vectors as given, and the noise, follow from the chain rule
            noise = (score**2, score * factor, factor**2)
            chain = np.array([1.0, *[score] * SIZE, *[factor] * SIZE, 1.0, *noise])
            locations = list(self.code.locations(length))
            for numbers in locations:
                sample = (group.tokens, group.labels, self.square)
                means = sample_means(*sample, *point, numbers, self.code.table)
                total += group.weight / len(locations) * chain * means
        return total

    def __call__(self, k: FloatArray, v: FloatArray, bias: float) -> Slope:
        """Return the risk of this sample and its exact gradient."""
        return self.slope_and_noise(k, v, bias)[0]

    def at_best_values(self, k: FloatArray, bias: float) -> tuple[FloatArray, Slope]:
        """Return the ``v`` of least risk for given keys, and the slope there.

        The risk of a sample is quadratic in ``v``: five gradients determine it exactly.
        """
        if not (np.isfinite(k).all() and math.isfinite(bias)):
            return np.full(SIZE, math.nan), self(k, np.zeros(SIZE), bias)
        at_zero = self(k, np.zeros(SIZE), bias).v
        rows = [self(k, unit, bias).v - at_zero for unit in np.eye(SIZE)]
        # least squares: v is 0 in directions on which the risk does not depend
        v = np.asarray(np.linalg.lstsq(np.array(rows), -at_zero, rcond=1e-14)[0])
        return v, self(k, v, bias)

    def slope_and_noise(
        self, k: FloatArray, v: FloatArray, bias: float
    ) -> tuple[Slope, FloatArray]:
        """Return the slope and ``N_kk = 4E[ρ²|g|²]``, ``N_kv = 4E[ρ² g·σ]``, ``N_vv = 4E[ρ²|σ|²]``.

        A step ``Δk = −η ∂ρ²/∂k`` on one sequence has ``E|Δk|²/D = (η/D)·η N_kk`` as ``D → ∞``:
        the tokens are then orthogonal, of squared length ``D``; so for ``Δk·Δv`` and ``|Δv|²``. The
        squared length of a relevant token is ``D`` times its variance.
        """
        means = self.blocks(k, v, bias).mean(axis=0)
        return Slope.of(means[:_SLOPE]), means[_SLOPE:]


def _draw_group(
    task: Task, length: int, weight: float, log2_size: int, seed: tuple[int, int]
) -> TokenGroup:
    shift = task.gaussian_shift
    uniforms = 0 if shift is not None else 1  # one more number selects the location
    replicates = _normals(SIZE * length + 1 + uniforms, log2_size, seed)
    tokens = np.empty((BLOCKS, 1 << log2_size, length, SIZE))
    labels = np.empty((BLOCKS, 1 << log2_size))
    for block, normals in enumerate(replicates):
        # scores first: the first dimensions of a Sobol sequence are the most uniform
        scores = normals[:, : length + uniforms]
        if shift is None:
            tokens[block, :, :, 0] = task.scores_from_uniforms(special.ndtr(scores))
        else:
            tokens[block, :, :, 0] = scores
            tokens[block, :, 0, 0] += shift
        rest = normals[:, length + uniforms : -1].reshape(-1, SIZE - 1, length)
        tokens[block, :, :, 1:] = rest.transpose(0, 2, 1)
        tokens[block, :, 0, 1:] *= task.relevant_std
        labels[block] = tokens[block, :, 0, 1] + task.noise * normals[:, -1]
    return TokenGroup(weight, tokens, labels)


def _normals(dimension: int, log2_size: int, seed: tuple[int, int]) -> Iterator[FloatArray]:
    """Yield the normals of each block."""
    if dimension <= _SOBOL_DIMENSION and log2_size >= _SOBOL_SIZE:
        yield from normal_replicates(dimension, log2_size, BLOCKS, seed)
        return
    # in high dimension few Sobol points are no better than random ones, and slow to set up
    for stream in np.random.SeedSequence(seed).spawn(BLOCKS):
        yield np.random.default_rng(stream).standard_normal((1 << log2_size, dimension))


def sampled_slope(
    task: Task,
    activation: Activation,
    point: tuple[FloatArray, FloatArray, float],
    tolerance: float,
    seed: int = 0,
) -> tuple[Slope, FloatArray, Status]:
    """Return risk and gradient at one point, the standard error of each number, and a status.

    The sample doubles until the standard error of the risk is below ``tolerance`` (or 1e-4), or
    there are ``2**20`` sequences.
    """
    target = max(tolerance, _FINEST)
    drawn = 0
    for log2_samples in range(_FIRST, _LAST + 1):
        landscape = SampledLandscape.draw(task, activation, samples=1 << log2_samples, seed=seed)
        rows = landscape.blocks(*point)[:, :_SLOPE]
        slope = Slope.of(rows.mean(axis=0))
        if not np.isfinite(rows).all():
            return slope, np.full(_SLOPE, math.nan), Status.FAILED
        errors = standard_error(rows)
        if errors[0] <= target or landscape.size == drawn:  # long sequences: memory is the limit
            break
        drawn = landscape.size
    return slope, errors, Status.SAMPLED
