"""Threads that share the blocks of a compiled pass.

A loop that numba runs in parallel compiles all that it calls a second time; blocks that are handed
to threads here compile once. Independent of what a block holds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from numba import get_num_threads


def run_ranges(work: Callable[[tuple[int, int]], None], count: int) -> None:
    """Call ``work`` in each thread with the ends of its range of the numbers below ``count``.

    There are as many threads as numba would use, this one among them. ``work`` should spend its
    time in compiled code that releases Python's lock.
    """
    threads = 1 if count == 1 else min(get_num_threads(), count)
    parts = [(i * count // threads, (i + 1) * count // threads) for i in range(threads)]
    others = []
    if threads > 1:
        pool = _pool(threads - 1, os.getpid())
        others = [pool.submit(work, part) for part in parts[1:]]
    work(parts[0])
    for other in others:
        other.result()


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Return the threads of a process: those of its parent do not run in a forked one."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"slrlab-{process}")
