r"""Statistics of the attention weights: hit rate, mean weights, entropy and calibration.

With the posterior ``p`` of the location, ``A = E σ_ε = E σᵀp`` and ``B = E‖σ‖²`` give the distance
``E‖bσ − p‖² = b²B − 2bA + E‖p‖²`` for any factor ``b``. At the best one, ``b = A/B``, it is the
excess risk: attention loses exactly what its weights are away from the posterior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from slrlab import _checks
from slrlab._errors import ComputationError
from slrlab._plot import axes_of, mark_of
from slrlab._result import Estimate, Result, Status
from slrlab._types import FloatArray
from slrlab.model.activations import SOFTMAX, Activation
from slrlab.model.arrangements import check_family, relevant_count
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.model.traits import increasing
from slrlab.numerics.blas import one_blas_thread
from slrlab.theory.moments import AttentionMoments
from slrlab.theory.moments.infinite_keys import infinite_keys
from slrlab.theory.moments.largest import noisy_is_largest
from slrlab.theory.population.bayes_risk import bayes_risk
from slrlab.theory.population.hit_rate import Keys, key_overlaps
from slrlab.theory.population.minimal import (
    PopulationRisk,
    checked,
    minimal_risk,
    refined_moments,
)
from slrlab.theory.population.weight_sample import WeightSample, sample_weights

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_TOKENS = 2_000_000  # tokens of a sample unless its size is given
_TOLERANCE = 1e-7  # error of quadratures: less than any sample resolves
_FEWEST, _BINS = 128, 40  # sequences of a sample beside a risk, and bins of the weight
FAR = 1e8  # overlap at which the weights of infinitely long keys are evaluated


@dataclass(frozen=True)
class WeightStatistics(Result):
    """What the weights of one activation do on one task.

    Attributes
    ----------
    hit_rate
        Probability that the largest weight is on the relevant token; equal weights share it. Of
        weights that are read with a negative factor (``scale < 0``), the smallest counts.
    mean_weight, total
        ``A = E σ_ε`` and ``E Σ σ_ℓ``.
    entropy
        Mean Shannon entropy, in nats, of ``|σ|/Σ|σ|``; ``log L`` where all weights are 0.
    scale
        Factor ``b = A/B`` with which the weights come closest to the posterior ``p``. Values
        ``v`` multiply the weights by a factor anyway; ``b`` is the best one.
    distance
        ``E‖σ − p‖²``: the excess risk of reading the weights as they are.
    scaled_distance
        ``E‖bσ − p‖²``: the excess risk at the best values.
    miscalibration
        The part of ``scaled_distance`` that a map of each weight alone would remove,
        ``E Σ (bσ_ℓ − P(ε = ℓ | σ_ℓ))²``, from the bins: more bins give slightly more. The rest is
        what one weight, without the others, does not know.
    bin_weight, bin_posterior, bin_posterior_error, bin_tokens
        For bins of the weight: mean weight, mean posterior probability (the frequency with which
        such a token is the relevant one) with its error, and mean number of tokens of a sequence.
    m_k, R_k, bias
        Keys and bias of the activation (``inf``: the weights are those of the limit).
    samples
        Sequences drawn for what has no formula.
    errors
        Standard error of each number; 0 where it comes from a quadrature.
    """

    hit_rate: float
    mean_weight: float
    total: float
    entropy: float
    scale: float
    distance: float
    scaled_distance: float
    miscalibration: float
    bin_weight: FloatArray
    bin_posterior: FloatArray
    bin_posterior_error: FloatArray
    bin_tokens: FloatArray
    m_k: float
    R_k: float
    bias: float
    samples: int
    setting: Setting
    errors: dict[str, float] = field(default_factory=dict)

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each bin."""
        import pandas as pd

        names = ("bin_weight", "bin_posterior", "bin_posterior_error", "bin_tokens")
        return pd.DataFrame({name: getattr(self, name) for name in names})

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Draw the reliability diagram: posterior probability against the scaled weight."""
        axes = axes_of(ax)
        axes.plot([0.0, 1.0], [0.0, 1.0], color="0.75", linewidth=5, zorder=0)
        look = mark_of(self.setting.activation_name).line(**style)
        errors = self.bin_posterior_error
        axes.errorbar(self.scale * self.bin_weight, self.bin_posterior, yerr=errors, **look)
        axes.set(xlabel="scaled weight $b\\sigma$", ylabel="posterior probability")
        axes.legend()
        return axes

    def __str__(self) -> str:
        numbers = (
            f"{name.replace('_', ' ')} {Estimate(getattr(self, name), self.errors[name])}"
            for name in ("hit_rate", "mean_weight", "entropy", "scaled_distance")
        )
        return f"{self.setting}: {', '.join(numbers)}, {self.status}"


@one_blas_thread
def weight_statistics(
    task: Task,
    activation: Activation | str,
    order: Keys | None = None,
    *,
    samples: int | None = None,
    bins: int = _BINS,
    seed: int = 0,
) -> WeightStatistics:
    """Return hit rate, mean weight, entropy and calibration of the attention weights.

    Scores are ``χ = m_k·χ* + √R_k·n``. Mean weight and distances are quadratures where the moments
    are, and so is the hit rate of an activation that increases with the score (else its difference
    from that is sampled). The rest is sampled, with the posterior probability in place of the
    location: it has the same mean and less variance.

    Parameters
    ----------
    task
        The task; the relevant score must be finite.
    activation
        An activation, its name, or an expression in ``x``.
    order
        Keys: `OrderParameters`, or a result such as that of `minimal_risk`, `erm_theory` or
        `optimal_ridge`, whose bias is taken if that of the activation is free. None for the best
        keys with infinite data; if they are a limit, the weights are those of the limit.
    samples
        Sequences to draw; None for as many as have two million tokens.
    bins
        Number of bins of the weight, each with the same share of relevant plus other tokens. A
        weight that many tokens have, such as 0, is a bin of its own.
    seed
        Seed of the sample.

    Returns
    -------
    WeightStatistics
        The statistics; those that are sampled have standard errors.

    Raises
    ------
    ValueError
        If the relevant score is infinite, or the bias is free at given order parameters.
    TypeError
        If ``order`` has no key overlaps.

    Examples
    --------
    >>> from slrlab import SpikedSLR, weight_statistics
    >>> for name in ("softmax", "hardmax", "sigmoid"):
    ...     of = weight_statistics(SpikedSLR(9.0, 10), name, samples=1000)
    ...     print(f"{name}: hit rate {of.hit_rate:.4f}, mean weight {of.mean_weight:.4f}")
    softmax: hit rate 0.9025, mean weight 0.8574
    hardmax: hit rate 0.9025, mean weight 0.9025
    sigmoid: hit rate 0.9025, mean weight 0.7460
    """
    chosen = checked(task, activation, 1.0)
    check_family(task)
    if task.has_infinite_score:
        _checks.fail("signal", "finite: the relevant score is infinite", task.signal)
    if relevant_count(task) > 1:
        _checks.fail("task", "one with a single relevant token", task.name)
    given = minimal_risk(task, chosen) if order is None else order
    m_k, R_k = key_overlaps(given)
    fixed, bias = evaluable(chosen, given)
    keys = (m_k if math.isfinite(m_k) else FAR, R_k)
    count = _count(task) if samples is None else _checks.integer(samples, "samples", low=100)
    bins, seed = _checks.integer(bins, "bins"), _checks.integer(seed, "seed", low=0)
    sample = sample_weights(task, fixed, keys, samples=count, bins=bins, seed=seed)
    moments = _moments(task, fixed, m_k, R_k)
    if moments is None:
        scale, values = _sampled(sample)
    else:
        scale, values = moments.best_value_scale, _exact(task, moments)
    values |= {
        "hit_rate": _hit_rate(task, keys, sample),
        "total": sample.estimate((1.0, "total")),
        "entropy": sample.estimate((1.0, "entropy")),
        "miscalibration": sample.miscalibration(scale),
    }
    numbers: dict[str, Any] = {name: one.value for name, one in values.items()}
    finite = all(math.isfinite(value) for value in numbers.values())
    return WeightStatistics(
        status=Status.SAMPLED if finite else Status.FAILED,
        scale=scale,
        m_k=m_k,
        R_k=R_k,
        bias=bias,
        samples=sample.samples,
        setting=Setting(task, chosen),
        errors={name: one.error for name, one in values.items()},
        **numbers | sample.bins(),
    )


def _count(task: Task) -> int:
    return max(200, round(_TOKENS / task.length.mean))


def weights_of(best: PopulationRisk, *, tokens: int = 200_000) -> dict[str, Estimate]:
    """Return hit rate, mean weight, entropy and miscalibration at keys of least risk.

    They are those of `weight_statistics`, from fewer tokens and with the moments that the risk has
    already.
    """
    task, activation = best.setting.task, best.setting.activation or SOFTMAX
    fixed = SOFTMAX if math.isinf(best.bias) else activation.with_bias(best.bias)
    keys = (best.m_k if math.isfinite(best.m_k) else FAR, best.R_k)
    count = max(_FEWEST, round(tokens / task.length.mean))
    sample = sample_weights(task, fixed, keys, samples=count, bins=_BINS, seed=0)
    sampled = best.status is Status.SAMPLED
    # where weights differ by less than rounding, the order of the scores is still theirs
    ordered = increasing(activation) and keys[0] > 0.0 and keys[1] == 0.0
    exact = Estimate(_scores_hit(task, 1.0, 0.0), 0.0) if ordered else None
    return {
        "hit_rate": exact or _hit_rate(task, keys, sample),
        "mean_weight": sample.estimate((1.0, "target")) if sampled else Estimate(best.A, 0.0),
        "entropy": sample.estimate((1.0, "entropy")),
        "miscalibration": sample.miscalibration(best.m_v),
    }


def evaluable(activation: Activation, order: Any) -> tuple[Activation, float]:
    """Return an activation that can be evaluated at the keys of ``order``, and its bias.

    Where the best bias is infinite the weights tend to the posterior, as those of softmax do.
    """
    if activation.is_softmax:
        return activation.with_bias(0.0), 0.0
    bias = getattr(order, "bias", None) if activation.bias is None else activation.bias
    if bias is None:
        _checks.fail(f"bias of {activation.name}", "a number at given keys", "free")
    return (SOFTMAX, bias) if math.isinf(bias) else (activation.with_bias(bias), bias)


def _moments(task: Task, fixed: Activation, m_k: float, R_k: float) -> AttentionMoments | None:
    """Return moments by quadrature; None where there are none, or none that are accurate."""
    if math.isinf(m_k):
        return infinite_keys(task, fixed, 1.35)
    try:
        moments, _, status = refined_moments(
            task, fixed, m_k, R_k, _TOLERANCE, lambda moments: moments.risk(1.0)
        )
    except (ComputationError, ValueError):
        return None
    return moments if status is Status.CONVERGED else None


def _sampled(sample: WeightSample) -> tuple[float, dict[str, Estimate]]:
    """Return the best factor of the weights, and what the moments would determine."""
    target = sample.estimate((1.0, "target"))
    scale = target.value / (sample.estimate((1.0, "energy")).value or 1.0)
    terms = ((1.0, "certainty"), (-2.0 * scale, "target"), (scale**2, "energy"))
    distance, scaled = sample.estimate((1.0, "distance")), sample.estimate(*terms)
    return scale, {"mean_weight": target, "distance": distance, "scaled_distance": scaled}


def _hit_rate(task: Task, keys: tuple[float, float], sample: WeightSample) -> Estimate:
    """Return the hit rate of the weights: that of the scores, and the sampled difference."""
    m_k = sample.sign * keys[0]
    try:
        exact = _scores_hit(task, m_k if keys[1] else math.copysign(1.0, m_k), keys[1])
    except ComputationError:  # too many nodes
        return sample.estimate((1.0, "hit"))
    more = sample.estimate((1.0, "hit"), (-1.0, "score_hit"))
    return Estimate(exact + more.value, more.error)


@lru_cache(maxsize=64)
def _scores_hit(task: Task, m_k: float, R_k: float) -> float:
    """Return the hit rate of the scores; without noise no factor of theirs changes it."""
    return noisy_is_largest(task, m_k, R_k)


def _exact(task: Task, moments: AttentionMoments) -> dict[str, Estimate]:
    """Return what the moments determine."""
    least = bayes_risk(task).risk - task.noise**2
    numbers = {
        "mean_weight": moments.target * moments.unit,
        "distance": max(0.0, moments.risk(1.0) - least),
        "scaled_distance": max(0.0, moments.best_risk - least),
    }
    return {name: Estimate(value, 0.0) for name, value in numbers.items()}
