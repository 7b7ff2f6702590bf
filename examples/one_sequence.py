"""
One sequence, four attentions
=============================

Draw one sequence, and see which tokens each attention reads. The relevant token is the same in both
sequences; the second one has more tokens around it.
"""

from __future__ import annotations

import matplotlib.pyplot as plt

from slrlab import SpikedSLR, draw_haystack

figure, panels = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True, layout="constrained")
for axes, length in zip(panels, (10, 1000), strict=True):
    drawn = draw_haystack(SpikedSLR(signal=16.0, length=length), seed=1)
    drawn.plot(axes)
    axes.set_title(f"{length} tokens")
    for name, weight in drawn.needle_weights.items():
        print(f"{length:4} tokens, {name:8} gives the relevant token the weight {weight:.2f}")

# %%
# Softmax gives nearly all weight to the relevant token, also among 1000. Linear and softplus
# attention spread their weight over all tokens of the long sequence.
