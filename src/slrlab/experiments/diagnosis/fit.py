"""A task fitted to the scores of a head, and the numbers that follow, with errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from slrlab._errors import ComputationError
from slrlab._result import Result, Status
from slrlab._types import FloatArray
from slrlab.experiments.diagnosis.law import ScoreLaw, fit_task
from slrlab.experiments.diagnosis.measured import Tuned, offsets, weigh
from slrlab.experiments.diagnosis.scores import HeadScores
from slrlab.model.activations import Activation, OneMap
from slrlab.model.lengths import LengthLaw
from slrlab.model.measured import MeasuredTask
from slrlab.model.tasks import SpikedSLR
from slrlab.theory.moments import attention_moments
from slrlab.theory.population.bayes_risk import bayes_risk
from slrlab.theory.population.hit_rate import hit_rate

GROUPS = 16
"""Groups of sequences of the jackknife."""
_LONGEST = 10**12
_STRONGEST = 400.0
_LEVEL = 0.6  # resolution of the theory: far below the errors of the measurement


@dataclass(frozen=True)
class LengthPrediction(Result):
    """What the scores of a head predict at another length: see `HeadDiagnosis`."""

    length: int
    hit_rate: float
    risk: float
    bayes_risk: float


@dataclass(frozen=True)
class Fit:
    """What was fitted to scores, and the risks that follow."""

    head: HeadScores
    activation: Activation
    law: ScoreLaw
    task: MeasuredTask
    offset_share: float
    beyond: float

    @classmethod
    def of(cls, head: HeadScores, activation: Activation) -> Fit:
        aligned, share = offsets(head) if activation.is_softmax else (head, 0.0)
        irrelevant = aligned.scores[aligned.irrelevant]
        law = ScoreLaw.of(irrelevant)
        task = fit_task(law.normal(aligned.relevant), 0.0, head.length_law)
        beyond = float((aligned.relevant > irrelevant.max()).mean())
        return cls(head, activation, law, task, share, beyond)

    def _with_length(self, length: float | None) -> MeasuredTask:
        if length is None:
            return self.task
        return replace(self.task, length=LengthLaw.of(round(length)))

    def own_risk(self, length: float | None = None) -> float:
        """Return the risk of the activation; nan if it has no scalar map."""
        if not isinstance(self.activation, OneMap):
            return math.nan
        task, seen = self._with_length(length), self.law.seen_by(self.activation)
        try:
            return attention_moments(task, seen, self.law.std, resolution=_LEVEL).best_risk
        except ComputationError:
            return math.nan

    def least_risk(self, length: float | None = None) -> float:
        """Return the Bayes risk."""
        return bayes_risk(self._with_length(length)).risk

    def contexts(self) -> dict[str, float]:
        """Return the largest lengths at which the risks are at most ½."""
        return {"context": _context(self.own_risk), "bayes_context": _context(self.least_risk)}

    def at_length(self, length: int, status: Status) -> LengthPrediction:
        """Return what the fit predicts at a length."""
        return LengthPrediction(
            status=status,
            length=length,
            hit_rate=hit_rate(self._with_length(length)),
            risk=self.own_risk(length),
            bayes_risk=self.least_risk(length),
        )

    def numbers(self, tuned: Tuned, contexts: dict[str, float]) -> dict[str, float]:
        """Return what a jackknife gives an error to."""
        weighed, least = weigh(self.head, self.activation), self.least_risk()
        risks = {"context": self.own_risk, "bayes_context": self.least_risk}
        return {
            "bayes_risk": least,
            "hit_rate": weighed.hits,
            "predicted_hit_rate": hit_rate(self.task),
            "mean_weight": weighed.A,
            "risk": weighed.risk,
            "predicted_risk": self.own_risk(),
            "excess": weighed.risk - least,
            "temperature": tuned.temperature,
            "tuned_risk": tuned.risk,
            "sink_temperature": tuned.sink_temperature,
            "log_sink": tuned.log_sink,
            "sink_risk": tuned.sink_risk,
            "sink_gain": tuned.risk - tuned.sink_risk,
        } | {
            f"risk_at_{name}": risks[name](length) if 2.0 <= length < math.inf else math.nan
            for name, length in contexts.items()
        }


def effective_signal(task: MeasuredTask, least: float) -> float:
    """Return the signal of the spiked-SLR with a given Bayes risk at the same lengths."""
    from scipy.optimize import brentq

    if len(task.knots) == 2:
        return task.slopes[0] ** 2

    def log_ratio(signal: float) -> float:
        return math.log(max(_spiked_risk(task, signal), 1e-300) / max(least, 1e-300))

    if log_ratio(_STRONGEST) >= 0.0:
        return _STRONGEST
    return float(brentq(log_ratio, 0.0, _STRONGEST, xtol=1e-6))


def _spiked_risk(task: MeasuredTask, signal: float) -> float:
    return bayes_risk(SpikedSLR(signal, task.length)).risk


def signal_slope(task: MeasuredTask, signal: float) -> float:
    """Return the change of the signal with the Bayes risk."""
    ends = 0.99 * signal, 1.01 * signal + 1e-6
    fall = _spiked_risk(task, ends[0]) - _spiked_risk(task, ends[1])
    return (ends[1] - ends[0]) / fall if fall > 0.0 else math.inf


def _context(risk: Callable[[float], float]) -> float:
    """Return the largest length with a risk of at most ½; inf beyond the largest that is tried."""
    from scipy.optimize import brentq

    short = risk(2)
    if not short <= 0.5:
        return math.nan if math.isnan(short) else 1.0
    if risk(_LONGEST) <= 0.5:
        return math.inf
    root = brentq(
        lambda log_length: risk(math.exp(log_length)) - 0.5,
        math.log(2.0),
        math.log(_LONGEST),
        xtol=1e-3,
    )
    length = round(math.exp(root))
    return float(length if risk(length) <= 0.5 else length - 1)


def length_slope(risk: Callable[[float], float], length: float) -> float:
    """Return the change of the context with the risk there."""
    if not 2.0 <= length < math.inf:
        return math.nan
    ends = max(2.0, round(0.9 * length)), round(1.1 * length) + 1.0
    rise = risk(ends[1]) - risk(ends[0])
    return (ends[1] - ends[0]) / rise if rise > 0.0 else math.inf


def jackknife(whole: dict[str, float], parts: list[dict[str, float]]) -> dict[str, float]:
    """Return standard errors from estimates that leave out a group each."""

    def error(name: str) -> float:
        values: FloatArray = np.array([part[name] for part in parts])
        with np.errstate(invalid="ignore"):
            return float(math.sqrt((GROUPS - 1.0) * np.mean((values - values.mean()) ** 2)))

    return {name: error(name) for name in whole}
