"""Validators of user input, all with the message "NAME must be WHAT, got VALUE".

Independent of what the numbers mean. The command line prints the same message.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, NoReturn

MANY, LARGE = 10**6, 10**9  # largest counts, of most arguments and of those named below
_MOST: dict[str, int | None] = {"seed": None, "random_state": None, "length": 10**18}
_MOST |= dict.fromkeys(("dim", "samples", "test_samples", "batch", "max_steps"), LARGE)


def fail(name: str, accepted: str, given: Any, error: type[Exception] = ValueError) -> NoReturn:
    """Raise the error for a wrong argument."""
    raise error(f"{name} must be {accepted}, got {_shown(given)}")


def refuse(name: str, where: str, given: Any) -> NoReturn:
    """Raise the error for an argument that has no meaning beside others."""
    raise ValueError(f"{name} must not be given {where}, got {_shown(given)}")


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
    except OverflowError:  # an integer larger than any float
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


def positive(value: Any, name: str, *, finite: bool = True) -> float:
    """Return a number ``> 0``; ``inf`` only where ``finite=False``."""
    accepted = "a finite number > 0" if finite else "a number > 0 or inf"
    return real(value, name, accepted=accepted, low=0.0, open_low=True, finite=finite)


def within(value: Any, name: str, low: float, high: float) -> float:
    """Return a number from ``low`` to ``high``."""
    return real(value, name, accepted=f"a number from {low:g} to {high:g}", low=low, high=high)


def integer(value: Any, name: str, *, low: int = 1, high: int = 0) -> int:
    """Return a whole number ``>= low``; ``3.0`` is accepted, ``1.5`` and ``True`` are not.

    Counts have an upper limit, ``high`` if given: above it a call would not end, or would fill the
    memory.
    """
    accepted = f"a whole number >= {low}"
    if isinstance(value, bool) or not isinstance(value, Real):
        fail(name, accepted, value, TypeError)
    number: Any = value
    if not isinstance(number, Integral) and not float(number).is_integer():
        fail(name, accepted, value)
    count, most = int(number), high or _MOST.get(name, MANY)
    if count < low:
        fail(name, accepted, value)
    if most is not None and count > most:
        fail(name, f"a whole number <= {most}", value)
    return count


def choice(value: Any, name: str, options: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``options``."""
    known = list(options)
    if value not in known:
        fail(name, f"one of {', '.join(known)}", value)
    return str(value)
