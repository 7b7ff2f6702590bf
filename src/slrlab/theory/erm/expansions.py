r"""Trained attention at large ``α``: how fast the population risk is reached.

As ``α → ∞`` the prox becomes a gradient step, ``g → −∇loss``, and state evolution reduces to
classical asymptotics: ``R_a → S_a/(α h_a²)`` with ``S_a = E|g_a|²`` and ``h_a = E tr H_aa`` at the
population optimum, so that

    test risk = population risk + (S_k/h_k + S_v/h_v)/α + O(1/α²)

at any fixed ridge, the best one included (a fixed ridge adds a bias of order 1/α² only).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slrlab._result import Estimate, Result, Status
from slrlab.model.activations import Activation
from slrlab.model.tasks import Task
from slrlab.theory.erm.equations import Channel
from slrlab.theory.erm.fields import draw_fields
from slrlab.theory.erm.overlaps import ErmOverlaps
from slrlab.theory.erm.solve import checked
from slrlab.theory.population.minimal import minimal_risk

_SIZE = 13
_NO_VARIANCE = 1e-8


@dataclass(frozen=True)
class LargeAlpha(Result):
    """``risk ≈ population_risk + rate/α``.

    Attributes
    ----------
    rate_k, rate_v
        The contributions of keys and values to ``rate``.
    rate_error
        Standard error of ``rate``.
    """

    population_risk: float
    rate: float
    rate_error: float
    rate_k: float
    rate_v: float

    def risk(self, alpha: float) -> float:
        """Return the first two terms at ``alpha``."""
        return self.population_risk + self.rate / alpha


def large_alpha(task: Task, activation: Activation | str, *, seed: int = 0) -> LargeAlpha:
    """Return the leading correction to the population risk at large ``α``.

    A free bias has its value at the population optimum; learning it costs nothing at this order.

    Parameters
    ----------
    task, activation
        The task, and the activation that is trained.
    seed
        Seed of the sample over which the correction is averaged.

    Returns
    -------
    LargeAlpha
        The population risk and the rate of its correction, ``rate/α``.

    Raises
    ------
    ValueError
        If the population optimum is a limit (infinite keys), where this expansion does not exist.

    Examples
    --------
    >>> from slrlab import SpikedSLR, large_alpha
    >>> limit = large_alpha(SpikedSLR(signal=2.0, length=3), "softmax")
    >>> print(f"{limit.population_risk:.4f} + {limit.rate:.1f}/alpha")
    0.3524 + 1.5/alpha
    """
    chosen = checked(task, activation, 1.0, 1.0)
    population = minimal_risk(task, chosen)
    if not math.isfinite(population.m_k) or population.status is Status.BOUNDARY:
        raise ValueError(
            f"activation must have a finite population optimum, got m_k = {population.m_k:g} "
            f"({population.status}) for {chosen.name}"
        )
    overlaps = ErmOverlaps(
        m_k=population.m_k,
        q_k=population.m_k**2,
        V_k=_NO_VARIANCE,
        m_v=population.m_v,
        q_v=population.m_v**2,
        V_v=_NO_VARIANCE,
    )
    fixed = chosen if chosen.bias is not None else chosen.with_bias(population.bias)
    channel = Channel.of(draw_fields(task, _SIZE, seed), fixed, task.noise, global_prox=False)
    blocks = channel.means(overlaps).conjugates(1.0, overlaps, "trace")
    keys = np.array([0.0 if hats.V_k == 0.0 else hats.q_k / hats.V_k for hats in blocks])
    values = np.array([hats.q_v / hats.V_v for hats in blocks])
    rate = Estimate.of(keys + values)
    return LargeAlpha(
        status=Status.SAMPLED,
        population_risk=population.risk,
        rate=rate.value,
        rate_error=rate.error,
        rate_k=float(keys.mean()),
        rate_v=float(values.mean()),
    )
