"""Hit rate: the probability that the largest weight is on the relevant token."""

from __future__ import annotations

import math
from typing import Any, Protocol

from slrlab import _checks
from slrlab.model.arrangements import check_family
from slrlab.model.tasks import Task
from slrlab.theory.moments.largest import noisy_is_largest


class Keys(Protocol):
    """What has key overlaps: order parameters, or a result of a theory or of training.

    Beside ``m_k`` it has ``R_k`` or ``q_k``.
    """

    @property
    def m_k(self) -> float:
        """``k·k*/D``."""


def hit_rate(task: Task, order: Keys | None = None) -> float:
    """Return the probability ``P(ε = argmax χ)`` that the relevant token has the largest score.

    It is the hit rate, the probability that the largest weight is on the relevant token, of every
    activation that increases with the score. Such activations differ in the weight of
    that token, not in which token it is. Of several relevant tokens (task
    needles) any one counts.

    Parameters
    ----------
    task
        The task, with its signal and length law.
    order
        Keys of the predictor: `OrderParameters`, or a result such as that of `erm_theory`. Scores
        are ``χ = m_k·χ* + √R_k·n``. None for any keys along ``k*``, where ``R_k = 0``. On
        spiked-SLR, keys with ``R_k > 0`` act as the smaller signal ``ν m_k²/q_k``.

    Returns
    -------
    float
        The probability.

    Raises
    ------
    TypeError
        If ``task`` is not a task or ``order`` has no key overlaps.
    ComputationError
        On a selection task with finite keys, if a large signal or a small ``R_k`` needs too many
        nodes.

    Examples
    --------
    >>> from slrlab import OrderParameters, SpikedSLR, hit_rate
    >>> print(f"{hit_rate(SpikedSLR(signal=9.0, length=10)):.8f}")
    0.90248844
    >>> print(f"{hit_rate(SpikedSLR(9.0, 10), OrderParameters(m_k=2.0, m_v=1.0, R_k=1.0)):.8f}")
    0.84840765
    """
    check_family(task)
    return noisy_is_largest(task, *((1.0, 0.0) if order is None else key_overlaps(order)))


def key_overlaps(order: Any) -> tuple[float, float]:
    """Return ``m_k`` and ``R_k`` of order parameters or of a result.

    Raises
    ------
    TypeError
        If it has none.
    """
    m_k, R_k, q_k = (getattr(order, name, math.nan) for name in ("m_k", "R_k", "q_k"))
    known = isinstance(m_k, float) and not (math.isnan(R_k) and math.isnan(q_k))
    if not known:
        accepted = "OrderParameters(m_k, m_v) or a result with m_k and q_k"
        _checks.fail("order", accepted, order, TypeError)
    return m_k, max(0.0, q_k - m_k**2 if math.isnan(R_k) else R_k)
