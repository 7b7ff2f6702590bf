"""One BLAS thread inside, as many as before outside."""

import os
import subprocess
import sys
from threading import Barrier, Thread

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from slrlab.numerics.blas import one_blas_thread


def blas_threads():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    with threadpool_limits(limits=2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS has no second thread")
        yield


def test_the_limit_holds_until_the_last_exit(two_threads):
    with one_blas_thread:
        with one_blas_thread:
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}


def test_an_error_lifts_the_limit(two_threads):
    @one_blas_thread
    def fails():
        assert blas_threads() == {1}
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fails()
    assert blas_threads() == {2}


def test_threads_that_overlap_leave_the_number_as_it_was(two_threads):
    """The second enters before the first leaves, and leaves last."""
    entered, left = Barrier(2, timeout=60), Barrier(2, timeout=60)

    def second():
        with one_blas_thread:
            entered.wait()
            left.wait()

    other = Thread(target=second)
    with one_blas_thread:
        other.start()
        entered.wait()
        assert blas_threads() == {1}
    left.wait()
    other.join()
    assert blas_threads() == {2}


CALLS = """
import numpy as np
from threadpoolctl import threadpool_info
from slrlab import MaxSLR, Normalised, bayes_risk, excess_parts, minimal_risk, weight_statistics
from slrlab.model.activations import ScalarMap

def threads():
    return max(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")

seen = []
def value(x):
    if len(seen) < 5:
        seen.append(threads())
    return 1.0 + x * x

phi = ScalarMap(value, lambda x: 2.0 * x, lambda x: 2.0 + 0.0 * x)
print(threads())
for function in (minimal_risk, excess_parts, weight_statistics):
    function(MaxSLR(3.0, 2), Normalised("own", phi=phi))
    print(*seen)
    seen.clear()
print(threads())
"""


def test_a_direct_call_has_one_thread_where_no_variable_limits_them():
    free = {key: text for key, text in os.environ.items() if not key.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", CALLS], env=free, capture_output=True, text=True, check=True
    )
    before, *inside, after = done.stdout.splitlines()
    assert inside == ["1 1 1 1 1"] * 3
    assert after == before
    if before == "1":
        pytest.skip("this machine has one core")
