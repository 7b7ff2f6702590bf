"""Laws of the sequence length: fixed, uniform over a set, weighted, truncated Poisson, geometric.

The theory meets a length law only through its generating function ``G(z) = E z^(L-1)``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab._types import FloatArray

ACCEPTED = (
    "a whole number >= 1 (3), a set (1,2,3), weights that sum to 1 (1:0.2,2:0.3,3:0.5), "
    "uniform(1,10), poisson(MEAN) or geometric(MEAN)"
)
_TAIL = 1e-16  # mass that a named law may lose when its support is cut
_MOST = 1_000_000  # different lengths in one law
_NAMED = re.compile(r"(uniform|poisson|geometric)\(([^()]*)\)")


def _bad(given: object, why: str = "") -> ValueError:
    return ValueError(f"length must be {ACCEPTED}, got {given}" + (f" ({why})" if why else ""))


def _shown(x: float) -> str:
    """Return a number in as few digits as tell it from every other."""
    return f"{x:g}" if float(f"{x:g}") == x else repr(float(x))


@dataclass(frozen=True)
class LengthLaw:
    """A distribution on positive integers with finite support.

    Parameters
    ----------
    lengths
        Distinct whole numbers >= 1.
    probabilities
        One non-negative number per length; they sum to 1.
    label
        How the law is written in tables and on the command line.

    Examples
    --------
    >>> LengthLaw.of("1:0.2,2:0.3,3:0.5").mean
    2.3
    >>> LengthLaw.of(3)
    LengthLaw('3')
    """

    lengths: tuple[int, ...]
    probabilities: tuple[float, ...]
    label: str

    def __post_init__(self) -> None:
        given = self.label or dict(zip(self.lengths, self.probabilities, strict=False))
        if any(length < 1 for length in self.lengths):
            raise _bad(given)
        if not self.lengths or len(self.lengths) != len(self.probabilities):
            raise _bad(given)
        if len(set(self.lengths)) != len(self.lengths):
            raise _bad(given, "the lengths repeat")
        if any(not math.isfinite(p) or p < 0 for p in self.probabilities):
            raise _bad(given, "a weight is negative or not a number")
        total = math.fsum(self.probabilities)
        if abs(total - 1.0) > 1e-9:
            raise _bad(given, f"the weights sum to {total:.10g}")
        kept = [(n, p) for n, p in self.pairs() if p > 0.0]
        object.__setattr__(self, "lengths", tuple(n for n, _ in kept))
        object.__setattr__(self, "probabilities", tuple(p for _, p in kept))

    @classmethod
    def of(cls, length: LengthLike) -> LengthLaw:
        """Make a law from a number, a sequence, a mapping, a string or another law."""
        if isinstance(length, LengthLaw):
            return length
        if isinstance(length, str):
            return _parse(length)
        if isinstance(length, Mapping):
            keys = tuple(_whole(key, length) for key in length)
            label = ",".join(f"{k}:{p!r}" for k, p in zip(keys, length.values(), strict=True))
            try:
                weights = tuple(float(p) for p in length.values())
            except (TypeError, ValueError):
                raise _bad(length) from None
            return cls(keys, weights, label)
        if isinstance(length, Sequence | np.ndarray):
            return cls.uniform([_whole(value, length) for value in length])
        return cls.uniform([_whole(length, length)])

    @classmethod
    def uniform(cls, lengths: Sequence[int]) -> LengthLaw:
        """Return the uniform law over a set of lengths (one length: a fixed length)."""
        values = tuple(int(value) for value in lengths)
        if not values:
            raise _bad("an empty set")
        return cls(values, (1.0 / len(values),) * len(values), ",".join(map(str, values)))

    @classmethod
    def poisson(cls, mean: float) -> LengthLaw:
        """Return ``P(L) ∝ mean^L/L!`` on ``L >= 1``, cut where the tail is below 1e-16."""
        rate = _checks.positive(mean, "length mean")
        top = int(rate + 40 + 12 * math.sqrt(rate))
        if top > _MOST:
            raise _bad(f"poisson({_shown(mean)})", f"more than {_MOST} different lengths")
        support = np.arange(1, top + 1)
        log_p = np.asarray(support * math.log(rate) - np.cumsum(np.log(support)), dtype=float)
        return cls._from_log(support, log_p, f"poisson({_shown(mean)})")

    @classmethod
    def geometric(cls, mean: float) -> LengthLaw:
        """Return ``P(L) = (1/mean)(1-1/mean)^(L-1)`` on ``L >= 1``, cut at a tail of 1e-16."""
        value = _checks.real(mean, "length mean", accepted="a finite number >= 1", low=1.0)
        if value == 1.0:
            return cls((1,), (1.0,), "geometric(1)")
        log_ratio = math.log1p(-1.0 / value)
        top = int(math.log(_TAIL) / log_ratio) + 2 if log_ratio < 0.0 else _MOST + 1
        if top > _MOST:
            raise _bad(f"geometric({_shown(mean)})", f"more than {_MOST} different lengths")
        support = np.arange(1, top)
        log_p = np.asarray((support - 1) * log_ratio, dtype=float)
        return GeometricLaw._from_log(support, log_p, f"geometric({_shown(mean)})")

    @classmethod
    def _from_log(cls, support: npt.NDArray[Any], log_p: FloatArray, label: str) -> LengthLaw:
        p = np.exp(log_p - log_p.max())
        p /= p.sum()
        kept = p > _TAIL * p.max()
        p = p[kept] / p[kept].sum()
        return cls(tuple(support[kept].tolist()), tuple(p.tolist()), label)

    @cached_property
    def _arrays(self) -> tuple[FloatArray, FloatArray]:
        return np.array(self.lengths, dtype=float), np.array(self.probabilities)

    def pairs(self) -> Iterator[tuple[int, float]]:
        """Return each length with its probability."""
        return zip(self.lengths, self.probabilities, strict=True)

    def shares(self, log2_size: int) -> list[tuple[int, float, int]]:
        """Return length, probability and ``log2`` of the share in about ``2**log2_size`` sequences.

        Each length gets 8 sequences at least.
        """
        return [(n, p, max(3, log2_size + math.ceil(math.log2(p)))) for n, p in self.pairs()]

    def shortened(self, count: int) -> LengthLaw:
        """Return the law of ``L − count``."""
        if count == 0:
            return self
        lengths = tuple(length - count for length in self.lengths)
        return LengthLaw(lengths, self.probabilities, f"{self.label} less {count}")

    @property
    def mean(self) -> float:
        """Mean length ``L̄``."""
        return math.fsum(n * p for n, p in self.pairs())

    @property
    def longest(self) -> int:
        """Longest possible sequence."""
        return max(self.lengths)

    def generating(self, log_z: FloatArray, order: int = 2) -> tuple[FloatArray, ...]:
        """Return ``G`` of ``G(z) = E z^(L-1)`` and ``order`` derivatives at ``z = e^log_z <= 1``.

        Powers are taken in the log domain: at ``L = 10⁶`` the factor ``z^(L-1)`` needs
        ``log z`` to full relative accuracy, which ``z`` itself cannot hold.
        """
        if len(self.lengths) > 8 and self.longest < 4 * len(self.lengths):
            return self._horner(log_z, order)
        z = np.exp(log_z)
        derivatives = np.zeros((order + 1, *log_z.shape), dtype=log_z.dtype)
        for length, weight in self.pairs():
            n = length - 1
            first = min(n, order)  # higher derivatives of z^n vanish
            power = weight * (np.exp((n - first) * log_z) if n > 4 else z ** (n - first))
            for d in range(first, -1, -1):
                derivatives[d] += float(math.perm(n, d)) * power
                if d:
                    power = power * z
        return tuple(derivatives)

    def _horner(self, log_z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Evaluate the polynomial and its derivatives: a few flops a length, no exponentials."""
        z = np.exp(log_z)
        lengths, weights = self._arrays
        coefficients = np.zeros(self.longest)
        coefficients[lengths.astype(int) - 1] = weights
        derivatives = np.zeros((order + 1, *z.shape), dtype=z.dtype)
        for c in coefficients[::-1]:
            for d in range(order, 0, -1):
                derivatives[d] *= z
                derivatives[d] += derivatives[d - 1]
            derivatives[0] *= z
            derivatives[0] += c
        return tuple(math.factorial(d) * row for d, row in enumerate(derivatives))

    def sample(self, rng: np.random.Generator, size: int) -> npt.NDArray[np.int64]:
        """Draw ``size`` lengths."""
        drawn = rng.choice(np.array(self.lengths), size=size, p=np.array(self.probabilities))
        return np.asarray(drawn, dtype=np.int64)

    def __str__(self) -> str:
        return self.label

    def __repr__(self) -> str:
        return f"LengthLaw({self.label!r})"

    def to_dict(self) -> str:
        """Return the label: what the command line accepts back."""
        return self.label


class GeometricLaw(LengthLaw):
    """``P(L) = p(1−p)^(L−1)``, whose generating function needs no sum."""

    def generating(self, log_z: FloatArray, order: int = 2) -> tuple[FloatArray, ...]:
        p = self.probabilities[0]
        q = 1.0 - p
        below = 1.0 / (p - q * np.expm1(log_z))  # 1/(1 − qz) without cancellation at z = 1
        derivatives = [p * below]
        for d in range(1, order + 1):
            derivatives.append(d * derivatives[-1] * (q * below))
        return tuple(derivatives)


_Whole: TypeAlias = int | np.integer[Any]
LengthLike: TypeAlias = (
    _Whole | str | Sequence[_Whole] | npt.NDArray[np.integer[Any]] | Mapping[int, float] | LengthLaw
)
"""What `LengthLaw.of`, and so every task, takes for a length."""


def _whole(value: Any, given: Any) -> int:
    try:
        return _checks.integer(value, "length")
    except (TypeError, ValueError):
        raise _bad(given) from None


def _parse(text: str) -> LengthLaw:
    named = _NAMED.fullmatch(text.replace(" ", ""))
    try:
        if named:
            values = [float(part) for part in named[2].split(",")]
            if named[1] == "uniform":
                low, high = (_checks.integer(value, "length") for value in values)
                if high - low >= _MOST:
                    raise _bad(text, f"more than {_MOST} different lengths")
                law = LengthLaw.uniform(range(low, high + 1))
                return LengthLaw(law.lengths, law.probabilities, f"uniform({low},{high})")
            (mean,) = values
            return LengthLaw.poisson(mean) if named[1] == "poisson" else LengthLaw.geometric(mean)
        parts = [part.split(":") for part in text.split(",")]
        if all(len(part) == 1 for part in parts):
            lengths = [_checks.integer(float(part[0]), "length") for part in parts]
            return LengthLaw.uniform(lengths)
        pairs = [(_checks.integer(float(n), "length"), float(p)) for n, p in parts]
        return LengthLaw(tuple(n for n, _ in pairs), tuple(p for _, p in pairs), text)
    except (ValueError, TypeError, OverflowError) as error:
        if str(error).startswith(f"length must be {ACCEPTED}"):
            raise
        raise _bad(text or repr(text)) from None
