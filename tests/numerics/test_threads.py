"""Parts of a pass, each done once, whatever the number of threads."""

import threading

import pytest
from numba import get_num_threads, set_num_threads

from slrlab.numerics.threads import run_ranges


@pytest.fixture(params=[1, 2])
def threads(request):
    before = get_num_threads()
    set_num_threads(min(request.param, before))
    yield min(request.param, before)
    set_num_threads(before)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_ranges_divide_all_numbers(threads, count):
    done, names = [], set()
    run_ranges(lambda part: (done.append(part), names.add(threading.get_ident())), count)
    assert len(done) == len(names) == min(threads, count)
    assert [number for ends in sorted(done) for number in range(*ends)] == list(range(count))


def test_an_error_of_a_thread_is_raised(threads):
    def work(part):
        if part[1] == 4:
            raise ValueError("the last part fails")

    with pytest.raises(ValueError, match="the last part fails"):
        run_ranges(work, 4)
