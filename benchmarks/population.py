"""Population risks: time against length, all of figure 2, an import and a command in new processes.

Times are compared as ratios within one run; absolute seconds are printed for orientation only.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from functools import partial

from _timing import best_of
from slrlab import MaxSLR, SpikedSLR, minimal_risk
from slrlab.figures.registry import figure_module


def length_independence() -> None:
    print("one minimal risk: time at L = 10, at L = 10⁶, and their ratio (at most 2)")
    cases = [
        ("spiked", lambda n: SpikedSLR(9.0, n)),
        ("max", lambda n: MaxSLR(5.0, n)),
    ]
    for name, make in cases:
        for activation in ("softmax", "linear", "erf", "softplus"):
            short, long = (best_of(partial(minimal_risk, make(n), activation)) for n in (10, 10**6))
            error = minimal_risk(make(10**6), activation).error
            print(
                f"  {name:6} {activation:8} {1e3 * short:7.2f} ms  {1e3 * long:7.2f} ms"
                f"  ratio {long / short:5.2f}  error {error:.0e}"
            )


def figure_two() -> None:
    start = time.perf_counter()
    frame = figure_module("2").compute("quick")
    seconds = time.perf_counter() - start
    worst = frame["error"].max()
    print(f"figure 2: {len(frame)} minimal risks in {seconds:.1f} s, largest error {worst:.0e}")


def processor_time(line: list[str]) -> float:
    """Return the least processor time of several runs of a command."""
    times = []
    for _ in range(7):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(line, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def cold_start() -> None:
    print("new processes: processor time, and over that of importing numpy and scipy.special")
    python, lines = sys.executable, ("numpy, scipy.special", "slrlab")
    commands = {f"import {line}": [python, "-c", f"import {line}"] for line in lines}
    commands["slrlab population --json"] = [python, "-m", "slrlab", "population", "--json"]
    times = {name: processor_time(command) for name, command in commands.items()}
    bare = next(iter(times.values()))
    for name, seconds in times.items():
        print(f"  {name:28} {seconds:5.2f} s  ratio {seconds / bare:.2f}")


if __name__ == "__main__":
    cold_start()
    length_independence()
    figure_two()
