"""The relevant tokens of drawn sequences: where they are, and how they differ from the others.

Independent of labels and of how sequences are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from slrlab._types import FloatArray
from slrlab.model.arrangements import ArrangementTask
from slrlab.model.dispatch import lookup
from slrlab.model.marion import MarionSLR
from slrlab.model.tasks import SelectionTask, Task, TiltedTask
from slrlab.simulation.data.packing import tables_by_length

Rows: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Block:
    """Sequences whose tokens all have the law of irrelevant ones; ``keys`` is ``k*``."""

    keys: FloatArray
    rng: np.random.Generator
    tokens: npt.NDArray[Any]
    starts: Rows
    lengths: Rows

    @property
    def root(self) -> float:
        """``√D``."""
        return math.sqrt(self.tokens.shape[1])

    def scores(self, rows: Rows | slice = slice(None)) -> FloatArray:
        """Return the key scores of tokens."""
        return np.asarray(np.einsum("td,d->t", self.tokens[rows], self.keys) / self.root)

    def shift(self, rows: Rows, shift: float) -> None:
        """Move tokens along ``k*`` so that the mean of their scores grows by ``shift``."""
        self.tokens[rows] += (shift / self.root * self.keys).astype(self.tokens.dtype)


def placement(task: Task) -> Callable[[Any, Block], Rows]:
    """Return what gives the tokens of a block the law of the task, and returns the relevant rows.

    They are those of each sequence, one for each relevant token.

    Raises
    ------
    TypeError
        If the task is of no known family.
    """
    return lookup(task, _PLACEMENTS)


def _arrange(task: ArrangementTask, block: Block) -> Rows:
    """Move the placed tokens along ``k*``, at random locations."""
    rows = np.empty((block.starts.size, task.shifts.size), dtype=np.int64)
    for same, table in tables_by_length(block.starts, block.lengths):
        rows[same] = block.rng.permuted(table, axis=1)[:, : task.shifts.size]
    for column, shift in zip(rows.T, task.shifts.tolist(), strict=True):
        block.shift(column, shift)
    return rows[:, : task.kinds[0].count]


def _select(task: SelectionTask, block: Block) -> Rows:
    """Draw the location from the scores, which stay as they are."""
    scores, rows = block.scores(), np.empty_like(block.starts)
    for same, table in tables_by_length(block.starts, block.lengths):
        rows[same] = block.starts[same] + task.select(block.rng, scores[table])
    return rows[:, None]


def _rescale(task: MarionSLR, block: Block) -> Rows:
    """Scale a token in every direction, and move it along ``k*``."""
    rows = block.starts + block.rng.integers(block.lengths)
    block.tokens[rows] *= task.relevant_std
    block.shift(rows, task.shift)
    return rows[:, None]


def _tilt(task: TiltedTask, block: Block) -> Rows:
    """Move a token along ``k*`` until its score has the law of the task."""
    rows = block.starts + block.rng.integers(block.lengths)
    if task.gaussian_shift is not None:
        block.shift(rows, task.gaussian_shift)
        return rows[:, None]
    missing = task.sample_relevant(block.rng, rows.size) - block.scores(rows)
    along = block.keys * block.root / (block.keys @ block.keys)
    block.tokens[rows] += (missing[:, None] * along).astype(block.tokens.dtype)
    return rows[:, None]


_PLACEMENTS: Mapping[type, Callable[[Any, Block], Rows]] = {
    TiltedTask: _tilt,
    SelectionTask: _select,
    ArrangementTask: _arrange,
    MarionSLR: _rescale,
}
