r"""
Infinite data: the risk of an activation
========================================

Compute the least risk of an activation, the least risk of any predictor, and the overlaps that
reach it. Then change one parameter at a time: the length, the noise, the task.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from slrlab import MaxSLR, SpikedSLR, minimal_risk, risk_profile

task = SpikedSLR(signal=4.0, length=10)
softmax = minimal_risk(task, "softmax")
print(softmax)
print(f"key overlap {softmax.m_k:.4f}, error of the risk below 1e-10: {softmax.error < 1e-10}")

# %%
# The key overlap of softmax is the square root of the signal: its weights are then the posterior of
# the location. Shorter or longer keys cost risk. The profile has one minimum.

overlaps = np.linspace(0.0, 5.0, 60)
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for name in ("softmax", "softplus", "linear"):
    axes.plot(overlaps, risk_profile(task, name, overlaps).risk, label=name)
axes.axhline(softmax.bayes_risk, color="black", linestyle="--", label="Bayes risk")
axes.set(xlabel="key overlap $m_k$", ylabel="risk at the best value", ylim=(0, 1.05))
axes.legend()

# %%
# One parameter at a time. A random length costs linear attention, not softmax.

for changed in (
    SpikedSLR(4.0, 1000),
    SpikedSLR(4.0, 10, noise=0.3),
    SpikedSLR(4.0, "2,10,50"),
    MaxSLR(4.0, 10),
):
    risks = {name: minimal_risk(changed, name).risk for name in ("softmax", "linear")}
    print(changed, {name: round(risk, 4) for name, risk in risks.items()})
