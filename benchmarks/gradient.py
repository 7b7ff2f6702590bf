"""Time of one gradient, as a ratio to one read of the tokens, for slrlab, NumPy and PyTorch.

    python benchmarks/gradient.py [--dim 5000] [--samples 10000] [--length 3] [--rounds 5]

Every number is the best of several repeats. The programs run in turns, so that other load on the
machine affects all of them. PyTorch is optional (``pip install torch==2.13.0``).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import numpy.typing as npt

from _timing import best_of
from slrlab import SpikedSLR, draw_dataset, make_activation
from slrlab.simulation.data.dataset import Dataset
from slrlab.simulation.training.objective import Objective

Gradient = npt.NDArray[np.floating]
Pass = Callable[[], tuple[float, Gradient]]


def parallel_read(tokens: npt.NDArray[np.float32]) -> Callable[[], object]:
    """Return a fast plain read of the tokens: the maximum of 16 slices on all cores."""
    slices = np.array_split(tokens.reshape(-1), 16)
    pool = ThreadPoolExecutor(numba.get_num_threads())
    return lambda: list(pool.map(np.max, slices))


def numpy_pass(data: Dataset, length: int, k: Gradient, v: Gradient) -> Pass:
    """Return softmax attention and its gradient with NumPy matrix products."""
    root, x, labels = math.sqrt(data.dim), data.tokens, data.labels
    k, v = (k / root).astype(x.dtype), (v / root).astype(x.dtype)

    def run() -> tuple[float, Gradient]:
        chi, z = (x @ k).reshape(-1, length), (x @ v).reshape(-1, length)
        weights = np.exp(chi - chi.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        answer = (weights * z).sum(axis=1)
        rho = labels - answer
        b = -rho[:, None] * weights
        a = (b * (z - answer[:, None])).astype(x.dtype).reshape(-1)
        both = np.stack([a @ x, b.astype(x.dtype).reshape(-1) @ x])
        return 0.5 * float(rho @ rho), both / root

    return run


def torch_passes(data: Dataset, length: int, k: Gradient, v: Gradient) -> dict[str, Pass]:
    """Return the same with PyTorch, once by autograd and once with the gradient by hand."""
    try:
        import torch
    except ImportError:
        print("  (PyTorch is not installed: pip install torch==2.13.0)")
        return {}
    torch.set_num_threads(numba.get_num_threads())
    x = torch.from_numpy(data.tokens)
    y = torch.from_numpy(data.labels.astype(data.tokens.dtype))
    root = math.sqrt(data.dim)
    theta = torch.from_numpy(np.stack([k, v]).astype(data.tokens.dtype))

    def automatic() -> tuple[float, Gradient]:
        free = theta.clone().requires_grad_(True)
        scores = (x @ free.T / root).reshape(-1, length, 2)
        answer = (torch.softmax(scores[..., 0], dim=1) * scores[..., 1]).sum(dim=1)
        loss = 0.5 * ((y - answer) ** 2).sum()
        loss.backward()
        return float(loss.detach()), free.grad.numpy()

    def by_hand() -> tuple[float, Gradient]:
        with torch.no_grad():
            scores = (x @ (theta.T / root)).reshape(-1, length, 2)
            weights, z = torch.softmax(scores[..., 0], dim=1), scores[..., 1]
            answer = (weights * z).sum(dim=1)
            rho = y - answer
            b = -rho[:, None] * weights
            a = b * (z - answer[:, None])
            both = torch.stack([a.reshape(-1), b.reshape(-1)]) @ x / root
            return float(0.5 * (rho**2).sum()), both.numpy()

    return {"PyTorch, autograd": automatic, "PyTorch, by hand": by_hand}


def exact(data: Dataset, length: int, k: Gradient, v: Gradient) -> Gradient:
    """Return the gradient in float64, computed block by block."""
    total, size = np.zeros((2, data.dim)), 500
    for at in range(0, data.samples, size):
        rows = slice(at * length, (at + size) * length)
        block = Dataset(
            data.tokens[rows].astype(float), data.offsets[: size + 1], data.labels[at : at + size]
        )
        total += numpy_pass(block, length, k, v)()[1]
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dim", type=int, default=5000)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--length", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    data = draw_dataset(SpikedSLR(2.0, given.length), dim=given.dim, samples=given.samples)
    k, v = np.random.default_rng(0).standard_normal((2, given.dim))
    theta = np.concatenate([k, v])
    objective = Objective(data, make_activation("softmax"), 0.0, 0.0)

    def ours() -> tuple[float, Gradient]:
        value, gradient = objective(theta)
        return value, gradient.reshape(2, -1)

    passes: dict[str, Pass] = {"slrlab": ours, "NumPy": numpy_pass(data, given.length, k, v)}
    passes |= torch_passes(data, given.length, k, v)
    wanted = exact(data, given.length, k, v)
    print(f"{data.tokens.size:.2g} numbers (float32), L = {given.length}, D = {given.dim}")
    for name, run in passes.items():  # the first call compiles
        gap = np.linalg.norm(run()[1] - wanted) / np.linalg.norm(wanted)
        print(f"  {name:20s} relative error of the gradient {gap:.1e}")
    read = parallel_read(data.tokens)
    times = dict.fromkeys(("read", *passes), math.inf)
    for _ in range(given.rounds):
        times["read"] = min(times["read"], best_of(read, 3))
        for name, run in passes.items():
            times[name] = min(times[name], best_of(run, 3))
    speed = data.tokens.nbytes / times["read"] / 1e9
    print(f"one gradient over one parallel read of the tokens ({speed:.1f} GB/s)")
    for name in passes:
        ratio, rival = times[name] / times["read"], times[name] / times["slrlab"]
        print(f"  {name:20s} {ratio:5.2f} reads   {rival:5.2f}x the time of slrlab")


if __name__ == "__main__":
    main()
