"""One evaluation of risk and gradient off the manifold M: time, and error against resolution.

Times are ratios to one product of two 512 x 512 matrices in the same run; milliseconds are printed
for orientation only. Exits with an error if a requirement is missed.
"""

from __future__ import annotations

import sys
from functools import partial

import numpy as np

from _timing import best_of
from slrlab import Activation, MaxSLR, SpikedSLR, Task, make_activation, tabulate
from slrlab.theory.landscape.risk import make_landscape
from slrlab.theory.landscape.sampled import SampledLandscape
from slrlab.theory.landscape.slope import Slope

K, V = np.array([0.9, -0.4, 0.5, 0.2]), np.array([0.3, 0.7, -0.2, 0.4])
SETTINGS = (
    (SpikedSLR(2.0, 10), "softmax"),
    (SpikedSLR(2.0, 10), "linear"),
    (SpikedSLR(2.0, 1_000_000), "softmax"),
    (MaxSLR(2.0, 10), "softmax"),
    (MaxSLR(2.0, 10), "erf"),
)
DIGITS = 1e-9  # largest error allowed at resolution 1
missed: list[str] = []


def gap(found: Slope, exact: Slope) -> float:
    """Return the largest error of the risk and of the entries of the gradient."""
    steps = (found.risk - exact.risk, *(found.k - exact.k), *(found.v - exact.v))
    return float(np.abs(steps).max())


def show(label: str, seconds: float, unit: float, error: float) -> None:
    print(f"  {label:<26} {seconds / unit:8.2f}  ({1e3 * seconds:7.2f} ms)   error {error:.1e}")


def main() -> None:
    matrix = np.random.default_rng(0).standard_normal((512, 512))
    unit = best_of(lambda: matrix @ matrix, 20)
    print(f"unit: one 512 x 512 matrix product, {1e3 * unit:.2f} ms")
    for task, name in SETTINGS:
        activation = make_activation(name)
        activation = activation.with_bias(activation.bias or 0.0)
        print(f"{name}, {task.name}-SLR, signal {task.signal:g}, length {task.length}")
        exact = make_landscape(task, activation, resolution=1.9)(K, V, 0.0)
        for resolution in (0.6, 0.8, 1.0, 1.35):
            landscape = make_landscape(task, activation, resolution=resolution)
            seconds = best_of(partial(landscape, K, V, 0.0), 9)
            error = gap(landscape(K, V, 0.0), exact)
            show(f"quadrature, resolution {resolution:g}", seconds, unit, error)
            if resolution == 1.0 and error > DIGITS:
                missed.append(f"{name} on {task.name}: error {error:.1e} at resolution 1")
        if task.length.longest <= 100:
            sampled(task, activation, exact, unit)
    table = tabulate(SpikedSLR(2.0, 10), "softmax", m=(-0.5, 2.0), std=1.0)
    landscape = make_landscape(SpikedSLR(2.0, 10), make_activation("softmax"), resolution=1.9)
    exact = landscape(K, V, 0.0)
    print(f"softmax, spiked-SLR, length 10, from a table of {table.series[0, 0].size} points")
    show("table", best_of(partial(table, K, V, 0.0), 99), unit, gap(table(K, V, 0.0), exact))
    if missed:
        sys.exit("missed: " + "; ".join(missed))


def sampled(task: Task, activation: Activation, exact: Slope, unit: float) -> None:
    """Print time and error for samples of growing size, and the exponent of the error."""
    sizes, errors = [], []
    for power in (12, 14, 16, 18):
        gaps, seconds = [], np.inf
        for seed in range(4):
            landscape = SampledLandscape.draw(task, activation, samples=1 << power, seed=seed)
            gaps.append(gap(landscape(K, V, 0.0), exact))
            seconds = min(seconds, best_of(partial(landscape, K, V, 0.0), 3))
        sizes.append(1 << power)
        errors.append(float(np.sqrt(np.mean(np.square(gaps)))))
        show(f"sample of 2^{power}", seconds, unit, errors[-1])
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    print(f"  error of the sample falls as size^{slope:.2f}")


if __name__ == "__main__":
    main()
