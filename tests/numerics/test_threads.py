"""Blocks of a pass, each done once, whatever the number of threads."""

import threading

import pytest
from numba import get_num_threads, set_num_threads

from slrlab.numerics.threads import run_blocks, run_ranges


@pytest.fixture(params=[1, 2])
def threads(request):
    before = get_num_threads()
    set_num_threads(min(request.param, before))
    yield min(request.param, before)
    set_num_threads(before)


@pytest.mark.parametrize("blocks", [1, 2, 7])
def test_each_block_is_done_once(threads, blocks):
    done, names = [], set()
    run_blocks(lambda block: (done.append(block), names.add(threading.get_ident())), blocks)
    assert sorted(done) == list(range(blocks))
    assert len(names) == min(threads, blocks)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_ranges_divide_all_numbers(threads, count):
    done = []
    run_ranges(done.append, count)
    assert len(done) == min(threads, count)
    assert [number for ends in sorted(done) for number in range(*ends)] == list(range(count))


def test_an_error_of_a_thread_is_raised(threads):
    def work(block):
        if block == 1:
            raise ValueError("block 1 fails")

    with pytest.raises(ValueError, match="block 1 fails"):
        run_blocks(work, 4)
