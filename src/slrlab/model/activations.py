"""Attention activations in three families: elementwise, normalised, projection.

An activation maps the scores of a sequence to the weights of its tokens. A new one is a line: a
scalar map with two derivatives and a family. Independent of tasks and risks.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, SupportsIndex, TypeVar

import numpy as np
from scipy import special

from slrlab import _checks
from slrlab._types import FloatArray
from slrlab.model.expressions import map_from_expression
from slrlab.model.formulas import log_softplus
from slrlab.model.masked import weights_of_unmasked
from slrlab.model.scalar_map import ScalarMap as ScalarMap
from slrlab.numerics.threshold import projected


@dataclass(frozen=True)
class Activation(ABC):
    """What all activations share.

    Parameters
    ----------
    name
        Key in tables, figures and on the command line.
    bias
        Number added to every score; None leaves it free, to be optimised with the rest.
    """

    name: str
    bias: float | None = 0.0

    family: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if self.bias is not None:
            object.__setattr__(self, "bias", _checks.finite(self.bias, "bias"))

    def weights(self, scores: FloatArray) -> FloatArray:
        """Return the token weights ``σ(χ)`` along the last axis.

        A token of score −∞ is not there: its weight is 0, the others are those without it.
        """
        return weights_of_unmasked(self._weights, scores)

    @abstractmethod
    def _weights(self, scores: FloatArray) -> FloatArray:
        """Return the weights of scores above −∞."""

    @property
    def bends(self) -> tuple[float, ...]:
        """Points where a map of the activation has a kink or a zero."""
        return ()

    @property
    def width(self) -> float:
        """Least width of a smooth feature of a map, in scores; at most 1."""
        return 1.0

    @property
    def unbounded_contrast(self) -> bool:
        """Whether a token with an infinite score can outweigh all others completely."""
        return True

    @property
    def is_softmax(self) -> bool:
        """Whether the weights are ``softmax(χ)``: then a shift of all scores changes nothing."""
        return False

    @property
    def is_named(self) -> bool:
        """Whether `make_activation` makes it from its name, up to the bias."""
        try:
            return make_activation(self.name).with_bias(self.bias) == self
        except ValueError:
            return False

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        # functions cannot be pickled: where the name stands for them, only the name is pickled
        if self.is_named:
            return _from_name, (self.name, self.bias)
        return super().__reduce_ex__(protocol)

    def without_idle_bias(self) -> Self:
        """Return the activation with a free bias set to 0 where learning it changes nothing."""
        return self.with_bias(0.0) if self.is_softmax and self.bias is None else self

    def with_bias(self, bias: float | None) -> Self:
        """Return the same activation with the bias fixed (or freed with None)."""
        return replace(self, bias=bias)

    def shifted(self, scores: FloatArray) -> FloatArray:
        """Return the scores plus the bias."""
        if self.bias is None:
            raise ValueError(f"bias of {self.name} must be a number here, got None (free)")
        return scores if self.bias == 0.0 else scores + self.bias


@dataclass(frozen=True)
class OneMap(Activation):
    """Base of the activations that are given by one scalar map ``φ``."""

    phi: ScalarMap = ScalarMap(np.exp, np.exp, np.exp, np.positive)

    @property
    def bends(self) -> tuple[float, ...]:
        return self.phi.bends

    @property
    def width(self) -> float:
        return self.phi.width


@dataclass(frozen=True)
class Elementwise(OneMap):
    """``σ(χ)_ℓ = φ(χ_ℓ + bias)``: the weight of a token depends on its own score alone."""

    phi: ScalarMap = ScalarMap(np.positive, np.ones_like, np.zeros_like)

    family: ClassVar[str] = "elementwise"

    def _weights(self, scores: FloatArray) -> FloatArray:
        return self.phi.value(self.shifted(scores))

    @property
    def unbounded_contrast(self) -> bool:
        with np.errstate(over="ignore"):
            top, low = self.phi.value(np.array([1e150, -1e150]))
        # a bounded φ separates only if a free bias can push the irrelevant tokens to φ = 0
        return bool(abs(top) > 1e100 or (self.bias is None and low == 0.0 and top != 0.0))


@dataclass(frozen=True)
class Normalised(OneMap):
    """``σ(χ)_ℓ = φ(χ_ℓ + bias)/(sink + Σ φ(χ + bias))`` with ``φ >= 0``; 0/0 is 0.

    ``exponential`` says where ``φ(x)`` behaves as ``e^x``: ``"everywhere"``, ``"left"`` (for
    ``x → −∞``) or ``"nowhere"``. It only sets how coarse the grids of the theory may be.
    """

    sink: float = 0.0
    exponential: str = "nowhere"

    family: ClassVar[str] = "normalised"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sink", _checks.non_negative(self.sink, "sink"))
        _checks.choice(self.exponential, "exponential", ["everywhere", "left", "nowhere"])

    def _weights(self, scores: FloatArray) -> FloatArray:
        log_phi = self.log_phi(scores)
        top = log_phi.max(axis=-1, keepdims=True)
        if self.sink > 0.0:
            top = np.maximum(top, math.log(self.sink))
        top = np.where(np.isfinite(top), top, 0.0)
        phi = np.exp(log_phi - top)
        total = phi.sum(axis=-1, keepdims=True)
        if self.sink > 0.0:
            total = total + self.sink * np.exp(-top)
        return np.asarray(np.divide(phi, total, out=np.zeros_like(phi), where=total > 0.0))

    @property
    def is_softmax(self) -> bool:
        return self.exponential == "everywhere" and self.sink == 0.0

    def log_phi(self, scores: FloatArray) -> FloatArray:
        """Return ``log φ(χ + bias)``."""
        return self.phi.log_value(self.shifted(scores))

    @property
    def unbounded_contrast(self) -> bool:
        with np.errstate(over="ignore"):
            return bool(self.phi.log_value(np.array([1e150]))[0] > 100.0)


@dataclass(frozen=True)
class Projection(Activation):
    """``σ(χ)_ℓ = h(χ_ℓ/power − τ)`` with ``h(u) = u^power`` cut at 0 and 1, and ``Σ σ = budget``.

    ``power`` 1 is sparsemax, 2 is 1.5-entmax, ``1/(α−1)`` is α-entmax. A sum of 1 needs no cut at
    1; with a larger ``budget`` several tokens can have the weight 1, and all have it if there are
    no more tokens than that.
    """

    power: float = 1.0
    budget: int = 1

    family: ClassVar[str] = "projection"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "power", _checks.positive(self.power, "power"))
        object.__setattr__(self, "budget", _checks.integer(self.budget, "budget"))

    @property
    def unbounded_contrast(self) -> bool:
        return self.budget == 1

    def _weights(self, scores: FloatArray) -> FloatArray:
        scaled = np.asarray(self.shifted(scores) / self.power)
        return projected(scaled, self.power, self.budget)


def _logistic_slope(x: FloatArray) -> FloatArray:
    p = special.expit(x)
    return np.asarray(p * (1.0 - p))


_BELL = 2.0 / math.sqrt(math.pi)

ACTIVATIONS: dict[str, Activation] = {}
_A = TypeVar("_A", bound=Activation)


def register_activation(activation: _A) -> _A:
    """Make an activation available by its name.

    Parameters
    ----------
    activation
        The activation. One of the same name is replaced.

    Returns
    -------
    Activation
        The activation, unchanged.

    Examples
    --------
    >>> from slrlab import make_activation, register_activation
    >>> entmax = make_activation("entmax15")
    >>> register_activation(entmax) is entmax
    True
    """
    ACTIVATIONS[activation.name] = activation
    return activation


SOFTMAX = register_activation(Normalised("softmax", exponential="everywhere"))
LINEAR = register_activation(
    Elementwise("linear", phi=ScalarMap(lambda x: 1.0 + x, np.ones_like, np.zeros_like))
)
ERF = register_activation(
    Elementwise(
        "erf",
        bias=None,
        phi=ScalarMap(
            # erfc(-x) is 1 + erf(x) without cancellation in the left tail
            lambda x: special.erfc(-x),
            lambda x: _BELL * np.exp(-(x**2)),
            lambda x: -2.0 * _BELL * x * np.exp(-(x**2)),
        ),
    )
)
SOFTPLUS = register_activation(
    Normalised(
        "softplus",
        exponential="left",
        phi=ScalarMap(lambda x: np.logaddexp(0.0, x), special.expit, _logistic_slope, log_softplus),
    )
)
SPARSEMAX = register_activation(Projection("sparsemax", power=1.0))
ENTMAX15 = register_activation(Projection("entmax15", power=2.0))


def _from_name(name: str, bias: float | None) -> Activation:
    return make_activation(name).with_bias(bias)


def _from_expression(text: str) -> Activation:
    family, phi, exponential = map_from_expression(text, known=ACTIVATIONS)
    if family == Elementwise.family:
        return Elementwise(text, phi=phi)
    return Normalised(text, phi=phi, exponential="everywhere" if exponential else "nowhere")


def make_activation(name: str | Activation, *, bias: float | str | None = None) -> Activation:
    """Return the activation called ``name``, or built from an expression in ``x``.

    Parameters
    ----------
    name
        A registered name, an expression after the name of its family, or an activation.
    bias
        A number, ``"optimal"`` (left free), or None for the activation's own default.

    Returns
    -------
    Activation
        The activation, with this bias.

    Raises
    ------
    ValueError
        If there is no such name or expression, or the bias is no finite number.

    Examples
    --------
    >>> from slrlab import make_activation
    >>> make_activation("erf").bias is None, make_activation("erf", bias=0.5).bias
    (True, 0.5)
    >>> make_activation("elementwise: 1 + tanh(x)").family
    'elementwise'
    """
    if isinstance(name, Activation):
        activation = name
    elif not isinstance(name, str):
        raise TypeError(f"activation must be an Activation, a name or an expression, got {name!r}")
    elif name in ACTIVATIONS:
        activation = ACTIVATIONS[name]
    else:
        activation = _from_expression(name)
    if bias is None:
        return activation
    if bias == "optimal":
        return activation.with_bias(None)
    accepted = "a finite number or optimal"
    return activation.with_bias(_checks.real(bias, "bias", accepted=accepted))
