"""What every computation returns: an estimate with its error, a status, and how to show them.

Results are frozen dataclasses. A failure is a status inside the result, so that a sweep keeps the
row; it becomes an exception only through ``require()`` (what ``strict=True`` calls).
"""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from slrlab._errors import ComputationError

if TYPE_CHECKING:
    import pandas as pd


Report: TypeAlias = Callable[[int, int, str], None]
"""Called as ``report(done, total, label)`` while a computation runs."""


class Status(StrEnum):
    """How a computation ended."""

    CONVERGED = "converged"
    """The error estimate is below the tolerance asked for."""
    LIMIT = "limit"
    """Exact without a computation: infinite signal, one token, or a risk below 1e-290."""
    SAMPLED = "sampled"
    """Computed by sampling: the error is one standard error."""
    BOUNDARY = "boundary"
    """The risk still falls at the edge of the search, or of where the theory holds."""
    INACCURATE = "inaccurate"
    """Refining, or the search for the best keys, did not settle; the error says how far."""
    UNSTABLE = "unstable"
    """Solved, but replica symmetry cannot be trusted there: replicon or jumps are too large."""
    NOT_CONVERGED = "not converged"
    """The fixed-point iteration ran out of steps; the numbers are its best iterate."""
    DIVERGED = "diverged"
    """The fixed-point iteration ran away."""
    FAILED = "failed"
    """No usable number came out."""

    @property
    def usable(self) -> bool:
        """Whether there is a value, to be read with its error."""
        return self not in (Status.DIVERGED, Status.FAILED)

    @property
    def reached(self) -> bool:
        """Whether the accuracy asked for was reached; what ``strict=True`` insists on."""
        return self in (Status.CONVERGED, Status.LIMIT, Status.SAMPLED, Status.BOUNDARY)


@dataclass(frozen=True)
class Estimate:
    """A sampled number with its standard error.

    ``freedom`` is the degrees of freedom behind the error: an error from ``n`` numbers has
    ``n − 1``, one that is known has infinitely many.

    >>> print(Estimate(0.3524, 0.0011))
    0.3524 ± 0.0011
    """

    value: float
    error: float
    freedom: float = math.inf

    @classmethod
    def of(cls, values: Any) -> Self:
        """Return the mean of independent numbers and its standard error (nan for one number).

        >>> print(Estimate.of([1.0, 2.0, 3.0]))
        2.00 ± 0.58
        """
        import numpy as np

        found = np.asarray(values, dtype=float)
        if found.size < 2:
            return cls(float(found.mean()), math.nan, 0.0)
        error = float(found.std(ddof=1)) / math.sqrt(found.size)
        return cls(float(found.mean()), error, found.size - 1.0)

    def z_score(self, other: float | Estimate) -> float:
        """Return the distance to ``other`` in standard errors of the difference."""
        value, error = (other.value, other.error) if isinstance(other, Estimate) else (other, 0.0)
        scale = math.hypot(self.error, error)
        gap = self.value - value
        if scale == 0.0:
            return 0.0 if gap == 0.0 else math.copysign(math.inf, gap)
        return gap / scale

    def __str__(self) -> str:
        if not (self.error > 0 and math.isfinite(self.error)):
            return f"{self.value:.10g}"
        digits = max(0, 1 - math.floor(math.log10(self.error)))
        return f"{self.value:.{digits}f} ± {self.error:.{digits}f}"


def plain(value: Any) -> Any:
    """Turn a value into what strict JSON can hold; infinities and nan become strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, StrEnum):
        return str(value)
    return value


@dataclass(frozen=True)
class Result:
    """Base of all results: conversion and display; subclasses add the numbers."""

    status: Status

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-ready values."""
        return {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}

    def to_frame(self) -> pd.DataFrame:
        """Return the fields as a one-row table."""
        import pandas as pd

        return pd.DataFrame([self.to_dict()])

    def require(self) -> Self:
        """Return the result itself, or raise `ComputationError` if it is not accurate."""
        if not self.status.reached:
            raise ComputationError(f"{type(self).__name__}: status {self.status}")
        return self

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(str(name))}</th>"
            f"<td>{html.escape(str(value))}</td></tr>"
            for name, value in self.to_dict().items()
        )
        return f"<table>{rows}</table>"
