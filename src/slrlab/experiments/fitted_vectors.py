"""Keys and values fitted at one length, known by their order parameters, and used at another.

With infinite data the vectors are those of least risk; from ``N = αD`` sequences they are those
that training ends with. The scores may be multiplied by a factor where they are used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from slrlab._errors import ComputationError
from slrlab._result import Status
from slrlab._types import FloatArray
from slrlab.model.activations import SOFTMAX, Activation, Projection
from slrlab.model.families import LengthScaled, NormMax
from slrlab.model.order_parameters import OrderParameters, SquaredNorms
from slrlab.model.setting import Setting
from slrlab.model.tasks import Task
from slrlab.numerics.minimise import newton_minimum
from slrlab.theory.erm import erm_theory, optimal_ridge
from slrlab.theory.moments import attention_moments
from slrlab.theory.moments.infinite_keys import infinite_keys
from slrlab.theory.population.minimal import PopulationRisk, minimal_risk, risk_at

_DOUBLINGS = 4  # the best factor lies between 2⁻⁴ and 2⁴
_SCAN, _RESOLUTION = 0.5, 0.75  # resolutions of the scan and of the searches: six digits
_THRESHOLDS = 1.0  # of both for projections, whose rule is coarse at small factors
_SAME = 1e-6  # risks that differ by less do not choose a factor
_limit = lru_cache(maxsize=16)(infinite_keys)  # the same for all factors


@dataclass(frozen=True)
class FittedVectors(SquaredNorms):
    """Order parameters of fitted vectors; ``activation`` has its bias, given or fitted.

    ``risk`` and ``error`` are those at the length of the fit, ``errors`` the standard errors of
    ``m_k``, ``q_k``, ``m_v`` and ``q_v`` after training. ``m_k`` is infinite where the optimum is
    the limit of ever longer keys.
    """

    activation: Activation
    m_k: float
    m_v: float
    R_k: float
    R_v: float
    bias: float
    risk: float
    error: float
    status: Status
    setting: Setting
    errors: dict[str, float] = field(default_factory=dict)

    def risk_at(self, task: Task, factor: float) -> tuple[float, float, Status]:
        """Return risk, error and status on a task, the scores multiplied by a factor.

        Raises
        ------
        ComputationError
            If the keys are infinite and their limit is not known for the task.
        """
        if math.isinf(self.m_k):
            return self._risk_of_limit(task)
        here = self._scaled(task, factor)
        error = here.error
        if self.errors:
            error += 2.0 * abs(here.A) * self.errors["m_v"] + here.B * self.errors["q_v"]
            for m_k, q_k in ((self.errors["m_k"], 0.0), (0.0, self.errors["q_k"])):
                ahead, behind = (self._moved(task, factor, s * m_k, s * q_k) for s in (1.0, -1.0))
                error += abs(ahead - behind) / 2.0
        return here.risk, error, here.status

    def _scaled(self, task: Task, factor: float) -> PopulationRisk:
        """Return the risk with finite keys multiplied by a factor."""
        order = OrderParameters(factor * self.m_k, self.m_v, factor**2 * self.R_k, self.R_v)
        return risk_at(task, self.activation, order, tolerance=1e-6 if self.errors else 1e-9)

    def _moved(
        self,
        task: Task,
        factor: float,
        m_k: float = 0.0,
        q_k: float = 0.0,
        resolution: float = _RESOLUTION,
    ) -> float:
        """Return the noiseless risk with the overlaps of the keys moved, at low resolution."""
        m = self.m_k + m_k
        R = max(0.0, self.q_k + q_k - m**2)
        moments = attention_moments(
            *(task, self.activation, factor * m, factor**2 * R), resolution=resolution, check=False
        )
        return moments.risk(self.m_v, self.R_v)

    def _risk_of_limit(self, task: Task) -> tuple[float, float, Status]:
        """Return the risk of infinitely long keys, which no factor changes."""
        coarse, fine = (_limit(task, self.activation, resolution) for resolution in (1.0, 1.35))
        if coarse is None or fine is None or math.isinf(self.bias):
            raise ComputationError(
                f"the best keys of {self.activation.name} at length {self.setting.task.length} are "
                f"infinite, and their limit at length {task.length} is not known"
            )
        risk = fine.risk(self.m_v)
        return task.noise**2 + risk, abs(risk - coarse.risk(self.m_v)), Status.LIMIT

    def best_factor(self, task: Task) -> tuple[float, Status]:
        """Return the factor of the scores that has the least risk on a task.

        Where several do, it is the one nearest to 1. Status ``boundary``: the risk still falls at
        a factor of 16 or 1/16. ``inaccurate``: at full accuracy no factor found is better than 1.
        """
        if math.isinf(self.m_k):
            return 1.0, Status.LIMIT
        factor, status = self._search(task)
        if factor == 1.0:
            return factor, status
        scaled, plain = (self._scaled(task, one) for one in (factor, 1.0))
        slack = scaled.error + plain.error + _SAME * plain.risk
        return (factor, status) if scaled.risk <= plain.risk + slack else (1.0, Status.INACCURATE)

    def _search(self, task: Task) -> tuple[float, Status]:
        """Return the best factor as approximate risks have it."""
        edge = _DOUBLINGS * math.log(2.0)
        base = self.activation
        base = base.base if isinstance(base, LengthScaled) else base
        least = _THRESHOLDS if isinstance(base, Projection | NormMax) else 0.0

        def risk(point: FloatArray, resolution: float = _RESOLUTION) -> float:
            if abs(point[0]) > edge + 0.1:
                return math.inf
            try:
                value = self._moved(task, math.exp(point[0]), resolution=max(resolution, least))
            except (ValueError, ComputationError):  # too steep for any grid
                return math.inf
            return value if math.isfinite(value) else math.inf

        values = {0: risk(np.zeros(1), _SCAN)}
        for sign in (1, -1):  # outwards from 1, until the risk has risen twice
            for power in range(sign, sign * (_DOUBLINGS + 1), sign):
                values[power] = risk(np.array([power * math.log(2.0)]), _SCAN)
                if values[power] > values[power - sign] > values.get(power - 2 * sign, math.inf):
                    break
        lowest = min(values.values())
        equal = lowest + _SAME * max(1.0, abs(lowest))
        first = min((power for power, value in values.items() if value <= equal), key=abs)
        if all(values.get(first + side, -math.inf) <= equal for side in (-1, 1)):
            return 2.0**first, Status.CONVERGED  # no factor changes anything
        minimum = newton_minimum(
            risk,
            np.array([first * math.log(2.0)]),
            difference=0.02,
            longest_step=0.7,
            tolerance=1e-4,
        )
        at = float(minimum.point[0])
        if abs(at) >= edge:
            return math.exp(math.copysign(edge, at)), Status.BOUNDARY
        return math.exp(at), Status.CONVERGED if minimum.settled else Status.INACCURATE


def fit_vectors(
    task: Task, activation: Activation, alpha: float, options: dict[str, Any]
) -> FittedVectors:
    """Return the vectors of least risk, or those of training with ``options`` if α is finite."""
    return (
        _best(task, activation) if math.isinf(alpha) else _trained(task, activation, alpha, options)
    )


def _best(task: Task, activation: Activation) -> FittedVectors:
    population = minimal_risk(task, activation)
    shaped = population.setting.activation or activation
    if math.isinf(population.bias) and math.isfinite(population.m_k):
        shaped = SOFTMAX  # what the map tends to as its bias grows
    return FittedVectors(
        activation=shaped,
        m_k=population.m_k,
        m_v=population.m_v,
        R_k=0.0,
        R_v=0.0,
        bias=population.bias,
        risk=population.risk,
        error=population.error,
        status=population.status,
        setting=Setting(task, activation),
    )


def _trained(
    task: Task, activation: Activation, alpha: float, options: dict[str, Any]
) -> FittedVectors:
    """Train at a fixed length; an activation that sees the length is then its base.

    Scores multiplied by ``s`` and weights multiplied by ``f`` are keys and values of another size,
    with ridges that are smaller by ``s²`` and ``f²``.
    """
    base, s, f, shift = activation, 1.0, 1.0, 0.0
    if isinstance(activation, LengthScaled):
        length = task.length.longest
        base, s, f = (
            activation.at_length(length),
            activation.score(length),
            activation.factor(length),
        )
        shift = activation.shift(length)
    if "ridge_k" in options:
        ridges = {"ridge_k": options["ridge_k"] / s**2, "ridge_v": options["ridge_v"] / f**2}
        trained = erm_theory(task, base, alpha=alpha, **{**options, **ridges})
    else:
        trained = optimal_ridge(task, base, alpha=alpha, **options)
    scales = {"m_k": s, "q_k": s**2, "m_v": f, "q_v": f**2}
    order = {name: getattr(trained, name) / scale for name, scale in scales.items()}
    bias, given = trained.bias - shift, trained.setting
    return FittedVectors(
        activation=activation.with_bias(bias if math.isfinite(bias) else 0.0),
        m_k=order["m_k"],
        m_v=order["m_v"],
        R_k=max(0.0, order["q_k"] - order["m_k"] ** 2),
        R_v=max(0.0, order["q_v"] - order["m_v"] ** 2),
        bias=bias,
        risk=trained.test_risk,
        error=trained.test_risk_error,
        status=trained.status,
        setting=Setting(task, activation, alpha, given.ridge_k * s**2, given.ridge_v * f**2),
        errors={name: trained.errors.get(name, math.nan) / scale for name, scale in scales.items()},
    )
