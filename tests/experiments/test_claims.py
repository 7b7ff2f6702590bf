import math

import pytest

from slrlab import Estimate
from slrlab.experiments.claims import CLAIMS, Verdict, run_claims
from slrlab.experiments.claims.checks import below, equal, sampled

LONG = ("C10",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in CLAIMS]
)
def test_every_claim_holds(name):
    (verdict,) = run_claims([name])
    failed = [check for check in verdict.checks if not check.holds]
    assert not failed
    assert len(verdict.checks) >= 8


def test_checks_can_fail():
    assert not equal("case", ("a", 1.0), ("b", 1.1), tolerance=0.05).holds
    assert not equal("case", ("a", math.nan), ("b", 1.0), tolerance=0.05).holds
    assert not below("case", ("a", 1.0), ("b", 1.0)).holds
    assert not below("case", ("a", 2.0), ("b", 1.0)).holds
    assert not sampled("case", ("a", 1.0), ("b", Estimate(1.4, 0.1))).holds
    good = equal("case", ("a", 1.0), ("b", 1.0), tolerance=0.05)
    bad = below("case", ("a", 1.0), ("b", 0.5))
    verdict = Verdict("C0", "nowhere", "never", (good, bad))
    assert not verdict.holds
    assert verdict.tightest is bad
    assert verdict.to_dict()["verdict"] == "fails"


def test_unknown_claims_are_named():
    with pytest.raises(ValueError, match=r"claim must be one of C1, C2.*, got C77"):
        run_claims(["C77"])
