"""
Where training goes
===================

Follow gradient flow on the population risk from several random starts. The keys align with their
teacher, and the overlaps that carry no information vanish.
"""

from __future__ import annotations

import matplotlib.pyplot as plt

from slrlab import SpikedSLR, gradient_flow, minimal_risk

task = SpikedSLR(signal=2.0, length=10)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for seed in range(3):
    flow = gradient_flow(task, "softmax", size=0.1, seed=seed)
    frame = flow.to_frame()
    left.plot(frame["times"], frame["risk"], color="tab:blue")
    right.plot(
        frame["times"], frame["m_kk"].abs(), color="tab:blue", label="$|m_{kk}|$" * (seed == 0)
    )
    right.plot(
        frame["times"], frame["m_kv"].abs(), color="tab:red", label="$|m_{kv}|$" * (seed == 0)
    )
left.axhline(
    minimal_risk(task, "softmax").bayes_risk, color="black", linestyle="--", label="Bayes risk"
)
left.set(xscale="log", xlabel="time", ylabel="risk")
right.set(xscale="log", xlabel="time", ylabel="overlap of the keys")
left.legend()
right.legend()
print(f"risk at the end {flow.risk[-1]:.6f}, least risk {minimal_risk(task, 'softmax').risk:.6f}")
