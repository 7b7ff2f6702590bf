"""Benchmarks of retrieval as arrays: what a model reads, where it answers and what is correct.

Only NumPy is needed, so that the data serve models of any library. The same seed gives the same
data. Independent of models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab._types import FloatArray

IntArray = npt.NDArray[np.int64]
FILLERS = ("zero", "unused")


@dataclass(frozen=True)
class Batch:
    """Sequences with questions.

    Attributes
    ----------
    inputs
        Tokens ``(sequences, length)``, or vectors ``(sequences, length, features)``.
    positions
        Where the model answers, ``(sequences, questions)``. It sees the input up to there.
    targets
        The correct answers, a class for each question.
    sources
        Where the answer stands in the input, or None if no single location holds it.
    """

    inputs: npt.NDArray[np.int64] | FloatArray
    positions: IntArray
    targets: IntArray
    sources: IntArray | None = None


class RetrievalTask(Protocol):
    """What all tasks offer."""

    name: ClassVar[str]

    @property
    def length(self) -> int: ...
    @property
    def features(self) -> int: ...
    @property
    def tokens(self) -> bool: ...
    @property
    def classes(self) -> int: ...
    def draw(self, rng: np.random.Generator, sequences: int) -> Batch: ...


@dataclass(frozen=True)
class _TokenTask:
    """A task whose inputs and answers are tokens of one vocabulary."""

    vocabulary: int = 128
    length: int = 64
    tokens: ClassVar[bool] = True

    @property
    def classes(self) -> int:
        """Number of tokens, any of which may be answered."""
        return self.vocabulary

    @property
    def features(self) -> int:
        """Number of tokens that a model reads."""
        return self.vocabulary


@dataclass(frozen=True)
class RecallTask(_TokenTask):
    """Multi-query associative recall (Arora et al. 2023, arXiv 2312.04927).

    A sequence opens with pairs of a key and a value. Each key appears once more, and the answer
    there is its value. Keys are ``1 … V/2 − 1`` and values ``V/2 … V − 1``, for a vocabulary of
    ``V``. The gap ``g`` before a question has a probability in proportion to ``(g + 1)^(power −
    1)``. Filler is token 0, or keys that the sequence does not use (``unused``), so that no filler
    is mistaken for a pair or a question.

    With several numbers in ``pairs`` each batch has one of them, drawn at random.

    Examples
    --------
    >>> batch = RecallTask(vocabulary=16, length=12, pairs=2).draw(np.random.default_rng(0), 1)
    >>> print(batch.inputs[0], batch.positions[0], batch.targets[0], batch.sources[0])
    [ 4 12  3 14  4  0  0  0  0  0  3  0] [ 4 10] [12 14] [1 3]
    """

    pairs: int | tuple[int, ...] = (4, 8, 16)
    power: float = 0.01
    filler: str = "zero"
    name: ClassVar[str] = "recall"

    def __post_init__(self) -> None:
        _even(self.vocabulary, "vocabulary", 4)
        _even(self.length, "length", 4)
        _checks.positive(self.power, "power")
        _checks.choice(self.filler, "filler", FILLERS)
        if not self._counts:
            _checks.fail("pairs", "a number or several", self.pairs)
        most = min(self.length // 4, self.vocabulary // 2 - 2)
        for count in self._counts:
            if _checks.integer(count, "pairs") > most:
                _checks.fail("pairs", f"at most {most} (length/4, vocabulary/2 - 2)", count)

    @property
    def _counts(self) -> tuple[int, ...]:
        return (self.pairs,) if isinstance(self.pairs, int) else tuple(self.pairs)

    def draw(self, rng: np.random.Generator, sequences: int) -> Batch:
        """Return new sequences."""
        n = int(rng.choice(self._counts))
        half = self.vocabulary // 2
        order = rng.random((sequences, half - 1)).argsort(axis=1) + 1
        keys, unused = order[:, :n], order[:, n:]
        values = half + rng.random((sequences, half)).argsort(axis=1)[:, :n]
        inputs = np.zeros((sequences, self.length), dtype=np.int64)
        if self.filler == "unused":
            chosen = rng.integers(unused.shape[1], size=inputs.shape)
            inputs = np.take_along_axis(unused, chosen, axis=1)
        inputs[:, 0 : 2 * n : 2], inputs[:, 1 : 2 * n : 2] = keys, values
        # the largest of logarithms plus Gumbel noise: a sample without replacement
        gaps = np.arange((self.length - 2 * n) // 2)
        noisy = (self.power - 1.0) * np.log1p(gaps) + rng.gumbel(size=(sequences, len(gaps)))
        positions = 2 * n + 2 * np.argsort(-noisy, axis=1)[:, :n]
        np.put_along_axis(inputs, positions, keys, axis=1)
        sources = np.broadcast_to(2 * np.arange(n) + 1, positions.shape)
        by_position = np.argsort(positions, axis=1)
        return Batch(
            inputs,
            *(np.take_along_axis(one, by_position, axis=1) for one in (positions, values, sources)),
        )


@dataclass(frozen=True)
class NeedleTask(_TokenTask):
    """One pair at a random position in a long filler; the last token asks for its value.

    Tokens are those of `RecallTask`, so that a model trained there can be tested here.

    Examples
    --------
    >>> batch = NeedleTask(vocabulary=16, length=8).draw(np.random.default_rng(1), 1)
    >>> print(batch.inputs[0], batch.targets[0], batch.sources[0])
    [ 0  0  0  4 12  0  0  4] [12] [4]
    """

    filler: str = "zero"
    name: ClassVar[str] = "needle"

    def __post_init__(self) -> None:
        _even(self.vocabulary, "vocabulary", 6)
        _checks.integer(self.length, "length", low=4)
        _checks.choice(self.filler, "filler", FILLERS)

    def draw(self, rng: np.random.Generator, sequences: int) -> Batch:
        """Return new sequences."""
        half, rows = self.vocabulary // 2, np.arange(sequences)
        keys = rng.integers(1, half, size=sequences)
        values = rng.integers(half, self.vocabulary, size=sequences)
        inputs = np.zeros((sequences, self.length), dtype=np.int64)
        if self.filler == "unused":  # any other key: those above it move down by one
            inputs = rng.integers(1, half - 1, size=inputs.shape)
            inputs += inputs >= keys[:, None]
        # at least one token of filler stands between the pair and the question
        at = rng.integers(self.length - 3, size=sequences)
        inputs[rows, at], inputs[rows, at + 1], inputs[:, -1] = keys, values, keys
        last = np.full((sequences, 1), self.length - 1)
        return Batch(inputs, last, values[:, None], at[:, None] + 1)


@dataclass(frozen=True)
class MaxTask:
    """Class of the item with the largest priority (after Veličković et al. 2024, 2410.01104).

    An item is a priority, uniform on (0, 1), and a class as unit vector. The answer stands at the
    last item, which is not an item of its own: its vector is zero.

    Examples
    --------
    >>> batch = MaxTask(items=4, kinds=3).draw(np.random.default_rng(0), 1)
    >>> int(batch.inputs[0, :, 0].argmax()) == int(batch.sources[0, 0])
    True
    """

    items: int = 16
    kinds: int = 10
    name: ClassVar[str] = "max"
    tokens: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _checks.integer(self.items, "items")
        _checks.integer(self.kinds, "kinds", low=2)

    @property
    def length(self) -> int:
        """Number of items and the question."""
        return self.items + 1

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.kinds

    @property
    def features(self) -> int:
        """Entries of the vector of an item."""
        return self.kinds + 1

    def draw(self, rng: np.random.Generator, sequences: int) -> Batch:
        """Return new sequences."""
        inputs = np.zeros((sequences, self.length, self.features))
        inputs[:, :-1, 0] = rng.random((sequences, self.items))
        kinds = rng.integers(self.kinds, size=(sequences, self.items))
        np.put_along_axis(inputs[:, :-1, 1:], kinds[:, :, None], 1.0, axis=2)
        sources = inputs[:, :-1, 0].argmax(axis=1)[:, None]
        last = np.full((sequences, 1), self.items)
        return Batch(inputs, last, np.take_along_axis(kinds, sources, axis=1), sources)


@dataclass(frozen=True)
class MarkovTask(_TokenTask):
    """A Markov chain over tokens: prediction without retrieval, with a known least loss.

    Each token has as many successors as there are ``probabilities``, chosen once by ``seed``.

    Examples
    --------
    >>> print(f"{MarkovTask().entropy:.3f} nats")
    1.208 nats
    """

    probabilities: tuple[float, ...] = (0.5, 0.25, 0.15, 0.1)
    seed: int = 0
    name: ClassVar[str] = "markov"
    _successors: IntArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _checks.integer(self.vocabulary, "vocabulary", low=max(2, len(self.probabilities)))
        _checks.integer(self.length, "length", low=2)
        least, total = min(self.probabilities, default=0.0), sum(self.probabilities)
        if least <= 0.0 or not math.isclose(total, 1.0):
            _checks.fail("probabilities", "positive numbers with sum 1", self.probabilities)
        order = np.random.default_rng(self.seed).random((self.vocabulary, self.vocabulary))
        successors = order.argsort(axis=1)[:, : len(self.probabilities)]
        object.__setattr__(self, "_successors", successors)

    @property
    def entropy(self) -> float:
        """Least mean loss of any model, in nats."""
        return -sum(p * math.log(p) for p in self.probabilities)

    def draw(self, rng: np.random.Generator, sequences: int) -> Batch:
        """Return new sequences; every token but the last asks for the next one."""
        choices = rng.choice(
            len(self.probabilities), p=self.probabilities, size=(sequences, self.length)
        )
        tokens = np.empty((sequences, self.length + 1), dtype=np.int64)
        tokens[:, 0] = rng.integers(self.vocabulary, size=sequences)
        for t in range(self.length):
            tokens[:, t + 1] = self._successors[tokens[:, t], choices[:, t]]
        positions = np.broadcast_to(np.arange(self.length), (sequences, self.length))
        return Batch(tokens[:, :-1], positions.copy(), tokens[:, 1:])


def _even(value: int, name: str, low: int) -> None:
    if _checks.integer(value, name, low=low) % 2:
        _checks.fail(name, "even", value)
