"""Training on data: joint quasi-Newton steps compared with variable projection and PyTorch.

All minimise the same objective from the same start, with the same L-BFGS, to the same gradient
norm. Times are compared as ratios within one run, each the best of a few runs in turns; absolute
seconds are printed for orientation only. The paper's size is ``--dim 5000`` (1.2 GB of tokens).
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from _timing import best_of
from _training import LENGTH, SOFTMAX, Function, Run, describe, joint
from slrlab import Dataset, SpikedSLR, Weights, draw_dataset
from slrlab.simulation.training.objective import Objective


def drawn(dim: int, alpha: float) -> tuple[Dataset, Weights]:
    data = draw_dataset(SpikedSLR(2.0, LENGTH), dim=dim, samples=round(alpha * dim))
    assert data.teacher is not None
    return data, Weights(data.teacher.keys, data.teacher.values)


def in_turns(sides: list[Callable[[], Run]], repeats: int) -> list[Run]:
    """Return the fastest run of each; they run in turns, so that other load affects all."""
    runs = [[side() for side in sides] for _ in range(repeats)]
    return [min(of_one, key=lambda run: run.seconds) for of_one in zip(*runs, strict=True)]


def against_projection(dim: int, alpha: float, repeats: int) -> None:
    from _projection import projected

    data, start = drawn(dim, alpha)
    print(f"variable projection and joint steps, D = {dim}, alpha = {alpha:g}, L = {LENGTH}")
    small = drawn(50, 2.0)
    projected(small[0], (0.4, 0.8), small[1])  # compiles
    for ridges in ((0.4, 0.8), (0.1, 0.2)):
        sides = [partial(side, data, ridges, start) for side in (joint, projected)]
        ours, other = in_turns(sides, repeats)
        for name, run in (("joint", ours), ("projected", other)):
            print(f"  ridges {ridges}, {name:9} {describe(data, ridges, run)}")
        print(
            f"    projected / joint: passes {other.passes / ours.passes:.2f} "
            f"({other.outer / ours.passes:.2f} without the ridge regressions), "
            f"time {other.seconds / ours.seconds:.2f}"
        )


def against_torch(dim: int, alpha: float, repeats: int) -> None:
    try:
        import torch

        from _torch import Torch, with_torch
    except ImportError:
        print("PyTorch is not installed; to compare with it: pip install torch==2.13.0")
        return
    (data, start), ridges = drawn(dim, alpha), (0.4, 0.8)
    print(
        f"PyTorch {torch.__version__} on {torch.get_num_threads()} threads and the kernel, "
        f"D = {dim}, alpha = {alpha:g}, L = {LENGTH}, {data.tokens.nbytes / 1e9:.2f} GB of tokens"
    )
    theta = start.to_vector(learn_bias=False)
    sides: dict[str, Function] = {
        "kernel": Objective(data, SOFTMAX, *ridges),
        "by hand": Torch(data, ridges, True),
        "autograd": Torch(data, ridges, False),
    }
    read = partial(np.add.reduce, data.tokens.view(np.int32).ravel())
    cost = dict.fromkeys(sides, math.inf)
    for _ in range(3):  # in turns, so that other load on the machine affects all
        for name, side in sides.items():
            cost[name] = min(cost[name], best_of(partial(side, theta), 4))
    one_read = best_of(read, 4)
    gap = np.abs(sides["kernel"](theta)[1] - sides["by hand"](theta)[1]).max()
    print(f"  one gradient (largest gap {gap:.0e}; a read by one thread {1e3 * one_read:.1f} ms):")
    for name, seconds in cost.items():
        print(f"    {name:8} {1e3 * seconds:7.1f} ms  ratio {seconds / cost['kernel']:.2f}")
    by_hand = cost["by hand"] < cost["autograd"]
    rival = partial(with_torch, by_hand=by_hand)
    best = in_turns([partial(side, data, ridges, start) for side in (joint, rival)], repeats)
    for name, run in zip(("kernel", "torch"), best, strict=True):
        print(f"  training, {name:6} {describe(data, ridges, run)}")
    print(f"    torch / kernel: time {best[1].seconds / best[0].seconds:.2f}")


def peak() -> int:
    """Return the peak memory of this process in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would include the memory of the parent at the fork
        return 1024 * int(status.read_text().split("VmHWM:")[1].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def memory(dim: int, alpha: float) -> None:
    """Print the peak memory of drawing data and training, in a separate process."""
    small = drawn(50, 2.0)
    joint(small[0], (0.4, 0.8), small[1])  # compiles and loads the kernels
    before = peak()
    data, start = drawn(dim, alpha)
    joint(data, (0.4, 0.8), start)
    size = data.tokens.nbytes
    print(
        f"peak memory of drawing and training, tokens {size / 1e6:.0f} MB: "
        f"whole process {peak() / size:.2f} times the tokens, "
        f"without the idle interpreter {(peak() - before) / size:.2f} times"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dim", type=int, default=2000)
    parser.add_argument("--alpha", type=float, default=4.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=("projection", "torch", "memory"))
    given = parser.parse_args()
    if given.only in (None, "projection"):
        against_projection(given.dim, given.alpha, given.repeats)
    if given.only in (None, "torch"):
        against_torch(given.dim, given.alpha, given.repeats)
    if given.only == "memory":
        memory(given.dim, given.alpha)
    elif given.only is None:
        size = ["--dim", str(given.dim), "--alpha", str(given.alpha)]
        subprocess.run([sys.executable, __file__, "--only", "memory", *size], check=True)


if __name__ == "__main__":
    main()
