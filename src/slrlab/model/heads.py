r"""Multi-head single-location regression: several latent directions, one of them in each sequence.

There are ``K`` directions, pairs of teachers ``k*_j, v*_j``, all orthogonal. A sequence draws a
direction ``j`` with probability ``π_j`` and a location ``ε``; the relevant token is shifted by
``√ν_j`` along ``k*_j`` and the label is ``y = v*_j·X_ε + Δξ``. A predictor has ``H`` heads, each
with keys and values of its own, whose answers are added up. The task is our reading of Sagitova,
Duranthon and Zdeborová (2026). Independent of how risks are computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab._types import FloatArray
from slrlab.model.activations import Activation, make_activation
from slrlab.model.lengths import LengthLaw, LengthLike
from slrlab.model.tasks import SpikedSLR

BAYES_SOFTMAX = "bayes-softmax"
"""Attention whose weights are normalised over tokens and heads together."""

_MOST = 64  # directions, and heads


@dataclass(frozen=True)
class MultiHeadSLR:
    """Single-location regression with several latent directions.

    Parameters
    ----------
    signals
        ``ν_j >= 0`` of each direction; one number for all with ``directions``.
    length
        Sequence length: a number, a set, weights or a `LengthLaw`.
    noise
        Standard deviation ``Δ >= 0`` of the label noise.
    probabilities
        ``π_j > 0`` of each direction; they sum to 1. Equal if left out.
    directions
        Number ``K`` of directions, if ``signals`` is one number.

    Examples
    --------
    >>> task = MultiHeadSLR(6.0, 5, directions=4)
    >>> task.signals, task.probabilities
    ((6.0, 6.0, 6.0, 6.0), (0.25, 0.25, 0.25, 0.25))
    """

    signals: tuple[float, ...]
    length: LengthLaw
    noise: float
    probabilities: tuple[float, ...]

    def __init__(
        self,
        signals: float | Sequence[float],
        length: LengthLike,
        noise: float = 0.0,
        *,
        probabilities: Sequence[float] | None = None,
        directions: int | None = None,
    ) -> None:
        if not isinstance(signals, Sequence | np.ndarray):
            if directions is not None:
                directions = _checks.integer(directions, "directions", high=_MOST)
            signals = [signals] * (directions or 1)
        elif directions is not None:
            _checks.refuse("directions", "if each signal is given", directions)
        strengths = tuple(_checks.non_negative(signal, "signals") for signal in signals)
        if not 1 <= len(strengths) <= _MOST:
            _checks.fail("signals", f"1 to {_MOST} numbers", f"{len(strengths)} numbers")
        object.__setattr__(self, "signals", strengths)
        object.__setattr__(self, "length", LengthLaw.of(length))
        object.__setattr__(self, "noise", _checks.non_negative(noise, "noise"))
        object.__setattr__(self, "probabilities", _shares(probabilities, len(strengths)))

    @property
    def directions(self) -> int:
        """Number ``K`` of directions."""
        return len(self.signals)

    @property
    def trivial_risk(self) -> float:
        """Risk ``1 + Δ²`` of predicting zero."""
        return 1.0 + self.noise**2

    def alone(self, direction: int) -> SpikedSLR:
        """Return the task of sequences of one direction."""
        return SpikedSLR(self.signals[direction], self.length, self.noise)

    def sample(
        self, rng: np.random.Generator, size: int, length: int
    ) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        """Draw key scores ``(size, length, K)`` and the direction of each sequence.

        The relevant token is the first.
        """
        scores = rng.standard_normal((size, length, self.directions))
        chosen = rng.choice(self.directions, size=size, p=self.probabilities)
        scores[np.arange(size), 0, chosen] += np.sqrt(self.signals)[chosen]
        return scores, np.asarray(chosen, dtype=np.int64)

    def posterior(self, scores: FloatArray) -> FloatArray:
        """Return ``P(ε = ℓ, j | χ*)`` for scores ``(…, L, K)``: the Bayes-softmax."""
        signals = np.array(self.signals)
        bias = np.log(self.probabilities) - signals / 2.0
        return joint_softmax(np.sqrt(signals) * scores + bias)

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as JSON-ready values."""
        return {
            "signals": list(self.signals),
            "length": str(self.length),
            "noise": self.noise,
            "probabilities": list(self.probabilities),
        }


def _shares(probabilities: Sequence[float] | None, count: int) -> tuple[float, ...]:
    """Return checked probabilities, equal ones if none are given."""
    if probabilities is None:
        return (1.0 / count,) * count
    shares = tuple(_checks.positive(share, "probabilities") for share in probabilities)
    if len(shares) != count:
        _checks.fail("probabilities", f"{count} numbers, one for each signal", probabilities)
    if abs(math.fsum(shares) - 1.0) > 1e-9:
        _checks.fail("probabilities", "numbers that sum to 1", probabilities)
    return shares


def joint_softmax(scores: FloatArray) -> FloatArray:
    """Return weights normalised over the last two axes together: tokens and heads."""
    top = scores.max(axis=(-2, -1), keepdims=True)
    weights = np.exp(scores - top)
    return np.asarray(weights / weights.sum(axis=(-2, -1), keepdims=True))


def make_heads_activation(name: str | Activation) -> Activation | None:
    """Return the activation of each head; None for the Bayes-softmax, which all heads share.

    >>> make_heads_activation("bayes-softmax") is None
    True
    """
    return None if name == BAYES_SOFTMAX else make_activation(name)


def heads_attention(name: str, *, bias: float | str | None = None) -> Activation | str:
    """Return the activation of a name with a bias, or the name of the Bayes-softmax.

    Raises
    ------
    ValueError
        If the activation is unknown, or the Bayes-softmax is given a bias.
    """
    if name != BAYES_SOFTMAX:
        return make_activation(name, bias=bias)
    if bias is not None:
        _checks.refuse("bias", f"with {BAYES_SOFTMAX}", bias)
    return BAYES_SOFTMAX


def head_weights(
    activation: Activation | None, scores: FloatArray, biases: FloatArray
) -> FloatArray:
    """Return the weights ``(…, L, H)`` of all heads; ``biases`` has one number for each head."""
    shifted = scores + biases
    if activation is None:
        return joint_softmax(shifted)
    rows = activation.with_bias(0.0).weights(np.swapaxes(shifted, -1, -2))
    return np.asarray(np.swapaxes(rows, -1, -2))
