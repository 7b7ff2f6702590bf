r"""How fast population risks fall with the signal, fitted from computed risks (Cor. 4.3).

The risk of linear attention falls like a power of ``ν``, that of softmax exponentially. Exponents
and prefactors are free in the fits, which are then compared with the predictions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slrlab._result import Result, Status
from slrlab._types import FloatArray
from slrlab.model.lengths import LengthLaw
from slrlab.model.tasks import SpikedSLR
from slrlab.theory.population.bayes_risk import bayes_risk
from slrlab.theory.population.closed_forms import best_elementwise_risk
from slrlab.theory.population.minimal import minimal_risk

_DECAY, _POWER, _PREFACTOR = "decay b of e^{−bν}", "power p of 1/ν", "prefactor C"


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
    """Fit ``E = C ν^{−p}`` to linear attention on spiked-SLR; predicted ``p = 1``, ``C = L̄``."""
    signals = np.geomspace(low, high, 7)
    risks = [minimal_risk(SpikedSLR(nu, length), "linear").risk for nu in signals]
    return _fits("linear", length, signals, risks, {_POWER: 1.0, _PREFACTOR: length.mean})


def softmax_rate(length: int, *, low: float = 100.0, high: float = 400.0) -> list[RateFit]:
    r"""Fit ``E = C ν^{−p} e^{−bν}`` to softmax on spiked-SLR.

    Predicted ``b = 1/4``, ``p = 1/2``, ``C = (L−1)√π/2``.
    """
    signals, law = np.linspace(low, high, 13), LengthLaw.of(length)
    risks = [bayes_risk(SpikedSLR(nu, law)).risk for nu in signals]
    prefactor = (length - 1) * math.sqrt(math.pi) / 2.0
    predicted = {_DECAY: 0.25, _POWER: 0.5, _PREFACTOR: prefactor}
    return _fits("softmax", law, signals, risks, predicted)


def elementwise_rate(length: int, *, low: float = 200.0, high: float = 800.0) -> list[RateFit]:
    r"""Fit ``E = C ν^{−p} e^{−bν}`` to the best elementwise activation on spiked-SLR.

    Predicted ``b = 1/8``, ``p = 1/2``, ``C = √((L−1)π/2)``, from
    `slrlab.theory.population.closed_forms.best_elementwise_risk` at large
    ``ν``: without a sum over the other tokens the exponent is half that of softmax.
    """
    signals, law = np.linspace(low, high, 13), LengthLaw.of(length)
    risks = [best_elementwise_risk(SpikedSLR(nu, law)) for nu in signals]
    prefactor = math.sqrt((length - 1) * math.pi / 2.0)
    predicted = {_DECAY: 0.125, _POWER: 0.5, _PREFACTOR: prefactor}
    return _fits("best elementwise", law, signals, risks, predicted)


def _fits(
    activation: str,
    length: LengthLaw,
    signals: FloatArray,
    risks: list[float],
    predicted: dict[str, float],
) -> list[RateFit]:
    """Fit ``log E = log C − p log ν − bν + d/ν``; ``b = 0`` unless predicted; ``d`` is dropped."""
    columns = [np.ones_like(signals), -np.log(signals), -signals, 1.0 / signals]
    if _DECAY not in predicted:
        del columns[2]
    solution = np.linalg.lstsq(np.stack(columns, axis=1), np.log(risks), rcond=None)[0]
    log_c, power, *decay, _ = solution.tolist()
    fitted = (*decay, power, math.exp(log_c))
    return [
        RateFit(
            status=Status.CONVERGED,
            activation=activation,
            length=length,
            quantity=quantity,
            fitted=value,
            predicted=predicted[quantity],
        )
        for quantity, value in zip(predicted, fitted, strict=True)
    ]
