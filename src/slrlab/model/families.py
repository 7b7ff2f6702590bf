"""Families of activations beside the three of `slrlab.model.activations`.

Ratios of two different maps, softmax over the largest scores, stick-breaking, and activations
that see the length of the sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from slrlab import _checks
from slrlab._types import FloatArray
from slrlab.model.activations import Activation, Elementwise, OneMap, ScalarMap


@dataclass(frozen=True)
class Ratio(OneMap):
    """``σ(χ)_ℓ = φ(χ_ℓ)/(Σ γ(χ))^exponent``, each score plus the bias; 0/0 is 0.

    ``φ`` may have any sign; ``gauge``, the map ``γ >= 0``, may differ from it.
    """

    gauge: ScalarMap = ScalarMap(np.exp, np.exp, np.exp, np.positive)
    exponent: float = 1.0

    family: ClassVar[str] = "ratio"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "exponent", _checks.positive(self.exponent, "exponent"))

    def weights(self, scores: FloatArray) -> FloatArray:
        x = self.shifted(scores)
        log_gauge = self.gauge.log_value(x)
        top = log_gauge.max(axis=-1, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        total = np.exp(log_gauge - top).sum(axis=-1, keepdims=True)
        log_below = self.exponent * (top + np.log(np.where(total > 0.0, total, 1.0)))
        if self.phi.log is not None:  # a positive map: nothing overflows on the way
            weights = np.exp(self.phi.log(x) - log_below)
        else:
            weights = self.phi.value(x) * np.exp(-log_below)
        return np.asarray(np.where(total > 0.0, weights, 0.0))

    @property
    def bends(self) -> tuple[float, ...]:
        return (*self.phi.bends, *self.gauge.bends)


@dataclass(frozen=True)
class TopK(Activation):
    """Softmax over the ``k`` largest scores, 0 elsewhere; of equal scores the first ones count."""

    k: int = 1

    family: ClassVar[str] = "projection"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "k", _checks.integer(self.k, "k"))

    def weights(self, scores: FloatArray) -> FloatArray:
        x = self.shifted(scores)
        order = np.argsort(-x, axis=-1, kind="stable")[..., : self.k]
        kept = np.take_along_axis(x, order, axis=-1)
        phi = np.exp(kept - kept[..., :1])
        sigma = np.zeros_like(np.asarray(x, dtype=float))
        np.put_along_axis(sigma, order, phi / phi.sum(axis=-1, keepdims=True), axis=-1)
        return sigma


@dataclass(frozen=True)
class StickBreaking(Activation):
    """``σ(χ)_ℓ = s(χ_ℓ) Π_{j>ℓ} (1 − s(χ_j))``, ``s`` the logistic: later tokens take first."""

    family: ClassVar[str] = "ordered"

    def weights(self, scores: FloatArray) -> FloatArray:
        x = self.shifted(scores)
        log_left = np.flip(np.cumsum(np.flip(special.log_expit(-x), -1), axis=-1), -1)
        # log_left includes the token itself; what was left before it is log_left − log(1 − s)
        return np.asarray(np.exp(special.log_expit(x) + log_left - special.log_expit(-x)))


@dataclass(frozen=True)
class LengthScaled(Activation):
    """An activation whose scores, bias and weights depend on the length ``L``.

    The scores are multiplied by ``score(L)``, ``shift(L)`` is added to the bias, and the weights
    are multiplied by ``factor(L)``. At one fixed length it is its ``base``, up to the size of the
    vectors.
    """

    base: Activation = Elementwise("")
    score: Callable[[int], float] = lambda length: 1.0
    shift: Callable[[int], float] = lambda length: 0.0
    factor: Callable[[int], float] = lambda length: 1.0

    @property
    def family(self) -> str:  # type: ignore[override]
        """The family of the base."""
        return self.base.family

    def at_length(self, length: int) -> Activation:
        """Return the base with the bias of this length."""
        if self.bias is None:
            return self.base.with_bias(None)
        return self.base.with_bias(self.bias + self.shift(length))

    def weights(self, scores: FloatArray) -> FloatArray:
        self.shifted(scores)
        length = scores.shape[-1]
        sigma = self.at_length(length).weights(self.score(length) * scores)
        return np.asarray(self.factor(length) * sigma)

    @property
    def unbounded_contrast(self) -> bool:
        return self.base.with_bias(self.bias).unbounded_contrast
