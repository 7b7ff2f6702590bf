"""Executable claims: ``run_claims()`` checks them, ``CLAIMS`` lists them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slrlab import _checks
from slrlab.experiments.claims.checks import Check, Claim, Verdict
from slrlab.experiments.claims.finite_samples import FINITE_SAMPLE_CLAIMS
from slrlab.experiments.claims.population import POPULATION_CLAIMS

__all__ = ["CLAIMS", "Check", "Claim", "Verdict", "run_claims"]

CLAIMS: dict[str, Claim] = {
    claim.name: claim for claim in (*POPULATION_CLAIMS, *FINITE_SAMPLE_CLAIMS)
}


def run_claims(
    names: Sequence[str] | None = None, *, report: Callable[[int, int, str], None] | None = None
) -> list[Verdict]:
    """Check the named claims (all by default) and return their verdicts.

    ``report(done, total, name)`` is called before each claim and once at the end.

    Raises
    ------
    ValueError
        If a name is not a known claim.
    """
    chosen = [_checks.choice(name, "claim", CLAIMS) for name in (names or CLAIMS)]
    verdicts = []
    for done, name in enumerate(chosen):
        if report is not None:
            report(done, len(chosen), f"claim {name}")
        claim = CLAIMS[name]
        verdicts.append(Verdict(name, claim.source, claim.statement, tuple(claim.run())))
    if report is not None:
        report(len(chosen), len(chosen), "claims")
    return verdicts
