"""Validators of user input; one wording everywhere: "NAME must be WHAT, got VALUE".

The validators know nothing about what the numbers mean. The command line prints the same text,
so a message reads the same from Python and from the shell.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, NoReturn

MANY, LARGE = 10**6, 10**9
_MOST: dict[str, int | None] = {"seed": None, "random_state": None}  # no counts
_MOST["length"] = 10**18
_MOST |= dict.fromkeys(("dim", "samples", "test_samples", "batch", "max_steps"), LARGE)


def fail(name: str, accepted: str, given: Any, error: type[Exception] = ValueError) -> NoReturn:
    """Raise the error that says what was wrong with an argument."""
    raise error(f"{name} must be {accepted}, got {_shown(given)}")


def _shown(given: Any) -> str:
    """Return a value in one short line."""
    if isinstance(given, int) and given.bit_length() > 200:
        return f"a number of about {int(given.bit_length() * math.log10(2.0)) + 1} digits"
    text = given if isinstance(given, str) and given else repr(given)
    return text if len(text) <= 200 else f"{text[:30]}… ({len(text)} characters)"


def real(
    value: Any,
    name: str,
    *,
    accepted: str,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    finite: bool = True,
) -> float:
    """Return ``value`` as a float inside ``[low, high]`` (``(low, high]`` if ``open_low``)."""
    if isinstance(value, bool) or not isinstance(value, Real):
        fail(name, accepted, value, TypeError)
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond all floats
        fail(name, accepted, value)
    inside = low <= number <= high and not (open_low and number == low)
    if math.isnan(number) or not inside or (finite and math.isinf(number)):
        fail(name, accepted, value)
    return number


def non_negative(value: Any, name: str, *, finite: bool = True) -> float:
    """Return a number ``>= 0``; ``inf`` only where ``finite=False``."""
    accepted = "a finite number >= 0" if finite else "a number >= 0 or inf"
    return real(value, name, accepted=accepted, low=0.0, finite=finite)


def finite(value: Any, name: str) -> float:
    """Return a finite number of either sign."""
    return real(value, name, accepted="a finite number")


def positive(value: Any, name: str) -> float:
    """Return a finite number ``> 0``."""
    return real(value, name, accepted="a finite number > 0", low=0.0, open_low=True)


def integer(value: Any, name: str, *, low: int = 1, high: int = 0) -> int:
    """Return a whole number ``>= low``; ``3.0`` is accepted, ``1.5`` and ``True`` are not.

    Counts have an upper end, ``high`` if given: beyond it a call would run for ever, or fill the
    memory, before anybody notices.
    """
    accepted = f"a whole number >= {low}"
    if isinstance(value, bool) or not isinstance(value, Real):
        fail(name, accepted, value, TypeError)
    number: Any = value
    if not isinstance(number, Integral) and not float(number).is_integer():
        fail(name, accepted, value)
    found, most = int(number), high or _MOST.get(name, MANY)
    if found < low:
        fail(name, accepted, value)
    if most is not None and found > most:
        fail(name, f"a whole number <= {most}", value)
    return found


def choice(value: Any, name: str, options: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``options``."""
    known = list(options)
    if value not in known:
        fail(name, f"one of {', '.join(known)}", value)
    return str(value)
