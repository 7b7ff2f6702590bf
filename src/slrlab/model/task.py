"""What all tasks share, and their registry: a task is made from its name and a few numbers.

This module must not know any task.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab._types import FloatArray
from slrlab.model.lengths import LengthLaw, LengthLike
from slrlab.model.names import shown, split_call


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
    parameters: ClassVar[tuple[str, ...]] = ()  # further ones, numbers with defaults
    allows_infinite_signal: ClassVar[bool] = False

    # written out because it takes more kinds of length than the attribute has
    def __init__(self, signal: float, length: LengthLike, noise: float = 0.0) -> None:
        given = {"signal": signal, "length": length, "noise": noise}
        for name, value in given.items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        finite = not self.allows_infinite_signal
        signal = _checks.non_negative(self.signal, "signal", finite=finite)
        object.__setattr__(self, "signal", signal)
        object.__setattr__(self, "length", LengthLaw.of(self.length))
        object.__setattr__(self, "noise", _checks.non_negative(self.noise, "noise"))
        if self.noise > 1e100:
            raise ValueError(f"noise must be at most 1e100, got {self.noise}")

    @property
    def text(self) -> str:
        """What `make_task` makes it from: the name, with further parameters if it has any."""
        own = ",".join(shown(getattr(self, name)) for name in self.parameters)
        return f"{self.name}({own})" if own else self.name

    @property
    def relevant_std(self) -> float:
        """Standard deviation of the relevant token in any direction but that of the keys."""
        return 1.0

    @property
    def trivial_risk(self) -> float:
        """Risk of predicting zero: ``1 + Δ²`` if the relevant token has unit variance."""
        return self.risk_from(1.0)

    def risk_from(self, fraction: float) -> float:
        """Return the risk that leaves this fraction of the variance of ``z*_ε`` unexplained."""
        return self.relevant_std**2 * fraction + self.noise**2

    @property
    def posterior_scale(self) -> float | None:
        """The ``c`` for which the posterior is ``softmax(c·χ*)``; None if it has another form."""
        return None

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
        """Turn uniforms ``(size, L + 1)`` into key scores ``(size, L)``, the relevant one first.

        The map is as smooth as the task allows, for quasi-Monte Carlo.
        """

    @property
    def is_named(self) -> bool:
        """Whether `make_task` makes it from its text and its three parameters."""
        if self.name not in TASKS:
            return False
        same = make_task(self.text, signal=self.signal, length=self.length, noise=self.noise)
        return same == self

    def posterior(self, scores: FloatArray) -> FloatArray:
        """Return ``P(ε=ℓ | χ*)`` along the last axis."""
        if math.isinf(self.signal):
            return np.asarray(scores == scores.max(axis=-1, keepdims=True), dtype=float)
        log_p = self.log_posterior(scores)
        weights = np.exp(log_p - log_p.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    def best_weights(self, scores: FloatArray) -> FloatArray:
        """Return the weights with the least risk of all that depend on the key scores ``χ*``."""
        return self.posterior(scores)


TASKS: dict[str, type[Task]] = {}
_T = TypeVar("_T", bound=type[Task])


def register_task(task: _T) -> _T:
    """Make a task class available by its ``name`` (class decorator)."""
    if not task.name:
        raise ValueError(f"name must be set on the class {task.__name__}, got nothing")
    TASKS[task.name] = task
    return task


def make_task(name: str, *, signal: float, length: LengthLike, noise: float = 0.0) -> Task:
    """Return the task called ``name``; numbers in brackets are its further parameters.

    >>> make_task("max", signal=3.0, length="1,2,3").length.mean
    2.0
    >>> make_task("marion(0.5)", signal=3.0, length=2).relevant_std
    0.5
    """
    kind, own = split_call(name, "task", TASKS)
    names = TASKS[kind].parameters
    if len(own) > len(names):
        _checks.fail("task", f"{kind} with at most {len(names)} numbers in brackets", name)
    build: Callable[..., Task] = TASKS[kind]
    return build(signal=signal, length=length, noise=noise, **dict(zip(names, own, strict=False)))
