"""Neighbours of spiked-SLR, each with one more parameter: where softmax stops being optimal.

At a similarity of 0, one needle or a variance of 1 they are spiked-SLR itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slrlab import _checks
from slrlab._types import FloatArray
from slrlab.model.arrangements import ArrangementTask, TokenKind
from slrlab.model.lengths import LengthLike
from slrlab.model.task_registry import register_task
from slrlab.model.tasks import TiltedTask


@register_task
@dataclass(frozen=True, init=False)
class HardNegativeSLR(ArrangementTask):
    r"""One other token, a hard negative, is shifted too: by ``τ√ν`` along ``k*``.

    Parameters
    ----------
    signal, length, noise
        As of spiked-SLR; the length is at least 2.
    similarity
        Similarity ``τ`` of the hard negative, from 0 (spiked-SLR) to 1 (it looks like the relevant
        token).

    Examples
    --------
    >>> task = HardNegativeSLR(signal=4.0, length=3, similarity=0.5)
    >>> task.posterior(np.array([2.0, 1.0, 0.0])).round(4).tolist()
    [0.7379, 0.2253, 0.0367]
    """

    similarity: float = 0.5
    name: ClassVar[str] = "hard-negative"

    def __init__(
        self, signal: float, length: LengthLike, noise: float = 0.0, *, similarity: float = 0.5
    ) -> None:
        object.__setattr__(self, "similarity", _checks.within(similarity, "similarity", 0.0, 1.0))
        super().__init__(signal, length, noise)

    @property
    def kinds(self) -> tuple[TokenKind, ...]:
        shift = math.sqrt(self.signal)
        return TokenKind(1, shift), TokenKind(1, self.similarity * shift)


@register_task
@dataclass(frozen=True, init=False)
class NeedlesSLR(ArrangementTask):
    r"""``J`` relevant tokens, each shifted by ``√ν``; the label is ``y = J^{−1/2} Σ z*`` over them.

    Parameters
    ----------
    signal, length, noise
        As of spiked-SLR; the length is at least ``needles``.
    needles
        Number ``J >= 1`` of relevant tokens; 1 is spiked-SLR.

    Examples
    --------
    >>> task = NeedlesSLR(signal=4.0, length=3, needles=2)
    >>> (math.sqrt(2.0) * task.posterior(np.array([2.0, 1.0, 0.0]))).round(4).tolist()
    [0.9841, 0.8827, 0.1332]
    """

    needles: int = 2
    name: ClassVar[str] = "needles"

    def __init__(
        self, signal: float, length: LengthLike, noise: float = 0.0, *, needles: int = 2
    ) -> None:
        object.__setattr__(self, "needles", _checks.integer(needles, "needles"))
        super().__init__(signal, length, noise)

    @property
    def kinds(self) -> tuple[TokenKind, ...]:
        return (TokenKind(self.needles, math.sqrt(self.signal)),)


@register_task
@dataclass(frozen=True, init=False)
class VarianceSLR(TiltedTask):
    r"""The relevant score is ``N(√ν, s²)``: another variance along ``k*``, and only there.

    Parameters
    ----------
    signal, length, noise
        As of spiked-SLR.
    variance
        Variance ``s²`` of the relevant score, from 0.01 to 25; 1 is spiked-SLR.

    Examples
    --------
    >>> task = VarianceSLR(signal=4.0, length=2, variance=0.25)
    >>> task.posterior(np.array([2.0, 4.0])).round(4).tolist()
    [0.8808, 0.1192]
    """

    variance: float = 2.0
    name: ClassVar[str] = "variance"

    def __init__(
        self, signal: float, length: LengthLike, noise: float = 0.0, *, variance: float = 2.0
    ) -> None:
        object.__setattr__(self, "variance", _checks.within(variance, "variance", 0.01, 25.0))
        super().__init__(signal, length, noise)

    @property
    def posterior_scale(self) -> float | None:
        return math.sqrt(self.signal) if self.variance == 1.0 else None

    @property
    def gaussian_shift(self) -> float | None:
        return math.sqrt(self.signal) if self.variance == 1.0 else None

    @property
    def steepness(self) -> float:
        # the log ratio is a parabola: its slope where a few standard deviations end
        bend = abs(1.0 - 1.0 / self.variance) * min(1.0, math.sqrt(self.variance))
        return max(1.0, math.sqrt(self.signal) / self.variance + 3.0 * bend)

    def log_ratio(self, scores: FloatArray) -> FloatArray:
        away = (scores - math.sqrt(self.signal)) ** 2 / self.variance
        return (scores**2 - away - math.log(self.variance)) / 2.0

    @property
    def relevant_interval(self) -> tuple[float, float]:
        middle, reach = math.sqrt(self.signal), 9.0 * math.sqrt(self.variance)
        return middle - reach, middle + reach

    def sample_relevant(self, rng: np.random.Generator, size: int) -> FloatArray:
        return math.sqrt(self.signal) + math.sqrt(self.variance) * rng.standard_normal(size)
