"""Threads that share the blocks of a compiled pass.

A loop that numba runs in parallel compiles all that it calls a second time; blocks that are handed
to threads here compile once. This module must not know what a block holds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from numba import get_num_threads


def run_blocks(work: Callable[[int], None], blocks: int) -> None:
    """Call ``work`` with each number below ``blocks``, each thread with its share of them.

    There are as many threads as numba would use. ``work`` should spend its time in compiled code
    that releases Python's lock.
    """
    threads = _threads(blocks)

    def share(first: int) -> None:
        for block in range(first, blocks, threads):
            work(block)

    _run(share, range(threads))


def run_ranges(work: Callable[[tuple[int, int]], None], count: int) -> None:
    """Call ``work`` in each thread with the ends of its range of the numbers below ``count``."""
    threads = _threads(count)
    _run(work, [(i * count // threads, (i + 1) * count // threads) for i in range(threads)])


def _threads(parts: int) -> int:
    return 1 if parts == 1 else min(get_num_threads(), parts)


def _run(work: Callable[[Any], None], parts: Sequence[Any]) -> None:
    """Call ``work`` with all parts at once, with the first one in this thread."""
    others = []
    if len(parts) > 1:
        pool = _pool(len(parts) - 1, os.getpid())
        others = [pool.submit(work, part) for part in parts[1:]]
    work(parts[0])
    for other in others:
        other.result()


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Return the threads of a process: those of its parent do not run in a forked one."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"slrlab-{process}")
