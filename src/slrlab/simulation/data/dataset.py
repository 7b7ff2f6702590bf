r"""Labelled sequences as one matrix of tokens, drawn exactly and in parallel from one seed.

Sequences of any length lie one after the other: no padding. The tokens are Gaussian; the relevant
one is then moved along ``k*`` (tilted tasks) or chosen by the scores (selection tasks), as the task
says. This module must not know about predictors.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab._errors import TooLargeError
from slrlab._machine import allowed_memory, cores, in_gib
from slrlab._types import FloatArray, Report
from slrlab.model.tasks import SelectionTask, Task, TiltedTask
from slrlab.simulation.data.packing import checked, pack

Tables: TypeAlias = list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]
_BATCH = 1 << 24  # numbers of fresh data held at a time
_BLOCK = 1 << 20  # numbers drawn at a time: part of the meaning of a seed
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

        Normalised ones have the law of Gaussian ones but for their own fluctuations.
        """
        size = _checks.integer(dim, "dim", low=2)
        _checks.choice(kind, "teacher", ["normalised", "gaussian"])
        keys, values = _generator(seed, _TEACHER).standard_normal((2, size))
        if kind == "normalised":
            keys *= math.sqrt(size) / np.linalg.norm(keys)
            values -= keys * (keys @ values) / size
            values *= math.sqrt(size) / np.linalg.norm(values)
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
        The hidden location of each sequence, or None if unknown.
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
        lengths, found = self.lengths, []
        for length in np.unique(lengths):
            same = np.flatnonzero(lengths == length)
            found.append((same, self.offsets[same, None] + np.arange(length)))
        return found

    @classmethod
    def from_sequences(
        cls,
        sequences: Sequence[npt.ArrayLike] | npt.NDArray[Any],
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
        return cls(tokens, offsets, np.zeros(count) if labels is None else checked(labels, count))


def draw_dataset(
    task: Task,
    *,
    dim: int,
    samples: int,
    seed: int = 0,
    teacher: Teacher | str = "normalised",
    dtype: str = "float32",
    stream: int = 0,
    threads: int | None = None,
    report: Report | None = None,
) -> Dataset:
    """Draw ``samples`` labelled sequences of the task in ``dim`` dimensions.

    Parameters
    ----------
    task
        What the data look like; the signal must be finite for tilted tasks.
    dim, samples
        ``D`` and ``N``.
    seed
        The same seed gives the same data whatever the number of threads.
    teacher
        ``"normalised"``, ``"gaussian"`` (drawn from the seed) or given vectors.
    dtype
        ``"float32"`` or ``"float64"``.
    stream
        Independent data for the same teacher: 0 for training, others for tests.
    threads
        Number of threads; all cores by default.
    report
        Called as ``report(done, total, label)``.

    Raises
    ------
    ValueError
        If a number is out of range, or the tokens would not fit into the free memory.

    Examples
    --------
    >>> from slrlab import SpikedSLR, draw_dataset
    >>> data = draw_dataset(SpikedSLR(signal=2.0, length="1,2,3"), dim=100, samples=50)
    >>> bool(data.lengths.sum() == len(data.tokens)), data.labels.shape
    (True, (50,))
    """
    size = _checks.integer(dim, "dim", low=2)
    count = _checks.integer(samples, "samples")
    kind = precision(dtype)
    if not isinstance(task, TiltedTask | SelectionTask):
        raise TypeError(f"task must be tilted or a selection, got {type(task).__name__}")
    if isinstance(task, TiltedTask) and math.isinf(task.signal):
        raise ValueError("signal must be finite to draw tokens of this task, got inf")
    check_memory(task, size, count, dtype)
    if isinstance(teacher, str):
        teacher = Teacher.draw(size, seed=seed, kind=teacher)
    elif teacher.dim != size:
        raise ValueError(f"teacher must have dimension {size}, got {teacher.dim}")
    lengths = task.length.sample(_generator(seed, _LENGTHS, stream), count)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    tokens = np.empty((int(offsets[-1]), size), dtype=kind)
    labels, locations = np.empty(count), np.empty(count, dtype=np.int64)
    per_block = max(1, int(_BLOCK / (size * task.length.mean)))
    bounds = [(at, min(count, at + per_block)) for at in range(0, count, per_block)]

    def fill(block: int) -> None:
        low, high = bounds[block]
        rows = slice(int(offsets[low]), int(offsets[high]))
        rng = _generator(seed, _TOKENS, stream, block)
        starts = offsets[low:high] - offsets[low]
        chosen = _fill(task, teacher, rng, tokens[rows], starts, lengths[low:high])
        locations[low:high] = chosen - starts
        values = tokens[rows][chosen].astype(float) @ teacher.values / math.sqrt(size)
        labels[low:high] = values + task.noise * rng.standard_normal(high - low)

    workers = _checks.integer(threads, "threads") if threads is not None else cores()
    with ThreadPoolExecutor(workers) as pool:
        for done, _ in enumerate(pool.map(fill, range(len(bounds))), start=1):
            if report is not None:
                report(done, len(bounds), "drawing data")
    return Dataset(tokens, offsets, labels, locations, teacher)


def fresh_batches(task: Task, teacher: Teacher, *, samples: int, seed: int) -> Iterator[Dataset]:
    """Yield fresh sequences of a teacher in pieces that fit anywhere; streams 1, 2, …."""
    size = max(1, min(samples, int(_BATCH / (teacher.dim * task.length.mean))))
    for stream, at in enumerate(range(0, samples, size), start=1):
        count = min(size, samples - at)
        yield draw_dataset(
            task, dim=teacher.dim, samples=count, seed=seed, teacher=teacher, stream=stream
        )


def token_bytes(task: Task, dim: int, samples: int, dtype: str = "float32") -> float:
    """Return the size of the tokens of a dataset, on average over its lengths."""
    return task.length.mean * dim * samples * precision(dtype).itemsize


def check_memory(task: Task, dim: int, samples: int, dtype: str) -> None:
    """Raise TooLargeError if the tokens do not fit into the free memory, saying what would fit."""
    alpha, length = samples / dim, task.length.mean
    needed = token_bytes(task, dim, samples, dtype)
    allowed = allowed_memory()
    if needed > allowed:
        # with the rounding of N = αD, so that what the message offers does fit
        one = token_bytes(task, 1, 1, dtype)
        fits = bisect_right(
            range(dim), float(allowed), key=lambda d: one * d * max(1, round(alpha * d))
        )
        raise TooLargeError(
            f"dim must be at most {fits - 1} at alpha {alpha:.4g}, length {length:.4g} and "
            f"{dtype}, got {dim} (the tokens would take {in_gib(needed)}, "
            f"{in_gib(allowed)} may be used)"
        )


def _fill(
    task: TiltedTask | SelectionTask,
    teacher: Teacher,
    rng: np.random.Generator,
    tokens: npt.NDArray[Any],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Fill the tokens of a block of sequences; return the row of each relevant token."""
    dim = tokens.shape[1]
    root = math.sqrt(dim)
    rng.standard_normal(dtype=tokens.dtype.type, out=tokens)
    if isinstance(task, SelectionTask):
        scores = np.einsum("td,d->t", tokens, teacher.keys) / root
        rows = np.empty_like(starts)
        for length in np.unique(lengths):
            same = lengths == length
            table = scores[starts[same, None] + np.arange(length)]
            rows[same] = starts[same] + task.select(rng, table)
        return rows
    rows = starts + rng.integers(lengths)
    shift = task.gaussian_shift
    if shift is not None:
        tokens[rows] += (shift / root * teacher.keys).astype(tokens.dtype)
        return rows
    # move the relevant row along k* until its score has the law the task asks for
    now = np.einsum("td,d->t", tokens[rows], teacher.keys) / root
    wanted = task.sample_relevant(rng, rows.size)
    along = teacher.keys * root / (teacher.keys @ teacher.keys)
    tokens[rows] += ((wanted - now)[:, None] * along).astype(tokens.dtype)
    return rows


def _generator(seed: int, *key: int) -> np.random.Generator:
    entropy = _checks.integer(seed, "seed", low=0)
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(entropy, spawn_key=key)))


def precision(dtype: str) -> np.dtype[Any]:
    """Return the type of tokens by its name, checked."""
    return np.dtype(_checks.choice(dtype, "dtype", ["float32", "float64"]))
