"""Overhead of a sweep: 2,000 points with almost no computation.

The limit is 5 ms for each point. The time of the same points without a store is also printed: it
distinguishes a busy machine from a slow runner. Exits with an error if the limit is exceeded.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from slrlab import Sweep, run_sweep
from slrlab.experiments.sweeps.run import compute_point

COUNT, MOST = 2000, 5e-3


def main() -> None:
    grid = {"signal": [round(1e-3 * i, 4) for i in range(1, COUNT + 1)]}
    sweep = Sweep("population", settings={"length": 1, "activation": "linear"}, grid=grid)
    points = sweep.expand()
    start = time.perf_counter()
    for point in points:
        compute_point(point.compute, point.settings, point.seed)
    bare = (time.perf_counter() - start) / COUNT
    print(f"{COUNT} points without a store: {1e3 * bare:.2f} ms per point")
    missed = False
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            found = run_sweep(sweep, Path(folder) / "store.sqlite", workers=workers)
            again = run_sweep(sweep, Path(folder) / "store.sqlite", workers=workers)
        each = found.seconds / COUNT
        missed |= each - bare > MOST or found.computed != COUNT or again.computed != 0
        print(
            f"{workers} process(es): {1e3 * each:.2f} ms per point, start included "
            f"({each / bare:.1f} times without a store); finished sweep: {again.seconds:.2f} s"
        )
    if missed:
        sys.exit(f"missed: at most {1e3 * MOST:g} ms per point")


if __name__ == "__main__":
    main()
