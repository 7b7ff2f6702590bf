r"""Softmax as the limit of another map: how the excess vanishes with the bias.

A normalised map with an exponential left tail tends to softmax as its bias falls, one with a sink
as its bias grows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slrlab import _checks
from slrlab._result import Estimate, Result, Status
from slrlab._types import FloatArray
from slrlab.model.activations import Normalised, make_activation
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.theory.population.key_sample import BLOCKS, draw_keys
from slrlab.theory.population.minimal import minimal_risk

_TAIL, _TINY = 12.0, 1e-4  # score at which a tail is read; coefficient below which it is rounding
_LOG2_SIZE = 12  # log2 of the sequences in a block of the sample


@dataclass(frozen=True)
class BiasLimit(Result):
    """The least excess of a normalised map at fixed biases, on its way to softmax.

    Attributes
    ----------
    bias, excess, excess_error
        Biases, and the least excess at each over the keys and values.
    rate
        Slope of the log of the excess against the size of the bias, between successive biases: −2
        where the excess is ``constant·e^{−2|bias|}``.
    constant, constant_error
        Limit of ``excess·e^{2|bias|}`` from first-order perturbation, sampled; 0 if the map is
        exactly exponential below some score: then the excess falls faster.
    """

    bias: FloatArray
    excess: FloatArray
    excess_error: FloatArray
    rate: FloatArray
    constant: float
    constant_error: float
    setting: Setting


def bias_limit(
    task: Task, activation: str | Normalised, biases: Sequence[float], *, seed: int = 0
) -> BiasLimit:
    r"""Return how the excess of a normalised map vanishes as its bias makes it softmax.

    With an exponential left tail, ``φ(x) = e^x (1 + κe^x + …)``, a bias ``c → −∞`` gives
    ``σ = p∘(1 + κe^c (u − ⟨p, u⟩))`` to first order, where ``p ∝ u``. Changes along ``p`` (the
    values) and ``p∘(χ* − ⟨p, χ*⟩)`` (the keys) cost nothing: the excess is ``e^{2c}`` times the
    squared distance of ``κ p∘(u − ⟨p, u⟩)`` from their span. A sink ``s`` and a bias ``c → ∞``
    have the first order ``−s e^{−c} p/Σu`` instead.

    Parameters
    ----------
    task
        The task; its posterior must be a softmax of the scores.
    activation
        A normalised map that contains softmax as a limit of its bias.
    biases
        The biases at which the excess is computed.
    seed
        Seed of the sample from which the predicted constant is computed.

    Returns
    -------
    BiasLimit
        The excess at each bias, its rate and the constant of its limit.

    Raises
    ------
    TypeError
        If the activation is not a normalised one.
    ValueError
        If it does not contain softmax as a limit, or the posterior of the task is not a softmax.

    Examples
    --------
    >>> from slrlab import SpikedSLR, bias_limit
    >>> limit = bias_limit(SpikedSLR(signal=1.0, length=3), "softplus", [-6.0, -8.0])
    >>> print(limit.rate.round(1), f"{limit.constant:.2f}")
    [-2.] 0.09
    """
    chosen = make_activation(activation)
    if not isinstance(chosen, Normalised):
        _checks.fail("activation", "a normalised one", chosen.name, TypeError)
    scale = task.posterior_scale
    if scale is None or not math.isfinite(scale):
        _checks.fail("task", "one whose posterior is a softmax, at a finite signal", task)
    if chosen.exponential == "nowhere" or chosen.is_softmax:
        _checks.fail("activation", "a map that tends to softmax with its bias", chosen.name)
    c = np.array([_checks.finite(bias, "biases") for bias in biases])
    results = [minimal_risk(task, chosen.with_bias(bias)) for bias in c.tolist()]
    excess = np.array([result.excess for result in results])
    with np.errstate(divide="ignore", invalid="ignore"):  # an excess below rounding may be 0
        rate = np.diff(np.log(excess)) / np.diff(np.abs(c))
    constant = _first_order(task, chosen, scale, seed)
    return BiasLimit(
        status=Status.worst([Status.SAMPLED, *(result.status for result in results)]),
        bias=c,
        excess=excess,
        excess_error=np.array([result.error for result in results]),
        rate=rate,
        constant=constant.value,
        constant_error=constant.error,
        setting=Setting(task, chosen),
    )


def _first_order(task: Task, activation: Normalised, scale: float, seed: int) -> Estimate:
    """Return the squared distance of the first-order change from those that cost nothing."""
    tail = activation.exponential == "left"
    # from log φ = x + κe^x + …, far enough to the left for the rest to be below 1e-5
    kappa = float(activation.phi.log_value(np.array([-_TAIL]))[0] + _TAIL) * math.exp(_TAIL)
    kappa = kappa if abs(kappa) > _TINY else 0.0
    gram = np.zeros((3, 3, BLOCKS))
    for probability, keys, p in draw_keys(task, _LOG2_SIZE, seed).groups:
        u = np.exp(scale * keys)
        change = kappa * (u - (p * u).sum(-1, keepdims=True))
        if not tail:
            change = np.broadcast_to(-activation.sink / u.sum(-1, keepdims=True), u.shape)
        along_keys = keys - (p * keys).sum(-1, keepdims=True)
        rows = np.stack([p * change, p * along_keys, p])
        gram += probability * np.einsum("ibnl,jbnl->ijb", rows, rows) / keys.shape[1]
    mean = gram.mean(axis=-1)
    best = np.array([1.0, *-np.linalg.lstsq(mean[1:, 1:], mean[1:, 0])[0]])
    return Estimate.of(np.einsum("i,ijb,j->b", best, gram, best))
