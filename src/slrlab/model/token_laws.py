r"""Laws of the entries of tokens: Gaussian as in the theory, or another one of the same variance.

Independent entries: ``gaussian``, ``rademacher``, ``uniform``, ``laplace`` or ``student(n)``,
Student's t with ``n > 2`` degrees of freedom. ``+ar1(r)`` correlates the coordinates of a token,
with correlation ``r^|i−j|``; ``+shared(r)`` correlates the tokens of a sequence: all have a common
part, of variance ``r``. Independent of tasks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab._types import FloatArray

ENTRIES = ("gaussian", "rademacher", "uniform", "laplace", "student")
ACCEPTED = (
    f"one of {', '.join(ENTRIES[:-1])} or student(n) with n > 2, and perhaps +ar1(r) or +shared(r) "
    "with 0 <= r < 1"
)
_WORD = re.compile(r"(\w+)(?:\(([^()]*)\))?")
_PARTS = ("ar1", "shared")


@dataclass(frozen=True)
class TokenLaw:
    """Law of the tokens of a sequence, before the task moves the relevant one.

    Parameters
    ----------
    entries
        Law of an entry: one of `ENTRIES`.
    freedom
        Degrees of freedom of ``student``.
    ar1
        Correlation of neighbouring coordinates, at least 0 and below 1.
    shared
        Correlation of the tokens of a sequence, at least 0 and below 1.

    Examples
    --------
    >>> law = TokenLaw.of("student(5)+ar1(0.5)")
    >>> law.freedom, law.ar1, str(law)
    (5.0, 0.5, 'student(5)+ar1(0.5)')
    """

    entries: str = "gaussian"
    freedom: float = math.inf
    ar1: float = 0.0
    shared: float = 0.0

    def __post_init__(self) -> None:
        heavy = self.entries == "student"
        fine = self.entries in ENTRIES and (2.0 < self.freedom < math.inf) == heavy
        fine = fine and (heavy or math.isinf(self.freedom))
        if not (fine and 0.0 <= self.ar1 < 1.0 and 0.0 <= self.shared < 1.0):
            _checks.fail("token_law", ACCEPTED, str(self))

    @classmethod
    def of(cls, law: TokenLaw | str) -> TokenLaw:
        """Return a law, or make it from its text."""
        if isinstance(law, TokenLaw):
            return law
        if not isinstance(law, str):
            _checks.fail("token_law", ACCEPTED, law, TypeError)
        given: dict[str, Any] = {}
        for word in law.replace(" ", "").split("+"):
            match = _WORD.fullmatch(word)
            name = match[1] if match else ""
            key = name if name in _PARTS else "entries"
            try:
                number = float(match[2]) if match and match[2] is not None else None
            except ValueError:
                _checks.fail("token_law", ACCEPTED, law)
            needed = name == "student" or name in _PARTS
            if key in given or name not in (*ENTRIES, *_PARTS) or (number is not None) != needed:
                _checks.fail("token_law", ACCEPTED, law)
            given[key] = number if name in _PARTS else name
            if name == "student":
                given["freedom"] = number
        return cls(**given)

    def spectrum(self, count: int = 400) -> FloatArray:
        """Return eigenvalues of the covariance of a token, at the middles of equal shares.

        As ``D → ∞`` they are ``(1 − r²)/|1 − r e^{iθ}|²`` with ``θ`` uniform on ``[0, π]``.
        """
        angle = math.pi * (np.arange(count) + 0.5) / count
        r = self.ar1
        return np.asarray((1.0 - r**2) / (1.0 - 2.0 * r * np.cos(angle) + r**2))

    def fill(
        self, rng: np.random.Generator, tokens: npt.NDArray[Any], lengths: npt.NDArray[np.int64]
    ) -> None:
        """Fill the tokens of sequences that follow each other with draws of the law."""
        if self.entries == "gaussian":
            rng.standard_normal(dtype=tokens.dtype.type, out=tokens)
        else:
            tokens[...] = self._draws(rng, tokens.shape)
        if self.shared:
            common = self._draws(rng, (lengths.size, tokens.shape[1]))
            tokens *= math.sqrt(1.0 - self.shared)
            tokens += math.sqrt(self.shared) * np.repeat(common, lengths, axis=0)
        if self.ar1:
            from scipy.signal import lfilter

            tokens[:, 1:] *= math.sqrt(1.0 - self.ar1**2)
            tokens[...] = lfilter([1.0], [1.0, -self.ar1], tokens, axis=1)

    def _draws(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Return independent entries."""
        draw: dict[str, Callable[[], Any]] = {
            "gaussian": lambda: rng.standard_normal(shape),
            "rademacher": lambda: 2.0 * rng.integers(0, 2, shape) - 1.0,
            "uniform": lambda: rng.uniform(-math.sqrt(3.0), math.sqrt(3.0), shape),
            "laplace": lambda: rng.laplace(scale=math.sqrt(0.5), size=shape),
            "student": lambda: (
                math.sqrt(1.0 - 2.0 / self.freedom) * rng.standard_t(self.freedom, shape)
            ),
        }
        return np.asarray(draw[self.entries]())

    def __str__(self) -> str:
        text = self.entries + (f"({self.freedom:g})" if self.entries == "student" else "")
        parts = {"ar1": self.ar1, "shared": self.shared}
        return text + "".join(f"+{name}({value:g})" for name, value in parts.items() if value)
