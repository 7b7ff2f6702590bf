r"""Single-location regression tasks: where the relevant token is and what the scores look like.

A sequence of ``L`` Gaussian tokens hides one relevant location ``ε``; the label is
``y = z*_ε + noise·ξ``. Everything below is about the key scores ``χ* = Xk*/√D`` alone (the value
scores ``z*`` are independent standard normals). Two families cover the tasks known today:

`TiltedTask`
    tokens are independent; the relevant one has density ``N(x)·r(x)``, the others ``N(x)``.
    The posterior of the location is ``r(χ*_ℓ)/Σ r(χ*)``.
`SelectionTask`
    all tokens are ``N(0, 1)``; the location is drawn with probability ``w(χ*_ℓ)/Σ w(χ*)``.

A new task gives one function. Independent of how risks are computed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import special

from slrlab import _checks
from slrlab._types import FloatArray
from slrlab.model.lengths import LengthLaw, LengthLike

TASKS: dict[str, type[Task]] = {}
_T = TypeVar("_T", bound="type[Task]")
_UNSURE = 1e-3  # error of the mass of a density ratio, which may have jumps


@dataclass(frozen=True)
class Task(ABC):
    """What all tasks share.

    Parameters
    ----------
    signal
        Strength ``ν >= 0`` of the hint that marks the relevant token; ``inf`` is allowed.
    length
        Sequence length: a number, a set, weights or a `LengthLaw`.
    noise
        Standard deviation ``Δ >= 0`` of the label noise.
    """

    signal: float
    length: LengthLaw
    noise: float = 0.0

    name: ClassVar[str] = ""
    allows_infinite_signal: ClassVar[bool] = False

    # written out because it takes more kinds of length than the attribute has
    def __init__(self, signal: float, length: LengthLike, noise: float = 0.0) -> None:
        for name, value in (("signal", signal), ("length", length), ("noise", noise)):
            object.__setattr__(self, name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        bounded = {"finite": not self.allows_infinite_signal}
        object.__setattr__(self, "signal", _checks.non_negative(self.signal, "signal", **bounded))
        object.__setattr__(self, "length", LengthLaw.of(self.length))
        object.__setattr__(self, "noise", _checks.non_negative(self.noise, "noise"))
        if self.noise > 1e100:
            raise ValueError(f"noise must be at most 1e100, got {self.noise}")

    @property
    def relevant_std(self) -> float:
        """Standard deviation of the relevant token in directions other than that of ``k*``."""
        return 1.0

    @property
    def trivial_risk(self) -> float:
        """Risk ``1 + Δ²`` of predicting zero; ``γ² + Δ²`` if ``relevant_std`` is ``γ``."""
        return self.relevant_std**2 + self.noise**2

    @property
    def posterior_scale(self) -> float | None:
        """The ``c`` for which the posterior is ``softmax(c·χ*)``; None if it has another form."""
        return None

    @property
    def has_infinite_score(self) -> bool:
        """Whether the relevant token has the key score ``+∞``."""
        return False

    @property
    def hard(self) -> bool:
        """Whether the location is the argmax of finite key scores."""
        return False

    @property
    def steepness(self) -> float:
        """Typical slope of the log posterior in ``χ*``; numerical grids resolve its inverse."""
        return max(1.0, self.signal)

    @abstractmethod
    def log_posterior(self, scores: FloatArray) -> FloatArray:
        """Return ``log P(ε=ℓ | χ*)`` up to a constant, elementwise."""

    @abstractmethod
    def sample_scores(
        self, rng: np.random.Generator, size: int, length: int
    ) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        """Draw key scores ``(size, length)`` and the hidden location of each sequence."""

    @property
    def gaussian_shift(self) -> float | None:
        """Mean of the relevant score if, given ``ε``, all scores are ``N(·, 1)``; else None."""
        return None

    @abstractmethod
    def scores_from_uniforms(self, uniforms: FloatArray) -> FloatArray:
        """Turn uniforms ``(size, L + 1)`` into key scores, smoothly, the relevant one first."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Signal, length, noise and those that only this kind of task has, by their names."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @property
    def is_named(self) -> bool:
        """Whether `make_task` makes it from its name and its parameters."""
        kind = type(self)
        return TASKS.get(self.name) is kind and kind(**self.parameters) == self

    def posterior(self, scores: FloatArray) -> FloatArray:
        """Return ``P(ε=ℓ | χ*)`` along the last axis."""
        if math.isinf(self.signal):
            return np.asarray(scores == scores.max(axis=-1, keepdims=True), dtype=float)
        log_p = self.log_posterior(scores)
        weights = np.exp(log_p - log_p.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


@dataclass(frozen=True, init=False)
class IndependentTask(Task):
    """Independent tokens; all key scores but the relevant one are ``N(0, 1)``."""

    @abstractmethod
    def sample_relevant(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw the key score of relevant tokens."""

    @abstractmethod
    def relevant_scores(self, uniforms: FloatArray) -> FloatArray:
        """Turn uniforms into key scores of relevant tokens: the inverse of their law."""

    def sample_scores(
        self, rng: np.random.Generator, size: int, length: int
    ) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        scores, location = rng.standard_normal((size, length)), rng.integers(length, size=size)
        scores[np.arange(size), location] = self.sample_relevant(rng, size)
        return scores, location

    def scores_from_uniforms(self, uniforms: FloatArray) -> FloatArray:
        scores = np.asarray(special.ndtri(uniforms[:, :-1]))
        scores[:, 0] = self.relevant_scores(uniforms[:, 0])
        return scores


@dataclass(frozen=True, init=False)
class TiltedTask(IndependentTask):
    """Independent tokens; the relevant one carries a density ratio ``r`` to ``N(0, 1)``.

    A task that sets ``allows_infinite_signal`` promises that the relevant score is then ``+∞``.
    """

    @property
    def has_infinite_score(self) -> bool:
        return math.isinf(self.signal)

    @abstractmethod
    def log_ratio(self, scores: FloatArray) -> FloatArray:
        """Return ``log r(x)``, with ``E r = 1`` under ``N(0, 1)``."""

    @property
    @abstractmethod
    def relevant_interval(self) -> tuple[float, float]:
        """Interval outside which the relevant token has mass below 1e-18."""

    def relevant_moments(self) -> tuple[float, float]:
        """Return mean and mean square of the relevant score, by the trapezoid rule."""
        x, density = self._relevant_density()
        mass = density.sum()
        return float(density @ x / mass), float(density @ x**2 / mass)

    def _relevant_density(self) -> tuple[FloatArray, FloatArray]:
        """Return nodes and the weights of the relevant token on them."""
        x = np.linspace(*self.relevant_interval, 20001)
        scale = (x[1] - x[0]) / math.sqrt(2.0 * math.pi)
        return x, np.exp(self.log_ratio(x) - x**2 / 2.0) * scale

    def check(self) -> None:
        """Raise ValueError if the density ratio does not have mean 1."""
        mass = 1.0 if self.has_infinite_score else float(self._relevant_density()[1].sum())
        if not abs(mass - 1.0) < _UNSURE:
            raise ValueError(
                f"log_ratio of {type(self).__name__} must give a ratio of mean 1 under N(0, 1) "
                f"within relevant_interval, got mean {mass:.6g}"
            )

    def log_posterior(self, scores: FloatArray) -> FloatArray:
        return self.log_ratio(scores)

    def relevant_scores(self, uniforms: FloatArray) -> FloatArray:
        x, density = self._relevant_density()
        mass = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
        return np.asarray(np.interp(uniforms * mass[-1], mass, x))


@dataclass(frozen=True, init=False)
class SelectionTask(Task):
    """Gaussian tokens; the location is drawn by weights ``w(χ*)`` (infinite signal: argmax)."""

    allows_infinite_signal: ClassVar[bool] = True

    @abstractmethod
    def log_weight(self, scores: FloatArray) -> FloatArray:
        """Return ``log w(x)``, non-decreasing in ``x``, for a finite signal."""

    @property
    def hard(self) -> bool:
        return math.isinf(self.signal)

    def check(self) -> None:
        """Raise ValueError if the weight is not finite or decreases with the score."""
        if self.hard:
            return
        logs = self.log_weight(np.linspace(-9.0, 9.0, 1801))
        if not (np.isfinite(logs).all() and (np.diff(logs) >= 0.0).all()):
            raise ValueError(
                f"log_weight of {type(self).__name__} must be finite and must not decrease with "
                "the score"
            )

    def log_posterior(self, scores: FloatArray) -> FloatArray:
        return self.log_weight(scores)

    def sample_scores(
        self, rng: np.random.Generator, size: int, length: int
    ) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        scores = rng.standard_normal((size, length))
        return scores, self.select(rng, scores)

    def scores_from_uniforms(self, uniforms: FloatArray) -> FloatArray:
        # in descending order likely locations come first: few points sit at a jump
        scores = -np.sort(-special.ndtri(uniforms[:, :-1]), axis=1)
        if self.hard:
            return np.asarray(scores)
        reached = np.cumsum(self.posterior(scores), axis=1) > uniforms[:, -1:]
        reached[:, -1] = True
        location, rows = reached.argmax(axis=1), np.arange(len(scores))
        chosen = scores[rows, location]
        scores[rows, location] = scores[:, 0]
        scores[:, 0] = chosen
        return scores

    def select(self, rng: np.random.Generator, scores: FloatArray) -> npt.NDArray[np.int64]:
        """Draw the location of each sequence from its scores."""
        # argmax(log w + Gumbel) is an exact draw from w/Σw; without noise it is the hard limit
        race = scores if self.hard else self.log_weight(scores) + rng.gumbel(size=scores.shape)
        return np.asarray(race.argmax(axis=1), dtype=np.int64)


def register_task(task: _T) -> _T:
    """Make a task class available by its ``name``, as a class decorator.

    Parameters
    ----------
    task
        The class. One of the same name is replaced.

    Returns
    -------
    type
        The class, unchanged.

    Raises
    ------
    ValueError
        If the class has no name.

    Examples
    --------
    >>> from slrlab import SpikedSLR, register_task
    >>> register_task(SpikedSLR).name  # as ``@register_task`` above the class
    'spiked'
    """
    if not task.name:
        raise ValueError(f"name must be set on the class {task.__name__}, got nothing")
    TASKS[task.name] = task
    return task


@register_task
@dataclass(frozen=True, init=False)
class SpikedSLR(TiltedTask):
    """Spiked-SLR: the relevant token is shifted by ``√ν`` along ``k*``.

    >>> SpikedSLR(signal=2.0, length=3).posterior_scale
    1.4142135623730951
    """

    name: ClassVar[str] = "spiked"
    allows_infinite_signal: ClassVar[bool] = True

    @property
    def posterior_scale(self) -> float:
        return math.sqrt(self.signal)

    @property
    def steepness(self) -> float:
        return max(1.0, math.sqrt(self.signal))

    @property
    def gaussian_shift(self) -> float:
        return math.sqrt(self.signal)

    def log_ratio(self, scores: FloatArray) -> FloatArray:
        return math.sqrt(self.signal) * scores - self.signal / 2.0

    @property
    def relevant_interval(self) -> tuple[float, float]:
        return math.sqrt(self.signal) - 9.0, math.sqrt(self.signal) + 9.0

    def sample_relevant(self, rng: np.random.Generator, size: int) -> FloatArray:
        return rng.standard_normal(size) + math.sqrt(self.signal)


@register_task
@dataclass(frozen=True, init=False)
class MaxSLR(SelectionTask):
    """Max-SLR: the location is drawn from ``softmax(ν χ*)``; at ``ν = ∞`` it is the largest score.

    >>> MaxSLR(signal=float("inf"), length=3).hard
    True
    """

    name: ClassVar[str] = "max"

    @property
    def posterior_scale(self) -> float:
        return self.signal

    def log_weight(self, scores: FloatArray) -> FloatArray:
        return self.signal * scores
