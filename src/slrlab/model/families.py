"""Families of activations beside the three of `slrlab.model.activations`.

Ratios of two different maps, softmax over the largest scores, weights from the threshold of a
projection, weights that depend on the order of the tokens, and activations that see the length of
the sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from slrlab import _checks
from slrlab._types import FloatArray
from slrlab.model.activations import (
    Activation,
    Elementwise,
    OneMap,
    Projection,
    ScalarMap,
)


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

    def _weights(self, scores: FloatArray) -> FloatArray:
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

    def _weights(self, scores: FloatArray) -> FloatArray:
        x = self.shifted(scores)
        order = np.argsort(-x, axis=-1, kind="stable")[..., : self.k]
        kept = np.take_along_axis(x, order, axis=-1)
        phi = np.exp(kept - kept[..., :1])
        sigma = np.zeros_like(np.asarray(x, dtype=float))
        np.put_along_axis(sigma, order, phi / phi.sum(axis=-1, keepdims=True), axis=-1)
        return sigma


@dataclass(frozen=True)
class NormMax(Activation):
    """``σ(χ)_ℓ ∝ (χ_ℓ − τ)₊^(p−1)``, the threshold ``τ`` fixed by ``Σ (χ − τ)₊^p = 1``.

    ``p = α/(α−1)``: the weights maximise ``σᵀχ − ‖σ‖_α`` among those that sum to 1. They are the
    gradient of the threshold, and the power ``1/α`` of those of a projection, normalised.
    """

    alpha: float = 2.0

    family: ClassVar[str] = "projection"

    def __post_init__(self) -> None:
        super().__post_init__()
        accepted = "a finite number > 1"
        alpha = _checks.real(self.alpha, "alpha", accepted=accepted, low=1.0, open_low=True)
        object.__setattr__(self, "alpha", alpha)

    @property
    def power(self) -> float:
        """The exponent ``p`` of the sum that is 1."""
        return self.alpha / (self.alpha - 1.0)

    def _weights(self, scores: FloatArray) -> FloatArray:
        whole = Projection("", power=self.power).weights(self.power * self.shifted(scores))
        sigma = whole ** (1.0 / self.alpha)
        return np.asarray(sigma / sigma.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class StickBreaking(Activation):
    """``σ(χ)_ℓ = s(χ_ℓ) Π_{j>ℓ} (1 − s(χ_j))``, ``s`` the logistic: later tokens take first."""

    family: ClassVar[str] = "ordered"

    def _weights(self, scores: FloatArray) -> FloatArray:
        x = self.shifted(scores)
        log_left = np.flip(np.cumsum(np.flip(special.log_expit(-x), -1), axis=-1), -1)
        # log_left includes the token itself; what was left before it is log_left − log(1 − s)
        return np.asarray(np.exp(special.log_expit(x) + log_left - special.log_expit(-x)))


@dataclass(frozen=True)
class CosineReweighted(OneMap):
    """``σ(χ)_ℓ = w_ℓ φ(χ_ℓ)/Σ w φ(χ)`` with ``w_ℓ = cos(π(L−ℓ)/2L)``: later tokens count more.

    ``φ >= 0``; 0/0 is 0.
    """

    family: ClassVar[str] = "ordered"

    @staticmethod
    def factors(length: int) -> FloatArray:
        """Return the factor of each position."""
        # a sine from the first position: the cosine would lose the digits of the small factors
        return np.asarray(np.sin(np.pi * np.arange(1.0, length + 1.0) / (2.0 * length)))

    def _weights(self, scores: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            log_phi = self.phi.log_value(self.shifted(scores))
        log_phi = log_phi + np.log(self.factors(scores.shape[-1]))
        top = log_phi.max(axis=-1, keepdims=True)
        phi = np.exp(log_phi - np.where(np.isfinite(top), top, 0.0))
        total = phi.sum(axis=-1, keepdims=True)
        return np.asarray(np.divide(phi, total, out=np.zeros_like(phi), where=total > 0.0))


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

    def _weights(self, scores: FloatArray) -> FloatArray:
        self.shifted(scores)
        length = scores.shape[-1]
        sigma = self.at_length(length).weights(self.score(length) * scores)
        return np.asarray(self.factor(length) * sigma)

    @property
    def unbounded_contrast(self) -> bool:
        return self.base.with_bias(self.bias).unbounded_contrast
