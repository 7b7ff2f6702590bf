r"""The two numbers that fix a population risk: how much weight is on the relevant token.

On the manifold M the risk of a predictor depends on its keys only through
``A = E[σ_ε]`` and ``B = E Σ σ_ℓ²``. This module computes them for every pair of task family and
activation family, as `AttentionMoments`. Values, noise and optimisation do not enter.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slrlab import _checks
from slrlab._errors import ComputationError
from slrlab.model import families
from slrlab.model.activations import Activation, Elementwise, Normalised, Projection
from slrlab.model.arrangements import ArrangementTask
from slrlab.model.lengths import LengthLaw
from slrlab.model.marion import MarionSLR
from slrlab.model.tasks import SelectionTask, Task, TiltedTask
from slrlab.numerics.blas import one_blas_thread
from slrlab.theory.moments.ratio import bent_moments
from slrlab.theory.moments.rescaled import rescaled_moments
from slrlab.theory.moments.reweighted import reweighted_moments
from slrlab.theory.moments.sampled import sampled_moments
from slrlab.theory.moments.selected import elementwise_selected, normalised_selected
from slrlab.theory.moments.stick_breaking import stick_breaking_moments
from slrlab.theory.moments.tilted import certain_location, elementwise_tilted, normalised_tilted
from slrlab.theory.moments.types import AttentionMoments

__all__ = ["AttentionMoments", "attention_moments"]

_NARROW = 0.5  # width of a feature in scores, below which nodes must be placed on it


# a map that overflows gives moments that are not finite, and then a status
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
@one_blas_thread
def attention_moments(
    task: Task,
    activation: Activation,
    m_k: float,
    R_k: float = 0.0,
    *,
    resolution: float = 1.0,
    check: bool = True,
) -> AttentionMoments:
    """Return the moments at given key order parameters.

    ``resolution`` divides every step; 1 gives about 12 digits for smooth activations. Without
    ``check``, the costly part of the self-check is left out.
    """
    if isinstance(activation, families.LengthScaled):
        return _averaged(task, activation, (m_k, R_k), resolution, check)
    if isinstance(task, MarionSLR):
        return _rescaled(task, activation, (m_k, R_k), resolution)
    if isinstance(activation, Elementwise | Normalised | families.Ratio):
        return _mapped(task, activation, (m_k, R_k), resolution, check)
    ordered = isinstance(activation, families.CosineReweighted | families.StickBreaking)
    if ordered and isinstance(task, ArrangementTask):
        return sampled_moments(task, activation, m_k, R_k, resolution)
    if isinstance(activation, Projection | families.NormMax | families.TopK):
        return _thresholded(task, activation, m_k, R_k, resolution)
    if isinstance(activation, families.CosineReweighted):
        return reweighted_moments(task, activation, m_k, R_k, resolution)
    if isinstance(activation, families.StickBreaking):
        return stick_breaking_moments(task, activation, m_k, R_k, resolution)
    accepted = "Elementwise, Normalised, Projection or of a family of slrlab.model.families"
    return _checks.fail("activation", accepted, type(activation).__name__, TypeError)


def _rescaled(
    task: MarionSLR, activation: Activation, keys: tuple[float, float], resolution: float
) -> AttentionMoments:
    """Return the moments where the relevant token has its own variance."""
    if not isinstance(activation, Elementwise | Normalised):
        accepted = f"Elementwise or Normalised on the task {task.name}"
        _checks.fail("activation", accepted, type(activation).__name__, TypeError)
    return rescaled_moments(task, activation, *keys, resolution)


def _averaged(
    task: Task,
    activation: families.LengthScaled,
    keys: tuple[float, float],
    resolution: float,
    check: bool,
) -> AttentionMoments:
    """Return the moments of an activation that sees the length: one task for each length."""
    target, energy, error = 0.0, 0.0, 0.0
    for length, probability in task.length.pairs():
        scale, factor = activation.score(length), activation.factor(length)
        moments = attention_moments(
            replace(task, length=LengthLaw.of(length)),
            activation.at_length(length),
            scale * keys[0],
            scale**2 * keys[1],
            resolution=resolution,
            check=check,
        )
        target += probability * factor * moments.target
        energy += probability * factor**2 * moments.energy
        error += probability * moments.sampled_error
    unexplained = max(0.0, energy - target**2)
    return AttentionMoments(target, 1.0 - target, unexplained, sampled_error=error)


def _mapped(
    task: Task,
    activation: Elementwise | Normalised | families.Ratio,
    keys: tuple[float, float],
    resolution: float,
    check: bool,
) -> AttentionMoments:
    """Return the moments of maps of single scores, normalised or not."""
    m_k, R_k = keys
    arranged = isinstance(task, ArrangementTask)
    if arranged or isinstance(activation, families.Ratio) or activation.bends:
        moments = bent_moments(task, activation, m_k, R_k, resolution)
        if moments is not None:
            return moments
    # no other rule holds for ratios or narrow features
    narrow = bool(activation.bends) and activation.width < _NARROW
    if arranged or isinstance(activation, families.Ratio) or narrow:
        raise ComputationError(
            f"{activation.name} has no rule for {task.name} at signal {task.signal:g}, "
            f"m_k {m_k:.4g} and R_k {R_k:.4g}"
        )
    if isinstance(task, TiltedTask):
        if task.has_infinite_score:
            return certain_location(task, activation, m_k, R_k, resolution)
        if isinstance(activation, Elementwise):
            return elementwise_tilted(task, activation, m_k, R_k, resolution)
        return normalised_tilted(task, activation, m_k, R_k, resolution)
    if not isinstance(task, SelectionTask):
        _checks.fail("task", "a TiltedTask or a SelectionTask", type(task).__name__, TypeError)
    if isinstance(activation, Elementwise):
        return elementwise_selected(task, activation, m_k, R_k, resolution)
    return normalised_selected(task, activation, m_k, R_k, resolution, check)


def _thresholded(
    task: Task,
    activation: Projection | families.NormMax | families.TopK,
    m_k: float,
    R_k: float,
    resolution: float,
) -> AttentionMoments:
    """Return the moments of weights that vanish below a threshold, sampled where no rule is."""
    from slrlab.theory.moments.threshold import threshold_moments
    from slrlab.theory.moments.top_k import top_k_moments

    if task.has_infinite_score:
        if m_k <= 0.0:
            _checks.fail("m_k", f"> 0 for {activation.name} at an infinite signal", m_k)
        if not activation.unbounded_contrast:
            _checks.fail("signal", f"finite for {activation.name}", task.signal)
        return AttentionMoments(1.0, 0.0, 0.0)
    if isinstance(activation, Projection) and activation.budget >= task.length.longest:
        return AttentionMoments(1.0, 0.0, task.length.mean - 1.0)  # every weight is 1
    moments = None
    if m_k != 0.0 or R_k != 0.0:
        if not isinstance(activation, families.TopK):
            moments = threshold_moments(task, activation, m_k, R_k, resolution)
        else:
            moments = top_k_moments(task, activation, m_k, R_k, resolution)
    return moments or sampled_moments(task, activation, m_k, R_k, resolution)
