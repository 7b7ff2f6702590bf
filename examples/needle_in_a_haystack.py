"""
A needle in a haystack
======================

How long can a sequence be before attention no longer finds the relevant token? For each activation,
compute the largest length with a minimal risk below one half.
"""

from __future__ import annotations

import sys

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
    signal = float(sys.argv[1]) if len(sys.argv) > 1 else 16.0
    for name in ("softmax", "erf", "softplus", "linear"):
        print(f"{name:9} {longest(name, signal)}")
