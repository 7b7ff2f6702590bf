"""What a claim is: a sentence of the paper and the numeric checks that would refute it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from slrlab._result import Estimate, plain
from slrlab.experiments.running.encoding import storable


@dataclass(frozen=True)
class Check:
    """One comparison of two numbers, each with a name.

    ``margin`` is how far the comparison is from failing, in units of the tolerance where there is
    one, else as the plain difference; it is negative if and only if the check fails.
    """

    case: str
    left_name: str
    left: float
    relation: str
    right_name: str
    right: float
    margin: float

    @property
    def holds(self) -> bool:
        """Whether the comparison came out as claimed."""
        return self.margin >= 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the outcome as JSON-ready values."""
        fields = {name: plain(value) for name, value in vars(self).items()}
        return {**fields, "holds": self.holds}


storable(Check)


def equal(
    case: str, left: tuple[str, float], right: tuple[str, float], *, tolerance: float
) -> Check:
    """Check that two numbers agree within an absolute tolerance."""
    margin = 1.0 - abs(left[1] - right[1]) / tolerance
    return Check(case, *left, f"= (±{tolerance:.0e})", *right, _definite(margin))


def sampled(case: str, left: tuple[str, float], right: tuple[str, Estimate]) -> Check:
    """Check that a number agrees with a sampled one within three standard errors."""
    name, estimate = right
    margin = 3.0 - abs(estimate.z_score(left[1]))
    relation = f"= (±3·{estimate.error:.1e})"
    return Check(case, *left, relation, name, estimate.value, _definite(margin))


def below(case: str, left: tuple[str, float], right: tuple[str, float]) -> Check:
    """Check that the left number is strictly smaller."""
    margin = right[1] - left[1]
    if margin == 0.0:  # equal is not below
        margin = -math.ulp(left[1])
    return Check(case, *left, "<", *right, _definite(margin))


def _definite(margin: float) -> float:
    return margin if not math.isnan(margin) else -math.inf


@dataclass(frozen=True)
class Claim:
    """A claim, where the paper makes it, and the function that checks it.

    A ``parallel`` one takes a report of progress and uses several processes by itself.
    """

    name: str
    source: str
    statement: str
    run: Callable[..., Iterable[Check]]
    parallel: bool = False


@dataclass(frozen=True)
class Verdict:
    """The outcome of a claim: it holds if all of its checks do."""

    name: str
    source: str
    statement: str
    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)

    @property
    def tightest(self) -> Check:
        """The check closest to failing."""
        return min(self.checks, key=lambda check: check.margin)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON-ready values."""
        return {
            "claim": self.name,
            "source": self.source,
            "statement": self.statement,
            "verdict": "holds" if self.holds else "fails",
            "margin": plain(self.tightest.margin),
            "checks": [check.to_dict() for check in self.checks],
        }
