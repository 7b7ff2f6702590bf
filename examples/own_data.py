"""
Attention on your own data
==========================

Sequences of different lengths, features of different units, one label for each sequence. Scale,
train with ridges chosen on held-out sequences, and look at the weights.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from slrlab import SequenceScaler, SingleLocationAttention, SpikedSLR, draw_dataset

# %%
# ``X`` is a list of arrays of shape (tokens, features), ``y`` one number for each sequence. Replace
# these lines by your own.

drawn = draw_dataset(SpikedSLR(signal=9.0, length="3,5,8"), dim=20, samples=900, seed=2)
units = np.geomspace(1e-2, 1e2, 20)
X = [drawn.sequence(i) * units + 3.0 for i in range(900)]
y = drawn.labels

fitted, held_out, test = slice(0, 500), slice(500, 700), slice(700, 900)
scaler = SequenceScaler().fit(X[fitted])
Z = scaler.transform(X)

# %%
# The ridges that predict held-out sequences best.

ridges = [0.03, 0.3, 3.0, 30.0]
models = {
    (ridge_k, ridge_v): SingleLocationAttention(
        "softmax", ridge_k=ridge_k, ridge_v=ridge_v, random_state=0
    ).fit(Z[fitted], y[fitted])
    for ridge_k in ridges
    for ridge_v in ridges
}
scores = {pair: model.score(Z[held_out], y[held_out]) for pair, model in models.items()}
best = max(scores, key=scores.__getitem__)
model = models[best]
print(f"training {model.status_}; R² on new sequences {model.score(Z[test], y[test]):.1f}")

# %%
# The weights say which token was read. Here the relevant one is known, so they can be checked.

weights = model.attention(Z[test])
assert drawn.locations is not None
read = np.array([one.argmax() for one in weights])
hits = np.mean(read == drawn.locations[test])
print(f"the relevant token has the largest weight in more than 70 %: {hits > 0.7}")
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.hist([one.max() for one in weights], bins=20)
axes.set(xlabel="largest weight of a sequence", ylabel="sequences")
