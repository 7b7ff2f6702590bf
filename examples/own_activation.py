"""
An activation of your own
=========================

Write an activation as an expression in ``x``, compare it with the published ones over the signal,
and let slrlab say what it lacks.
"""

from __future__ import annotations

from slrlab import SpikedSLR, compare, lacks

MINE = "normalised: exp(x) + x**2"
tasks = [SpikedSLR(signal, length=10) for signal in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)]
curves = compare(tasks, ["softmax", MINE, "erf", "linear"])
curves.plot()

# %%
# The square spoils the small weights: an irrelevant token with a very negative score is read too.

print(lacks(MINE, SpikedSLR(9.0, 10)))
print(lacks("erf", SpikedSLR(9.0, 10)))
