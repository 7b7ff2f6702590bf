"""Population risks: time against length, all of figure 2, and one command in a new process.

Times are compared as ratios within one run; absolute seconds are printed for orientation only.
"""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

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


def cold_command() -> None:
    command = [str(Path(sys.executable).parent / "slrlab"), "population", "--json"]
    bare = [sys.executable, "-c", "import numpy, scipy.special"]
    ours, imports = (
        best_of(partial(subprocess.run, line, check=True, capture_output=True))
        for line in (command, bare)
    )
    print(
        f"`slrlab population --json`: {ours:.2f} s, importing numpy and scipy.special: "
        f"{imports:.2f} s, ratio {ours / imports:.2f}"
    )


if __name__ == "__main__":
    cold_command()
    length_independence()
    figure_two()
