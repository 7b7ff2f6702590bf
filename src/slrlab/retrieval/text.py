"""Prediction of the next byte of a text: a linguistic task on a file that the user names.

Independent of models, as `slrlab.retrieval.tasks`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import ClassVar

import numpy as np

from slrlab import _checks
from slrlab._errors import SlrlabError
from slrlab.retrieval.tasks import Batch, IntArray

SPLITS = ("train", "validation")
MUSIC21 = "music21"
_MUSIC21_TEXT = "music21/languageExcerpts/trainingData/en.txt"


def find_text(name: str | Path) -> Path:
    """Return the file of a text: ``name`` itself, or that of the package music21.

    ``music21`` is the name of *Lady Susan* by Jane Austen, in the public domain, as Project
    Gutenberg has it and the package music21 ships it. The package is not imported.

    Raises
    ------
    ValueError
        If there is no such file.
    SlrlabError
        If music21 is not installed, or has no such text.
    """
    if str(name) != MUSIC21:
        if not Path(name).is_file():
            _checks.fail("text", f"a file that exists, or {MUSIC21}", str(name))
        return Path(name)
    try:
        path = Path(str(metadata.distribution(MUSIC21).locate_file(_MUSIC21_TEXT)))
    except metadata.PackageNotFoundError:
        raise SlrlabError("this text needs the package music21: pip install music21") from None
    if not path.is_file():
        raise SlrlabError(f"the package music21 must have the file {_MUSIC21_TEXT}")
    return path


@dataclass(frozen=True)
class TextTask:
    """The next byte of a text, at every byte of a sequence.

    The classes are the bytes that the file has. Sequences of ``validation`` are from the last part
    of the file, of the size ``held_out``; those of ``train`` are from the rest.

    Parameters
    ----------
    path
        Any file of plain text.
    length
        Bytes of a sequence.
    split
        ``train`` or ``validation``.
    held_out
        Share of the file for validation.

    Raises
    ------
    ValueError
        If the file cannot be read, or one of its parts is shorter than a sequence.
    """

    path: Path
    length: int = 64
    split: str = "train"
    held_out: float = 0.1
    digest: str = field(init=False)
    _text: IntArray = field(init=False, repr=False, compare=False)
    _bytes: IntArray = field(init=False, repr=False, compare=False)
    name: ClassVar[str] = "text"
    tokens: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _checks.integer(self.length, "length", low=2)
        _checks.choice(self.split, "split", SPLITS)
        if not 0.0 < self.held_out < 1.0:
            _checks.fail("held_out", "a number between 0 and 1", self.held_out)
        try:
            content = Path(self.path).read_bytes()
        except OSError as problem:
            raise ValueError(f"path must be a file that can be read, got {problem}") from None
        known, text = np.unique(np.frombuffer(content, dtype=np.uint8), return_inverse=True)
        border = round(len(text) * (1.0 - self.held_out))
        part = text[:border] if self.split == "train" else text[border:]
        if len(part) <= self.length or len(known) < 2:
            accepted = f"a file with more than {self.length} bytes for {self.split}"
            _checks.fail("path", accepted, f"{self.path} with {len(part)}")
        object.__setattr__(self, "digest", hashlib.sha256(content).hexdigest()[:16])
        object.__setattr__(self, "_text", part.astype(np.int64))
        object.__setattr__(self, "_bytes", known.astype(np.int64))

    @property
    def classes(self) -> int:
        """Number of different bytes of the file."""
        return len(self._bytes)

    @property
    def features(self) -> int:
        """Number of different bytes of the file."""
        return len(self._bytes)

    @property
    def byte_entropy(self) -> float:
        """Loss in nats of a model that knows how frequent the bytes of this split are, no more."""
        counts = np.bincount(self._text)
        shares = counts[counts > 0] / len(self._text)
        return float(-(shares * np.log(shares)).sum())

    def draw(self, rng: np.random.Generator, sequences: int) -> Batch:
        """Return sequences from random places; every byte asks for the next one."""
        starts = rng.integers(len(self._text) - self.length, size=(sequences, 1))
        tokens = self._text[starts + np.arange(self.length + 1)]
        positions = np.broadcast_to(np.arange(self.length), (sequences, self.length))
        return Batch(tokens[:, :-1], positions.copy(), tokens[:, 1:])

    def decode(self, tokens: IntArray) -> str:
        """Return tokens as text; bytes that are no UTF-8 are replaced."""
        return bytes(self._bytes[np.asarray(tokens)].tolist()).decode("utf-8", "replace")
