"""Executable claims: ``run_claims()`` checks them, ``CLAIMS`` lists them."""

from __future__ import annotations

from collections.abc import Sequence

from slrlab import _checks
from slrlab._types import Report
from slrlab.experiments.claims.checks import Check, Claim, Verdict
from slrlab.experiments.claims.finite_samples import FINITE_SAMPLE_CLAIMS
from slrlab.experiments.claims.population import POPULATION_CLAIMS
from slrlab.experiments.running.parallel import parallel_map

__all__ = ["CLAIMS", "Check", "Claim", "Verdict", "run_claims"]

CLAIMS: dict[str, Claim] = {
    claim.name: claim for claim in (*POPULATION_CLAIMS, *FINITE_SAMPLE_CLAIMS)
}


def run_claims(
    names: Sequence[str] | None = None, *, report: Report | None = None
) -> list[Verdict]:
    """Check the named claims (all by default; ``"c4"`` is ``"C4"``) and return their verdicts.

    ``report(done, total, label)`` is called as checks finish.

    Raises
    ------
    ValueError
        If a name is not a known claim.
    """
    chosen = [_checks.choice(name.upper(), "claim", CLAIMS) for name in (names or CLAIMS)]
    single = [name for name in chosen if not CLAIMS[name].parallel]
    results = parallel_map(_check, single, label="claims", report=report)
    checks = dict(zip(single, results, strict=True))
    verdicts = []
    for claim in (CLAIMS[name] for name in chosen):
        own = checks[claim.name] if claim.name in checks else claim.run(report)
        verdicts.append(Verdict(claim.name, claim.source, claim.statement, tuple(own)))
    return verdicts


def _check(name: str) -> list[Check]:
    return list(CLAIMS[name].run())
