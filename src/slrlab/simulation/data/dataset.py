r"""Labelled sequences as one matrix of tokens, drawn exactly and in parallel from one seed.

Sequences of any length follow each other without padding. The tokens are Gaussian, or of another
law; the task then moves tokens along ``k*`` (tilted tasks, and those with several kinds of tokens),
selects one by the scores (selection tasks) or changes its variance (Marion's task). Independent of
predictors.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab._errors import TooLargeError
from slrlab._machine import allowed_memory, cores, in_gib
from slrlab._types import FloatArray, Report
from slrlab.model.arrangements import relevant_count
from slrlab.model.tasks import Task
from slrlab.model.token_laws import TokenLaw
from slrlab.simulation.data.packing import (
    Sequences,
    Tables,
    checked_labels,
    offsets_of,
    pack,
    tables_by_length,
)
from slrlab.simulation.data.placing import Block, placement

_BATCH = 1 << 24  # numbers of fresh data in memory at a time
_BLOCK = 1 << 20  # numbers drawn at a time; the data of a seed depend on it
_TEACHER, _LENGTHS, _TOKENS = range(3)


@dataclass(frozen=True)
class Teacher:
    """The vectors ``k*`` and ``v*`` that label the data."""

    keys: FloatArray
    values: FloatArray

    @property
    def dim(self) -> int:
        """Number of dimensions."""
        return self.keys.size

    @classmethod
    def draw(cls, dim: int, *, seed: int = 0, kind: str = "normalised") -> Teacher:
        """Draw teachers: ``normalised`` to ``|k*|² = |v*|² = D``, ``k* ⊥ v*``, or ``gaussian``.

        Normalised ones are Gaussian vectors without the fluctuations of their norms and overlap.
        """
        dim = _checks.integer(dim, "dim", low=2)
        _checks.choice(kind, "teacher", ["normalised", "gaussian"])
        keys, values = _generator(seed, _TEACHER).standard_normal((2, dim))
        if kind == "normalised":
            keys *= math.sqrt(dim) / np.linalg.norm(keys)
            values -= keys * (keys @ values) / dim
            values *= math.sqrt(dim) / np.linalg.norm(values)
        return cls(keys, values)


@dataclass(frozen=True)
class Dataset:
    """Sequences of tokens with their labels.

    Attributes
    ----------
    tokens
        All tokens as rows, shape ``(T, D)``.
    offsets
        Sequence ``i`` is ``tokens[offsets[i]:offsets[i + 1]]``; shape ``(N + 1,)``.
    labels
        One number per sequence.
    locations
        The hidden location of each sequence, or None if unknown; a row of locations for a task
        with several relevant tokens.
    teacher
        The vectors behind the labels, or None if unknown.
    """

    tokens: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]
    labels: FloatArray
    locations: npt.NDArray[np.int64] | None = None
    teacher: Teacher | None = None

    @property
    def dim(self) -> int:
        """Number of dimensions of a token."""
        return int(self.tokens.shape[1])

    @property
    def samples(self) -> int:
        """Number of sequences."""
        return self.labels.size

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Length of each sequence."""
        return np.diff(self.offsets)

    def sequence(self, index: int) -> npt.NDArray[Any]:
        """Return the tokens of one sequence, a view of shape ``(L, D)``."""
        return self.tokens[self.offsets[index] : self.offsets[index + 1]]

    def by_length(self) -> Tables:
        """Return, for each length, its sequences and the rows of their tokens as a table."""
        return tables_by_length(self.offsets[:-1], self.lengths)

    @classmethod
    def from_sequences(
        cls,
        sequences: Sequences,
        labels: npt.ArrayLike | None = None,
        *,
        dtype: str = "float32",
    ) -> Dataset:
        """Pack a list of ``(L_i, D)`` arrays, or an array ``(N, L, D)``, without padding.

        Raises
        ------
        ValueError
            If a shape is wrong, a number is not finite, or the labels do not match.
        """
        tokens, offsets = pack(sequences, precision(dtype))
        count = offsets.size - 1
        y = np.zeros(count) if labels is None else checked_labels(labels, count)
        return cls(tokens, offsets, y)


def draw_dataset(
    task: Task,
    *,
    dim: int,
    samples: int,
    seed: int = 0,
    teacher: Teacher | str = "normalised",
    dtype: str = "float32",
    token_law: TokenLaw | str = "gaussian",
    stream: int = 0,
    threads: int | None = None,
    report: Report | None = None,
) -> Dataset:
    """Draw ``samples`` labelled sequences of the task in ``dim`` dimensions.

    Parameters
    ----------
    task
        Law of the sequences and labels; the signal of a tilted task must be finite.
    dim, samples
        ``D`` and ``N``.
    seed
        The same seed gives the same data whatever the number of threads.
    teacher
        ``"normalised"``, ``"gaussian"`` (drawn from the seed) or given vectors.
    dtype
        ``"float32"`` or ``"float64"``.
    token_law
        Law of the entries of the tokens: ``"gaussian"``, or for instance ``"rademacher"``,
        ``"laplace"``, ``"student(5)"`` or ``"gaussian+ar1(0.5)"``; see `slrlab.TokenLaw`.
    stream
        Number of the stream: streams are independent data of one teacher; 0 for training.
    threads
        Number of threads; all cores by default.
    report
        Called as ``report(done, total, label)``.

    Returns
    -------
    Dataset
        Tokens, labels, locations and the teachers that made them.

    Raises
    ------
    ValueError
        If a number is out of range, or the tokens do not fit into the free memory.

    Examples
    --------
    >>> from slrlab import SpikedSLR, draw_dataset
    >>> data = draw_dataset(SpikedSLR(signal=2.0, length="1,2,3"), dim=100, samples=50)
    >>> bool(data.lengths.sum() == len(data.tokens)), data.labels.shape
    (True, (50,))
    """
    dim = _checks.integer(dim, "dim", low=2)
    samples = _checks.integer(samples, "samples")
    kind, law = precision(dtype), TokenLaw.of(token_law)
    place = placement(task)
    if task.has_infinite_score:
        raise ValueError("signal must be finite to draw tokens of this task, got inf")
    check_memory(task, dim, samples, dtype)
    if isinstance(teacher, str):
        teacher = Teacher.draw(dim, seed=seed, kind=teacher)
    elif teacher.dim != dim:
        raise ValueError(f"teacher must have dimension {dim}, got {teacher.dim}")
    lengths = task.length.sample(_generator(seed, _LENGTHS, stream), samples)
    offsets = offsets_of(lengths)
    tokens = np.empty((int(offsets[-1]), dim), dtype=kind)
    labels = np.empty(samples)
    relevant = relevant_count(task)
    locations = np.empty((samples, relevant), dtype=np.int64)
    per_block = max(1, int(_BLOCK / (dim * task.length.mean)))
    bounds = [(at, min(samples, at + per_block)) for at in range(0, samples, per_block)]

    def fill(block: int) -> None:
        low, high = bounds[block]
        rows = slice(int(offsets[low]), int(offsets[high]))
        rng = _generator(seed, _TOKENS, stream, block)
        starts = offsets[low:high] - offsets[low]
        law.fill(rng, tokens[rows], lengths[low:high])
        chosen = place(task, Block(teacher.keys, rng, tokens[rows], starts, lengths[low:high]))
        locations[low:high] = chosen - starts[:, None]
        values = tokens[rows][chosen.ravel()].astype(float) @ teacher.values / math.sqrt(dim)
        sums = values.reshape(chosen.shape).sum(axis=1) / math.sqrt(relevant)
        labels[low:high] = sums + task.noise * rng.standard_normal(high - low)

    threads = _checks.integer(threads, "threads") if threads is not None else cores()
    with ThreadPoolExecutor(threads) as pool:
        for done, _ in enumerate(pool.map(fill, range(len(bounds))), start=1):
            if report is not None:
                report(done, len(bounds), "drawing data")
    return Dataset(
        tokens, offsets, labels, locations[:, 0] if relevant == 1 else locations, teacher
    )


def fresh_batches(
    task: Task,
    teacher: Teacher,
    *,
    samples: int,
    seed: int,
    size: int | None = None,
    token_law: TokenLaw | str = "gaussian",
) -> Iterator[Dataset]:
    """Yield fresh sequences of a teacher in datasets of a small size, from the streams 1, 2, …."""
    size = size or max(1, min(samples, int(_BATCH / (teacher.dim * task.length.mean))))
    for stream, at in enumerate(range(0, samples, size), start=1):
        count = min(size, samples - at)
        own: dict[str, Any] = {"samples": count, "seed": seed, "stream": stream}
        yield draw_dataset(task, dim=teacher.dim, teacher=teacher, token_law=token_law, **own)


def token_bytes(task: Task, dim: int, samples: int, dtype: str = "float32") -> float:
    """Return the size of the tokens of a dataset, on average over its lengths."""
    return task.length.mean * dim * samples * precision(dtype).itemsize


def check_memory(task: Task, dim: int, samples: int, dtype: str) -> None:
    """Raise TooLargeError if the tokens do not fit into the free memory, saying what would fit."""
    alpha, length = samples / dim, task.length.mean
    needed = token_bytes(task, dim, samples, dtype)
    allowed = allowed_memory()
    if needed > allowed:
        # N = αD is rounded here as in a training, so that the largest dimension does fit
        one = token_bytes(task, 1, 1, dtype)
        fits = bisect_right(
            range(dim), float(allowed), key=lambda d: one * d * max(1, round(alpha * d))
        )
        raise TooLargeError(
            f"dim must be at most {fits - 1} at alpha {alpha:.4g}, length {length:.4g} and "
            f"{dtype}, got {dim} (the tokens would take {in_gib(needed)}, "
            f"{in_gib(allowed)} may be used)"
        )


def _generator(seed: int, *key: int) -> np.random.Generator:
    seed = _checks.integer(seed, "seed", low=0)
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))


def precision(dtype: str) -> np.dtype[Any]:
    """Return the type of tokens from its name."""
    return np.dtype(_checks.choice(dtype, "dtype", ["float32", "float64"]))
