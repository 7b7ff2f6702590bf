"""Scheduling overhead of a sweep: 2,000 points that compute next to nothing.

The limit is processor time, 5 ms a point, of this process and its workers with their start; the
time of the same points without a store is subtracted. Exits with an error if it is missed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from slrlab import Sweep, run_sweep
from slrlab.experiments.sweeps.run import compute_point

COUNT, MOST = 2000, 5e-3


def used() -> float:
    """Return the processor time of this process and its ended children."""
    return sum(os.times()[:4])


def main() -> None:
    grid = {"signal": [round(1e-3 * i, 4) for i in range(1, COUNT + 1)]}
    sweep = Sweep("population", settings={"length": 1, "activation": "linear"}, grid=grid)
    points = sweep.expand()
    start = used()
    for point in points:
        compute_point(point.compute, point.settings, point.seed)
    bare = (used() - start) / COUNT
    print(f"{COUNT} points without a store: {1e3 * bare:.2f} ms a point")
    missed = False
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            start = used()
            summary = run_sweep(sweep, Path(folder) / "store.sqlite", workers=workers)
            middle = used()
            again = run_sweep(sweep, Path(folder) / "store.sqlite", workers=workers)
            end = used()
        each = (middle - start) / COUNT
        missed |= each - bare > MOST or summary.computed != COUNT or again.computed != 0
        print(
            f"{workers} process(es): {1e3 * each:.2f} ms a point, start included "
            f"({each / bare:.1f} times the bare points); nothing to do: {end - middle:.2f} s"
        )
    if missed:
        sys.exit(f"missed: at most {1e3 * MOST:g} ms a point")


if __name__ == "__main__":
    main()
