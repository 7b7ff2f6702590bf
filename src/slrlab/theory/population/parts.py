r"""The excess risk of an activation as a sum of three parts: shape, size and length.

Let ``p`` be the posterior of the location, ``σ`` the weights at any keys and ``b = A/B`` the best
value overlap, shared by all sequences. The average over the value scores leaves
``risk − Bayes risk = E‖p − bσ‖²``, the squared distance from the posterior to a line, hence
``E‖p‖² sin²∠(σ, p)`` in the space of square-integrable weights.

In each sequence ``βσ`` with ``β = ⟨σ, p⟩/‖σ‖²`` (0 where ``σ = 0``) is the multiple of ``σ``
closest to ``p``, and ``p − βσ`` is orthogonal to ``σ``. With ``b_L = A_L/B_L``, the moments at one
length,

``E‖p − bσ‖² = E‖p − βσ‖² + E (β − b_L)²‖σ‖² + E (b_L − b)²‖σ‖²``.

The first step is Pythagoras in each sequence. The second is the law of total variance of ``β``
under the law of sequences weighted by ``‖σ‖²``, in which ``b_L`` is the mean of ``β`` at a length
and ``b`` its mean over all, because ``E β‖σ‖² = E⟨σ, p⟩ = A``. No part is negative.

The parts say where the error is at the best keys. What each property would bring follows from
freeing the factor, with the keys and the bias searched again: the least ``shape + size`` is the
excess with a factor for each length, the least ``shape`` that with a factor for each sequence.

*Shape* is 0 only if ``σ`` is proportional to ``p`` in every sequence; as ``p ∝ e^{cχ*}``, this says
that the log of the weights is linear in the score, with one slope. *Size* is 0 only if one factor
fits all sequences of a length, *length* only if one factor fits all lengths.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slrlab import _checks
from slrlab._result import Estimate, Result, Status
from slrlab.model.activations import Activation
from slrlab.model.arrangements import check_family
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.numerics.blas import one_blas_thread
from slrlab.numerics.minimise import newton_minimum
from slrlab.theory.population.key_sample import BLOCKS, KeySample, WeightMoments, draw_keys
from slrlab.theory.population.minimal import PopulationRisk, checked, minimal_risk

PARTS = ("shape", "size", "length")
_SEARCH = 9  # log2 of the sequences in a block while keys are searched
_STEEP = 1e6  # overlap that stands for infinitely long keys
_NONE = 1e-12  # excess that is rounding
_SCALES, _SHIFTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0), (0.0, -5.0, -20.0)  # starts of a search


@dataclass(frozen=True)
class ExcessParts(Result):
    """The excess of an activation at its best keys and values, and what it consists of.

    Attributes
    ----------
    excess
        Risk above the Bayes risk, by quadrature; the sum of the parts up to ``error``.
    excess_error
        Numerical error of ``excess``.
    angle
        Angle between weights and posterior in degrees: ``excess = E‖p‖² sin²(angle)``.
    shape_part, size_part, length_part
        The three parts, sampled, with their standard errors.
    error
        Standard error of the sum of the parts.
    per_length
        Least excess of any keys and bias if each length has its own factor: least shape and size.
    per_sequence
        Least excess of any keys and bias if each sequence has its own factor: least shape. It is
        the same for all activations that differ by a factor in each sequence, such as a sum below.
    retuned
        Mean excess if keys and bias, too, are the best ones for each length.
    sum_variation
        Variance of the sum of the weights over its squared mean.
    m_k, bias
        Best keys, at which the parts are taken.
    """

    excess: float
    excess_error: float
    angle: float
    shape_part: float
    shape_part_error: float
    size_part: float
    size_part_error: float
    length_part: float
    length_part_error: float
    error: float
    per_length: float
    per_sequence: float
    retuned: float
    sum_variation: float
    m_k: float
    bias: float
    setting: Setting

    @property
    def parts(self) -> float:
        """Sum of the three parts: the sampled excess."""
        return self.shape_part + self.size_part + self.length_part

    def share(self, part: str) -> float:
        """Return the fraction of the excess that is shape, size or length (nan: no excess)."""
        part = _checks.choice(part, "part", PARTS)
        return float(getattr(self, f"{part}_part")) / self.parts if self.parts else math.nan


@one_blas_thread
def excess_parts(
    task: Task, activation: Activation | str, *, samples: int = 65536, seed: int = 0
) -> ExcessParts:
    r"""Split the least excess risk of an activation into shape, size and length.

    Shape says how far the log of the weights is from linear in the score, over the scores that
    matter; size how far one factor is from fitting all sequences of a length; length how far it is
    from fitting all lengths. The module has the formulas and their proof.

    Parameters
    ----------
    task, activation
        As for `slrlab.minimal_risk`.
    samples
        Sequences in the sample of the parts, about: scrambled Sobol points in 16 blocks.
    seed
        Seed of the scrambles.

    Returns
    -------
    ExcessParts
        The excess, its parts, and the excess with a factor for each length or sequence.

    Raises
    ------
    ValueError
        If the signal of a tilted task is infinite, or sequences are too long for a sample.

    Examples
    --------
    >>> from slrlab import SpikedSLR, excess_parts
    >>> parts = excess_parts(SpikedSLR(signal=9.0, length=10), "sigmoid")
    >>> print(f"{parts.excess:.3f}: {parts.share('size'):.0%} size")
    0.111: 71% size
    """
    samples = _checks.integer(samples, "samples", low=8 * BLOCKS)
    seed = _checks.integer(seed, "seed", low=0)
    free = checked(task, activation, 1.0).bias is None
    check_family(task)
    log2_size = math.ceil(math.log2(samples / BLOCKS))
    sample, few = (draw_keys(task, size, seed) for size in (log2_size, min(log2_size, _SEARCH)))
    best = minimal_risk(task, activation)
    if best.excess <= _NONE:  # the weights are the posterior
        return _result(best)
    chosen, m_k = best.setting.activation_at(best.bias), min(best.m_k, _STEEP)
    search = _Search(chosen, m_k, min(task.posterior_scale or abs(m_k), _STEEP), free)
    moments = sample.moments(chosen, m_k)
    free_length = search.best(few, lambda row: float((row.shape + row.size).mean()))
    free_sequence = search.best(few, lambda row: float(row.shape.mean()))
    retuned = math.fsum(
        probability * one.moments(*search.best(small, lambda row: row.excess)).excess
        for (probability, one), (_, small) in zip(
            sample.single_lengths(), few.single_lengths(), strict=True
        )
    )
    loose, looser = sample.moments(*free_length), sample.moments(*free_sequence)
    per_length = min(float((row.shape + row.size).mean()) for row in (moments, loose))
    per_sequence = min(float(row.shape.mean()) for row in (moments, loose, looser))
    return _result(best, moments, per_length, per_sequence, min(retuned, per_length))


def _result(
    best: PopulationRisk,
    moments: WeightMoments | None = None,
    per_length: float = 0.0,
    per_sequence: float = 0.0,
    retuned: float = 0.0,
) -> ExcessParts:
    """Return the parts at the best keys; all are 0 without moments."""
    task, sampled = best.setting.task, best.status
    columns = np.zeros((3, BLOCKS))
    if moments is not None:
        columns = np.stack([moments.shape, moments.size, moments.length])
        sampled = Status.SAMPLED
    parts = {name: Estimate.of(column) for name, column in zip(PARTS, columns, strict=True)}
    fields = {f"{name}_part": part.value for name, part in parts.items()}
    fields |= {f"{name}_part_error": part.error for name, part in parts.items()}
    excess = max(best.excess, 0.0)
    sine = math.sqrt(min(excess / (task.trivial_risk - best.bayes_risk), 1.0))
    return ExcessParts(
        status=Status.worst([best.status, sampled]),
        excess=excess,
        excess_error=best.error,
        angle=math.degrees(math.asin(sine)),
        **fields,
        error=Estimate.of(columns.sum(axis=0)).error,
        per_length=per_length,
        per_sequence=max(per_sequence, 0.0),
        retuned=max(retuned, 0.0),
        sum_variation=0.0 if moments is None else moments.sum_variation,
        m_k=best.m_k,
        bias=best.bias,
        setting=best.setting,
    )


@dataclass(frozen=True)
class _Search:
    """Search for the keys that minimise a number on a sample, from the best keys and elsewhere."""

    activation: Activation
    m_k: float
    scale: float
    free: bool

    def best(
        self, sample: KeySample, value: Callable[[WeightMoments], float]
    ) -> tuple[Activation, float]:
        """Return the activation at its best bias, and the best overlap."""
        bias, sign = float(self.activation.bias or 0.0), math.copysign(1.0, self.m_k)
        overlaps = [self.m_k * scale for scale in _SCALES] + [sign * self.scale]
        shifts = _SHIFTS if self.free else (0.0,)

        def keys(m_k: float, shift: float) -> tuple[Activation, float]:
            return self.activation.with_bias(bias + shift), m_k

        def log_value(m_k: float, shift: float) -> float:
            with np.errstate(over="ignore", invalid="ignore"):  # maps that overflow are rejected
                number = value(sample.moments(*keys(m_k, shift)))
            return math.log(max(number, _NONE)) if math.isfinite(number) else math.inf

        starts = [(m_k, shift) for m_k in overlaps for shift in shifts]
        lowest, start = min((log_value(*start), start) for start in starts)
        if start[0] == 0.0 or lowest <= math.log(_NONE):
            return keys(*start)
        minimum = newton_minimum(
            lambda at: log_value(start[0] * math.exp(at[0]), start[1] + sum(at[1:])),
            np.zeros(2 if self.free else 1),
            difference=0.02,
            tolerance=1e-3,
            max_steps=20,
        )
        point = minimum.point.tolist()
        return keys(start[0] * math.exp(point[0]), start[1] + sum(point[1:]))
