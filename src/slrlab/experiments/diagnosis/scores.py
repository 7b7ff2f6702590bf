"""Attention scores of a head with the true locations: checked, and read from files."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from slrlab import _checks
from slrlab._types import FloatArray
from slrlab.model.lengths import LengthLaw

if TYPE_CHECKING:
    import pandas as pd

LEAST = 32
"""Fewest sequences of a diagnosis."""
_COLUMNS = ("sequence", "score", "relevant")
_DAMAGED = (KeyError, OSError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error)
_ENDINGS = (".npz", ".csv", ".parquet")


@dataclass(frozen=True)
class HeadScores:
    """Scores with a row for each sequence; entries beyond its length are -inf."""

    scores: FloatArray
    lengths: npt.NDArray[np.int64]
    locations: npt.NDArray[np.int64]

    @property
    def count(self) -> int:
        """Number of sequences."""
        return len(self.lengths)

    @property
    def relevant(self) -> FloatArray:
        """Score of the relevant token of each sequence."""
        return np.asarray(self.scores[np.arange(self.count), self.locations])

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """Which entries are tokens."""
        return np.arange(self.scores.shape[1]) < self.lengths[:, None]

    @property
    def irrelevant(self) -> npt.NDArray[np.bool_]:
        """Which entries are irrelevant tokens."""
        mask = self.present
        mask[np.arange(self.count), self.locations] = False
        return mask

    @property
    def length_law(self) -> LengthLaw:
        """The lengths as a law."""
        values, counts = np.unique(self.lengths, return_counts=True)
        if len(values) == 1:
            return LengthLaw.of(int(values[0]))
        return LengthLaw.of(dict(zip(values.tolist(), (counts / self.count).tolist(), strict=True)))

    def without(self, rows: npt.NDArray[np.bool_]) -> HeadScores:
        """Return the sequences that are not marked."""
        return HeadScores(self.scores[~rows], self.lengths[~rows], self.locations[~rows])


def head_scores(scores: Any, locations: Any) -> HeadScores:
    """Check scores and locations; see `slrlab.diagnose_scores` for their forms.

    Masked tokens, whose score is -inf, are left out, and locations count the others.

    Raises
    ------
    ValueError, TypeError
        If the shapes do not fit, a score is nan or inf, or a location is outside its sequence or
        masked.
    """
    rows = _rows(scores)
    indices = np.asarray(locations)
    if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
        _checks.fail("locations", "one whole number for each sequence", locations, TypeError)
    if len(rows) != len(indices):
        _checks.fail("locations", f"{len(rows)} whole numbers, one a sequence", len(indices))
    if len(rows) < LEAST:
        _checks.fail("scores", f"those of at least {LEAST} sequences", len(rows))
    lengths = np.array([len(row) for row in rows])
    wrong = (indices < 0) | (indices >= lengths)
    if wrong.any():
        at = int(wrong.argmax())
        accepted = f"inside its sequence (0 to {lengths[at] - 1} in sequence {at})"
        _checks.fail("locations", accepted, int(indices[at]))
    present = [row > -np.inf for row in rows]
    masked = [not kept[index] for kept, index in zip(present, indices, strict=True)]
    if any(masked):
        accepted = f"a token that is not masked by -inf (sequence {masked.index(True)})"
        _checks.fail("locations", accepted, int(indices[masked.index(True)]))
    kept_locations = [int(kept[:index].sum()) for kept, index in zip(present, indices, strict=True)]
    rows = [row[kept] for row, kept in zip(rows, present, strict=True)]
    lengths = np.array([len(row) for row in rows])
    if lengths.min() < 2:
        _checks.fail("scores", "two or more for each sequence", int(lengths.min()))
    table = np.full((len(rows), int(lengths.max())), -np.inf)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    return HeadScores(table, lengths, np.array(kept_locations, dtype=np.int64))


def _rows(scores: Any) -> list[FloatArray]:
    """Return the scores of each sequence; nan at the end of a row is padding, -inf a mask."""
    if isinstance(scores, str) or not isinstance(scores, Sequence | np.ndarray):
        accepted = "an array (sequences, tokens) or a list of arrays"
        _checks.fail("scores", accepted, scores, TypeError)
    rows: list[FloatArray] = []
    for row in scores:
        try:
            line = np.asarray(row, dtype=float)
        except (TypeError, ValueError):
            given = " ".join(repr(row).split())
            _checks.fail("scores", f"numbers (sequence {len(rows)})", given, TypeError)
        if line.ndim != 1:
            accepted = "an array (sequences, tokens) or a list of arrays with one axis"
            _checks.fail("scores", accepted, f"rows with {line.ndim} axes")
        padding = np.isnan(line)
        size = int(padding.argmax()) if padding.any() else len(line)
        if not (padding[size:].all() and (line[:size] < np.inf).all()):
            accepted = "finite, or -inf for masked tokens, with nan only at the end of a row"
            _checks.fail("scores", accepted, f"others in sequence {len(rows)}")
        rows.append(line[:size])
    return rows


def read_scores(path: str | Path) -> HeadScores:
    """Read scores and locations from a file.

    A ``.npz`` file holds the arrays ``scores`` (sequences, tokens; nan for padding, -inf for masked
    tokens) and ``locations``. A ``.csv`` or ``.parquet`` file holds a row for each token:
    ``sequence``, ``score`` and ``relevant`` (1 for the relevant token of the sequence, else 0).

    Raises
    ------
    ValueError
        If the file is missing, of another kind, or its content does not fit.
    """
    path = Path(path)
    if path.suffix not in _ENDINGS or not path.is_file():
        given = path if path.suffix not in _ENDINGS else f"{path}, which does not exist"
        _checks.fail("file", f"a file that ends with {', '.join(_ENDINGS)}", str(given))
    try:
        return _from_arrays(path) if path.suffix == ".npz" else _from_table(path)
    except (TypeError, ValueError) as problem:
        if str(path) in str(problem):
            raise
        error = TypeError if isinstance(problem, TypeError) else ValueError
        raise error(f"{problem} (file {path})") from None


def _from_arrays(path: Path) -> HeadScores:
    try:
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in ("scores", "locations")}
    except _DAMAGED as problem:
        accepted = "a .npz file with the arrays scores and locations"
        raise ValueError(f"file must be {accepted}, got {path} ({problem})") from None
    return head_scores(arrays["scores"], arrays["locations"])


def _from_table(path: Path) -> HeadScores:
    import pandas as pd

    try:
        frame = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    except ImportError:
        raise ValueError("file must be .csv or .npz without the extra parquet") from None
    except (OSError, ValueError) as problem:  # parser errors are ValueErrors
        raise ValueError(f"file must be a table, got {path} ({problem})") from None
    missing = [name for name in _COLUMNS if name not in frame]
    if missing:
        _checks.fail("file", f"a table with the columns {', '.join(_COLUMNS)}", list(frame))
    numbers = pd.to_numeric(frame["score"], errors="coerce")
    wrong = numbers.isna() & frame["score"].notna()
    if wrong.any():
        row = int(wrong.to_numpy().argmax())
        _checks.fail("score", f"a column of numbers (row {row})", frame["score"].iloc[row])
    frame["score"] = numbers
    scores, locations = [], []
    for name, tokens in frame.groupby("sequence", sort=False):
        (marked,) = np.nonzero(_marks(tokens["relevant"], name))
        if len(marked) != 1:
            accepted = f"1 for one token of each sequence (here {name})"
            _checks.fail("relevant", accepted, f"{len(marked)} such tokens")
        scores.append(tokens["score"].to_numpy())
        locations.append(int(marked[0]))
    return head_scores(scores, np.array(locations, dtype=np.int64))


def _marks(column: pd.Series[Any], name: object) -> npt.NDArray[np.bool_]:
    values = column.to_numpy()
    if not np.isin(values, [0, 1]).all():
        _checks.fail("relevant", f"0 or 1 (sequence {name})", values.tolist())
    return np.asarray(values, dtype=bool)
