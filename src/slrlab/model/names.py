"""Names with numbers, as users write them: ``marion(0.5)``.

This module must not know what is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from slrlab import _checks

_CALL = re.compile(r"([^()]*)\(([^()]*)\)")


def shown(x: float) -> str:
    """Return a number in as few digits as tell it from every other."""
    return f"{x:g}" if float(f"{x:g}") == x else repr(float(x))


def split_call(text: Any, name: str, known: Iterable[str]) -> tuple[str, list[float]]:
    """Return a known word and the numbers in brackets behind it; ``name`` is the argument.

    >>> split_call("marion(0.5)", "task", ["spiked", "marion"])
    ('marion', [0.5])

    Raises
    ------
    ValueError
        If the word is unknown, or what stands in the brackets is no number.
    """
    match = _CALL.fullmatch(text) if isinstance(text, str) else None
    word, inside = match.groups() if match else (text, "")
    word = _checks.choice(word, name, known)
    try:
        return word, [float(part) for part in inside.split(",")] if match else []
    except ValueError:
        _checks.fail(name, f"{word} with numbers in brackets", text)
