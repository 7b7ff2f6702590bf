r"""How fast population risks fall with the signal, fitted from computed risks (Cor. 4.3).

Linear attention falls like a power of ``ν``, softmax exponentially: the fits leave exponents and
prefactors free and are compared with the predictions, never told them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slrlab._result import Result, Status
from slrlab.model.lengths import LengthLaw
from slrlab.model.tasks import SpikedSLR
from slrlab.theory.population.bayes_risk import bayes_risk
from slrlab.theory.population.closed_forms import best_elementwise_risk
from slrlab.theory.population.minimal import minimal_risk


@dataclass(frozen=True)
class RateFit(Result):
    """A fitted constant beside its prediction."""

    activation: str
    length: LengthLaw
    quantity: str
    fitted: float
    predicted: float

    @property
    def deviation(self) -> float:
        """Relative distance of the fit from the prediction."""
        return abs(self.fitted - self.predicted) / abs(self.predicted)


def linear_rate(length: LengthLaw, *, low: float = 1e3, high: float = 1e4) -> list[RateFit]:
    """Fit ``E = C ν^{−p}`` to linear attention on spiked-SLR; predicted ``p = 1``, ``C = L̄``.

    A term ``d/ν`` takes up the next order.
    """
    signals = np.geomspace(low, high, 7)
    risks = np.array([minimal_risk(SpikedSLR(nu, length), "linear").risk for nu in signals])
    design = np.stack([np.ones_like(signals), -np.log(signals), 1.0 / signals], axis=1)
    (log_c, power, _), *_ = np.linalg.lstsq(design, np.log(risks), rcond=None)
    names = ("power p of 1/ν", "prefactor C")
    return _fits("linear", length, names, (float(power), math.exp(log_c)), (1.0, length.mean))


def softmax_rate(length: int, *, low: float = 100.0, high: float = 400.0) -> list[RateFit]:
    r"""Fit ``E = C ν^{−p} e^{−bν}`` to softmax on spiked-SLR.

    Predicted ``b = 1/4``, ``p = 1/2``, ``C = (L−1)√π/2``.
    """
    prefactor = (length - 1) * math.sqrt(math.pi) / 2.0
    return _exponential_rate(
        "softmax", lambda task: bayes_risk(task).risk, length, (low, high), (0.25, 0.5, prefactor)
    )


def elementwise_rate(length: int, *, low: float = 200.0, high: float = 800.0) -> list[RateFit]:
    r"""Fit ``E = C ν^{−p} e^{−bν}`` to the best elementwise activation on spiked-SLR.

    Predicted ``b = 1/8``, ``p = 1/2``, ``C = √((L−1)π/2)``, from
    `slrlab.theory.population.closed_forms.best_elementwise_risk` at large
    ``ν``: without a sum over the other tokens the exponent is half that of softmax.
    """
    prefactor = math.sqrt((length - 1) * math.pi / 2.0)
    return _exponential_rate(
        "best elementwise", best_elementwise_risk, length, (low, high), (0.125, 0.5, prefactor)
    )


def _exponential_rate(
    name: str,
    risk: Callable[[SpikedSLR], float],
    length: int,
    signals: tuple[float, float],
    predicted: tuple[float, float, float],
) -> list[RateFit]:
    """Fit decay, power and prefactor; a term ``d/ν`` takes up the next order."""
    law = LengthLaw.of(length)
    nus = np.linspace(*signals, 13)
    logs = np.log([risk(SpikedSLR(nu, law)) for nu in nus])
    design = np.stack([np.ones_like(nus), -np.log(nus), -nus, 1.0 / nus], axis=1)
    (log_c, power, decay, _), *_ = np.linalg.lstsq(design, logs, rcond=None)
    names = ("decay b of e^{−bν}", "power p of 1/ν", "prefactor C")
    fitted = (float(decay), float(power), math.exp(log_c))
    return _fits(name, law, names, fitted, predicted)


def _fits(
    activation: str,
    length: LengthLaw,
    quantities: Sequence[str],
    fitted: Sequence[float],
    predicted: Sequence[float],
) -> list[RateFit]:
    return [
        RateFit(
            status=Status.CONVERGED,
            activation=activation,
            length=length,
            quantity=quantity,
            fitted=found,
            predicted=expected,
        )
        for quantity, found, expected in zip(quantities, fitted, predicted, strict=True)
    ]
