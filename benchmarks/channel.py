"""The compiled output channel: speed relative to NumPy, cost per token, memory and cache.

Times are compared as ratios within one run; absolute seconds are printed for orientation only.
Exits with an error if a requirement is missed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial

import numpy as np
from numba import get_num_threads, set_num_threads
from numba.core.runtime import _nrt_python, rtsys

from _timing import best_of
from slrlab import make_activation
from slrlab.model.activation_code import activation_code
from slrlab.theory.erm import codes, prox_kernel, prox_reference

FASTER = 20.0
LINEAR = 1.5
COMPILED = 5.0
missed: list[str] = []

FRESH = """
import time
import numpy as np
from slrlab import make_activation
from slrlab.model.activation_code import activation_code
from slrlab.theory.erm.prox_kernel import channel_blocks, channel_sums
code = activation_code(make_activation("softmax"))
x = np.zeros((1, 4, 2))
order = (0.5, 0.5, 0.0, 0.0, 0.5, 0.5, 0.1, 1.0, 1.0)
start = time.perf_counter()
memory = np.zeros((1, 4), dtype=np.bool_), x.copy()
channel_sums(x, x, x, x[..., 0].copy(), order, code.numbers, code.table, *memory, 1, False)
print(time.perf_counter() - start, sum(channel_blocks.stats.cache_hits.values()))
"""


def require(good: bool, what: str) -> None:
    print(f"  {'ok' if good else 'MISSED'}: {what}")
    if not good:
        missed.append(what)


def arguments(length: int, count: int, starts: bool, squares: bool = False) -> tuple[object, ...]:
    rng = np.random.default_rng(length)
    shape = (8, count // 8, length)
    base = np.zeros(shape)
    base[..., 0] = 2.0
    normals = (
        rng.standard_normal(shape),
        rng.standard_normal(shape),
        rng.standard_normal(shape[:2]),
    )
    order = (0.8, 1.1, 0.7, 0.0, 0.7, 0.8, 0.1, 1.0, 0.5)
    code = activation_code(make_activation("softmax"))
    memory = np.zeros(shape[:2], dtype=np.bool_), np.zeros(shape)
    search = codes.EVERYWHERE if starts else codes.FROM_FIELD
    return (base, *normals, order, code.numbers, code.table, *memory, search, squares)


def against_numpy() -> None:
    print(f"softmax, L = 3, 2^16 samples: kernel and NumPy (required: {FASTER:.0f} times faster)")
    for starts in (False, True):
        given = arguments(3, 2**16, starts)
        ours, reference = prox_kernel.channel_sums(*given), prox_reference.channel_sums(*given)
        gap = np.abs(ours - reference).max()
        fast, slow = np.inf, np.inf
        for _ in range(4):  # in turns, so that other load on the machine affects both
            fast = min(fast, best_of(partial(prox_kernel.channel_sums, *given), 12))
            slow = min(slow, best_of(partial(prox_reference.channel_sums, *given), 1))
        threads = get_num_threads()
        set_num_threads(1)
        alone = best_of(partial(prox_kernel.channel_sums, *given), 12)
        set_num_threads(threads)
        name = "all starts" if starts else "one start "
        print(f"  {name} on one thread: ratio {slow / alone:.1f}")
        print(f"  {name} {1e3 * fast:7.1f} ms  {1e3 * slow:7.1f} ms  largest gap {gap:.0e}")
        require(slow / fast >= FASTER, f"{name} ratio {slow / fast:.1f}")
        require(bool(gap < 1e-7), f"{name} means agree")


def along_the_length() -> None:
    print(f"time per token: one start (L = 64 at most {LINEAR} times L = 4), and with O(L²) sums")
    cost, squared = {}, {}
    for length in (2, 4, 8, 16, 32, 64):
        count = 2**18 // length
        tokens = count * length
        for table, squares in ((cost, False), (squared, True)):
            given = arguments(length, count, False, squares)
            table[length] = best_of(partial(prox_kernel.channel_sums, *given)) / tokens
        print(f"  L = {length:2}  {1e9 * cost[length]:6.0f} ns  {1e9 * squared[length]:6.0f} ns")
    require(cost[64] <= LINEAR * cost[4], f"per token, L = 64 over L = 4: {cost[64] / cost[4]:.2f}")
    extra = {length: squared[length] - cost[length] for length in (8, 64)}
    print(f"  O(L²) sums alone, L = 64 over L = 8: {extra[64] / extra[8]:.1f} (O(L²) gives 8)")


def memory() -> None:
    print("allocations of one call (must not grow with the number of samples)")
    _nrt_python.memsys_enable_stats()
    counts = []
    for size in (2**8, 2**12, 2**16):
        given = arguments(3, size, True)
        prox_kernel.channel_sums(*given)
        before = rtsys.get_allocation_stats().alloc
        prox_kernel.channel_sums(*given)
        counts.append(rtsys.get_allocation_stats().alloc - before)
        print(f"  {size:6} samples: {counts[-1]} allocations")
    require(len(set(counts)) == 1, "the same number for all sizes")


def cache() -> None:
    print("first call in a fresh process, without and with a cache on disk")
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        runs = []
        for name in ("cold", "warm"):
            done = subprocess.run(
                [sys.executable, "-c", FRESH],
                env=environment,
                check=True,
                capture_output=True,
                text=True,
            )
            seconds, hits = done.stdout.split()
            runs.append((float(seconds), int(hits)))
            print(f"  {name}: {float(seconds):6.2f} s, cache hits {hits}")
    (cold, _), (warm, hits) = runs
    require(hits == 1 and cold / warm >= COMPILED, f"no compilation, ratio {cold / warm:.0f}")


if __name__ == "__main__":
    print(f"{codes.SUMS} means for each block of samples")
    against_numpy()
    along_the_length()
    memory()
    cache()
    if missed:
        sys.exit("missed: " + "; ".join(missed))
