r"""
Few samples: theory, training and the best method
=================================================

Train softmax attention on :math:`N = \alpha D` simulated sequences, and compare the test risk with
state evolution, with the Bayes-optimal risk and with infinite data.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from slrlab import SpikedSLR, bayes_optimal, erm_theory, minimal_risk, simulate_erm

task = SpikedSLR(signal=4.0, length=3)
alphas = np.array([2.0, 4.0, 8.0])
theory = [
    erm_theory(task, "softmax", alpha=a, ridge_k=0.5, ridge_v=0.8, tolerance=1e-2) for a in alphas
]
trained = [
    simulate_erm(task, "softmax", alpha=a, ridge_k=0.5, ridge_v=0.8, dim=150, seeds=4)
    for a in alphas
]
best = [bayes_optimal(task, alpha=a) for a in alphas]

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.plot(alphas, [one.test_risk for one in theory], label="state evolution")
risks = [one.risk for one in trained]
axes.errorbar(alphas, [r.value for r in risks], [r.error for r in risks], fmt="o", label="training")
axes.plot(alphas, [one.risk_it for one in best], "k--", label="Bayes-optimal")
axes.axhline(minimal_risk(task, "softmax").risk, color="grey", linestyle=":", label="infinite data")
axes.set(xlabel=r"samples per dimension $\alpha$", ylabel="test risk", ylim=(0, None))
axes.legend()

# %%
# Each trained point has a standard error over four seeds. ``simulate_erm`` and ``erm_theory`` share
# the model and general numerical routines, no formula of the theory: their agreement is evidence.

for alpha, one, other in zip(alphas, theory, trained, strict=True):
    print(f"alpha {alpha:.0f}: theory {one.risk}, training {other.risk}")
