"""Base of all results: a status, estimates with their errors, and their display.

Results are frozen dataclasses. A failure is a status inside the result, so that a sweep keeps the
row; only ``require()``, which ``strict=True`` calls, turns it into an exception.
"""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Self

from slrlab._errors import ComputationError
from slrlab._types import DataFrame, FloatArray


class Status(StrEnum):
    """How a computation ended."""

    CONVERGED = "converged"
    """The error, the residual or the gradient is below the tolerance, or the value is a formula.

    A sweep: no point failed.
    """
    LIMIT = "limit"
    """The value of a limit, exact or with the error of its computation.

    The signal, the keys or the bias are infinite, there is one token, or the risk above the noise
    is below 1e-290.
    """
    SAMPLED = "sampled"
    """Computed by sampling or on simulated data: the error is one standard error."""
    BOUNDARY = "boundary"
    """The risk still falls at the edge of the search, or of where the theory holds."""
    INACCURATE = "inaccurate"
    """A number was computed, but its error is above the tolerance."""
    UNSTABLE = "unstable"
    """Solved, but replica symmetry is unstable: the replicon or the trace gap is too large."""
    NOT_CONVERGED = "not converged"
    """Steps or time ended before the tolerance was reached, or a point of a sweep failed."""
    DIVERGED = "diverged"
    """The iterates or the vectors grew without bound."""
    FAILED = "failed"
    """There is no usable number."""

    @classmethod
    def worst(cls, statuses: Iterable[Status]) -> Status:
        """Return the worst of several; statuses are defined from the best to the worst.

        >>> Status.worst([Status.SAMPLED, Status.DIVERGED, Status.CONVERGED])
        <Status.DIVERGED: 'diverged'>
        """
        return max(statuses, key=list(cls).index)

    @property
    def usable(self) -> bool:
        """Whether there is a value (with an error that may be large)."""
        return self not in (Status.DIVERGED, Status.FAILED)

    @property
    def reached(self) -> bool:
        """Whether the requested accuracy was reached, as ``strict=True`` requires."""
        return self in (Status.CONVERGED, Status.LIMIT, Status.SAMPLED, Status.BOUNDARY)


@dataclass(frozen=True)
class Estimate:
    """A sampled number with its standard error.

    ``freedom`` is the degrees of freedom of the error: ``n − 1`` if it comes from ``n`` numbers,
    infinite if it is known.

    >>> print(Estimate(0.35241, 0.0011), Estimate(2e-17, 1e-15))
    0.3524 ± 0.0011 (0.0 ± 1.0)e-15
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

        numbers = np.asarray(values, dtype=float).ravel()
        if numbers.size < 2:
            return cls(float(numbers.mean()), math.nan, 0.0)
        return cls(float(numbers.mean()), float(standard_error(numbers)), numbers.size - 1.0)

    def z_score(self, other: float | Estimate) -> float:
        """Return the distance to ``other`` in standard errors of the difference."""
        value, error = (other.value, other.error) if isinstance(other, Estimate) else (other, 0.0)
        scale = math.hypot(self.error, error)
        gap = self.value - value
        if scale == 0.0:
            return 0.0 if gap == 0.0 else math.copysign(math.inf, gap)
        return gap / scale

    def __str__(self) -> str:
        """Round to two digits of the error; omit an error below ten digits of the value."""
        if not (self.error > 0 and math.isfinite(self.error) and math.isfinite(self.value)):
            return f"{self.value:.10g}"
        power = math.floor(math.log10(max(abs(self.value), self.error)))
        digits = 1 - math.floor(math.log10(self.error))
        if power + digits > 10:
            return f"{self.value:.10g}"
        if -5 < power < 6:
            digits = max(0, digits)
            return f"{self.value:.{digits}f} ± {self.error:.{digits}f}"
        unit, digits = 10.0**power, power + digits
        return f"({self.value / unit:.{digits}f} ± {self.error / unit:.{digits}f})e{power}"


def standard_error(rows: FloatArray) -> FloatArray:
    """Return the standard error of the mean of independent rows, for each column.

    >>> import numpy as np
    >>> standard_error(np.array([[1.0, 0.0], [3.0, 0.0]])).tolist()
    [1.0, 0.0]
    """
    error: FloatArray = rows.std(axis=0, ddof=1) / math.sqrt(len(rows))
    return error


def plain(value: Any) -> Any:
    """Return a value in types of strict JSON; infinities and nan become strings."""
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


def as_text(value: Any, error: Any = None) -> str:
    """Return a value as text, a number to six digits or, if it has one, rounded to its error."""
    if isinstance(value, bool | str) or not isinstance(error, float):
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    return str(Estimate(float(value), error))


@dataclass(frozen=True)
class Result:
    """Base of all results: conversion and display; subclasses add the numbers.

    A subclass with more than one number of a kind also has ``plot(ax=None)``, which returns the
    axes. In dictionaries and tables the parts of the field ``setting`` replace it.
    """

    status: Status

    _sharing_error: ClassVar[tuple[str, ...]] = ("risk",)
    """Numbers whose error is the field ``error``."""
    _columns: ClassVar[tuple[str, ...]] = ()
    """Fields with an entry for each row of the table; without any, the table has one row."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-ready values."""
        values: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = plain(getattr(self, field.name))
            values |= value if field.name == "setting" else {field.name: value}
        return values

    def to_frame(self) -> DataFrame:
        """Return a table: one row for each time or iteration of a path, else one of all fields."""
        import pandas as pd

        if self._columns:
            return pd.DataFrame({name: getattr(self, name) for name in self._columns})
        return pd.DataFrame([self.to_dict()])

    def require(self) -> Self:
        """Return the result itself, or raise `ComputationError` if it is not accurate."""
        if not self.status.reached:
            raise ComputationError(f"{type(self).__name__}: status {self.status}")
        return self

    def summary(self) -> str:
        """Return the numbers by their names, a line each, rounded to their errors."""
        values = self.to_dict()
        errors = {name: values["error"] for name in self._sharing_error if "error" in values}
        errors |= {name[:-6]: item for name, item in values.items() if name.endswith("_error")}
        errors |= values["errors"] if isinstance(values.get("errors"), dict) else {}
        untitled = type(self).__str__ is object.__str__
        title = type(self).__name__ if untitled else str(self)
        lines = [title if str(self.status) in title else f"{title}, {self.status}"]
        for name, value in values.items():
            hidden = name in ("status", "error") or name.endswith("_error")
            if not hidden and isinstance(value, bool | int | float | str):
                lines.append(f"  {name:<20} {as_text(value, errors.get(name))}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(str(name))}</th>"
            f"<td>{html.escape(str(value))}</td></tr>"
            for name, value in self.to_dict().items()
        )
        return f"<table>{rows}</table>"


@dataclass(frozen=True)
class TrainedRisk(Result):
    """Base of results with a test risk after training, ``test_risk``, and its standard error."""

    test_risk: float
    test_risk_error: float

    @property
    def risk(self) -> Estimate:
        """The test risk with its error."""
        return Estimate(self.test_risk, self.test_risk_error)
