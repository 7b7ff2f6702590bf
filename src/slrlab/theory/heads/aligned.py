r"""Independent heads, each aligned with one direction: the least risk of ordinary attention.

Head ``h`` has ``k = a_h k*_h`` and ``v = b_h v*_h``. Its answer is needed with probability ``π_h``
and is noise otherwise, when its scores are those of a task without a signal: the risk is

    Δ² + 1 − Σ_h [2 π_h b_h A_h − b_h² (π_h B_h + (1 − π_h) B⁰_h)],

with ``A_h, B_h`` the moments of one head at its signal and ``B⁰_h`` its ``B`` at signal 0, at the
same keys. The best ``b_h`` leaves ``Δ² + 1 − Σ_h max_a (π_h A)²/(π_h B + (1 − π_h) B⁰)``: a search
for each head.

Of all weights that depend on the scores of their own head alone the best are the posterior
probabilities that the token is relevant for this head: a softmax with a sink,
``e^{s_ℓ}/(1 + Σe^s)`` with ``s = √ν χ* − ν/2 + log(π/((1−π)L))``. The sink stands for "this head is
idle".

Weights that sum to 1 do so in an idle head, too. A further head that attends to all tokens
alike, with weights ``1/L``, subtracts their mean: with ``u = E 1/L`` the moments become ``A − u``,
``B − u`` and ``B⁰ − u``, heads are uncorrelated, and the further head itself gains ``u Σπ²``.
Independent of how moments are computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from slrlab import _checks
from slrlab._result import Result, Status, plain
from slrlab.model.activations import Activation, Elementwise, Normalised, make_activation
from slrlab.model.families import Ratio
from slrlab.model.heads import BAYES_SOFTMAX, MultiHeadSLR, make_heads_activation
from slrlab.model.tasks import Task
from slrlab.theory.heads.bayes import heads_bayes_risk
from slrlab.theory.moments import AttentionMoments, attention_moments
from slrlab.theory.population.minimal import refined_moments
from slrlab.theory.population.search import best_keys

_STRONGEST = 1e4  # signal beyond which the moments of maps that sort or project take too long


@dataclass(frozen=True)
class HeadOptimum:
    """The best keys and values of one head, and how much of the risk they remove.

    Attributes
    ----------
    direction
        Index of the direction that the head is aligned with.
    m_k, m_v, bias
        Overlaps with the teachers of that direction, and the bias.
    A, B, B_idle
        Moments at its signal, and ``B`` in sequences of other directions; of the weights minus
        their mean beside a uniform head.
    gain
        ``(πA)²/(πB + (1−π)B⁰)``.
    """

    direction: int
    m_k: float
    m_v: float
    bias: float
    A: float
    B: float
    B_idle: float
    gain: float


@dataclass(frozen=True)
class HeadsRisk(Result):
    """Least risk of aligned heads with infinite data.

    Attributes
    ----------
    risk, error
        Mean squared error, label noise included, and an estimate of its numerical error.
    bayes_risk
        The least risk of any predictor.
    heads
        The optimum of each head, in the order of their gains.
    activation, task
        The attention of each head, and the task.
    """

    risk: float
    bayes_risk: float
    error: float
    heads: tuple[HeadOptimum, ...]
    activation: str
    task: MultiHeadSLR

    @property
    def excess(self) -> float:
        """Risk above the Bayes risk."""
        return self.risk - self.bayes_risk

    def to_dict(self) -> dict[str, Any]:
        """Return risks, the lists of each quantity of the heads, and the task."""
        shown: dict[str, Any] = {"status": self.status, "risk": self.risk, "error": self.error}
        shown |= {"bayes_risk": self.bayes_risk, "excess": self.excess}
        for name in HeadOptimum.__dataclass_fields__:
            shown[name] = [getattr(head, name) for head in self.heads]
        shown |= {"activation": self.activation} | self.task.to_dict()
        return {name: plain(value) for name, value in shown.items()}

    def __str__(self) -> str:
        return (
            f"{len(self.heads)} heads of {self.activation} on {self.task.directions} directions: "
            f"risk {self.risk:.10g} (Bayes {self.bayes_risk:.10g}), {self.status}"
        )


def heads_risk(
    task: MultiHeadSLR,
    activation: Activation | str,
    *,
    heads: int | None = None,
    uniform: bool = False,
    tolerance: float = 1e-9,
    strict: bool = False,
) -> HeadsRisk:
    r"""Return the least risk of aligned heads, one for each of the best directions.

    Parameters
    ----------
    task
        The task, with its directions.
    activation
        Attention of each head: any activation, or ``"bayes-softmax"``, which is normalised over
        tokens and heads together and needs a head for each direction.
    heads
        Number ``H`` of heads; None for one a direction. Heads beyond the number of directions
        have values 0 here.
    uniform
        Whether there is one head more, with keys 0, that attends to all tokens alike. It has values
        along all directions, and so have the others, to take its share away.
    tolerance
        Relative accuracy of the noiseless risk of each head.
    strict
        Raise `slrlab.ComputationError` if it is not reached.

    Returns
    -------
    HeadsRisk
        The risk, the Bayes risk, and the optimum of each head.

    Raises
    ------
    ValueError
        If the activation is unknown, the Bayes-softmax has fewer heads than directions, the weights
        of an activation do not sum to 1 beside a uniform head, or a signal is above 1e4 with an
        activation that is neither elementwise nor normalised.

    Examples
    --------
    >>> from slrlab import MultiHeadSLR, heads_risk
    >>> task = MultiHeadSLR(6.0, 5, directions=4)
    >>> result = heads_risk(task, "softmax")
    >>> print(f"{result.risk:.4f} at m_k = {result.heads[0].m_k:.2f}")
    0.7214 at m_k = 1.39
    >>> print(f"{heads_risk(task, 'softmax', uniform=True).risk:.4f} with a fifth head")
    0.6808 with a fifth head
    """
    chosen = make_heads_activation(activation)
    tolerance = _checks.positive(tolerance, "tolerance")
    count = task.directions if heads is None else _checks.integer(heads, "heads")
    if (
        not isinstance(chosen, Elementwise | Normalised | Ratio | None)
        and max(task.signals) > _STRONGEST
    ):
        _checks.fail("signals", f"at most {_STRONGEST:g} with {chosen.name}", max(task.signals))
    least = heads_bayes_risk(task)
    least_status = Status.CONVERGED if least.status is Status.LIMIT else least.status
    if uniform and (chosen is None or not _sums_to_one(chosen)):
        _checks.fail("uniform", "False for weights that do not sum to 1", uniform)
    if chosen is None:
        result = _bayes_softmax(task, count, least.risk, least.error)
        return result.require() if strict else result
    mean = math.fsum(share / n for n, share in task.length.pairs()) if uniform else 0.0
    by_kind = {kind: _optimum(task, kind, chosen, tolerance, mean) for kind in _kinds(task)}
    pairs = zip(task.signals, task.probabilities, strict=True)
    optima = [replace(by_kind[pair][0], direction=index) for index, pair in enumerate(pairs)]
    optima.sort(key=lambda one: -one.gain)
    result = HeadsRisk(
        status=Status.worst([least_status, *(status for *_, status in by_kind.values())]),
        risk=task.trivial_risk
        - mean * math.fsum(share**2 for share in task.probabilities)
        - math.fsum(one.gain for one in optima[:count]),
        bayes_risk=least.risk,
        error=math.fsum(error for _, error, _ in by_kind.values()),
        heads=tuple(optima[:count]),
        activation=chosen.name,
        task=task,
    )
    return result.require() if strict else result


def _sums_to_one(activation: Activation) -> bool:
    """Return whether weights sum to 1 for each sequence, seen on a few."""
    rows = activation.with_bias(0.0).weights(np.linspace(-1.0, 2.0, 12).reshape(4, 3))
    return bool(np.allclose(rows.sum(axis=1), 1.0, atol=1e-9))


def _kinds(task: MultiHeadSLR) -> list[tuple[float, float]]:
    """Return the different pairs of signal and probability."""
    return list(dict.fromkeys(zip(task.signals, task.probabilities, strict=True)))


def _bayes_softmax(task: MultiHeadSLR, heads: int, risk: float, error: float) -> HeadsRisk:
    """Return the optimum of the Bayes-softmax, which is the posterior."""
    if heads < task.directions:
        accepted = f"at least the {task.directions} directions for {BAYES_SOFTMAX}"
        _checks.fail("heads", accepted, heads)
    unknown = dict.fromkeys(("A", "B", "B_idle", "gain"), math.nan)  # heads have none of their own
    pairs = enumerate(zip(task.signals, task.probabilities, strict=True))
    optima = tuple(
        HeadOptimum(
            direction=index,
            m_k=math.sqrt(signal),
            m_v=1.0,
            bias=math.log(share) - signal / 2.0,
            **unknown,
        )
        for index, (signal, share) in pairs
    )
    given: dict[str, Any] = {"heads": optima, "activation": BAYES_SOFTMAX, "task": task}
    return HeadsRisk(status=Status.CONVERGED, risk=risk, bayes_risk=risk, error=error, **given)


def sink_bias(task: MultiHeadSLR, direction: int) -> float:
    """Return the bias of softmax with a sink of 1 that is best for a head, at a fixed length.

    It is ``log(π/((1−π)L)) − ν/2``, with keys ``√ν k*``; ``inf`` if there is one direction only.

    >>> round(sink_bias(MultiHeadSLR(6.0, 5, directions=4), 0), 4)
    -5.7081

    Raises
    ------
    ValueError
        If the length is random: then the best sink depends on it.
    """
    if len(task.length.lengths) != 1:
        _checks.fail("length", "a single number here", str(task.length))
    share, signal = task.probabilities[direction], task.signals[direction]
    if share == 1.0:
        return math.inf
    return math.log(share / ((1.0 - share) * task.length.longest)) - signal / 2.0


def idle_moments(
    task: Task,
    activation: Activation,
    m_k: float,
    R_k: float = 0.0,
    *,
    idle: float,
    mean: float = 0.0,
    resolution: float = 1.0,
    check: bool = True,
) -> AttentionMoments:
    """Return the moments of a head that is idle ``idle`` times for each time it is needed.

    Idle sequences add their squared weights to ``B``. ``mean`` is ``E 1/L`` if the mean of the
    weights is subtracted, else 0.
    """
    rule: dict[str, Any] = {"resolution": resolution, "check": check}
    needed = attention_moments(task, activation, m_k, R_k, **rule)
    if mean > 0.0:
        needed = _centred(needed, mean)
    if idle == 0.0:
        return needed
    noise = attention_moments(replace(task, signal=0.0), activation, m_k, R_k, **rule)
    added = idle * (noise.energy * (noise.unit / needed.unit) ** 2 - mean)
    error = math.hypot(needed.sampled_error, idle * noise.sampled_error)
    return replace(needed, unexplained=needed.unexplained + added, sampled_error=error)


def _centred(moments: AttentionMoments, mean: float) -> AttentionMoments:
    """Return the moments of weights that sum to 1, minus their mean; their unit is 1."""
    target = moments.target - mean
    if target <= 0.0:  # keys 0: nothing is left
        return replace(moments, target=0.0, shortfall=1.0, unexplained=1.0)
    unexplained = moments.energy - mean - target**2
    return replace(moments, target=target, shortfall=1.0 - target, unexplained=unexplained)


def _optimum(
    task: MultiHeadSLR,
    kind: tuple[float, float],
    activation: Activation,
    tolerance: float,
    mean: float = 0.0,
) -> tuple[HeadOptimum, float, Status]:
    """Return the best head for a signal and a probability, its error and a status."""
    signal, share = kind
    alone = task.alone(task.signals.index(signal))
    moments_of = partial(idle_moments, idle=(1.0 - share) / share, mean=mean)
    free = make_activation(activation).without_idle_bias()
    search = best_keys(alone, free, moments_of)
    moments, error, status = refined_moments(
        alone, search.activation, search.m_k, 0.0, tolerance, moments_of=moments_of
    )
    needed = idle_moments(alone, search.activation, search.m_k, idle=0.0, mean=mean)
    square = moments.unit**2
    worst = Status.worst([status, search.status])
    fraction = 1.0 - moments.best_risk
    optimum = HeadOptimum(
        direction=0,
        m_k=search.m_k,
        m_v=moments.best_value_scale,
        bias=float(search.activation.bias or 0.0),
        A=moments.target * moments.unit,
        B=needed.energy * square,
        B_idle=(moments.energy - needed.energy) * square * share / (1.0 - share or 1.0),
        gain=share * fraction,
    )
    return optimum, share * error, worst
