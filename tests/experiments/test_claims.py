import math

import pytest

from slrlab import Estimate
from slrlab.experiments.claims import CLAIMS, Verdict, run_claims
from slrlab.experiments.claims.checks import below, equal, sampled
from slrlab.experiments.parallel import default_workers, parallel_map


@pytest.mark.parametrize("name", CLAIMS)
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


def _square(value):
    if value == 13:
        raise ValueError("unlucky")
    return value * value


@pytest.mark.parametrize("workers", [1, 2])
def test_parallel_map_keeps_order_and_reports(workers):
    seen = []
    values = parallel_map(
        _square, range(7), label="n", workers=workers, report=lambda *row: seen.append(row)
    )
    assert values == [0, 1, 4, 9, 16, 25, 36]
    assert seen[0] == (0, 7, "n")
    assert seen[-1] == (7, 7, "n")


@pytest.mark.parametrize("workers", [1, 2])
def test_parallel_map_raises_what_an_item_raised(workers):
    with pytest.raises(ValueError, match="unlucky"):
        parallel_map(_square, [1, 13, 2], workers=workers)


def test_the_number_of_workers_is_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("SLRLAB_WORKERS", "3")
    assert default_workers() == 3
    monkeypatch.setenv("SLRLAB_WORKERS", "none")
    with pytest.raises(ValueError, match=r"^SLRLAB_WORKERS must be a whole number >= 1, got"):
        default_workers()
