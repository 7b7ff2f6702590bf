"""
A needle in a haystack
======================

How long can a sequence be before attention no longer finds the relevant token? For each activation,
compute the largest length with a minimal risk below one half.
"""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt

from slrlab import SpikedSLR, minimal_risk


def longest(activation: str, signal: float) -> int:
    """Return the largest length with a risk below 0.5: double the length, then bisect."""
    low, high = 1, 2
    while high < 2**20 and minimal_risk(SpikedSLR(signal, high), activation).risk < 0.5:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if minimal_risk(SpikedSLR(signal, middle), activation).risk < 0.5:
            low = middle
        else:
            high = middle
    return low


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else ""
    signal = float(given) if given[:1].isdigit() else 16.0  # a notebook has options of its own
    names = ("softmax", "erf", "softplus", "linear")
    lengths = [longest(name, signal) for name in names]
    for name, length in zip(names, lengths, strict=True):
        print(f"{name:9} {length}")

    figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
    axes.barh(names[::-1], lengths[::-1])
    axes.set(xscale="log", xlabel=f"largest length, signal {signal:g}")
