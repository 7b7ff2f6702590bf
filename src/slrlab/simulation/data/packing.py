"""Sequences given by a user as one matrix of tokens: checked, converted, without padding.

Independent of tasks and predictors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from slrlab._types import FloatArray

Sequences: TypeAlias = npt.NDArray[Any] | Sequence[npt.ArrayLike]
Tables: TypeAlias = list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]
_REAL = "fiub"  # kinds of arrays that hold real numbers
_ACCEPTED = "an array of shape (N, L, D) or a list of (L, D) arrays of real numbers"


def pack(
    sequences: Sequences, kind: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return the tokens ``(T, D)`` of all sequences, and their offsets, of shape ``(N + 1,)``.

    The tokens may share memory with an array of the right type.

    Raises
    ------
    ValueError
        If a shape is wrong or a number is not finite.
    """
    with np.errstate(over="ignore"):  # a number too large for float32 becomes inf, refused below
        if isinstance(sequences, np.ndarray) and sequences.dtype != object:
            tokens, lengths = _from_array(sequences, kind)
        else:
            tokens, lengths = _from_list(sequences, kind)
    if lengths.size < 1 or lengths.min() < 1 or tokens.shape[1] < 1:
        raise ValueError(
            "X must hold at least one sequence, each of at least one token and dimension, "
            f"got {lengths.size} with {tokens.shape[0]} tokens of dimension {tokens.shape[1]}"
        )
    if not np.isfinite(tokens).all():
        raise ValueError(f"X must hold finite numbers only (as {kind.name}), got nan or inf")
    if not tokens.flags.writeable:  # for a read-only array Numba would compile all kernels again
        tokens = tokens.copy()
    return tokens, offsets_of(lengths)


def offsets_of(lengths: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return the first row of each sequence, and the number of all rows, from their lengths."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def tables_by_length(starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Tables:
    """Return, for each length, its sequences and the rows of their tokens as a table."""
    tables = []
    for length in np.unique(lengths):
        same = np.flatnonzero(lengths == length)
        tables.append((same, starts[same, None] + np.arange(length)))
    return tables


def checked_labels(labels: npt.ArrayLike, count: int) -> FloatArray:
    """Return labels as a new array of floats.

    Raises
    ------
    ValueError
        If they are not one finite number for each of ``count`` sequences.
    """
    given = np.asarray(labels)
    if given.shape != (count,):
        raise ValueError(
            f"y must have shape ({count},), one label a sequence, got shape {given.shape}"
        )
    if given.dtype.kind not in _REAL:
        raise ValueError(f"y must hold real numbers only, got an array of {given.dtype}")
    if not np.isfinite(given).all():
        raise ValueError("y must hold finite numbers only, got nan or inf")
    return np.array(given, dtype=float)


def checked_weights(weights: npt.ArrayLike | None, count: int) -> FloatArray | None:
    """Return weights of the sequences as a new array of floats; None for weights of 1.

    Raises
    ------
    ValueError
        If they are not one number ``>= 0`` for each of ``count`` sequences, or all are 0.
    """
    if weights is None:
        return None
    given = np.asarray(weights)
    given = np.full(count, given) if given.ndim == 0 else given
    accepted = f"sample_weight must be {count} numbers >= 0, one a sequence, not all zero"
    if given.shape != (count,) or given.dtype.kind not in _REAL:
        raise ValueError(f"{accepted}, got {given.dtype} of shape {given.shape}")
    if not (np.isfinite(given).all() and given.min() >= 0.0 and given.max() > 0.0):
        raise ValueError(f"{accepted}, got {np.array2string(given, threshold=6, edgeitems=2)}")
    return np.array(given, dtype=float)


def _from_array(
    sequences: npt.NDArray[Any], kind: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    if sequences.ndim != 3 or sequences.dtype.kind not in _REAL:
        raise ValueError(f"X must be {_ACCEPTED}, got {sequences.dtype} of shape {sequences.shape}")
    count, length, dim = sequences.shape
    tokens = np.ascontiguousarray(sequences.reshape(count * length, dim), dtype=kind)
    return tokens, np.full(count, length, dtype=np.int64)


def _from_list(
    sequences: Sequences, kind: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    if not hasattr(sequences, "__iter__"):
        raise ValueError(f"X must be {_ACCEPTED}, got {sequences!r}")
    parts = [_sequence(item, index) for index, item in enumerate(sequences)]
    if not parts:
        raise ValueError("X must hold at least one sequence, got none")
    dims = {part.shape[1] for part in parts}
    if len(dims) > 1:
        raise ValueError(f"X must have one dimension D in all sequences, got D in {sorted(dims)}")
    tokens = np.concatenate([np.asarray(part, dtype=kind) for part in parts])
    return tokens, np.array([len(part) for part in parts], dtype=np.int64)


def _sequence(item: npt.ArrayLike, index: int) -> npt.NDArray[Any]:
    try:
        part = np.asarray(item)
    except ValueError:  # a list with rows of different sizes
        raise ValueError(f"X must be {_ACCEPTED}, got uneven rows at index {index}") from None
    if part.ndim != 2 or part.dtype.kind not in _REAL:
        raise ValueError(
            f"X must be {_ACCEPTED}, got {part.dtype} of shape {part.shape} at index {index}"
        )
    return part
